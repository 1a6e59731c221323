"""All logs of this broker: its log directories, loading and closing, creation and deletion, periodic work.

Life cycle: `lock` -> `stored_identity` -> `claim` -> `load` -> `start` -> serving -> `close`. A directory that fails at
any of it goes offline alone, with its logs; the owner is told, and decides what to do when none is left.

Rules: runs on the event loop; whatever touches a disk runs in the queue of its directory. Loading and closing go
through the logs in batches, so that ten thousand of them cost some system calls each and no task.
Invariants: a log is in `logs` exactly while its directory is online and its folder has the partition's name; the clean
shutdown marker of a directory is written last, after all its logs were flushed and its checkpoints written.
Source: Kafka LogManager; KIP-112, KIP-113.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain

from config.broker import BrokerSettings
from config.topic import LogConfig
from protocol.errors import ErrorCode, KafkaError
from protocol.primitives import ZERO_UUID
from runtime.clock import Clock
from runtime.disk import Disk, DiskQueue
from runtime.filesystem import FileSystem
from runtime.randomness import Randomness, uuid_bytes
from runtime.slices import Slices
from runtime.tasks import TaskScope
from storage.checkpoints import Key
from storage.cleaner import LogCleaner
from storage.description import DirectoryDescription
from storage.folder_files import partition_folder
from storage.free_space import FreeSpace, NoRoom, is_no_space
from storage.future_logs import FutureDoors, FutureLogs
from storage.loading import LoadedLog, LoadRequest, make_and_load_log
from storage.log import PartitionLog
from storage.log_directory import (
    UNKNOWN_BROKER_EPOCH,
    DirectoryRefused,
    LogDirectory,
    MetaProperties,
    check_identity,
    deletion_folder,
    stored_identity,
)
from storage.log_environment import LogEnvironment
from storage.log_upkeep import LogUpkeep
from storage.offline_directories import OfflineDirectories
from storage.online_directory import OnlineDirectory
from storage.open_segments import OpenSegments
from storage.removal import DelayedRemoval
from storage.space_watch import SpaceWatch

logger = logging.getLogger(__name__)

CLOSE_TIMEOUT_MS = 60_000


class LogManager:
    """See the module. `config_of(topic)` answers a topic's effective settings at any time; `is_named(key)`: whether the
    controller has named the partition. Before, its topic's settings may not be known, and its records are all kept."""

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
        is_named: Callable[[Key], bool] = lambda _key: True,
        on_room_again: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._config_of = config_of
        self._filesystem = filesystem
        self._disk = disk
        self._clock = clock
        self._randomness = randomness
        self._on_directory_failed = on_directory_failed
        self._tasks = TaskScope("logs")
        self._paths = [filesystem.absolute(path) for path in directories]
        self._open_segments = OpenSegments(disk.readers())
        self._directories: dict[str, OnlineDirectory] = {}
        self._offline = OfflineDirectories(self._tasks, lambda log: self.cleaner.abort(log))
        self._creating: dict[Key, asyncio.Future[None]] = {}
        self._removal = DelayedRemoval(filesystem, clock, self._tasks, self._upkeep_queue_of, self._on_log_failed)
        # Each topic's settings, made when first asked for: one object for all its logs.
        self._configs: dict[str, LogConfig] = {}
        self._topic_logs: Counter[str] = Counter()
        self.logs: dict[Key, PartitionLog] = {}
        self.upkeep = LogUpkeep(
            settings=settings,
            clock=clock,
            directories=self._directories,
            logs=self.logs,
            is_named=is_named,
            on_failed=self._on_error,
        )
        self.cleaner = LogCleaner(
            settings=settings,
            clock=clock,
            filesystem=filesystem,
            readers=disk.readers(),
            directories=self._directories,
            is_named=is_named,
            checkpoint=self.upkeep.checkpoint_first_dirty_offsets,
            on_failed=self._on_error,
        )
        self.space = SpaceWatch(
            directories=self._directories,
            floor_bytes=lambda: settings.barnabas_disk_free_min_bytes,
            segment_bytes=lambda: settings.log_segment_bytes,
            readers=disk.readers(),
            clock=clock,
            on_failed=self.fail_directory,
            on_room_again=on_room_again,
        )
        self.future = FutureLogs(
            FutureDoors(
                directories=self._directories,
                logs=self.logs,
                paths=self._paths,
                offline=self._offline.reasons,
                filesystem=filesystem,
                clock=clock,
                randomness=randomness,
                request_for=self._load_request,
                make=self._make,
                register=self._take_in,
                unregister=self._let_go,
                on_error=self._on_error,
                remove_later=self._removal.later,
                checkpoint=self._checkpoint_soon,
            )
        )
        self.broker_epoch_at_clean_stop = UNKNOWN_BROKER_EPOCH

    # --- start ---

    def lock(self) -> None:
        """Hold every directory. Raises DirectoryRefused. Blocks. A directory with IO errors, here and until it is loaded, is
        offline; with none left there is nothing to start on."""
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
        """Those in which the work did not meet an IO error: the others are offline. Raises DirectoryRefused. Blocks."""
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
            validation=self._settings.barnabas_produce_validation,
            on_failed=self._on_log_failed,
            on_no_room=self._on_no_room,
            on_less_room=self._on_less_room,
            space=FreeSpace(),
            delete_later=self._removal.later,
            checkpoint_recovery_points=self._checkpoint_recovery_points_of,
        )

    def stored_identity(self) -> MetaProperties:
        """Whose data the directories hold; None where none says. Raises DirectoryRefused. Blocks."""
        return stored_identity(self._in_each(LogDirectory.read_meta))

    def claim(self, broker_id: int, cluster_id: str) -> None:
        """Be broker `broker_id` of `cluster_id` on these directories. Raises DirectoryRefused. Blocks."""
        check_identity(self.stored_identity(), broker_id, cluster_id)
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
        await self.future.load()
        await self.space.look()

    @property
    def was_clean(self) -> bool:
        """Whether the last stop left everything on the disk; says so after `load`."""
        return all(directory.is_clean for directory in self._directories.values() if directory.is_loaded)

    async def _load_or_refuse(self, directory: OnlineDirectory) -> DirectoryRefused | None:
        """A refusal is an answer, not a task's failure."""
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
                partial(self._load_request, directory),
                partial(self._register, directory),
                self._settings.num_recovery_threads_per_data_dir,
            )
        except OSError as error:
            self.fail_directory(directory.path, error)
            return
        logger.info(
            "logs loaded: directory=%s logs=%d clean=%s took_ms=%d",
            directory.path, len(directory.logs), directory.is_clean, self._clock.monotonic_ms() - started_ms,
        )  # fmt: skip

    def _prepare(self, directory: OnlineDirectory) -> dict[Key, str]:
        """A job: what the directory knows of its logs."""
        files = directory.files
        folders = files.partition_folders()  # first: a start that these refuse leaves the stop a clean one
        directory.is_clean, epoch = files.take_clean_shutdown()
        self.broker_epoch_at_clean_stop = max(self.broker_epoch_at_clean_stop, epoch)
        directory.checkpoints.read(folders)
        return folders

    def _config(self, topic: str) -> LogConfig:
        config = self._configs.get(topic)
        if config is None:
            config = self._configs[topic] = self._config_of(topic)
        return config

    def _load_request(self, directory: OnlineDirectory, key: Key, path: str) -> LoadRequest:
        config = self._config(key[0])
        return LoadRequest(
            path,
            is_clean=directory.is_clean,
            index_interval_bytes=config.index_interval_bytes,
            now_ms=self._clock.wall_ms(),
            recovery_point=directory.checkpoints.recovery_point(key),
            # Gaps stay when the topic's settings change.
            is_compacted=config.is_compacted or directory.checkpoints.first_dirty_offset(key) is not None,
            log_start_offset=directory.checkpoints.log_start_offset(key),
            producer_expiration_ms=self._settings.producer_id_expiration_ms,
        )

    def _register(self, directory: OnlineDirectory, key: Key, path: str, loaded: LoadedLog) -> PartitionLog:
        if key in self.logs:
            raise DirectoryRefused(
                f"{key[0]}-{key[1]} is in two log directories: {self.logs[key].directory} and {path}."
            )
        log = self._make(directory, key, path, loaded)
        self._take_in(directory, key, log)
        return log

    def _make(self, directory: OnlineDirectory, key: Key, path: str, loaded: LoadedLog) -> PartitionLog:
        log = PartitionLog(key, path, self._config(key[0]), directory.environment, loaded)
        high_watermark = directory.checkpoints.high_watermark(key)
        if high_watermark > log.log_end_offset:
            logger.warning(
                "log ends below its high watermark, so that records are missing: directory=%s end=%d high_watermark=%d",
                path, log.log_end_offset, high_watermark,
            )  # fmt: skip
        log.high_watermark = max(log.log_start_offset, min(high_watermark, log.log_end_offset))
        log.first_dirty_offset = directory.checkpoints.first_dirty_offset(key)
        return log

    def _take_in(self, directory: OnlineDirectory, key: Key, log: PartitionLog) -> None:
        """The log is the partition's from now on."""
        directory.logs[key] = self.logs[key] = log
        self._topic_logs[key[0]] += 1
        # The log that it replaces has taken the settings along, if it was the topic's last.
        self._configs.setdefault(key[0], log.config)

    def _let_go(self, directory: OnlineDirectory, key: Key) -> None:
        del directory.logs[key]
        self._forget(key)

    def _forget(self, key: Key) -> None:
        del self.logs[key]
        self._topic_logs[key[0]] -= 1
        if not self._topic_logs[key[0]]:  # a topic of this name will be another one
            del self._topic_logs[key[0]], self._configs[key[0]]

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
        """The log, made when there is none: in the directory with the fewest logs, of those with room.

        `is_new` False: it should exist, so none is made while a directory that may hold it is offline.
        Raises KafkaError(KAFKA_STORAGE_ERROR); NoRoom when no directory has room: `on_room_again` says when to ask again.
        """
        key = (topic, partition)
        while (creating := self._creating.get(key)) is not None:
            await asyncio.shield(creating)
        log = self.logs.get(key)
        if log is not None:
            await self._adopt_topic_id(log, topic_id)
            return log
        if self._offline and not is_new:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"No log is made for {topic}-{partition}: it may be in {self._offline}, which is offline.",
            )
        if not self._directories:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "Every log directory is offline.")
        created = self._creating[key] = asyncio.get_running_loop().create_future()
        try:
            return await self._create_in_some(key, topic_id)
        finally:
            del self._creating[key]
            created.set_result(None)

    async def _create_in_some(self, key: Key, topic_id: bytes) -> PartitionLog:
        """In the directory where it was wanted, else in the best; where there is no room for it, in the next. Each is asked: a
        disk may look full and have room for a log, and one that has refused is heard of when it has room again."""
        directory = wanted = self.future.preferred(key)
        refusing: list[OnlineDirectory] = []
        while True:
            if directory is None:
                directory = min(
                    (each for each in self._directories.values() if each not in refusing),
                    key=OnlineDirectory.rank_as_place,
                )
            directory.reserved += 1
            try:
                with directory.held():
                    return await self._create(directory, key, topic_id)
            except NoRoom:
                refusing.append(directory)
                if all(each in refusing for each in self._directories.values()):
                    if wanted is not None:
                        self.future.prefer(*key, wanted.path)
                    raise
            finally:
                directory.reserved -= 1
            directory = None

    async def _create(self, directory: OnlineDirectory, key: Key, topic_id: bytes) -> PartitionLog:
        path = f"{directory.path}/{partition_folder(*key)}"
        request = LoadRequest(
            path,
            is_clean=False,
            index_interval_bytes=self._config(key[0]).index_interval_bytes,
            now_ms=self._clock.wall_ms(),
            topic_id=topic_id,
        )
        try:
            await directory.checkpoints.forget(key)
            loaded = await directory.queue.run(partial(make_and_load_log, self._filesystem, request))
        except OSError as error:
            self._on_error(directory.path, error)
            kind = NoRoom if is_no_space(error) else KafkaError
            raise kind(ErrorCode.KAFKA_STORAGE_ERROR, f"Cannot make {path}: {error}") from error
        self._check_online(directory)
        return self._register(directory, key, path, loaded)

    async def _adopt_topic_id(self, log: PartitionLog, topic_id: bytes) -> None:
        if log.topic_id == ZERO_UUID and topic_id != ZERO_UUID:
            await log.adopt_topic_id(topic_id)

    def update_configs(self, topic: str | None = None) -> None:
        """The settings of a topic, or (None) what all of them build upon, have changed."""
        concerned = list(self._configs) if topic is None else [topic] if topic in self._configs else []
        if concerned:
            self._configs.update((each, self._config_of(each)) for each in concerned)
            for log in chain(self.logs.values(), self.future.logs.values()):
                log.config = self._config(log.topic)  # a copy may be all that is left of its topic here

    async def delete(self, topic: str, partition: int) -> None:
        """Set the log's folder aside; it is removed after `file.delete.delay.ms`. Missing is no error, unless it may be in
        a directory that is offline. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        await self.future.drop_future_log(topic, partition)
        log = self.logs.get((topic, partition))
        if log is None:
            if self._offline:
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"{topic}-{partition} may be in {self._offline}, which is offline.",
                )
            return
        directory = self._directory_holding(log.directory)
        assert directory is not None, "logs of an offline directory are not in `logs`"
        self._let_go(directory, (topic, partition))
        with directory.held():
            await self._set_aside(directory, log)

    async def _set_aside(self, directory: OnlineDirectory, log: PartitionLog) -> None:
        """Raises KAFKA_STORAGE_ERROR."""
        topic, partition = log.topic, log.partition
        await self.cleaner.abort(log)
        await log.close(flush=False)
        self._check_online(directory)
        target = f"{directory.path}/{deletion_folder(topic, partition, uuid_bytes(self._randomness))}"

        def job() -> None:
            self._filesystem.rename(log.directory, target)
            self._filesystem.sync_directory(directory.path)

        try:
            await directory.queue.run(job)
        except OSError as error:
            self.fail_directory(directory.path, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Cannot delete {log.directory}: {error}") from error
        logger.info("log set aside for deletion: topic=%s partition=%d folder=%s", topic, partition, target)
        self._removal.later([target], log.config.file_delete_delay_ms)

    def _check_online(self, directory: OnlineDirectory) -> None:
        """Raises KAFKA_STORAGE_ERROR if it went offline while somebody waited."""
        if self._directories.get(directory.path) is not directory:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The log directory {directory.path} is offline.")

    async def _checkpoint_recovery_points_of(self, log_folder: str) -> None:
        directory = self._directory_holding(log_folder)
        if directory is not None:
            await self.upkeep.checkpoint_recovery_points_of(directory)

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
        """Work on a directory was refused. Where there was only no room, it is done again when there is some."""
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
        for key in directory.logs:
            self._forget(key)
        for key in directory.future_logs:
            self.future.logs.pop(key, None)
        self._offline.leave(directory, error)
        self._on_directory_failed(path, error)

    @property
    def paths(self) -> Sequence[str]:
        """Of all directories, online or not."""
        return self._paths

    @property
    def offline_directories(self) -> list[str]:
        return list(self._offline.reasons)

    @property
    def online_directories(self) -> list[str]:
        return list(self._directories)

    # --- description ---

    async def describe(self, wanted: set[Key] | None = None) -> list[DirectoryDescription]:
        """Every directory with its logs, or with those of `wanted` that it holds."""
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
    ) -> None:
        """Flush and close every log; what could not be flushed in time is recovered at the next start, and so is
        everything when this stop is not to count as a clean one."""
        await self.cleaner.close()
        await self._finish_cuts(timeout_ms)
        await self._tasks.close()
        for directory in list(self._directories.values()):
            try:
                if directory.is_loaded:  # else it stays as it was found
                    async with asyncio.timeout(timeout_ms / 1000):
                        await self._close_directory(directory, broker_epoch, is_clean=is_clean)
            except TimeoutError:
                logger.warning("log directory not closed in time: directory=%s", directory.path)
            except (OSError, KafkaError) as error:
                logger.warning("log directory not closed cleanly: directory=%s error=%s", directory.path, error)
            await directory.upkeep_queue.drain()  # of a removal whose task has ended: the next owner would do the same
            directory.files.unlock()
        await self._offline.close(timeout_ms)
        self._directories.clear()
        self.logs.clear()

    async def _finish_cuts(self, timeout_ms: int) -> None:
        """Those that are under way, tasks of ours that are to be ended: their followers are."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                for directory in list(self._directories.values()):
                    for log in list(directory.all_logs()):
                        await log.when_cut()
        except TimeoutError:
            logger.warning("cuts not finished in time")

    def abandon(self) -> None:
        """Let go of everything as it is, as when the start has failed half way: the next start recovers."""
        for directory in self._directories.values():
            directory.files.unlock()
        self._offline.abandon()
        self._directories.clear()
        self.logs.clear()

    async def _close_directory(self, directory: OnlineDirectory, broker_epoch: int, *, is_clean: bool) -> None:
        async for log in Slices(self._clock).over(list(directory.all_logs())):
            await log.close(flush=True)
        await self.upkeep.checkpoint_all()
        if is_clean and directory.path in self._directories:
            await directory.queue.run(partial(directory.files.write_clean_shutdown, broker_epoch))
