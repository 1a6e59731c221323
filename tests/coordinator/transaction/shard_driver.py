"""Drives a `TransactionShard` as its context would, without asyncio: virtual time, a log in a list, responses in a list.

Appends commit immediately, unless `is_holding`; then they wait for `release` or `fail`. Markers wait in `markers` until a test
says what came of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from coordinator.runtime.contract import (
    AppendRecords,
    BatchPosition,
    CancelTimer,
    Command,
    CoordinatorRecord,
    Effect,
    Respond,
    Result,
    ScheduleTimer,
    ShardEvent,
    TimerKey,
)
from coordinator.transaction.adding import TransactionalProducer
from coordinator.transaction.initializing import ProducerIdAndEpoch, ProducerInit
from coordinator.transaction.markers import (
    CancelMarkers,
    MarkerOutcome,
    TransactionMarkers,
    WriteMarkers,
)
from coordinator.transaction.settings import TransactionSettings
from coordinator.transaction.shard import TransactionShard
from coordinator.transaction.transaction import Transaction
from protocol.errors import ErrorCode
from protocol.schema import Message
from protocol.topic_partition import TopicPartition

START_MS = 1_000_000_000_000
PARTITION = 3
ORDERS = ("orders", 0)
PAYMENTS = ("payments", 1)


@dataclass(frozen=True)
class Batch:
    base_offset: int
    records: tuple[CoordinatorRecord, ...]


@dataclass
class TransactionDriver:
    """`refuse_with`: appends are refused with this error."""

    settings: TransactionSettings = field(default_factory=TransactionSettings)
    now_ms: int = START_MS
    epoch: int = 0
    log: list[Batch] = field(default_factory=list)
    responses: list[tuple[int, Message]] = field(default_factory=list)
    events: list[ShardEvent] = field(default_factory=list)
    timers: dict[TimerKey, int] = field(default_factory=dict)
    markers: list[TransactionMarkers] = field(default_factory=list)
    """Asked for and not written yet."""
    is_holding: bool = False
    refuse_with: ErrorCode | None = None

    def __post_init__(self) -> None:
        self._in_flight: deque[tuple[Result, int]] = deque()
        self._next_offset = 0
        self._waiters = count()
        self.last_waiter = -1
        self._producer_ids = count(1000)
        self.shard = TransactionShard(PARTITION, self.epoch, self.settings)
        self.carry_out(self.shard.on_loaded(self.now_ms))

    # --- requests ---

    def ask(self, operation: Callable[[TransactionShard, int, int], list[Effect]]) -> Any:
        """Run an operation with a waiter and return its response; None while there is none."""
        waiter = self.last_waiter = next(self._waiters)
        self.carry_out(operation(self.shard, waiter, self.now_ms))
        return self.response_of(waiter)

    def response_of(self, waiter: int) -> Any:
        found = [response for each, response in self.responses if each == waiter]
        assert len(found) <= 1, found
        return found[0] if found else None

    def init(
        self, name: str = "t", *, expected: tuple[int, int] | None = None, timeout_ms: int = 60_000
    ) -> tuple[ErrorCode, int, int] | None:
        """(error, producer id, epoch); None while it waits."""
        had = None if expected is None else ProducerIdAndEpoch(*expected)
        fresh = next(self._producer_ids) if self.shard.needs_producer_id(name, had) else None
        request = ProducerInit(name, timeout_ms, had, fresh)
        response = self.ask(lambda shard, waiter, now_ms: shard.init_producer_id(request, waiter, now_ms))
        if response is None:
            return None
        return ErrorCode(response.error_code), response.producer_id, response.producer_epoch

    def begin(self, name: str = "t", **options: Any) -> TransactionalProducer:
        """A producer that may begin a transaction."""
        answer = self.init(name, **options)
        assert answer is not None
        error, producer_id, epoch = answer
        assert error is ErrorCode.NONE
        return TransactionalProducer(name, producer_id, epoch)

    def add(
        self, producer: TransactionalProducer, partitions: Iterable[TopicPartition] = (ORDERS,)
    ) -> ErrorCode | None:
        chosen = tuple(partitions)
        return self._error(lambda shard, waiter, now_ms: shard.add_partitions(producer, chosen, waiter, now_ms))

    def end(self, producer: TransactionalProducer, *, commit: bool = True) -> ErrorCode | None:
        return self._error(
            lambda shard, waiter, now_ms: shard.end_transaction(producer, waiter, now_ms, is_commit=commit)
        )

    def _error(self, operation: Callable[[TransactionShard, int, int], list[Effect]]) -> ErrorCode | None:
        response = self.ask(operation)
        return None if response is None else ErrorCode(response.error_code)

    def write_markers(self, outcome: MarkerOutcome = MarkerOutcome.COMPLETE) -> None:
        """All markers that were asked for are written, or refused."""
        asked, self.markers = self.markers, []
        for markers in asked:
            self.carry_out(self.shard.on_markers_written(markers, outcome, self.now_ms))

    def abort_overdue(self) -> None:
        for name in self.shard.open_ids():
            self.carry_out(self.shard.abort_overdue(name, self.now_ms))

    def expire(self) -> None:
        for names in self.shard.id_chunks():
            self.carry_out(self.shard.expire(names, self.now_ms))

    def stored(self, name: str = "t") -> Transaction:
        return self.shard.durable_state()[name]

    def state(self, name: str = "t") -> str:
        return self.stored(name).state.value

    # --- the context's part ---

    def carry_out(self, effects: list[Effect]) -> None:
        inbox = deque(effects)
        while inbox:
            match inbox.popleft():
                case Respond(int() as waiter, response):
                    self.responses.append((waiter, response))
                case AppendRecords(result):
                    inbox.extend(self._append(result))
                case ScheduleTimer(key, deadline_ms):
                    self.timers[key] = deadline_ms
                case CancelTimer(key):
                    self.timers.pop(key, None)
                case ShardEvent() as event:
                    self.events.append(event)
                case Command() as command:
                    self._command(command)
                case other:
                    raise AssertionError(other)

    def _command(self, command: Command) -> None:
        match command:
            case WriteMarkers(markers):
                self.markers.append(markers)
            case CancelMarkers():
                self.markers.clear()
            case _:
                raise AssertionError(command)

    def _append(self, result: Result) -> list[Effect]:
        if self.refuse_with is not None:
            return self.shard.on_failed(result, self.refuse_with, self.now_ms)
        self._in_flight.append((result, self._next_offset))
        self._next_offset += len(result.records)
        return [] if self.is_holding else self._commit_first()

    def _commit_first(self) -> list[Effect]:
        result, base_offset = self._in_flight.popleft()
        self.log.append(Batch(base_offset, result.records))
        for record in result.records:
            self.shard.replay(record, BatchPosition(base_offset), self.now_ms)
        return self.shard.on_committed(result, self.now_ms)

    def release(self) -> None:
        """The high watermark passes everything that waits, in order."""
        self.is_holding = False
        while self._in_flight:
            self.carry_out(self._commit_first())

    def fail(self, error: ErrorCode) -> None:
        """Everything that waits is lost."""
        self.is_holding = False
        while self._in_flight:
            result, _ = self._in_flight.popleft()
            self.carry_out(self.shard.on_failed(result, error, self.now_ms))

    def time_out(self) -> None:
        for result, _ in list(self._in_flight):
            self.carry_out(self.shard.on_commit_timeout(result, self.now_ms))

    def advance(self, duration_ms: int) -> None:
        """Let time pass; timers run at their deadlines, in order."""
        until_ms = self.now_ms + duration_ms
        while due := [(deadline, repr(key), key) for key, deadline in self.timers.items() if deadline <= until_ms]:
            deadline_ms, _, key = min(due, key=lambda each: each[:2])
            self.now_ms = max(self.now_ms, deadline_ms)
            del self.timers[key]
            self.carry_out(self.shard.on_timer(key, self.now_ms))
        self.now_ms = until_ms

    def reelect(self) -> None:
        self.epoch += 1
        self.carry_out(self.shard.on_reelected(self.epoch, self.now_ms))

    def loaded_again(self) -> TransactionShard:
        """A shard that replayed the log."""
        shard = TransactionShard(PARTITION, self.epoch, self.settings)
        for batch in self.log:
            for record in batch.records:
                shard.replay(record, BatchPosition(batch.base_offset), self.now_ms)
        return shard

    def reload(self) -> None:
        """The leadership goes and comes back in a higher epoch; what is not committed is lost, or was not."""
        self.carry_out(self.shard.on_unloaded([result for result, _ in self._in_flight], self.now_ms))
        self._in_flight.clear()
        self.timers.clear()
        self.markers.clear()
        self.epoch += 1
        self.shard = self.loaded_again()
        self.carry_out(self.shard.on_loaded(self.now_ms))
