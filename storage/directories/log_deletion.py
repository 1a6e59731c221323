"""Deletes a partition's log: stops serving it immediately, sets its folder aside, and removes it after `file.delete.delay.ms`.

    orders-0  --renamed-->  orders-0.<uuid>-delete  --`storage.directories.removal`, or the next start-->  gone

Rules: runs on the event loop; the folder is renamed in the queue of its directory, once no cleaner is at work in the log and
the log is closed. A folder that cannot be set aside fails its directory.
Invariant: when `delete` returns, the rename is on the disk: no start finds the log again.
Source: Kafka LogManager.asyncDelete.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from protocol.errors import ErrorCode, KafkaError
from protocol.topic_partition import TopicPartition
from runtime.error_texts import reason_of
from storage.cleaner.log_cleaner import LogCleaner
from storage.directories.future_logs import FutureLogs
from storage.directories.log_dependencies import LogDependencies
from storage.directories.online_directory import OnlineDirectory
from storage.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)


class LogDeletion:
    """Deletes logs. `on_failed(directory, error)` takes the directory offline."""

    def __init__(
        self,
        dependencies: LogDependencies,
        future: FutureLogs,
        cleaner: LogCleaner,
        on_failed: Callable[[str, OSError], None],
    ) -> None:
        self._dependencies = dependencies
        self._future = future
        self._cleaner = cleaner
        self._on_failed = on_failed

    async def delete(self, key: TopicPartition) -> None:
        """Delete the log, and its copy in another directory, if there is one. A missing log is no error, unless it may be in a
        directory that is offline. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        dependencies = self._dependencies
        await self._future.drop_future_log(*key)
        log = dependencies.current.logs.get(key)
        if log is None:
            if dependencies.offline:
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"{key[0]}-{key[1]} may be in {dependencies.offline}, which is offline.",
                )
            return
        directory = dependencies.directory_of(log)
        assert directory is not None, "logs of an offline directory are not in `logs`"
        dependencies.current.remove(directory, key)
        with directory.in_use():
            await self._set_aside(directory, log)

    async def _set_aside(self, directory: OnlineDirectory, log: PartitionLog) -> None:
        """Raises KAFKA_STORAGE_ERROR."""
        dependencies, topic, partition = self._dependencies, log.topic, log.partition
        await self._cleaner.abort(log)
        await log.close(flush=False)
        dependencies.check_online(directory)
        try:
            delay_ms = log.config.file_delete_delay_ms
            target = await dependencies.set_aside(directory, (topic, partition), log.directory, delay_ms)
        except OSError as error:
            self._on_failed(directory.path, error)
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"Cannot delete {log.directory}: {reason_of(error)}"
            ) from error
        logger.info("log scheduled for deletion: topic=%s partition=%d path=%s", topic, partition, target)
