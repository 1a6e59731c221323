"""Drives a `GroupShard` as its context would, without asyncio: virtual time, a log in a list, answers in a list.

Appends commit at once, unless `is_holding`; then they wait for `release` or `fail`. Everything durable can be compared with
a shard that is loaded from the same log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from coordinator.group.settings import GroupSettings
from coordinator.group.shard import GroupShard
from coordinator.group.waiting import WaitingBytes
from coordinator.runtime.contract import (
    AppendRecords,
    BatchPosition,
    BatchProducer,
    CancelTimer,
    Command,
    CoordinatorRecord,
    Effect,
    Respond,
    Result,
    ScheduleTimer,
    ShardEvent,
    TimerKey,
    Waiter,
)
from protocol.errors import ErrorCode
from protocol.schema import Message

START_MS = 1_000_000_000_000


@dataclass
class Batch:
    base_offset: int
    records: tuple[CoordinatorRecord, ...]
    producer: BatchProducer | None = None

    @property
    def position(self) -> BatchPosition:
        if self.producer is None:
            return BatchPosition(self.base_offset)
        return BatchPosition(self.base_offset, self.producer.producer_id, is_transactional=True)


@dataclass
class Marker:
    """The control batch that ends a transaction."""

    producer_id: int
    committed: bool


@dataclass
class ShardDriver:
    """`refuse_with`: the next appends are refused with this error."""

    settings: GroupSettings = field(default_factory=GroupSettings)
    now_ms: int = START_MS
    log: list[Batch | Marker] = field(default_factory=list)
    answers: list[tuple[Waiter, Message]] = field(default_factory=list)
    events: list[ShardEvent] = field(default_factory=list)
    timers: dict[TimerKey, int] = field(default_factory=dict)
    is_holding: bool = False
    refuse_with: ErrorCode | None = None

    def __post_init__(self) -> None:
        self._in_flight: deque[tuple[Result | Marker, int]] = deque()
        self._next_offset = 0
        self.waiting = WaitingBytes(self.settings.waiting_max_bytes)
        self.shard = GroupShard(0, self.settings, self.waiting)
        self.carry_out(self.shard.on_loaded(self.now_ms))

    def do(self, operation: Callable[[GroupShard, int], list[Effect]]) -> None:
        self.carry_out(operation(self.shard, self.now_ms))

    def carry_out(self, effects: list[Effect]) -> None:
        inbox = deque(effects)
        while inbox:
            match inbox.popleft():
                case Respond(waiter, response):
                    self.answers.append((waiter, response))
                case AppendRecords(result):
                    inbox.extend(self._append(result))
                case ScheduleTimer(key, deadline_ms):
                    self.timers[key] = deadline_ms
                case CancelTimer(key):
                    self.timers.pop(key, None)
                case ShardEvent() as event:
                    self.events.append(event)
                case Command() as command:
                    raise AssertionError(f"groups have no commands: {command}")

    # --- the log ---

    def _append(self, result: Result) -> list[Effect]:
        if self.refuse_with is not None:
            return self.shard.on_failed(result, self.refuse_with, self.now_ms)
        self._in_flight.append((result, self._next_offset))
        self._next_offset += len(result.records)
        return [] if self.is_holding else self._commit_first()

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """A marker is appended; it counts when it is committed."""
        self._in_flight.append((Marker(producer_id, committed), self._next_offset))
        self._next_offset += 1
        if not self.is_holding:
            self.carry_out(self._commit_first())

    def _commit_first(self) -> list[Effect]:
        entry, base_offset = self._in_flight.popleft()
        if isinstance(entry, Marker):
            self.log.append(entry)
            self.shard.replay_end_transaction(entry.producer_id, committed=entry.committed)
            return []
        batch = Batch(base_offset, entry.records, entry.producer)
        self.log.append(batch)
        for record in batch.records:
            self.shard.replay(record, batch.position, self.now_ms)
        return self.shard.on_committed(entry, self.now_ms)

    @property
    def in_flight(self) -> list[Result]:
        return [entry for entry, _ in self._in_flight if isinstance(entry, Result)]

    @property
    def is_anything_in_flight(self) -> bool:
        return bool(self._in_flight)

    def release(self) -> None:
        """The high watermark passes everything held, in order."""
        while self._in_flight:
            self.carry_out(self._commit_first())

    def fail(self, error: ErrorCode) -> None:
        """Everything held is lost."""
        while self._in_flight:
            entry, _ = self._in_flight.popleft()
            if isinstance(entry, Result):
                self.carry_out(self.shard.on_failed(entry, error, self.now_ms))

    def time_out(self) -> None:
        for result in self.in_flight:
            self.carry_out(self.shard.on_commit_timeout(result, self.now_ms))

    def unload(self) -> None:
        self.carry_out(self.shard.on_unloaded(self.in_flight, self.now_ms))
        self._in_flight.clear()
        self.timers.clear()

    # --- time ---

    def advance(self, duration_ms: int) -> None:
        """Let time pass; timers run at their deadlines, in order."""
        until_ms = self.now_ms + duration_ms
        while due := [(deadline, repr(key), key) for key, deadline in self.timers.items() if deadline <= until_ms]:
            deadline_ms, _, key = min(due, key=lambda each: each[:2])
            self.now_ms = max(self.now_ms, deadline_ms)
            del self.timers[key]
            self.carry_out(self.shard.on_timer(key, self.now_ms))
        self.now_ms = until_ms

    # --- replay ---

    def loaded_again(self) -> GroupShard:
        """A shard that replayed the log."""
        shard = GroupShard(0, self.settings, self.waiting)
        for batch in self.log:
            if isinstance(batch, Marker):
                shard.replay_end_transaction(batch.producer_id, committed=batch.committed)
                continue
            for record in batch.records:
                shard.replay(record, batch.position, self.now_ms)
        return shard

    def reload(self) -> None:
        """The leadership goes and comes back."""
        self.unload()
        assert self.waiting.used_bytes == 0
        self.waiting.limit_bytes = self.settings.waiting_max_bytes
        self.shard = self.loaded_again()
        self.carry_out(self.shard.on_loaded(self.now_ms))
