"""Moves partitions' logs to another directory of this broker (AlterReplicaLogDirs), while they are served.

    copy, a piece at a time  --complete-->  buffer appends, copy the remaining records  -->  the copy is the log
         ^  throttled, a few logs at once                 '--not now-->  go on copying

The fetcher of a following partition stops for the exchange, and continues with the new log. Appends, which are synchronous, are
always accepted: for some milliseconds they stay in memory.

Failed reads and writes are retried, with growing pauses: retention may have deleted the segment, and disk errors may be
temporary. A move is abandoned when one of the two logs has failed or was removed, or when the data is not a batch.

Rules: a control request that changes a partition says `suspend` before and `resume` after: no exchange is under way in between.
`stop` ends the pauses of a move, and returns when no work of it is in progress. A move that was interrupted by a stop of the
broker continues once its partition is assigned.
Invariants: one move a partition; copies read at a time are bounded by `num.replica.alter.log.dirs.threads`.
Source: Kafka ReplicaAlterLogDirsManager, ReplicaAlterLogDirsThread, Partition.maybeReplaceCurrentWithFutureReplica; KIP-113.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from protocol.errors import ErrorCode, KafkaError
from protocol.topic_partition import TopicPartition
from replication.moves.log_copy import LogCopy
from replication.throttle import ReplicationQuota, SampledRate
from runtime.clock import Clock
from runtime.tasks import TaskScope
from storage.directories.log_directory import is_future_name_too_long
from storage.free_space import NoRoom
from storage.log import log_replacement

if TYPE_CHECKING:
    from replication.partition import Partition
    from replication.partitions import ReplicaFetchers
    from storage.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)


THROTTLED_PAUSE_S = 0.1
NO_ROOM_PAUSE_S = 1.0
RETRY_PAUSE_S = 0.05
"""The pause before a failed exchange or step is retried; doubled for steps each time."""
LONGEST_RETRY_PAUSE_S = 1.0
"""The pause of Apache Kafka (`replica.fetch.backoff.ms`)."""

STEP_RATE_WINDOW_MS = 10_000
STEP_RATE_SAMPLES = 6


class MovableLogs(Protocol):
    """The part of the log manager that moves need."""

    def check_directory(self, path: str) -> object:
        """Raises LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR."""

    def prefer(self, topic: str, partition: int, path: str) -> None:
        """Create the log of this partition in the directory at `path`, if it is created later."""

    def future_log(self, topic: str, partition: int) -> PartitionLog | None:
        """Return the copy of a log, if there is one."""

    async def future_log_for(self, topic: str, partition: int, path: str) -> PartitionLog:
        """Create an empty copy of an existing log. Raises KAFKA_STORAGE_ERROR."""

    async def drop_future_log(self, topic: str, partition: int) -> None:
        """Remove the copy of a log. A missing one is no error."""

    async def complete_move(self, topic: str, partition: int) -> PartitionLog:
        """Replace the log by its copy; returns the new log. Raises KAFKA_STORAGE_ERROR: nothing has changed."""


@dataclass(frozen=True, slots=True)
class LogMoveDependencies:
    logs: MovableLogs
    following: ReplicaFetchers
    clock: Clock
    tasks: TaskScope
    quota: ReplicationQuota
    """`replica.alter.log.dirs.io.max.bytes.per.second`."""
    copies_at_once: int
    fetch_max_bytes: int
    """Bytes read of a log at a time."""


class _Move:
    """The move of one partition. `ended` is done when no work of it is in progress any more."""

    __slots__ = ("copy", "ended", "exchange", "retry_pause_s", "stopped")

    def __init__(self, copy: LogCopy) -> None:
        self.copy = copy
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Done when the exchange in progress has ended.
        self.exchange: asyncio.Future[None] | None = None
        # The last pause, if the last attempt failed.
        self.retry_pause_s = 0.0
        self.stopped = asyncio.Event()

    async def pause(self, pause_s: float) -> None:
        """Wait; a stop of the move ends the pause."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self.stopped.wait()


def _parent(log: PartitionLog) -> str:
    return log.directory.rpartition("/")[0]


