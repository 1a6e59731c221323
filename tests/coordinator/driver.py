"""Drives a shard as its context would, without asyncio: virtual time, a log in a list, responses in a list.

Appends commit at once, unless `is_holding`; then they wait for `release` or `fail`. Everything durable can be compared with
a shard that is loaded from the same log.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from coordinator.group.assigned.settings import GroupConfigs
from coordinator.group.assigned.topics import GroupTopics
from coordinator.group.classic.waiting_bytes import WaitingBytes
from coordinator.group.settings import GroupSettings
from coordinator.group.shard import GroupShard
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
)
from metadata.image import ClusterImage
from protocol.errors import ErrorCode
from protocol.schema import Message

START_MS = 1_000_000_000_000

S = TypeVar("S", bound=Any)


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


class ShardDriver(ABC, Generic[S]):
    """`refuse_with`: the next appends are refused with this error."""

    def __init__(
        self, log: list[Batch | Marker] | None = None, *, is_holding: bool = False, refuse_with: ErrorCode | None = None
    ) -> None:
        self.now_ms = START_MS
        self.log = log or []
        self.responses: list[tuple[Any, Message]] = []
        self.events: list[ShardEvent] = []
        self.timers: dict[TimerKey, int] = {}
        self.is_holding = is_holding
        self.refuse_with = refuse_with
        self._in_flight: deque[tuple[Result | Marker, int]] = deque()
        self._next_offset = 0
        self.shard: S = self.new_shard()
        self.carry_out(self.shard.on_loaded(self.now_ms))

    @abstractmethod
    def new_shard(self) -> S:
        """A shard that has replayed nothing."""

    def command(self, command: Command) -> None:
        raise AssertionError(f"there are no commands: {command}")

    def do(self, operation: Callable[[S, int], list[Effect]]) -> None:
        self.carry_out(operation(self.shard, self.now_ms))

    def carry_out(self, effects: list[Effect]) -> None:
        inbox = deque(effects)
        refused: list[Result] = []
        while inbox:
            match inbox.popleft():
                case Respond(waiter, response):
                    self.responses.append((waiter, response))
                case AppendRecords(result) if result.is_applied and self.refuse_with is not None:
                    refused.append(result)
                case AppendRecords(result):
                    inbox.extend(self._append(result))
                case ScheduleTimer(key, deadline_ms):
                    self.timers[key] = deadline_ms
                case CancelTimer(key):
                    self.timers.pop(key, None)
                case ShardEvent() as event:
                    self.events.append(event)
                case Command() as command:
                    self.command(command)
        for result in reversed(refused):
            assert self.refuse_with is not None
            self.carry_out(self.shard.on_failed(result, self.refuse_with, self.now_ms))

    # --- the log ---

    def _append(self, result: Result) -> list[Effect]:
        if self.refuse_with is not None:
            failed: list[Effect] = self.shard.on_failed(result, self.refuse_with, self.now_ms)
            return failed
        result.is_appended, result.base_offset = True, self._next_offset
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
            self._replay(self.shard, entry)
            return []
        self.log.append(Batch(base_offset, entry.records, entry.producer))
        if not entry.is_applied:
            self._replay(self.shard, self.log[-1])
        committed: list[Effect] = self.shard.on_committed(entry, self.now_ms)
        return committed

    def _replay(self, shard: S, entry: Batch | Marker) -> None:
        if isinstance(entry, Marker):
            shard.replay_end_transaction(entry.producer_id, committed=entry.committed)
            return
        for record in entry.records:
            shard.replay(record, entry.position, self.now_ms)

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

    def advance(self, duration_ms: int) -> None:
        """Let time pass; timers run at their deadlines, in order."""
        until_ms = self.now_ms + duration_ms
        while due := [(deadline, repr(key), key) for key, deadline in self.timers.items() if deadline <= until_ms]:
            deadline_ms, _, key = min(due, key=lambda each: each[:2])
            self.now_ms = max(self.now_ms, deadline_ms)
            del self.timers[key]
            self.carry_out(self.shard.on_timer(key, self.now_ms))
        self.now_ms = until_ms

    def loaded_again(self) -> S:
        """A shard that replayed the log."""
        shard = self.new_shard()
        for entry in self.log:
            self._replay(shard, entry)
        return shard

    def reload(self) -> None:
        """The leadership goes and comes back."""
        self.unload()
        self.load()

    def load(self) -> None:
        self.shard = self.loaded_again()
        self.carry_out(self.shard.on_loaded(self.now_ms))


class GroupDriver(ShardDriver[GroupShard]):
    """What groups need from outside waits in `commands`."""

    def __init__(self, settings: GroupSettings | None = None, configs: GroupConfigs | None = None) -> None:
        self.settings = settings or GroupSettings()
        self.waiting = WaitingBytes(self.settings.waiting_max_bytes)
        self.configs = configs or GroupConfigs()
        self.topics = GroupTopics()
        self.commands: list[Command] = []
        super().__init__()

    def new_shard(self) -> GroupShard:
        return GroupShard(0, self.settings, self.waiting, self.configs, self.topics)

    def command(self, command: Command) -> None:
        self.commands.append(command)

    def change_topics(self, image: ClusterImage) -> None:
        changes = self.topics.update(image, self.now_ms)
        self.do(lambda shard, now_ms: shard.on_topics_changed(changes, now_ms))

    def reload(self) -> None:
        self.unload()
        assert self.waiting.used_bytes == 0
        self.waiting.limit_bytes = self.settings.waiting_max_bytes
        self.load()
