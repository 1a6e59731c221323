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
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from config.broker import BrokerSettings
from config.topic import LogConfig
from protocol.errors import ErrorCode, KafkaError
from protocol.primitives import ZERO_UUID
from runtime.clock import Clock
from runtime.disk import Disk, DiskQueue
from runtime.filesystem import FileSystem
from runtime.randomness import Randomness, uuid_bytes
from runtime.tasks import TaskScope
from storage.checkpoints import Checkpoints, Key, Offsets, high_watermarks, log_start_offsets, recovery_points
from storage.description import DirectoryDescription, LogDescription
from storage.loading import LoadedLog, LoadRequest, load_log, make_and_load_log
from storage.log import PartitionLog
from storage.log_directory import (
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    REPLICATION_OFFSET_FILE,
    UNKNOWN_BROKER_EPOCH,
    DirectoryRefused,
    LogDirectory,
    MetaProperties,
    claim,
    deletion_folder,
    partition_folder,
    stored_identity,
)
from storage.log_environment import LogEnvironment
from storage.open_segments import OpenSegments
from storage.recovery import LegacyFormat
from storage.removal import DelayedRemoval

logger = logging.getLogger(__name__)

_LOAD_BATCH = 64
CLOSE_TIMEOUT_MS = 60_000
NEVER_MS = 1 << 53
"""Intervals from here on mean never (Kafka's default is the largest long)."""


class _Directory:
    """A log directory that is online."""

    __slots__ = (
        "checkpoints",
        "environment",
        "files",
        "is_clean",
        "is_loaded",
        "logs",
        "queue",
        "reserved",
    )

    def __init__(self, files: LogDirectory, queue: DiskQueue, environment: LogEnvironment) -> None:
        self.files = files
        self.queue = queue
        self.environment = environment
        self.checkpoints = Checkpoints(files, queue)
        self.logs: dict[Key, PartitionLog] = {}
        self.is_clean = False
        self.is_loaded = False
        # Logs that are being made here.
        self.reserved = 0

    @property
    def path(self) -> str:
        return self.files.path


