"""The dependencies of the modules that create, move and delete logs for the log manager: its directories and logs, and its
callbacks.

Source: none in Apache Kafka, whose LogManager does all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from protocol.errors import ErrorCode, KafkaError
from protocol.topic_partition import TopicPartition
from runtime.disk.filesystem import FileSystem
from runtime.randomness import Randomness, uuid_bytes
from storage.directories.current_logs import CurrentLogs
from storage.directories.log_directory import deletion_folder
from storage.directories.offline_directories import OfflineDirectories
from storage.directories.online_directory import OnlineDirectory
from storage.folder_files import parent_of, rename_folder
from storage.log.partition_log import PartitionLog


@dataclass(frozen=True, slots=True)
class LogDependencies:
    """What these modules share. `directories` and the current logs are the log manager's own, which change."""

    directories: Mapping[str, OnlineDirectory]
    """Those that are online."""
    offline: OfflineDirectories
    current: CurrentLogs
    filesystem: FileSystem
    randomness: Randomness
    on_error: Callable[[str, OSError], None]
    """Work on a directory was refused: it goes offline, unless there was only no room."""
    remove_later: Callable[[Iterable[str], int], None]

    def directory_of(self, log: PartitionLog) -> OnlineDirectory | None:
        """Return the directory of a log; None when it is offline."""
        return self.directories.get(parent_of(log.directory))

    def is_online(self, directory: OnlineDirectory) -> bool:
        """Whether the directory is still online: it may have gone offline during an await."""
        return self.directories.get(directory.path) is directory

    def check_online(self, directory: OnlineDirectory) -> None:
        """Raises KAFKA_STORAGE_ERROR."""
        if not self.is_online(directory):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The log directory {directory.path} is offline.")

    async def set_aside(self, directory: OnlineDirectory, key: TopicPartition, path: str, delay_ms: int) -> str:
        """Rename a closed log's folder, and remove it after the delay; returns its name until then. Raises OSError."""
        target = f"{directory.path}/{deletion_folder(*key, uuid_bytes(self.randomness))}"
        await directory.queue.run(partial(rename_folder, self.filesystem, path, target))
        self.remove_later([target], delay_ms)
        return target
