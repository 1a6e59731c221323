"""The coordinator contract: what a shard is, what it may ask for, and what it needs from below. Pure.

A shard is the pure state machine of one partition of an internal topic. Its operations are synchronous: they take
`now_ms` and return effects, in order, which its context carries out without awaiting in between.

Rules: no IO, no clock, no randomness. Durable state changes in `replay` and `replay_end_transaction` alone, when the
records are committed (the high watermark passed them) or read back while loading, so that a reloaded shard equals the
one that wrote the log; a shard whose operations build on what is not committed yet makes the changes itself (`is_applied`).
What an operation wants written travels in a `Result`: its records are appended as one batch, its response is parked until
they are committed, and `PendingChange` undoes the preparations when the append is refused.
Everything else (members that join, timers, parked requests) is soft state and ends with the leadership. What has to happen
outside the shard is a `Command`; its outcome is passed to the shard as an operation of its own.

Source: the design of Kafka's CoordinatorRuntime (CoordinatorShard, CoordinatorResult, PartitionWriter).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from protocol.errors import ErrorCode
from runtime.disk.filesystem import Buffer

# The receiver of a response: opaque to the shard; for the context a future, or a function that takes the response and raises
# nothing; a name in tests.
Waiter: TypeAlias = object
# What a waiter receives: a message, or what a handler makes one of. Opaque to the context.
Response: TypeAlias = object
TimerKey: TypeAlias = Hashable


@dataclass(frozen=True, slots=True)
class CoordinatorRecord:
    """One record of an internal topic; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class BatchPosition:
    """The batch that a replayed record is part of: its base offset, and the producer of its transaction (-1: none)."""

    base_offset: int
    producer_id: int = -1
    is_transactional: bool = False


class PendingChange(Protocol):
    """What the records of a `Result` will change, kept until their outcome is known: `committed` or `failed`, once."""

    def committed(self, now_ms: int) -> None:
        """The records are committed and replayed."""

    def failed(self, error: ErrorCode, now_ms: int) -> Response | None:
        """The append was refused or lost with the leadership: undo. Returns the waiter's response, None without a waiter."""

    def timed_out(self, now_ms: int) -> Response | None:
        """The commit takes too long. Returns the waiter's response; the records may still be committed or fail."""


@dataclass(frozen=True, slots=True)
class BatchProducer:
    """The producer whose ongoing transaction a batch belongs to.

    `guard` comes from the verification of the transaction, None when it is not verified. The log compares it at the append, so
    that a marker written after the verification makes it void. It is opaque to the shard.
    """

    producer_id: int
    producer_epoch: int
    guard: object | None = None


@dataclass(slots=True, eq=False)
class Result:
    """Records to append as one atomic batch, and the response that `waiter` gets once they are committed.

    With a `producer` the batch is part of its transaction, whose marker decides about the records. `is_applied`: the shard has
    made the changes of the records already, because its next operation builds on them; they are not replayed when committed,
    and the shard takes them back when they are refused. `is_appended` and `base_offset` are set by the context: the records are
    in the log, from that offset on.
    """

    records: tuple[CoordinatorRecord, ...]
    change: PendingChange
    response: Response | None = None
    waiter: Waiter | None = None
    producer: BatchProducer | None = None
    is_applied: bool = False
    is_appended: bool = False
    base_offset: int = -1


@dataclass(frozen=True, slots=True)
class AppendRecords:
    """Append the records of `result`, then report its outcome to the shard. When an applied result is refused, the applied ones
    that follow it in the same operation are refused too; the shard is told of the last one first, and before it runs again."""

    result: Result


@dataclass(frozen=True, slots=True)
class Respond:
    """Complete a parked request with its response."""

    waiter: Waiter
    response: Response


@dataclass(frozen=True, slots=True)
class ScheduleTimer:
    """Call `on_timer(key)` at `deadline_ms`; replaces an earlier timer of the same key."""

    key: TimerKey
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class CancelTimer:
    """Cancel the timer of `key`, if there is one."""

    key: TimerKey


