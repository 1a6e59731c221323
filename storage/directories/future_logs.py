"""Keeps the copies of logs that move to another directory of this broker, in folders of their own until they are complete.

    orders-0                          the log, in its directory
    orders-0.<uuid>-future            its copy, in the other one; whoever copies appends to it as a follower does
    orders-0.<uuid>-future/moved      it has everything, and the log's folder is about to go

`complete_move` lets the copy take the log's place: the copy is flushed, checkpointed and marked, its folder gets the log's
name, and the log's folder is set aside for deletion. The caller buffers appends meanwhile: everything acknowledged before is in
the copy, and nothing is acknowledged in between. When both names are on the disk the marker file is removed.

Killed between the two renames, the broker leaves two folders with the log's name, one marked: see
`storage.directories.interrupted_move`.
A loss of power may undo either. If it left a marked copy and no log, a start finishes the work here; if it left a log and its
copy, it goes on copying.

Rules: runs on the event loop; jobs in the queues of the two directories, one after the other.
Invariants: a directory holds at most one of log and copy of a partition; there is one copy of a partition at most. When a copy
is marked, the checkpoints of its directory say of it what those of the log's directory say of the log: where it begins, up to
where it is on the disk, and that gaps in it are no tears.
But for a loss of power there is always a folder with the log's name that has everything: Apache Kafka, which knows no marks,
would begin an empty log where there is none. It does not start on two.
Source: Kafka LogManager.futureLogs, replaceCurrentWithFutureLog; KIP-113.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from protocol.errors import ErrorCode, KafkaError
from protocol.primitives import ZERO_UUID
from protocol.topic_partition import TopicPartition
from runtime.disk.filesystem import FileSystem
from runtime.error_texts import reason_of
from runtime.randomness import uuid_bytes
from storage.directories.interrupted_move import sync_directories
from storage.directories.log_dependencies import LogDependencies
from storage.directories.log_directory import deletion_folder, future_folder
from storage.directories.online_directory import OnlineDirectory
from storage.folder_files import MOVED_FILE, partition_folder, rename_folder, unmark
from storage.log.loading import LoadRequest, load_log, make_and_load_log
from storage.log.partition_log import PartitionLog
from storage.log.removal.log_truncation import truncate_to
from storage.log.removal.segment_retention import raise_log_start_offset
from storage.segments.segment_files import LOG_SUFFIX, SNAPSHOT_SUFFIX, create_files, segment_path, sync_file

T = TypeVar("T")

logger = logging.getLogger(__name__)

# Preferred directories of logs that may never be created: the oldest are dropped.
_MAX_PREFERRED = 10_000


class FutureLogs:
    """The copies of logs in other directories. `logs` are the copies by partition; `paths` those of all directories;
    `checkpoint(directory)` writes the checkpoints of its logs and copies, and returns the error, if any; `checkpoint_soon` does
    not wait for it."""

    def __init__(
        self,
        dependencies: LogDependencies,
        paths: Sequence[str],
        checkpoint: Callable[[OnlineDirectory], Awaitable[OSError | None]],
        checkpoint_soon: Callable[[OnlineDirectory], None],
    ) -> None:
        self._dependencies = dependencies
        self._paths = paths
        self._checkpoint = checkpoint
        self._checkpoint_soon = checkpoint_soon
        self._preferred: dict[TopicPartition, str] = {}
        self.logs: dict[TopicPartition, PartitionLog] = {}

    # --- places ---

    def check_directory(self, path: str) -> OnlineDirectory:
        """Raises LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR."""
        if path not in self._paths:
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is none of this broker's log directories.")
        directory = self._dependencies.directories.get(path)
        if directory is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The log directory {path} is offline.")
        return directory

    def prefer(self, topic: str, partition: int, path: str) -> None:
        """Create the log of this partition in that directory, if it is created later."""
        self._preferred.pop((topic, partition), None)
        self._preferred[topic, partition] = path
        if len(self._preferred) > _MAX_PREFERRED:
            del self._preferred[next(iter(self._preferred))]

    def preferred(self, key: TopicPartition) -> OnlineDirectory | None:
        """Return and forget the preferred directory of a log that is created now."""
        return self._dependencies.directories.get(self._preferred.pop(key, ""))

    # --- start ---

    async def load(self) -> None:
        """Open the copies of all directories, whose logs are open. A directory that fails goes offline; nothing is raised."""
        for directory in list(self._dependencies.directories.values()):
            try:
                await self._load_directory(directory)
            except OSError as error:
                self._dependencies.on_error(directory.path, error)

    async def _load_directory(self, directory: OnlineDirectory) -> None:
        dependencies, filesystem = self._dependencies, self._dependencies.filesystem
        folders = await directory.queue.run(directory.files.future_folders)
        marked = await directory.queue.run(partial(_marked, filesystem, [path for _, path in folders]))
        if any(path in marked and key not in dependencies.current.logs for key, path in folders):
            await sync_directories(dependencies)
        for key, path in folders:
            log, is_marked = dependencies.current.logs.get(key), path in marked
            if log is None and is_marked and not dependencies.offline:
                await directory.queue.run(partial(_finish, filesystem, directory.path, path, partition_folder(*key)))
                await self._adopt(directory, key, f"{directory.path}/{partition_folder(*key)}")
                logger.info("interrupted log move finished: topic=%s partition=%d directory=%s", *key, directory.path)
            elif log is None and not is_marked and not dependencies.offline:
                logger.warning("copy of a log ignored, its log does not exist: path=%s", path)
            elif log is None:
                logger.warning("copy of a log ignored, its log may be in an offline directory: path=%s", path)
            elif key in self.logs or log.directory.startswith(f"{directory.path}/"):
                logger.warning("copy of a log removed, there is another: path=%s", path)
                await self._dependencies.set_aside(directory, key, path, 0)
            else:
                if is_marked:
                    await directory.queue.run(partial(unmark, filesystem, path))
                request = dependencies.current.request_for(directory, key, path)
                request.is_compacted |= log.offsets.first_dirty_offset is not None
                copy = await self._open(directory, key, path, request)
                if copy.topic_id != log.topic_id:
                    await self._drop_foreign_copy(directory, key, log, copy)
                elif request.is_compacted and not request.is_clean:
                    # A loss of power may have left a hole there, which looks like one of compaction; the log has it all.
                    try:
                        await truncate_to(copy, copy.offsets.recovery_point)
                    except KafkaError:
                        await self.drop_future_log(*key)
        await directory.checkpoints.follow(directory.logs_by_key())

    async def _drop_foreign_copy(
        self, directory: OnlineDirectory, key: TopicPartition, log: PartitionLog, copy: PartitionLog
    ) -> None:
        """Drop a copy of another topic: a loss of power may have lost the log before the topic was created again, or only an
        id. The records are copied again, because epochs do not distinguish them from another topic's."""
        logger.warning(
            "copy of a log removed, it is or may be of another topic of this name: topic=%s partition=%d path=%s",
            *(*key, copy.directory),
        )
        await self.drop_future_log(*key)
        if ZERO_UUID in (copy.topic_id, log.topic_id):
            try:
                await self.future_log_for(*key, directory.path)
            except KafkaError as error:
                logger.warning("log move given up: topic=%s partition=%d error=%s", *key, error)

    async def _adopt(self, directory: OnlineDirectory, key: TopicPartition, path: str) -> None:
        dependencies = self._dependencies
        request = dependencies.current.request_for(directory, key, path)
        loaded = await directory.queue.run(partial(load_log, dependencies.filesystem, request))
        dependencies.current.add(directory, key, dependencies.current.make(directory, key, path, loaded))

    async def _open(
        self, directory: OnlineDirectory, key: TopicPartition, path: str, request: LoadRequest
    ) -> PartitionLog:
        dependencies = self._dependencies
        loaded = await directory.queue.run(partial(make_and_load_log, dependencies.filesystem, request))
        if not dependencies.is_online(directory):
            raise OSError(errno.EIO, f"The log directory {directory.path} went offline.")
        log = dependencies.current.make(directory, key, path, loaded)
        directory.future_logs[key] = self.logs[key] = log
        return log

    # --- one copy ---

    def future_log(self, topic: str, partition: int) -> PartitionLog | None:
        """Return the copy, if there is one."""
        return self.logs.get((topic, partition))

    async def future_log_for(self, topic: str, partition: int, path: str) -> PartitionLog:
        """Create an empty copy of an existing log that has none. Raises LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR."""
        key, dependencies = (topic, partition), self._dependencies
        assert key not in self.logs
        directory = self.check_directory(path)
        if dependencies.offline:  # which may hold a copy
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{topic}-{partition} is not moved while {dependencies.offline} is offline.",
            )
        log = dependencies.current.logs.get(key)
        path = f"{directory.path}/{future_folder(*key, uuid_bytes(dependencies.randomness))}"
        try:
            with directory.in_use():
                await directory.checkpoints.forget(key)
                request = dependencies.current.request_for(directory, key, path)
                request.is_clean, request.topic_id = False, ZERO_UUID if log is None else log.topic_id
                copy = await self._open(directory, key, path, request)
        except OSError as error:
            dependencies.on_error(directory.path, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Cannot make {path}: {reason_of(error)}") from error
        if log is None or dependencies.current.logs.get(key) is not log:
            await self.drop_future_log(*key)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The log of {topic}-{partition} went away.")
        return copy

    async def drop_future_log(self, topic: str, partition: int) -> None:
        """Remove the copy, because the log does not move any more. A missing one is no error."""
        key = (topic, partition)
        self._preferred.pop(key, None)
        log = self.logs.pop(key, None)
        directory = None if log is None else self._dependencies.directory_of(log)
        if log is None or directory is None:
            return
        del directory.future_logs[key]
        try:
            with directory.in_use():
                await log.close(flush=False)
                await self._dependencies.set_aside(directory, key, log.directory, 0)
        except OSError as error:
            self._dependencies.on_error(directory.path, error)

    async def complete_move(self, topic: str, partition: int) -> PartitionLog:
        """Replace the log by its complete copy; returns the log that is served from now on. The log buffers its appends. Raises
        KAFKA_STORAGE_ERROR: the log stays, unless its directory has failed."""
        key, dependencies = (topic, partition), self._dependencies
        log, copy = dependencies.current.logs.get(key), self.logs.get(key)
        source = None if log is None else dependencies.directory_of(log)
        target = None if copy is None else dependencies.directory_of(copy)
        if log is None or copy is None or source is None or target is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"A directory of {topic}-{partition} is offline.")
        with source.in_use(), target.in_use():
            try:
                await copy.finish()
                copy = await self._complete_copy(key, log, copy, target)
                _take_over_offsets(log, copy)
                refusal = await self._checkpoint(target)
                if refusal is not None:
                    raise refusal
                await self._run(target, partial(_mark, dependencies.filesystem, copy.directory))
            except OSError as error:
                raise _not_moved(key, error) from error
            try:
                return await self._exchange(key, log, copy, source, target)
            except (OSError, KafkaError) as error:
                await self._open_again(target, key, copy)
                raise _not_moved(key, error) from error

    async def _complete_copy(
        self, key: TopicPartition, log: PartitionLog, copy: PartitionLog, target: OnlineDirectory
    ) -> PartitionLog:
        """Add files to the copy for what its records lack: the last records may have been compacted away, or all records of a
        producer that is in snapshots of the log. Returns the copy, reopened with them. Raises OSError."""
        end_offset = log.log_end_offset
        if not copy.producers.recall(log.producers.states, copy.log_end_offset) and end_offset == copy.log_end_offset:
            return copy
        await copy.close(flush=False)
        snapshot = copy.producers.states.to_snapshot()
        try:
            await self._run(
                target, partial(_begin_segment, self._dependencies.filesystem, copy.directory, end_offset, snapshot)
            )
        except OSError:
            await self._open_again(target, key, copy)
            raise
        await self._open_again(target, key, copy)
        whole = self.logs.get(key)
        if whole is None or whole is copy:
            raise OSError(errno.EIO, f"The log directory {target.path} went offline.")
        return whole

    async def _exchange(
        self,
        key: TopicPartition,
        log: PartitionLog,
        copy: PartitionLog,
        source: OnlineDirectory,
        target: OnlineDirectory,
    ) -> PartitionLog:
        """Raises OSError, KafkaError; then the folders are where they were.

        Both are renamed in the source's queue, behind all that the log has put there; in the target's there is nothing of the
        copy, which is closed.
        """
        dependencies, filesystem = self._dependencies, self._dependencies.filesystem
        aside = f"{source.path}/{deletion_folder(*key, uuid_bytes(dependencies.randomness))}"
        path = f"{target.path}/{partition_folder(*key)}"
        request = dependencies.current.request_for(target, key, path)
        request.resume(copy.log_end_offset, copy.log_start_offset)
        await copy.close(flush=False)
        await target.queue.drain()
        try:
            await self._exchange_folders(source, target, (copy.directory, path), (log.directory, aside))
            # The target first: of what a loss of power can leave, two folders are better than none.
            await self._run(target, partial(filesystem.sync_directory, target.path))
            await self._run(source, partial(filesystem.sync_directory, source.path))
            loaded = await self._run(target, partial(load_log, filesystem, request))
            if not (dependencies.is_online(source) and dependencies.is_online(target)):
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "A directory went offline.")
        except (Exception, asyncio.CancelledError):  # whoever holds the log has it go on, in its folder
            await self._undo_exchange(key, source, target, (copy.directory, path), (log.directory, aside))
            raise
        new = dependencies.current.make(target, key, path, loaded)
        new.producers.states.remember(log.producers.states)
        _take_over_offsets(log, new)  # records may have been deleted since the copy heard of the log's start
        del target.future_logs[key], self.logs[key]
        dependencies.current.remove(source, key)
        dependencies.current.add(target, key, new)
        self._checkpoint_soon(source)
        self._checkpoint_soon(target)
        dependencies.remove_later([aside], log.config.file_delete_delay_ms)
        # Nothing is waited for any more: a directory that fails now fails with the logs that are registered.
        target.queue.write(
            partial(unmark, filesystem, path),
            lambda error: None if error is None else dependencies.on_error(target.path, error),
        )
        return new

    async def _exchange_folders(
        self, source: OnlineDirectory, target: OnlineDirectory, of_copy: tuple[str, str], of_log: tuple[str, str]
    ) -> None:
        """Raises OSError: one of the two may be renamed."""
        try:
            refusal = await source.queue.run(partial(_rename_both, self._dependencies.filesystem, of_copy, of_log))
        except OSError as error:
            self._dependencies.on_error(target.path, error)
            raise
        if refusal is not None:
            self._dependencies.on_error(source.path, refusal)
            raise refusal

    async def _undo_exchange(
        self,
        key: TopicPartition,
        source: OnlineDirectory,
        target: OnlineDirectory,
        of_copy: tuple[str, str],
        of_log: tuple[str, str],
    ) -> None:
        """Undo the renames. The log gets its name first: at any moment there is a folder of that name. If that fails, the copy
        keeps the name and the marker, and a start that sees both directories continues with it."""
        if await self._put_back(source, source, *of_log):
            await self._put_back(source, target, *of_copy)
        else:
            target.future_logs.pop(key, None)
            self.logs.pop(key, None)

    async def _put_back(self, queue_of: OnlineDirectory, directory: OnlineDirectory, name: str, path: str) -> bool:
        """Undo a rename, if it was done; returns whether that succeeded. A folder that cannot be renamed back fails its
        directory."""
        filesystem = self._dependencies.filesystem

        def job() -> None:
            if filesystem.exists(path):
                rename_folder(filesystem, path, name)

        try:
            await queue_of.queue.run(job)
        except OSError as error:
            self._dependencies.on_error(
                directory.path, OSError(errno.EIO, f"{path} cannot be named {name} again: {reason_of(error)}")
            )
            return False
        return True

    async def _open_again(self, directory: OnlineDirectory, key: TopicPartition, copy: PartitionLog) -> None:
        """Reopen a copy that was closed and did not replace the log, without the marker."""
        if not self._dependencies.is_online(directory) or self.logs.get(key) is not copy:
            return
        request = self._dependencies.current.request_for(directory, key, copy.directory)
        request.resume(copy.log_end_offset, copy.log_start_offset)
        try:
            await directory.queue.run(partial(unmark, self._dependencies.filesystem, copy.directory))
            await self._open(directory, key, copy.directory, request)
        except OSError as error:
            directory.future_logs.pop(key, None)
            self.logs.pop(key, None)
            self._dependencies.on_error(directory.path, error)

    async def _run(self, directory: OnlineDirectory, job: Callable[[], T]) -> T:
        """Run a job; an error takes the directory offline, unless only room is missing. Raises the error."""
        try:
            return await directory.queue.run(job)
        except OSError as error:
            self._dependencies.on_error(directory.path, error)
            raise


