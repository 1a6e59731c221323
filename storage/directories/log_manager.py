"""All logs of this broker: its log directories, loading and closing, creation and deletion, periodic work.

Life cycle: `lock` -> `stored_identity` -> `claim` -> `load` -> `start` -> serving -> `close`. A directory that fails at any
step goes offline alone, with its logs; the owner is notified, and decides what to do when none is left.

Rules: runs on the event loop; whatever touches a disk runs in the queue of its directory. Loading and closing go
through the logs in batches, so that ten thousand of them cost some system calls each and no task.
Invariants: a log is in `logs` exactly while its directory is online and its folder has the partition's name; the clean
shutdown marker of a directory is written last, after all its logs were flushed and its checkpoints written.
Source: Kafka LogManager; KIP-112, KIP-113.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from config.broker import BrokerSettings
from config.topic import LogConfig
from protocol.errors import ErrorCode, KafkaError
from protocol.primitives import ZERO_UUID
from protocol.topic_partition import TopicPartition
from runtime.clock import Clock
from runtime.disk.disk_queue import Disk, DiskQueue
from runtime.disk.filesystem import FileSystem
from runtime.randomness import Randomness
from runtime.slices import Slices
from runtime.tasks import TaskScope
from storage.cleaner.log_cleaner import LogCleaner
from storage.description import DirectoryDescription
from storage.directories.current_logs import CurrentLogs
from storage.directories.future_logs import FutureLogs
from storage.directories.interrupted_move import InterruptedMoves
from storage.directories.log_creation import LogCreation
from storage.directories.log_deletion import LogDeletion
from storage.directories.log_dependencies import LogDependencies
from storage.directories.log_directory import (
    UNKNOWN_BROKER_EPOCH,
    DirectoryRefused,
    LogDirectory,
    MetaProperties,
    check_identity,
    stored_identity,
)
from storage.directories.log_retention import LogRetention
from storage.directories.log_upkeep import LogUpkeep
from storage.directories.offline_directories import OfflineDirectories
from storage.directories.online_directory import OnlineDirectory
from storage.directories.removal import DelayedRemoval
from storage.directories.space_watch import SpaceWatch
from storage.disk_use import DiskUse
from storage.free_space import FreeSpace, is_no_space
from storage.log.log_environment import LogEnvironment
from storage.log.partition_log import PartitionLog
from storage.segments.open_segments import OpenSegments
from storage.segments.ranges_in_flight import RangesInFlight

logger = logging.getLogger(__name__)

CLOSE_TIMEOUT_MS = 60_000


class LogManager:
    """Manages all logs. `config_of(topic)` returns a topic's current settings, `current_settings` the broker's (without it:
    `settings`, those of the start); `is_named(key)`: whether the controller has named the partition. Before that, its topic's
    settings may be unknown, and all its records are kept."""

    def __init__(
        self,
        *,
        settings: BrokerSettings,
        directories: Sequence[str],
        config_of: Callable[[str], LogConfig],
        filesystem: FileSystem,
        disk: Disk,
        clock: Clock,
        randomness: Randomness,
        on_directory_failed: Callable[[str, OSError], None],
        current_settings: Callable[[], BrokerSettings] | None = None,
        is_named: Callable[[TopicPartition], bool] = lambda _key: True,
        on_room_again: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._current_settings = current_settings or (lambda: settings)
        self._filesystem = filesystem
        self._disk = disk
        self._clock = clock
        self._randomness = randomness
        self._on_directory_failed = on_directory_failed
        self._tasks = TaskScope("logs")
        self._paths = [filesystem.absolute(path) for path in directories]
        self._open_segments = OpenSegments(disk.readers())
        self._ranges_in_flight = RangesInFlight(self._open_segments)
        self.disk_use = DiskUse()
        self._directories: dict[str, OnlineDirectory] = {}
        self._offline = OfflineDirectories(self._tasks, clock, lambda log: self.cleaner.abort(log))
        self._removal = DelayedRemoval(filesystem, clock, self._tasks, self._upkeep_queue_of, self._on_log_failed)
        self._current = CurrentLogs(self._current_settings, clock, config_of)
        self.logs = self._current.logs
        self.retention = LogRetention(
            settings=settings, clock=clock, directories=self._directories, logs=self.logs, is_named=is_named
        )
        self.upkeep = LogUpkeep(
            settings=settings,
            current_settings=self._current_settings,
            clock=clock,
            directories=self._directories,
            logs=self.logs,
            retention=self.retention,
            on_failed=self._on_error,
        )
        self.cleaner = LogCleaner(
            settings=settings,
            clock=clock,
            filesystem=filesystem,
            readers=disk.readers(),
            directories=self._directories,
            is_named=is_named,
            retention=self.retention,
            checkpoint=self.upkeep.checkpoint_first_dirty_offsets,
            on_failed=self._on_error,
        )
        self.space = SpaceWatch(
            settings=settings,
            directories=self._directories,
            readers=disk.readers(),
            clock=clock,
            on_failed=self.fail_directory,
            on_room_again=on_room_again,
        )
        dependencies = LogDependencies(
            self._directories, self._offline, self._current, filesystem, randomness, self._on_error, self._removal.later
        )
        self.future = FutureLogs(dependencies, self._paths, self.upkeep.checkpoint_directory, self._checkpoint_soon)
        self._interrupted_moves = InterruptedMoves(dependencies)
        self._creation = LogCreation(dependencies, self.future)
        self._deletion = LogDeletion(dependencies, self.future, self.cleaner, self.fail_directory)
        self.broker_epoch_at_clean_stop = UNKNOWN_BROKER_EPOCH

    # --- start ---

    def lock(self) -> None:
        """Lock every directory. Raises DirectoryRefused. Blocks.

        A directory with IO errors, here and until it is loaded, goes offline; without any other directory the start fails.
        """
        for path, count in Counter(self._paths).items():
            if count > 1:
                raise DirectoryRefused(f"log.dirs names {path} twice.")
        for path in self._paths:
            files = LogDirectory(self._filesystem, path)
            try:
                files.lock()
            except OSError as error:
                self._offline.note(path, error)
                continue
            queue = self._disk.queue(path)
            upkeep_queue = self._disk.queue(f"{path} upkeep")
            self._directories[path] = OnlineDirectory(files, queue, upkeep_queue, self._environment(path, queue))
        self._check_any_online()

    def _check_any_online(self) -> None:
        if not self._directories:
            reasons = ", ".join(f"{path} ({reason})" for path, reason in self._offline.reasons.items())
            raise DirectoryRefused(f"None of the log directories can be used: {reasons}.")

    def _in_each(self, work: Callable[[LogDirectory], object]) -> list[LogDirectory]:
        """Return the directories in which the work met no IO error; the others go offline. Raises DirectoryRefused. Blocks."""
        for path, directory in list(self._directories.items()):
            try:
                work(directory.files)
            except OSError as error:
                del self._directories[path]
                directory.files.unlock()
                self._offline.note(path, error)
        self._check_any_online()
        return [directory.files for directory in self._directories.values()]

    def _environment(self, path: str, queue: DiskQueue) -> LogEnvironment:
        return LogEnvironment(
            path=path,
            filesystem=self._filesystem,
            queue=queue,
            readers=self._disk.readers(),
            clock=self._clock,
            randomness=self._randomness,
            tasks=self._tasks,
            open_segments=self._open_segments,
            ranges_in_flight=self._ranges_in_flight,
            validation=self._settings.barnabas_produce_validation,
            producers_max=self._settings.barnabas_producer_ids_max,
            on_failed=self._on_log_failed,
            on_no_room=self._on_no_room,
            on_less_room=self._on_less_room,
            space=FreeSpace(),
            disk_use=self.disk_use,
            delete_later=self._removal.later,
            checkpoint_recovery_points=self._checkpoint_recovery_points_of,
        )

    def stored_identity(self) -> MetaProperties:
        """Return the identity that the directories share; None for values that no file has. Raises DirectoryRefused. Blocks."""
        return stored_identity(self._in_each(LogDirectory.read_meta))

    def claim(self, broker_id: int, cluster_id: str) -> None:
        """Write the identity of broker `broker_id` of `cluster_id` to these directories. Raises DirectoryRefused. Blocks."""
        connect = self._settings.zookeeper_connect
        store = "barnabas-store.sqlite in log.dirs" if connect is None else f"zookeeper.connect={connect}"
        check_identity(self.stored_identity(), broker_id, cluster_id, store)
        self._in_each(lambda files: files.claim(broker_id, cluster_id))

    async def load(self) -> None:
        """Open every log, with recovery where the last stop was not clean. Raises DirectoryRefused."""
        loads = [
            self._tasks.spawn(self._load_or_refuse(directory), name=f"load {directory.path}")
            for directory in list(self._directories.values())
        ]
        refusals = [await load for load in loads]
        for refusal in filter(None, refusals):
            raise refusal
        await self._interrupted_moves.resolve()
        await self.future.load()
        await self.space.look()

    @property
    def was_clean(self) -> bool:
        """Whether the last stop left everything on the disk; known after `load`."""
        return all(directory.is_clean for directory in self._directories.values() if directory.is_loaded)

    async def _load_or_refuse(self, directory: OnlineDirectory) -> DirectoryRefused | None:
        """Return a refusal, so that an expected one does not end a task with an exception."""
        try:
            await self._load_directory(directory)
        except DirectoryRefused as refusal:
            return refusal
        return None

    async def _load_directory(self, directory: OnlineDirectory) -> None:
        started_ms = self._clock.monotonic_ms()
        try:
            folders = await directory.queue.run(partial(self._prepare, directory))
            await directory.load(
                folders,
                partial(self._current.request_for, directory),
                partial(self._interrupted_moves.register, directory),
                self._current_settings().num_recovery_threads_per_data_dir,
            )
        except OSError as error:
            self.fail_directory(directory.path, error)
            return
        if not directory.logs and not directory.is_clean:
            logger.info("log directory has no logs yet: directory=%s", directory.path)
            return
        logger.info(
            "logs loaded: directory=%s logs=%d clean_shutdown=%s duration_ms=%d",
            directory.path, len(directory.logs), directory.is_clean, self._clock.monotonic_ms() - started_ms,
        )  # fmt: skip

    def _prepare(self, directory: OnlineDirectory) -> dict[TopicPartition, str]:
        """A job: read what the directory knows of its logs."""
        files = directory.files
        folders = files.partition_folders()  # first: a start that these refuse leaves the stop a clean one
        directory.is_clean, epoch = files.take_clean_shutdown()
        self.broker_epoch_at_clean_stop = max(self.broker_epoch_at_clean_stop, epoch)
        directory.checkpoints.read(folders)
        return folders

    def start(self) -> None:
        """Begin the periodic work."""
        self.upkeep.start(self._tasks)
        self.cleaner.start(self._tasks)
        self._tasks.spawn(self.space.run(), name="free space")

    # --- logs ---

    def find(self, topic: str, partition: int) -> PartitionLog | None:
        return self.logs.get((topic, partition))

    async def log_for(
        self, topic: str, partition: int, topic_id: bytes = ZERO_UUID, *, is_new: bool = True
    ) -> PartitionLog:
        """See `LogCreation.log_for`. After a NoRoom, `on_room_again` says when to ask again."""
        return await self._creation.log_for((topic, partition), topic_id, is_new=is_new)

    def update_configs(self, topic: str | None = None) -> None:
        """Apply changed settings of a topic, or (None) of the broker."""
        self._current.update_configs(topic, self.future.logs.values())

    async def delete(self, topic: str, partition: int) -> None:
        """See `LogDeletion.delete`."""
        await self._deletion.delete((topic, partition))

    async def _checkpoint_recovery_points_of(self, log_folder: str) -> OSError | None:
        directory = self._directory_holding(log_folder)
        if directory is None:
            return OSError(errno.EIO, f"The log directory of {log_folder} is offline.")
        return await self.upkeep.checkpoint_recovery_points_of(directory)

    def _checkpoint_soon(self, directory: OnlineDirectory) -> None:
        self._tasks.spawn(self.upkeep.checkpoint_directory(directory), name="checkpoints after a move")

    def _directory_holding(self, path: str) -> OnlineDirectory | None:
        """The directory of a log's folder, or of a file in one; None when it is offline."""
        folder = path.rpartition("/")[0]
        return self._directories.get(folder or "/") or self._directories.get(folder.rpartition("/")[0] or "/")

    def _upkeep_queue_of(self, path: str) -> DiskQueue | None:
        directory = self._directory_holding(path)
        return None if directory is None else directory.upkeep_queue

    # --- failure ---

    def _on_log_failed(self, path: str, error: OSError) -> None:
        directory = self._directory_holding(path)
        if directory is not None:
            self.fail_directory(directory.path, error)

    def _on_no_room(self, path: str, error: OSError) -> None:
        directory = self._directory_holding(path)
        if directory is not None:
            self.space.on_no_room(directory, error)

    def _on_less_room(self, path: str) -> None:
        directory = self._directory_holding(path)
        if directory is not None:
            self.space.on_less_room(directory)

    def _on_error(self, path: str, error: OSError) -> None:
        """Handle a failed job of a directory. When only room is missing, it is repeated once there is some."""
        directory = self._directories.get(path)
        if directory is not None and is_no_space(error):
            self.space.on_no_room(directory, error)
        else:
            self.fail_directory(path, error)

    def fail_directory(self, path: str, error: OSError) -> None:
        """Take a directory offline with its logs: nothing of it can be trusted until the next start."""
        directory = self._directories.pop(path, None)
        if directory is None:
            return
        self._offline.note(path, error)
        self._current.remove_all(directory)
        for key in directory.future_logs:
            self.future.logs.pop(key, None)
        self._offline.take_offline(directory, error)
        self._on_directory_failed(path, error)

    @property
    def paths(self) -> Sequence[str]:
        """The paths of all directories, online or not."""
        return self._paths

    @property
    def offline_directories(self) -> list[str]:
        return list(self._offline.reasons)

    @property
    def offline_since_ms(self) -> dict[str, int]:
        """When directories went offline that were online before, in milliseconds since 1970."""
        return self._offline.since_ms

    @property
    def online_directories(self) -> list[str]:
        return list(self._directories)

    # --- description ---

    async def describe(self, wanted: set[TopicPartition] | None = None) -> list[DirectoryDescription]:
        """Describe every directory with its logs, or with those of `wanted`."""
        described: list[DirectoryDescription] = []
        slices = Slices(self._clock)
        for path in self._paths:
            directory = self._directories.get(path)
            if directory is None:
                described.append(DirectoryDescription(path, ErrorCode.KAFKA_STORAGE_ERROR))
            else:
                described.append(await directory.describe(self.logs, wanted, self._disk.readers(), slices))
        return described

    # --- stop ---

    async def close(
        self,
        *,
        broker_epoch: int = UNKNOWN_BROKER_EPOCH,
        timeout_ms: int = CLOSE_TIMEOUT_MS,
        is_clean: bool = True,
    ) -> bool:
        """Flush and close every log. Logs that could not be flushed in time are recovered at the next start; so are all when
        this stop shall not count as a clean one. Returns whether nothing has to be recovered."""
        was_marked = is_clean
        await self.cleaner.close()
        await self._finish_truncations(timeout_ms)
        await self._tasks.close()
        for directory in list(self._directories.values()):
            try:
                if directory.is_loaded:  # else it stays as it was found
                    async with asyncio.timeout(timeout_ms / 1000):
                        await self._close_directory(directory, broker_epoch, is_clean=is_clean)
            except TimeoutError:
                was_marked = False
                logger.warning("log directory not closed in time: directory=%s", directory.path)
            except (OSError, KafkaError) as error:
                was_marked = False
                logger.warning("log directory not closed cleanly: directory=%s error=%s", directory.path, error)
            await directory.upkeep_queue.drain()  # of a removal whose task has ended: the next owner would do the same
            directory.files.unlock()
        await self._offline.close(timeout_ms)
        self._directories.clear()
        self.logs.clear()
        return was_marked

    async def _finish_truncations(self, timeout_ms: int) -> None:
        """Wait for truncations in progress, which the followers' ended tasks may have left."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                for directory in list(self._directories.values()):
                    for log in list(directory.all_logs()):
                        if log.is_truncating:
                            await log.truncation.wait()
        except TimeoutError:
            logger.warning("truncations not finished in time")

    def abandon(self) -> None:
        """Release everything as it is, as when the start has failed: the next start recovers."""
        for directory in self._directories.values():
            directory.files.unlock()
        self._offline.abandon()
        self._directories.clear()
        self.logs.clear()

    async def _close_directory(self, directory: OnlineDirectory, broker_epoch: int, *, is_clean: bool) -> None:
        async for log in Slices(self._clock).over(list(directory.all_logs())):
            await log.close(flush=True)
        refusal = await self.upkeep.checkpoint_directory(directory)
        if refusal is not None:  # a clean start takes what is checkpointed for where the logs end
            raise refusal
        if is_clean:
            await directory.queue.run(partial(directory.files.write_clean_shutdown, broker_epoch))
