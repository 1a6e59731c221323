"""Creates a partition's log: in its preferred directory, else in the one with the fewest logs; without room there, in the next.

Rules: runs on the event loop; the folder is made by a job in the queue of its directory.
Invariants: a partition's log is created by one caller at a time, the others get the same; a directory is in use while a log is
created in it, and one without room for it keeps no folder of it.
Source: Kafka LogManager.getOrCreateLog, nextLogDirs.
"""

from __future__ import annotations

import asyncio
from functools import partial

from protocol.errors import ErrorCode, KafkaError
from protocol.primitives import ZERO_UUID
from protocol.topic_partition import TopicPartition
from runtime.error_texts import reason_of
from storage.directories.future_logs import FutureLogs
from storage.directories.log_dependencies import LogDependencies
from storage.directories.online_directory import OnlineDirectory
from storage.folder_files import partition_folder
from storage.free_space import NoRoom, is_no_space
from storage.log.loading import make_and_load_log
from storage.log.partition_log import PartitionLog


class LogCreation:
    """Creates logs. `future` knows the preferred directories of logs that do not exist yet."""

    def __init__(self, dependencies: LogDependencies, future: FutureLogs) -> None:
        self._dependencies = dependencies
        self._future = future
        self._creating: dict[TopicPartition, asyncio.Future[None]] = {}

    async def log_for(self, key: TopicPartition, topic_id: bytes, *, is_new: bool) -> PartitionLog:
        """Return the log, and create a missing one. `is_new` False: it should exist, so none is created while a directory that
        may contain it is offline. Raises KafkaError(KAFKA_STORAGE_ERROR); NoRoom when no directory has room."""
        dependencies = self._dependencies
        while (creating := self._creating.get(key)) is not None:
            await asyncio.shield(creating)
        log = dependencies.current.logs.get(key)
        if log is not None:
            await self._adopt_topic_id(log, topic_id)
            return log
        if dependencies.offline and not is_new:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"No log is made for {key[0]}-{key[1]}: it may be in {dependencies.offline}, which is offline.",
            )
        if not dependencies.directories:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "Every log directory is offline.")
        created = self._creating[key] = asyncio.get_running_loop().create_future()
        try:
            return await self._create_in_some(key, topic_id)
        finally:
            del self._creating[key]
            created.set_result(None)

    async def _adopt_topic_id(self, log: PartitionLog, topic_id: bytes) -> None:
        if log.topic_id == ZERO_UUID and topic_id != ZERO_UUID:
            await log.adopt_topic_id(topic_id)

    async def _create_in_some(self, key: TopicPartition, topic_id: bytes) -> PartitionLog:
        """Create the log in its preferred directory, else in the best one; without room there, in the next. Each is tried: a
        disk that looks full may have room for a log, and one that has refused notifies when it has room again."""
        directories = self._dependencies.directories
        directory = wanted = self._future.preferred(key)
        refusing: list[OnlineDirectory] = []
        while True:
            if directory is None:
                directory = min(
                    (each for each in directories.values() if each not in refusing),
                    key=OnlineDirectory.placement_rank,
                )
            directory.reserved += 1
            try:
                with directory.in_use():
                    return await self._create(directory, key, topic_id)
            except NoRoom:
                refusing.append(directory)
                if all(each in refusing for each in directories.values()):
                    if wanted is not None:
                        self._future.prefer(*key, wanted.path)
                    raise
            finally:
                directory.reserved -= 1
            directory = None

    async def _create(self, directory: OnlineDirectory, key: TopicPartition, topic_id: bytes) -> PartitionLog:
        dependencies = self._dependencies
        path = f"{directory.path}/{partition_folder(*key)}"
        request = dependencies.current.request_for_new(key, path, topic_id)
        try:
            await directory.checkpoints.forget(key)
            loaded = await directory.queue.run(partial(make_and_load_log, dependencies.filesystem, request))
        except OSError as error:
            dependencies.on_error(directory.path, error)
            kind = NoRoom if is_no_space(error) else KafkaError
            raise kind(ErrorCode.KAFKA_STORAGE_ERROR, f"Cannot make {path}: {reason_of(error)}") from error
        dependencies.check_online(directory)
        return dependencies.current.register(directory, key, path, loaded)