class LogMoves:
    """All moves of this broker."""

    def __init__(self, dependencies: LogMoveDependencies) -> None:
        self._dependencies = dependencies
        self._moves: dict[TopicPartition, _Move] = {}
        self._suspended: dict[TopicPartition, int] = {}
        self._copy_slots = asyncio.Semaphore(dependencies.copies_at_once)
        self._move_lock = asyncio.Lock()
        self._rate = SampledRate(STEP_RATE_WINDOW_MS, STEP_RATE_SAMPLES)
        self.failed_partitions: set[TopicPartition] = set()

    def __len__(self) -> int:
        return len(self._moves)

    def lags(self) -> Iterator[tuple[TopicPartition, int]]:
        """Yield the number of records that each copy is behind its log."""
        for key, move in self._moves.items():
            yield key, move.copy.lag

    def steps_per_second(self) -> float:
        """The pieces copied a second, over all moves."""
        return self._rate.per_second(self._dependencies.clock.monotonic_ms())

    async def close(self) -> None:
        """End all work in progress, because the broker stops; copies are continued at the next start."""
        for key in list(self._moves):
            await self.stop(*key)

    # --- requests of administrators ---

    async def move(
        self, topic: str, index: int, partition: Partition | None, path: str, *, is_offline: bool = False
    ) -> None:
        """Begin to move the log to the directory at `path`; naming its present directory ends a move.

        `partition` None: this broker does not have it, and a log that is created for it later is created there; or it
        `is_offline`, in a directory that could not be read. Raises KafkaError: INVALID_TOPIC_EXCEPTION, LOG_DIR_NOT_FOUND,
        KAFKA_STORAGE_ERROR, REPLICA_NOT_AVAILABLE.
        """
        logs = self._dependencies.logs
        if is_future_name_too_long(topic, index):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic name is too long.")
        logs.check_directory(path)
        if is_offline or (partition is not None and partition.log.failure is not None):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Partition {topic}-{index} is offline.")
        async with self._move_lock:
            copy = logs.future_log(topic, index)
            if copy is not None and _parent(copy) != path:
                await self.stop(topic, index)
                await logs.drop_future_log(topic, index)
                copy = None
            if partition is None:
                logs.prefer(topic, index, path)
                raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, f"This broker does not hold {topic}-{index}.")
            if _parent(partition.log) == path:
                return
            if copy is None:
                await logs.future_log_for(topic, index, path)
            self.begin(partition)

    # --- which partitions ---

    def begin(self, partition: Partition) -> None:
        """Start filling the copy of the partition's log, if there is one; no effect while it is being filled."""
        key = (partition.topic, partition.partition)
        future_log = self._dependencies.logs.future_log(*key)
        if future_log is None or key in self._moves or self._dependencies.tasks.is_closed:
            return
        self.failed_partitions.discard(key)
        copy = LogCopy(
            partition, future_log, max_bytes=self._dependencies.fetch_max_bytes, clock=self._dependencies.clock
        )
        move = self._moves[key] = _Move(copy)
        self._dependencies.tasks.spawn(self._run(key, move), name=f"move {partition.topic}-{partition.partition}")

    async def stop(self, topic: str, partition: int) -> None:
        """Stop copying; the copy stays as it is. A failed move is forgotten as well."""
        self.failed_partitions.discard((topic, partition))
        move = self._moves.get((topic, partition))
        if move is not None:
            move.stopped.set()
            await asyncio.shield(move.ended)

    async def suspend(self, topic: str, partition: int) -> None:
        """When this returns no exchange is in progress, and none begins before `resume`."""
        key = (topic, partition)
        self._suspended[key] = self._suspended.get(key, 0) + 1
        move = self._moves.get(key)
        if move is not None and move.exchange is not None:
            await asyncio.shield(move.exchange)

    def resume(self, topic: str, partition: int) -> None:
        key = (topic, partition)
        left = self._suspended.pop(key) - 1
        if left:
            self._suspended[key] = left

    # --- one move ---

    async def _run(self, key: TopicPartition, move: _Move) -> None:
        log, copy = move.copy.partition.log, move.copy.copy
        logger.info(
            "log move started: topic=%s partition=%d path=%s target_path=%s", *key, log.directory, copy.directory
        )
        try:
            while not move.stopped.is_set():
                if await self._advance_or_wait(key, move):
                    break
        except KafkaError as error:
            if not move.stopped.is_set():
                self.failed_partitions.add(key)
            logger.warning("log move failed: topic=%s partition=%d error=%s", *key, error)
        finally:
            del self._moves[key]
            move.ended.set_result(None)

    async def _advance_or_wait(self, key: TopicPartition, move: _Move) -> bool:
        """Make a step, or pause when it failed; returns whether it was the last one. Raises KafkaError when the move cannot
        continue."""
        try:
            is_last = await self._advance(key, move)
        except KafkaError as error:
            self._check_logs(key, move)
            if error.code is ErrorCode.CORRUPT_MESSAGE:
                raise
            if not move.retry_pause_s:
                logger.warning("log move postponed: topic=%s partition=%d error=%s", *key, error)
            move.retry_pause_s = min(2 * move.retry_pause_s or RETRY_PAUSE_S, LONGEST_RETRY_PAUSE_S)
            await move.pause(move.retry_pause_s)
            return False
        move.retry_pause_s = 0.0
        return is_last

    def _check_logs(self, key: TopicPartition, move: _Move) -> None:
        """Raise KafkaError when one of the two logs accepts no more."""
        for log in (move.copy.partition.log, move.copy.copy):
            if log.failure is not None:
                raise log.failure.again()
        if self._dependencies.logs.future_log(*key) is not move.copy.copy:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{move.copy.copy.directory} is not to be filled any more.")

    async def _advance(self, key: TopicPartition, move: _Move) -> bool:
        """Make a step; returns whether it was the last one. Raises KafkaError."""
        copy, quota = move.copy, self._dependencies.quota
        self._check_logs(key, move)
        if quota.is_exceeded:
            await move.pause(THROTTLED_PAUSE_S)
            return False
        before_bytes = copy.copied_bytes
        try:
            async with self._copy_slots:
                await copy.step()
        except NoRoom:
            await move.pause(NO_ROOM_PAUSE_S)
            return False
        self._rate.record(1, self._dependencies.clock.monotonic_ms())
        quota.record(copy.copied_bytes - before_bytes)
        if copy.lag_bytes > self._dependencies.fetch_max_bytes:
            return False
        # The remaining records are copied while appends are buffered: under load there would always be more.
        await copy.copy.flush()
        halted = copy.partition.log.halted
        if halted is not None:  # its producers include those of refused batches until it resumes
            raise halted.again()
        may_exchange = (
            key not in self._suspended and not move.stopped.is_set() and log_replacement.can_begin(copy.partition.log)
        )
        if may_exchange and await self._exchange(key, move):
            return True
        await move.pause(RETRY_PAUSE_S if copy.copy.has_room else NO_ROOM_PAUSE_S)
        return False

    async def _exchange(self, key: TopicPartition, move: _Move) -> bool:
        """Replace the log by the copy; returns False when that is not possible now. Raises KafkaError: the log stays."""
        partition = move.copy.partition
        move.exchange = asyncio.get_running_loop().create_future()
        follows = self._dependencies.following.follows(*key)
        try:
            if follows:
                await self._dependencies.following.stop_following(*key)
            return log_replacement.can_begin(partition.log) and await self._exchange_buffering(key, move)
        finally:
            if follows and partition.log.failure is None:
                assignment = partition.assignment
                self._dependencies.following.follow(partition, assignment.leader_id, assignment.leader_epoch)
            move.exchange.set_result(None)
            move.exchange = None

    async def _exchange_buffering(self, key: TopicPartition, move: _Move) -> bool:
        partition, copy = move.copy.partition, move.copy
        old = partition.log
        log_replacement.buffer_appends(old)
        try:
            await old.await_appends()
            await copy.copy_remaining()
            if old.failure is not None or old.is_halted:
                return False  # the buffered appends were refused
            old.detach_folder()
            new = await self._dependencies.logs.complete_move(*key)
        except KafkaError:
            log_replacement.release(old)
            found = self._dependencies.logs.future_log(*key)
            if found is not None:
                copy.copy = found  # it was opened anew
            raise
        except (Exception, asyncio.CancelledError):
            log_replacement.release(old)  # otherwise the buffered appends would never complete
            raise
        partition.replace_log(new)
        log_replacement.hand_over(old, new)
        await old.close(flush=False)
        logger.info("log moved: topic=%s partition=%d path=%s copied_bytes=%d", *key, new.directory, copy.copied_bytes)
        return True
