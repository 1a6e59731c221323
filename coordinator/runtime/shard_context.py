"""The context of one shard: loads it from the log, runs its operations one at a time, and carries out their effects.

    loading --(whole log replayed)--> active --(leadership lost, or shutdown)--> closed
       |
       +--(log unreadable)--> failed --(leadership lost)--> closed

Rules: an operation and the loop over its effects never await, so no other operation runs between them. What happens
meanwhile (a timer, a commit that completes inside its own append) is queued behind it in one FIFO.
Invariants: records are replayed in the order they were appended, each once, when they are committed; a result's waiter is
completed once; after `close` no operation of the shard runs.
Source: Kafka CoordinatorRuntime (CoordinatorContext, DeferredEventQueue).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Generic, TypeAlias, TypeVar

from coordinator.runtime.contract import (
    AppendRecords,
    BatchPosition,
    CancelTimer,
    Command,
    CoordinatorRecord,
    Effect,
    Respond,
    Response,
    Result,
    ScheduleTimer,
    Shard,
    ShardEvent,
    ShardLogReader,
    ShardLogWriter,
    TimerKey,
    Waiter,
)
from protocol.errors import ErrorCode, KafkaError
from protocol.records.any_format import iter_any_headers, iter_any_records
from protocol.records.batch import BatchHeader
from protocol.records.compression import Compression
from protocol.records.control import ControlType, read_marker
from protocol.records.record import Record, encode_batch
from runtime.clock import Clock
from runtime.disk.filesystem import Buffer
from runtime.recent_times import RecentTimes
from runtime.slices import Slices
from runtime.timer import Timer, TimerEntry

logger = logging.getLogger(__name__)

# A load that clients may notice; faster ones are logged at level DEBUG.
SLOW_LOAD_MS = 100
# What one batch of an internal topic may decompress to while it is loaded.
LOAD_BATCH_BYTES_MAX = 64 * 1024 * 1024

S = TypeVar("S", bound=Shard)
Operation: TypeAlias = Callable[[S, int], list[Effect]]


class ShardState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


def refuse_command(command: Command, context: ShardContext[S]) -> None:
    """The `carry_out` of a coordinator whose shards have no commands. Raises: AssertionError."""
    raise AssertionError(f"a shard without commands, partition {context.partition}, emitted {command}")


@dataclass(frozen=True, slots=True)
class ShardPorts(Generic[S]):
    """What all shards of a coordinator share. `observe` receives the events, `carry_out` the commands."""

    topic: str
    clock: Clock
    timer: Timer
    writer: ShardLogWriter
    reader: ShardLogReader
    observe: Callable[[ShardEvent], None]
    carry_out: Callable[[Command, ShardContext[S]], None] = refuse_command
    compression: Compression = Compression.NONE
    commit_timeout_ms: int = 5_000
    load_times: RecentTimes = field(default_factory=RecentTimes)


class _AppendedResult:
    """A result whose records were appended or refused, and whose outcome has not been applied to the shard."""

    __slots__ = ("outcome", "result", "timeout")

    def __init__(self, result: Result) -> None:
        self.result = result
        self.outcome: ErrorCode | None = None
        self.timeout: TimerEntry | None = None


def _respond(waiter: Waiter, response: Response) -> None:
    if callable(waiter):
        waiter(response)
        return
    assert isinstance(waiter, asyncio.Future)
    if not waiter.done():  # it is cancelled when its connection is closed
        waiter.set_result(response)


def _position_of(result: Result) -> BatchPosition:
    """The position of the batch, as a load reads it from the log."""
    producer = result.producer
    if producer is None:
        return BatchPosition(result.base_offset)
    return BatchPosition(result.base_offset, producer.producer_id, is_transactional=True)


class _ShardTimer:
    """One timer of a shard: when it is due, on the clock of the wheel, and its entry there. The entry may come earlier: nearly
    every session is extended before it ends, and its timer is scheduled again only then."""

    __slots__ = ("due_ms", "entry", "entry_ms")

    def __init__(self, due_ms: int, entry: TimerEntry) -> None:
        self.due_ms = self.entry_ms = due_ms
        self.entry = entry


class ShardContext(Generic[S]):
    """Owned by a coordinator's runtime, from the election to the resignation of one partition.

    `leader_epoch` is that of the newest election: a re-election of this broker keeps the shard as it is.
    """

    def __init__(self, partition: int, leader_epoch: int, shard: S, ports: ShardPorts[S]) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch  # of the newest election
        self._notified_epoch = leader_epoch  # of the newest election that the shard was notified of
        self.state = ShardState.LOADING
        self._shard = shard
        self._ports = ports
        self._inbox: deque[Operation[S]] = deque()
        self._is_running = False
        self._timers: dict[TimerKey, _ShardTimer] = {}
        self._in_flight: deque[_AppendedResult] = deque()
        self._ended_while_loading: list[tuple[int, bool]] = []

    @property
    def shard(self) -> S:
        """The shard, for reads that change nothing. Incomplete while loading."""
        return self._shard

    # --- operations ------------------------------------------------------------------------------------------------

    def run(self, operation: Operation[S]) -> None:
        """Run `operation` now, or right after the one that is running."""
        self._inbox.append(operation)
        if self._is_running:
            return
        self._is_running = True
        try:
            while self._inbox:
                next_operation = self._inbox.popleft()
                if self.state is ShardState.ACTIVE:
                    self._carry_out(next_operation(self._shard, self._ports.clock.wall_ms()))
        finally:
            self._is_running = False

    def _carry_out(self, effects: list[Effect]) -> None:
        refused: list[tuple[Result, ErrorCode]] = []
        for effect in effects:  # no await in here
            match effect:
                case Respond(waiter, response):
                    _respond(waiter, response)
                case AppendRecords(result) if result.is_applied:
                    self._append_applied(result, refused)
                case AppendRecords(result):
                    self._append(result)
                case ScheduleTimer(key, deadline_ms):
                    if self.state is not ShardState.CLOSED:
                        self._schedule(key, deadline_ms)
                case CancelTimer(key):
                    timer = self._timers.pop(key, None)
                    if timer is not None:
                        timer.entry.cancel()
                case ShardEvent():
                    self._ports.observe(effect)
                case Command():
                    if self.state is not ShardState.CLOSED:
                        self._ports.carry_out(effect, self)
        for result, error in reversed(refused):
            self._carry_out(self._shard.on_failed(result, error, self._ports.clock.wall_ms()))

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """A marker that a transaction coordinator has written is committed. While loading it may lie behind what is read; to
        apply it twice changes nothing."""
        if self.state is ShardState.LOADING:
            self._ended_while_loading.append((producer_id, committed))
            return

        def end(shard: S, _now_ms: int) -> list[Effect]:
            shard.replay_end_transaction(producer_id, committed=committed)
            return []

        self.run(end)

    # --- elections ---------------------------------------------------------------------------------------------------

    def on_reelected(self, leader_epoch: int) -> None:
        """This broker already led the partition and was elected again: the shard equals the log and is not reloaded."""
        self.leader_epoch = max(self.leader_epoch, leader_epoch)
        self.run(self._notify_epoch)

    def _notify_epoch(self, shard: S, now_ms: int) -> list[Effect]:
        if self.leader_epoch == self._notified_epoch:
            return []
        self._notified_epoch = self.leader_epoch
        return shard.on_reelected(self.leader_epoch, now_ms)

    # --- timers ----------------------------------------------------------------------------------------------------

    def _schedule(self, key: TimerKey, deadline_ms: int) -> None:
        wheel = self._ports.timer
        delay_ms = max(deadline_ms - self._ports.clock.wall_ms(), 0)
        due_ms = wheel.now_ms() + delay_ms
        timer = self._timers.get(key)
        if timer is not None:
            if timer.entry_ms <= due_ms:
                timer.due_ms = due_ms
                return
            timer.entry.cancel()
        self._timers[key] = _ShardTimer(due_ms, wheel.schedule(delay_ms, partial(self._on_entry, key)))

    def run_due(self, keys: Iterable[TimerKey]) -> None:
        """Run those of the timers that are due, before an operation whose response depends on them: a busy loop serves
        requests before timers, and a client that waited for a timeout must not find that it has not happened yet."""
        for key in keys:
            timer = self._timers.get(key)
            if timer is not None and timer.due_ms <= self._ports.timer.now_ms():
                timer.entry.cancel()
                self._on_timer(key)

    def _on_entry(self, key: TimerKey) -> None:
        timer, wheel = self._timers[key], self._ports.timer
        left_ms = timer.due_ms - wheel.now_ms()
        if left_ms > 0:
            timer.entry, timer.entry_ms = wheel.schedule(left_ms, partial(self._on_entry, key)), timer.due_ms
        else:
            self._on_timer(key)

    def _on_timer(self, key: TimerKey) -> None:
        del self._timers[key]
        self.run(lambda shard, now_ms: shard.on_timer(key, now_ms))

    # --- appends ---------------------------------------------------------------------------------------------------

    def _append(self, result: Result) -> None:
        if self.state is ShardState.CLOSED:  # the append before it failed, which ended the leadership
            self._unload([result])
            return
        entry = _AppendedResult(result)
        self._in_flight.append(entry)
        try:
            self._write(entry)
        except KafkaError as error:
            self._on_append_outcome(entry, error.code, -1)

    def _append_applied(self, result: Result, refused: list[tuple[Result, ErrorCode]]) -> None:
        """Append a result whose changes are made. `refused` are those of its operation; one that follows them joins them."""
        if refused:
            refused.append((result, refused[-1][1]))
            return
        if self.state is ShardState.CLOSED:
            refused.append((result, ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return
        entry = _AppendedResult(result)
        self._in_flight.append(entry)
        result.is_appended = True  # before its outcome, which may come within the append
        try:
            self._write(entry)
        except KafkaError as error:
            self._in_flight.remove(entry)
            result.is_appended = False
            refused.append((result, error.code))

    def _write(self, entry: _AppendedResult) -> None:
        """Raises: KafkaError when the append is refused."""
        result = entry.result
        result.base_offset = self._ports.writer.append(
            self.partition,
            self._encode(result),
            partial(self._on_append_outcome, entry),
            None if result.producer is None else result.producer.guard,
        )
        if entry.outcome is None:
            # Only the response has a deadline: the outcome of the records is awaited until they are committed or lost.
            timeout_ms = self._ports.commit_timeout_ms
            entry.timeout = self._ports.timer.schedule(timeout_ms, partial(self._on_commit_timeout, entry))

    def _encode(self, result: Result) -> bytes:
        now_ms = self._ports.clock.wall_ms()
        records = [Record(offset, now_ms, record.key, record.value, []) for offset, record in enumerate(result.records)]
        producer = result.producer
        if producer is None:
            return encode_batch(records, compression=self._ports.compression)
        return encode_batch(
            records,
            compression=self._ports.compression,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=0,  # it is not checked, but Apache Kafka's cleaner fails at a batch of a producer without one
            is_transactional=True,
        )

    def _on_append_outcome(self, entry: _AppendedResult, error: ErrorCode, _next_offset: int) -> None:
        if entry.outcome is None:
            entry.outcome = error
            self.run(self._apply_outcomes)

    def _apply_outcomes(self, shard: S, now_ms: int) -> list[Effect]:
        """Apply all results whose outcome is known to the shard, in the order of the log."""
        effects: list[Effect] = []
        while self._in_flight and self._in_flight[0].outcome is not None:
            entry = self._in_flight.popleft()
            if entry.timeout is not None:
                entry.timeout.cancel()
            assert entry.outcome is not None
            if entry.outcome is ErrorCode.NONE:
                if not entry.result.is_applied:
                    position = _position_of(entry.result)
                    for record in entry.result.records:
                        shard.replay(record, position, now_ms)
                effects += shard.on_committed(entry.result, now_ms)
            else:
                effects += shard.on_failed(entry.result, entry.outcome, now_ms)
        return effects

    def _on_commit_timeout(self, entry: _AppendedResult) -> None:
        if entry.outcome is None:
            self.run(lambda shard, now_ms: shard.on_commit_timeout(entry.result, now_ms))

    # --- loading and closing ---------------------------------------------------------------------------------------

    async def load(self) -> None:
        """Replay the partition's log, then serve. Returns early when closed meanwhile."""
        clock = self._ports.clock
        started_ms = clock.monotonic_ms()
        slices = Slices(clock)
        try:
            async for buffer in self._ports.reader.batches(self.partition):
                for position, header in iter_any_headers(buffer):
                    self._replay_batch(buffer, position, header)
                    await slices.yield_if_due()
                    if self.state is not ShardState.LOADING:
                        return
        except (KafkaError, OSError):
            if self.state is ShardState.LOADING:
                # Serving what could be read would return committed state as if it had never existed.
                logger.exception("partition not loaded: topic=%s partition=%d", self._ports.topic, self.partition)
                self.state = ShardState.FAILED
            return
        if self.state is ShardState.LOADING:
            self.state = ShardState.ACTIVE
            self.run(self._notify_epoch)
            self.run(lambda shard, now_ms: shard.on_loaded(now_ms))
            for producer_id, committed in self._ended_while_loading:
                self.end_transaction(producer_id, committed=committed)
            self._ended_while_loading.clear()
            ended_ms = clock.monotonic_ms()
            took_ms = ended_ms - started_ms
            self._ports.load_times.record(took_ms, ended_ms)
            level = logging.INFO if took_ms >= SLOW_LOAD_MS else logging.DEBUG
            logger.log(
                level,
                "partition loaded: topic=%s partition=%d leader_epoch=%d duration_ms=%d",
                *(self._ports.topic, self.partition, self.leader_epoch, took_ms),
            )

    def _replay_batch(self, buffer: Buffer, position: int, header: BatchHeader) -> None:
        if header.is_control:
            marker = read_marker(buffer, position, header)
            if marker is not None:
                committed = marker.type is ControlType.COMMIT
                self._shard.replay_end_transaction(header.producer_id, committed=committed)
            return
        now_ms = self._ports.clock.wall_ms()
        batch_position = BatchPosition(header.base_offset, header.producer_id, header.is_transactional)
        for record in iter_any_records(buffer, position, header, LOAD_BATCH_BYTES_MAX):
            # A record without a key is not a coordinator's; the shard reports and skips its empty key.
            self._shard.replay(CoordinatorRecord(record.key or b"", record.value), batch_position, now_ms)

    def close(self) -> None:
        """Another broker leads the partition, or this one stops: complete parked requests with errors and cancel timers."""
        was_active = self.state is ShardState.ACTIVE
        self.state = ShardState.CLOSED
        for timer in self._timers.values():
            timer.entry.cancel()
        self._timers.clear()
        in_flight = [entry.result for entry in self._in_flight]
        for entry in self._in_flight:
            if entry.timeout is not None:
                entry.timeout.cancel()
        self._in_flight.clear()
        if was_active:
            self._unload(in_flight)

    def _unload(self, results: list[Result]) -> None:
        self._carry_out(self._shard.on_unloaded(results, self._ports.clock.wall_ms()))
