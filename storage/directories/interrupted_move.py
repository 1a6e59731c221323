"""Resolves a partition that has two folders of its name at a start, in two log directories: a crash in a move leaves them.

    one has the file `moved`   the move was all but through: the log is what has gone further, the other is set aside
    none has it, or both       nobody knows: the start is refused

Usually the two tell the same. Where the marked one was offline at a start in between, the other has led on. What has gone
further is told as between replicas, by the latest leader epoch and then by the end: segments would not tell, a copy has them of
other sizes.

Rules: runs on the event loop, with jobs in the queues of the directories. `register` each log as it is opened, `resolve` when
all are.
Invariants: while a directory is offline, the mark stays: the other folder may be there. Before it goes, all directories are
synced, or a loss of power could bring a second folder back that nothing tells from the first.
Source: none in Apache Kafka, which does not start on two folders of one partition.
"""

from __future__ import annotations

import logging
from functools import partial

from protocol.primitives import ZERO_UUID
from protocol.topic_partition import TopicPartition
from storage.directories.log_dependencies import LogDependencies
from storage.directories.online_directory import OnlineDirectory
from storage.folder_files import parent_of, unmark
from storage.log.loading import LoadedLog
from storage.log.partition_log import PartitionLog
from storage.log.removal.segment_retention import raise_log_start_offset

logger = logging.getLogger(__name__)


class InterruptedMoves:
    """Collects such pairs during loading, and resolves them."""

    def __init__(self, dependencies: LogDependencies) -> None:
        self._dependencies = dependencies
        # Folders that are marked, and not set aside.
        self._marked: set[str] = set()
        # The log that was chosen, and the other.
        self._pairs: dict[TopicPartition, tuple[PartitionLog, PartitionLog]] = {}

    def register(self, directory: OnlineDirectory, key: TopicPartition, path: str, loaded: LoadedLog) -> None:
        """Serve the loaded log, unless the partition has one that is more advanced. Raises DirectoryRefused."""
        current = self._dependencies.current
        if loaded.is_marked:
            self._marked.add(path)
        first = current.logs.get(key)
        if first is None or not self._is_known(key, first, loaded):
            current.register(directory, key, path, loaded)  # this refuses a second log
            return
        second = current.make(directory, key, path, loaded)
        chosen, other = sorted((first, second), key=self._progress, reverse=True)
        if chosen is second:
            first_directory = self._dependencies.directory_of(first)
            assert first_directory is not None, "logs of an offline directory are not in `logs`"
            current.remove(first_directory, key)
            current.add(directory, key, second)
        self._pairs[key] = (chosen, other)

    def _is_known(self, key: TopicPartition, first: PartitionLog, loaded: LoadedLog) -> bool:
        """Whether a move leaves such a pair."""
        is_one_marked = (first.directory in self._marked) is not loaded.is_marked
        is_one_topic = first.topic_id == loaded.topic_id or ZERO_UUID in (first.topic_id, loaded.topic_id)
        return is_one_marked and is_one_topic and key not in self._pairs

    def _progress(self, log: PartitionLog) -> tuple[int, int, bool]:
        return log.epochs.latest_epoch, log.log_end_offset, log.directory in self._marked

    async def resolve(self) -> None:
        """Set aside the other logs and remove the markers. A directory that fails goes offline; nothing is raised."""
        dependencies = self._dependencies
        for key, (chosen, other) in self._pairs.items():
            await self._resolve(key, chosen, other)
        if self._marked and not dependencies.offline:
            await sync_directories(dependencies)
        for path in [] if dependencies.offline else sorted(self._marked):
            directory = dependencies.directories[parent_of(path)]
            try:
                await directory.queue.run(partial(unmark, dependencies.filesystem, path))
            except OSError as error:
                dependencies.on_error(directory.path, error)
                return

    async def _resolve(self, key: TopicPartition, chosen: PartitionLog, other: PartitionLog) -> None:
        dependencies = self._dependencies
        directory = dependencies.directory_of(other)
        if directory is None:
            return
        if dependencies.directory_of(chosen) is None:  # it went offline since, so the other is served
            dependencies.current.add(directory, key, other)
            return
        deleted_to = directory.checkpoints.log_start_offset(key)
        if deleted_to is not None:
            raise_log_start_offset(chosen, min(deleted_to, chosen.log_end_offset))
        try:
            with directory.in_use():
                await other.close(flush=False)
                aside = await dependencies.set_aside(directory, key, other.directory, 0)
        except OSError as error:
            self._marked.discard(chosen.directory)  # the next start has to tell them apart again
            dependencies.on_error(directory.path, error)
            return
        self._marked.discard(other.directory)
        logger.warning(
            "interrupted log move finished, one of two folders is renamed and not used: topic=%s "
            "partition=%d path=%s end_offset=%d renamed_path=%s renamed_end_offset=%d",
            *key, chosen.directory, chosen.log_end_offset, aside, other.log_end_offset,
        )  # fmt: skip


async def sync_directories(dependencies: LogDependencies) -> None:
    """The folder that a move has set aside is seen so, which the broker before may not have lived to flush: back under its name
    after a loss of power it would be a second log of the partition. Raises nothing: a directory that fails goes offline."""
    for directory in list(dependencies.directories.values()):
        try:
            await directory.queue.run(partial(dependencies.filesystem.sync_directory, directory.path))
        except OSError as error:
            dependencies.on_error(directory.path, error)
