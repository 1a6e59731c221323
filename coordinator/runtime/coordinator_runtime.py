"""The shards of one coordinator on this broker: one for each partition of its internal topic that this broker leads.

It follows elections, finds the shard of a key or the error for a client, runs operations in shards, and runs periodic tasks
over all shards. `make_shard` decides which kind of coordinator it is.

Rules: asyncio is used here and in `shard_context` only. The replication layer reports elections and resignations.
Invariants: a key is served by the one shard of its partition, from when its log is replayed until the leadership ends; the
number of partitions is the topic's own, as it was when this broker first knew of the topic; no key is served before.
Source: Kafka CoordinatorRuntime, GroupCoordinator.validateGroupStatus, GroupMetadataManager (owned partitions).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeAlias, TypeVar

from coordinator.runtime.contract import Effect, Shard, ShardLogReader, ShardLogWriter
from coordinator.runtime.partitioner import partition_for
from coordinator.runtime.shard_context import Operation, ShardContext, ShardPorts, ShardState
from protocol.errors import ErrorCode
from runtime.clock import Clock
from runtime.randomness import Randomness
from runtime.slices import Slices
from runtime.tasks import TaskScope
from runtime.timer import Timer, TimerEntry

logger = logging.getLogger(__name__)

SHOWN_KEYS_MAX = 20

S = TypeVar("S", bound=Shard)
R = TypeVar("R")
# An operation with a response: it passes the future to the shard as the waiter of its response.
RespondingOperation: TypeAlias = Callable[[S, asyncio.Future[R], int], list[Effect]]


@dataclass(frozen=True, slots=True)
class CoordinatorDependencies:
    """The dependencies of a coordinator. `writer` and `reader` are of its topic; `partitions_count` returns how many
    partitions the topic has, None while that is not known: the setting may have changed since the topic was created, or
    differ on the broker that created it."""

    clock: Clock
    timer: Timer
    randomness: Randomness
    tasks: TaskScope
    writer: ShardLogWriter
    reader: ShardLogReader
    partitions_count: Callable[[], int | None]


@dataclass(frozen=True, slots=True)
class PeriodicTask(Generic[S]):
    """Operations that run in every active shard, at the start and `interval_ms` after the previous run has ended.
    `operations` of a shard are generated one at a time; other operations run in between."""

    name: str
    interval_ms: int
    operations: Callable[[S], Iterable[Operation[S]]]


class CoordinatorRuntime(Generic[S]):
    """Owned by a coordinator. `start` before the first request, `close` after the last; elections may come earlier.

    `make_shard(partition, leader_epoch)` creates an empty shard, which is then loaded.
    """

    def __init__(
        self,
        make_shard: Callable[[int, int], S],
        ports: ShardPorts[S],
        tasks: TaskScope,
        partitions_count: Callable[[], int | None],
        periodic_tasks: Sequence[PeriodicTask[S]] = (),
    ) -> None:
        self.topic = ports.topic
        self.load_times = ports.load_times
        self.is_active = False
        self._make_shard = make_shard
        self._ports = ports
        self._tasks = tasks
        self._topic_partitions_count = partitions_count
        self._partitions_count: int | None = None
        self._contexts: dict[int, ShardContext[S]] = {}
        self._periodic_tasks = tuple(periodic_tasks)
        self._periodic_timers: dict[PeriodicTask[S], TimerEntry] = {}

    def start(self) -> None:
        self.is_active = True
        for task in self._periodic_tasks:
            self._schedule(task, 0)

    def close(self) -> None:
        """Complete every parked request with an error; the coordinator has no shard afterwards."""
        self.is_active = False
        for timer in self._periodic_timers.values():
            timer.cancel()
        self._periodic_timers.clear()
        for context in self._contexts.values():
            context.close()
        self._contexts.clear()

    # --- elections -------------------------------------------------------------------------------------------------

    def on_leadership(self, partition: int, leader_epoch: int) -> None:
        """This broker leads `partition` of the topic: load it, unless it is loaded or loading."""
        known = self._contexts.get(partition)
        if known is not None and known.state is not ShardState.FAILED:
            known.on_reelected(leader_epoch)
            return
        shard = self._make_shard(partition, leader_epoch)
        context = self._contexts[partition] = ShardContext(partition, leader_epoch, shard, self._ports)
        self._tasks.spawn(self._load(context), name=f"load {self.topic}-{partition}")

    async def _load(self, context: ShardContext[S]) -> None:
        await context.load()
        if context.state is ShardState.ACTIVE:
            await self._report_misplaced_keys(context)

    async def _report_misplaced_keys(self, context: ShardContext[S]) -> None:
        """Log keys that hash to another partition: the topic had another number of partitions when they were stored. No
        request for them reaches this partition any more, so the loss must be visible."""
        slices = Slices(self._ports.clock)
        own = (context.partition, None)
        keys = slices.over(context.shard.stored_keys())
        misplaced = [key async for key in keys if self.partition_for(key) not in own]
        if misplaced:
            logger.error(
                "keys are stored in a partition that they do not hash to, the topic had another number of"
                " partitions and what is stored under them is not found: topic=%s partition=%d "
                "partitions=%s keys=%d examples=%s",
                self.topic, context.partition, self._partitions_count, len(misplaced),
                ",".join(misplaced[:SHOWN_KEYS_MAX]) + (",..." if len(misplaced) > SHOWN_KEYS_MAX else ""),
            )  # fmt: skip

    def on_resignation(self, partition: int, leader_epoch: int | None = None) -> None:
        """This broker no longer leads `partition`, since `leader_epoch` (None or negative: unknown). Every request that is
        parked in the partition gets a response."""
        context = self._contexts.get(partition)
        if context is None or (leader_epoch is not None and 0 <= leader_epoch < context.leader_epoch):
            return
        del self._contexts[partition]
        context.close()

    def on_transaction_ended(self, partition: int, producer_id: int, *, committed: bool) -> None:
        """The marker that ends a transaction of `producer_id` is committed in `partition` of the topic."""
        context = self._contexts.get(partition)
        if context is not None:
            context.end_transaction(producer_id, committed=committed)

    # --- finding a shard -------------------------------------------------------------------------------------------

    def partition_for(self, key: str) -> int | None:
        """The partition of the topic that `key` hashes to; None while the topic is not known."""
        if self._partitions_count is None:
            self._partitions_count = self._topic_partitions_count()
            if self._partitions_count is None:
                return None
        return partition_for(key, self._partitions_count)

    def shard_of(self, key: str) -> ShardContext[S] | ErrorCode:
        """The context of the active shard that serves `key`, or the error why this broker does not serve it."""
        if not self.is_active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        partition = self.partition_for(key)
        context = None if partition is None else self._contexts.get(partition)
        if context is None:
            return ErrorCode.NOT_COORDINATOR
        match context.state:
            case ShardState.ACTIVE:
                return context
            case ShardState.LOADING:
                return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            case _:
                return ErrorCode.COORDINATOR_NOT_AVAILABLE

    async def run(self, context: ShardContext[S], operation: RespondingOperation[S, R]) -> R:
        """Run `operation` and return its response, which may take as long as the shard parks the request."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        context.run(lambda shard, now_ms: operation(shard, future, now_ms))
        return await future

    def contexts(self) -> list[ShardContext[S]]:
        """The contexts of all partitions that this broker leads, in any state."""
        return list(self._contexts.values())

    def active_shards(self) -> list[S]:
        return [context.shard for context in self._contexts.values() if context.state is ShardState.ACTIVE]

    # --- periodic tasks --------------------------------------------------------------------------------------------

    def _schedule(self, task: PeriodicTask[S], delay_ms: int) -> None:
        self._periodic_timers[task] = self._ports.timer.schedule(delay_ms, partial(self._on_periodic_timer, task))

    def _on_periodic_timer(self, task: PeriodicTask[S]) -> None:
        self._tasks.spawn(self._run_periodic_task(task), name=task.name)

    async def _run_periodic_task(self, task: PeriodicTask[S]) -> None:
        """Rescheduled only when it has ended, so that a task never overlaps with itself. A bug that ends it early is logged by
        the task scope, and must not end expiry and timeouts for good."""
        slices = Slices(self._ports.clock)
        try:
            for context in self.contexts():
                if context.state is not ShardState.ACTIVE:
                    continue
                for operation in task.operations(context.shard):
                    context.run(operation)
                    await slices.yield_if_due()
        finally:
            if self.is_active:
                self._schedule(task, task.interval_ms)