def _take_over_offsets(log: PartitionLog, copy: PartitionLog) -> None:
    """What a log knows that its records do not tell. Gaps that compaction has left stay when the topic's settings change."""
    raise_log_start_offset(copy, min(log.log_start_offset, copy.log_end_offset))
    copy.high_watermark = max(min(log.high_watermark, copy.log_end_offset), copy.log_start_offset)
    if log.offsets.first_dirty_offset is not None:  # else the copy may know of gaps of its own
        copy.offsets.first_dirty_offset = log.offsets.first_dirty_offset


def _not_moved(key: TopicPartition, error: Exception) -> KafkaError:
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{key[0]}-{key[1]} was not moved: {error}")


# --- jobs: these block ---


def _begin_segment(filesystem: FileSystem, path: str, base_offset: int, snapshot: bytes) -> None:
    """The copy ends where the log does by an empty segment, with the producers before it."""
    snapshot_path = segment_path(path, base_offset, SNAPSHOT_SUFFIX)
    filesystem.write_bytes(snapshot_path, snapshot)
    sync_file(filesystem, snapshot_path)
    if not filesystem.exists(segment_path(path, base_offset, LOG_SUFFIX)):
        create_files(filesystem, path, base_offset).close()
    filesystem.sync_directory(path)


def _mark(filesystem: FileSystem, path: str) -> None:
    filesystem.write_bytes(f"{path}/{MOVED_FILE}", b"")
    filesystem.sync_directory(path)


def _rename_both(filesystem: FileSystem, of_copy: tuple[str, str], of_log: tuple[str, str]) -> OSError | None:
    """Each from, to. Back to back, and the copy first: killed in between, the broker leaves two folders with the log's name,
    one of them marked, and never none. Raises OSError for the copy's directory, answers that of the log's."""
    filesystem.rename(*of_copy)
    try:
        filesystem.rename(*of_log)
    except OSError as error:
        return error
    return None


def _marked(filesystem: FileSystem, paths: Sequence[str]) -> set[str]:
    """Those of the folders that hold copies which have everything."""
    return {path for path in paths if filesystem.exists(f"{path}/{MOVED_FILE}")}


def _finish(filesystem: FileSystem, directory: str, path: str, name: str) -> None:
    """Give a marked copy the log's name."""
    rename_folder(filesystem, path, f"{directory}/{name}")
    unmark(filesystem, f"{directory}/{name}")
