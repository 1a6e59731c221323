"""Opens a log: loads its files in the directory's queue, and makes a log of them that is at rest if they are whole.

Rules: the files are read and mended by `storage.log.loading`, in a thread.
Source: Kafka LogManager.loadLog, UnifiedLog.apply.
"""

from __future__ import annotations

from functools import partial

from config.topic import LogConfig
from protocol.primitives import ZERO_UUID
from storage.log.loading import LoadRequest, make_and_load_log
from storage.log.log_environment import LogEnvironment
from storage.log.partition_log import PartitionLog
from storage.segments.segment import full_bytes


async def open_log(
    topic: str,
    partition: int,
    directory: str,
    config: LogConfig,
    environment: LogEnvironment,
    *,
    topic_id: bytes = ZERO_UUID,
    is_clean: bool = False,
    recovery_point: int | None = None,
    log_start_offset: int | None = None,
) -> PartitionLog:
    """Open one log, and create its folder if it is missing. `is_clean`: the last stop was a clean one. Without
    `recovery_point` or `log_start_offset` the files alone tell them. Raises OSError."""
    request = LoadRequest(
        directory,
        is_clean=is_clean,
        index_interval_bytes=config.index_interval_bytes,
        now_ms=environment.clock.wall_ms(),
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        topic_id=topic_id,
        is_compacted=config.is_compacted,
        full_bytes=full_bytes(config.segment_bytes, config.max_message_bytes),
        flushes_appends=config.flushes_appends,
    )
    loaded = await environment.queue.run(partial(make_and_load_log, environment.filesystem, request))
    return PartitionLog((topic, partition), directory, config, environment, loaded)