class ShardEvent:
    """Base of the facts that a shard reports for logs and metrics; they change nothing."""

    __slots__ = ()


class Command:
    """Base of what the coordinator does outside this shard, e.g. writing transaction markers to other partitions.

    It is carried out after the effects before it, and not at all when the leadership is over.
    """

    __slots__ = ()


Effect: TypeAlias = AppendRecords | Respond | ScheduleTimer | CancelTimer | ShardEvent | Command


class Outbox:
    """Collects the effects of one operation, in order."""

    __slots__ = ("_effects",)

    def __init__(self) -> None:
        self._effects: list[Effect] = []

    def put(self, effect: Effect) -> None:
        self._effects.append(effect)

    def respond(self, waiter: Waiter, response: Response) -> None:
        self._effects.append(Respond(waiter, response))

    def fail(self, result: Result, error: ErrorCode, now_ms: int) -> None:
        """Undo the change of `result`, whose records will never be committed, and respond to its waiter."""
        response = result.change.failed(error, now_ms)
        if result.waiter is not None:
            assert response is not None
            self.respond(result.waiter, response)

    def time_out(self, result: Result, now_ms: int) -> None:
        """Respond to the waiter of `result`, whose commit takes too long; it gets no other response."""
        response = result.change.timed_out(now_ms)
        if result.waiter is not None:
            assert response is not None
            self.respond(result.waiter, response)
            result.waiter = None

    def drain(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects


class Shard(Protocol):
    """The state machine of one partition. Its context owns it from loading to resignation."""

    def replay(self, record: CoordinatorRecord, position: BatchPosition, now_ms: int) -> None:
        """Apply one committed record. The only way durable state changes, besides the end of a transaction."""

    def replay_end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Apply a control record that ends the transaction of `producer_id`."""

    def stored_keys(self) -> Collection[str]:
        """The keys (group ids, transactional ids) that have records in the log."""

    def on_loaded(self, now_ms: int) -> list[Effect]:
        """The whole log was replayed: start serving."""

    def on_reelected(self, leader_epoch: int, now_ms: int) -> list[Effect]:
        """This broker was elected again, in a higher epoch than the shard knows: the shard keeps its state. Called before
        `on_loaded` when that happened while the log was replayed, else between two operations."""

    def on_timer(self, key: TimerKey, now_ms: int) -> list[Effect]: ...

    def on_committed(self, result: Result, now_ms: int) -> list[Effect]:
        """The records of `result` are committed and were replayed."""

    def on_failed(self, result: Result, error: ErrorCode, now_ms: int) -> list[Effect]:
        """The records of `result` will never be committed under this leadership."""

    def on_commit_timeout(self, result: Result, now_ms: int) -> list[Effect]:
        """`result` took too long: its waiter gets a response, its outcome stays open."""

    def on_unloaded(self, in_flight: Sequence[Result], now_ms: int) -> list[Effect]:
        """The leadership is over. Returns responses for every parked request, those of `in_flight` included. The shard is
        not used afterwards."""


class ShardLogWriter(Protocol):
    """Appends to the partitions of the internal topic. `broker.cluster.internal_topics` implements it."""

    def append(
        self,
        partition: int,
        batch: Buffer,
        committed: Callable[[ErrorCode, int], None],
        guard: object | None = None,
    ) -> int:
        """Append one encoded batch and return its base offset. `guard` is that of a transactional batch.

        `committed(NONE, next_offset)` is called when the high watermark passed the batch, perhaps before `append`
        returns; `committed(error, -1)` when it is lost (leadership, storage). Exactly one call, unless `append` raises.
        Raises: KafkaError before anything was changed (NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, ...).
        """


class ShardLogReader(Protocol):
    """Reads a partition of the internal topic to load it. `broker.cluster.internal_topics` implements it."""

    def batches(self, partition: int) -> AsyncIterator[Buffer]:
        """Yield buffers of whole record batches, from the log start to the log end at the time of the call. Ends when all of
        them are committed.

        Raises: KafkaError when this broker does not lead the partition, or no longer.
        """