class LogManager:
    """See the module. `config_of(topic)` answers a topic's effective settings at any time."""

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
    ) -> None:
        self._settings = settings
        self._config_of = config_of
        self._filesystem = filesystem
        self._disk = disk
        self._clock = clock
        self._randomness = randomness
        self._on_directory_failed = on_directory_failed
        self._tasks = TaskScope("logs")
        self._paths = [path.rstrip("/") or "/" for path in directories]
        self._open_segments = OpenSegments(disk.readers())
        self._directories: dict[str, _Directory] = {}
        self._offline: dict[str, OSError] = {}
        self._creating: dict[Key, asyncio.Future[None]] = {}
        self._removal = DelayedRemoval(filesystem, clock, self._tasks, self._queue_holding, self._on_log_failed)
        # Each topic's settings, made when first asked for: one object for all its logs.
        self._configs: dict[str, LogConfig] = {}
        self._topic_logs: Counter[str] = Counter()
        self.logs: dict[Key, PartitionLog] = {}
        self.broker_epoch_at_clean_stop = UNKNOWN_BROKER_EPOCH

    # --- start ---

    def lock(self) -> None:
        """Hold every directory. Raises DirectoryRefused; a directory with IO errors is offline. Blocks."""
        for path in self._paths:
            files = LogDirectory(self._filesystem, path)
            try:
                files.lock()
            except OSError as error:
                self._note_offline(path, error)
                continue
            queue = self._disk.queue(path)
            self._directories[path] = _Directory(files, queue, self._environment(queue))
        if not self._directories:
            raise DirectoryRefused(f"None of the log directories {', '.join(self._paths)} can be used.")

    def _environment(self, queue: DiskQueue) -> LogEnvironment:
        return LogEnvironment(
            filesystem=self._filesystem,
            queue=queue,
            readers=self._disk.readers(),
            clock=self._clock,
            randomness=self._randomness,
            tasks=self._tasks,
            open_segments=self._open_segments,
            validation=self._settings.barnabas_produce_validation,
            on_failed=self._on_log_failed,
            delete_later=self._delete_later,
        )

    def stored_identity(self) -> MetaProperties:
        """Whose data the directories hold; None where none says. Raises DirectoryRefused. Blocks."""
        return stored_identity([directory.files for directory in self._directories.values()])

    def claim(self, broker_id: int, cluster_id: str) -> None:
        """Be broker `broker_id` of `cluster_id` on these directories. Raises DirectoryRefused. Blocks."""
        claim([directory.files for directory in self._directories.values()], broker_id, cluster_id)

    async def load(self) -> None:
        """Open every log, with recovery where the last stop was not clean. Raises DirectoryRefused."""
        loads = [
            self._tasks.spawn(self._load_or_refuse(directory), name=f"load {directory.path}")
            for directory in list(self._directories.values())
        ]
        refusals = [await load for load in loads]
        for refusal in filter(None, refusals):
            raise refusal

    async def _load_or_refuse(self, directory: _Directory) -> DirectoryRefused | None:
        """A refusal is an answer, not a task's failure."""
        try:
            await self._load_directory(directory)
        except DirectoryRefused as refusal:
            return refusal
        return None

    async def _load_directory(self, directory: _Directory) -> None:
        started_ms = self._clock.monotonic_ms()
        try:
            folders = await directory.queue.run(partial(self._prepare, directory))
            pending = list(folders.items())
            for at in range(0, len(pending), _LOAD_BATCH):
                batch = [self._load_request(directory, key, path) for key, path in pending[at : at + _LOAD_BATCH]]
                loaded = await directory.queue.run(partial(_load_all, self._filesystem, [each[1] for each in batch]))
                for (key, request), log in zip(batch, loaded, strict=True):
                    self._register(directory, key, request.directory, log)
            directory.is_loaded = True
            if not directory.checkpoints.had_recovery_points:
                await directory.checkpoints.write(RECOVERY_POINT_FILE, recovery_points(directory.logs))
        except OSError as error:
            self.fail_directory(directory.path, error)
            return
        except LegacyFormat as error:
            raise DirectoryRefused(f"A log in {directory.path} cannot be served: {error}.") from error
        logger.info(
            "logs loaded: directory=%s logs=%d clean=%s took_ms=%d",
            directory.path, len(directory.logs), directory.is_clean, self._clock.monotonic_ms() - started_ms,
        )  # fmt: skip

    def _prepare(self, directory: _Directory) -> dict[Key, str]:
        """A job: what the directory knows of its logs."""
        files = directory.files
        directory.is_clean, epoch = files.take_clean_shutdown()
        self.broker_epoch_at_clean_stop = max(self.broker_epoch_at_clean_stop, epoch)
        directory.checkpoints.read()
        return files.partition_folders()

    def _config(self, topic: str) -> LogConfig:
        config = self._configs.get(topic)
        if config is None:
            config = self._configs[topic] = self._config_of(topic)
        return config

    def _load_request(self, directory: _Directory, key: Key, path: str) -> tuple[Key, LoadRequest]:
        config = self._config(key[0])
        return key, LoadRequest(
            path,
            is_clean=directory.is_clean,
            index_interval_bytes=config.index_interval_bytes,
            now_ms=self._clock.wall_ms(),
            recovery_point=directory.checkpoints.recovery_point(key),
            is_compacted=config.is_compacted,
            log_start_offset=directory.checkpoints.log_start_offset(key),
        )

    def _register(self, directory: _Directory, key: Key, path: str, loaded: LoadedLog) -> PartitionLog:
        if key in self.logs:
            raise DirectoryRefused(
                f"{key[0]}-{key[1]} is in two log directories: {self.logs[key].directory} and {path}."
            )
        log = PartitionLog(*key, path, self._config(key[0]), directory.environment, loaded)
        high_watermark = directory.checkpoints.high_watermark(key)
        log.high_watermark = max(log.log_start_offset, min(high_watermark, log.log_end_offset))
        directory.logs[key] = self.logs[key] = log
        self._topic_logs[key[0]] += 1
        return log

    def start(self) -> None:
        """Begin the periodic work."""
        settings = self._settings
        for interval_ms, work, name in (
            (settings.log_flush_offset_checkpoint_interval_ms, self.checkpoint_recovery_points, "recovery points"),
            (
                settings.log_flush_start_offset_checkpoint_interval_ms,
                self.checkpoint_log_start_offsets,
                "start offsets",
            ),
            (
                settings.replica_high_watermark_checkpoint_interval_ms,
                self.checkpoint_high_watermarks,
                "high watermarks",
            ),
            (settings.log_flush_scheduler_interval_ms, self.flush_due, "flush.ms"),
            (settings.producer_id_expiration_check_interval_ms, self.forget_producers, "expired producers"),
        ):
            if 0 < interval_ms < NEVER_MS:
                self._tasks.spawn(_repeat(interval_ms, work), name=name)

    # --- periodic work ---

    async def checkpoint_recovery_points(self) -> None:
        for directory in list(self._directories.values()):
            await self._checkpoint(directory, RECOVERY_POINT_FILE, recovery_points(directory.logs))

    async def checkpoint_log_start_offsets(self) -> None:
        for directory in list(self._directories.values()):
            await self._checkpoint(directory, LOG_START_OFFSET_FILE, log_start_offsets(directory.logs))

    async def checkpoint_high_watermarks(self) -> None:
        for directory in list(self._directories.values()):
            await self._checkpoint(directory, REPLICATION_OFFSET_FILE, high_watermarks(directory.logs))

    async def _checkpoint(self, directory: _Directory, name: str, offsets: Offsets) -> None:
        try:
            await directory.checkpoints.update(name, offsets)
        except OSError as error:
            self.fail_directory(directory.path, error)

    async def flush_due(self) -> None:
        """Flush the logs whose `flush.ms` has passed."""
        now_ms = self._clock.monotonic_ms()
        for log in list(self.logs.values()):
            if log.log_end_offset > log.recovery_point and now_ms - log.flushed_ms >= log.config.flush_ms:
                try:
                    await log.flush()
                except KafkaError as error:
                    logger.warning("flush failed: topic=%s partition=%d error=%s", log.topic, log.partition, error)

    async def forget_producers(self) -> None:
        """Drop the state of producers that were silent for `producer.id.expiration.ms`."""
        now_ms, expiration_ms = self._clock.wall_ms(), self._settings.producer_id_expiration_ms
        for log in list(self.logs.values()):
            log.producers.remove_expired(now_ms, expiration_ms)

    # --- logs ---

    def find(self, topic: str, partition: int) -> PartitionLog | None:
        return self.logs.get((topic, partition))

    async def log_for(
        self, topic: str, partition: int, topic_id: bytes = ZERO_UUID, *, is_new: bool = True
    ) -> PartitionLog:
        """The log, made in the directory with the fewest logs when there is none.

        `is_new` False: it should exist, so none is made while a directory that may hold it is offline.
        Raises KafkaError(KAFKA_STORAGE_ERROR).
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
                f"No log is made for {topic}-{partition}: it may be in {', '.join(self._offline)}, which is offline.",
            )
        if not self._directories:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "Every log directory is offline.")
        created = self._creating[key] = asyncio.get_running_loop().create_future()
        directory = min(self._directories.values(), key=lambda each: len(each.logs) + each.reserved)
        directory.reserved += 1
        try:
            return await self._create(directory, key, topic_id)
        finally:
            directory.reserved -= 1
            del self._creating[key]
            created.set_result(None)

    async def _create(self, directory: _Directory, key: Key, topic_id: bytes) -> PartitionLog:
        path = f"{directory.path}/{partition_folder(*key)}"
        request = LoadRequest(
            path,
            is_clean=False,
            index_interval_bytes=self._config(key[0]).index_interval_bytes,
            now_ms=self._clock.wall_ms(),
            topic_id=topic_id,
        )
        try:
            loaded = await directory.queue.run(partial(make_and_load_log, self._filesystem, request))
        except OSError as error:
            self.fail_directory(directory.path, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Cannot make {path}: {error}") from error
        directory.checkpoints.forget(key)
        return self._register(directory, key, path, loaded)

    async def _adopt_topic_id(self, log: PartitionLog, topic_id: bytes) -> None:
        if log.topic_id == ZERO_UUID and topic_id != ZERO_UUID:
            await log.adopt_topic_id(topic_id)

    def update_config(self, topic: str) -> None:
        """The topic's settings have changed."""
        config = self._configs[topic] = self._config_of(topic)
        for log in self.logs.values():
            if log.topic == topic:
                log.config = config

    async def delete(self, topic: str, partition: int) -> None:
        """Set the log's folder aside; it is removed after `file.delete.delay.ms`. Missing is no error, unless it may be in
        a directory that is offline. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        log = self.logs.pop((topic, partition), None)
        if log is None:
            if self._offline:
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"{topic}-{partition} may be in {', '.join(self._offline)}, which is offline.",
                )
            return
        directory = self._directory_holding(log.directory)
        assert directory is not None, "logs of an offline directory are not in `logs`"
        del directory.logs[topic, partition]
        self._topic_logs[topic] -= 1
        if not self._topic_logs[topic]:  # a topic of this name will be another one
            del self._topic_logs[topic], self._configs[topic]
        await log.close(flush=False)
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

    def _delete_later(self, paths: list[str]) -> None:
        self._removal.later(paths, self._settings.log_segment_delete_delay_ms)

    def _directory_holding(self, path: str) -> _Directory | None:
        """The directory of a log's folder, or of a file in one; None when it is offline."""
        folder = path.rpartition("/")[0]
        return self._directories.get(folder or "/") or self._directories.get(folder.rpartition("/")[0] or "/")

    def _queue_holding(self, path: str) -> DiskQueue | None:
        directory = self._directory_holding(path)
        return None if directory is None else directory.queue

    # --- failure ---

    def _on_log_failed(self, path: str, error: OSError) -> None:
        directory = self._directory_holding(path)
        if directory is not None:
            self.fail_directory(directory.path, error)

    def fail_directory(self, path: str, error: OSError) -> None:
        """Take a directory offline with its logs: nothing of it can be trusted until the next start."""
        directory = self._directories.pop(path, None)
        if directory is None:
            return
        self._note_offline(path, error)
        for key, log in directory.logs.items():
            self.logs.pop(key, None)
            self._topic_logs[key[0]] -= 1
            log.fail(error)
        self._on_directory_failed(path, error)

    def _note_offline(self, path: str, error: OSError) -> None:
        self._offline[path] = error
        logger.error("log directory offline: directory=%s error=%r", path, error)

    @property
    def offline_directories(self) -> list[str]:
        return list(self._offline)

    @property
    def online_directories(self) -> list[str]:
        return list(self._directories)

    # --- description ---

    async def describe(self, wanted: set[Key] | None = None) -> list[DirectoryDescription]:
        """Every directory with its logs, or with those of `wanted` that it holds."""
        described: list[DirectoryDescription] = []
        for path in self._paths:
            directory = self._directories.get(path)
            if directory is None:
                described.append(DirectoryDescription(path, ErrorCode.KAFKA_STORAGE_ERROR))
                continue
            usable_bytes = await self._disk.readers().run(directory.files.free_bytes)
            total_bytes = await self._disk.readers().run(directory.files.total_bytes)
            logs = [
                LogDescription(*key, log.size_bytes, max(log.high_watermark - log.log_end_offset, 0))
                for key, log in sorted(directory.logs.items())
                if wanted is None or key in wanted
            ]
            described.append(DirectoryDescription(path, ErrorCode.NONE, total_bytes, usable_bytes, logs))
        return described

    # --- stop ---

    async def close(self, *, broker_epoch: int = UNKNOWN_BROKER_EPOCH, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """Flush and close every log; what could not be flushed in time is recovered at the next start."""
        await self._tasks.close()
        for directory in list(self._directories.values()):
            try:
                if directory.is_loaded:  # else it stays as it was found
                    async with asyncio.timeout(timeout_ms / 1000):
                        await self._close_directory(directory, broker_epoch)
            except TimeoutError:
                logger.warning("log directory not closed in time: directory=%s", directory.path)
            except (OSError, KafkaError) as error:
                logger.warning("log directory not closed cleanly: directory=%s error=%s", directory.path, error)
            directory.files.unlock()
        self._directories.clear()
        self.logs.clear()

    def abandon(self) -> None:
        """Let go of everything as it is, as when the start has failed half way: the next start recovers."""
        for directory in self._directories.values():
            directory.files.unlock()
        self._directories.clear()
        self.logs.clear()

    async def _close_directory(self, directory: _Directory, broker_epoch: int) -> None:
        for log in list(directory.logs.values()):
            await log.close(flush=True)
        for work in (
            self.checkpoint_recovery_points,
            self.checkpoint_log_start_offsets,
            self.checkpoint_high_watermarks,
        ):
            await work()
        if directory.path in self._directories:
            await directory.queue.run(partial(directory.files.write_clean_shutdown, broker_epoch))


def _load_all(filesystem: FileSystem, requests: Sequence[LoadRequest]) -> list[LoadedLog]:
    """A job."""
    return [load_log(filesystem, request) for request in requests]


async def _repeat(interval_ms: int, work: Callable[[], Awaitable[None]]) -> None:
    while True:
        await asyncio.sleep(interval_ms / 1000)
        await work()
