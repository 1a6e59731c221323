"""A coordinator of counters: the smallest kind that uses all of the contract. A record adds one to its key."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from coordinator.runtime.contract import (
    AppendRecords,
    BatchPosition,
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
from coordinator.runtime.coordinator_runtime import CoordinatorRuntime, PeriodicTask
from coordinator.runtime.shard_context import Operation, ShardContext, ShardPorts
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatResponse
from protocol.schema import Message
from tests.coordinator.world import CoordinatorWorld, MemoryLog

TOPIC = "__counters"
SCAN_INTERVAL_MS = 1_000


@dataclass(frozen=True)
class Publish(Command):
    """Tell the world the number of a key, as the coordinator of `epoch`."""

    key: str
    number: int
    epoch: int


@dataclass(frozen=True)
class Added(ShardEvent):
    key: str


@dataclass(frozen=True)
class CountChange:
    def committed(self, now_ms: int) -> None: ...

    def failed(self, error: ErrorCode, now_ms: int) -> Message | None:
        return HeartbeatResponse(error_code=error)

    def timed_out(self, now_ms: int) -> Message | None:
        return HeartbeatResponse(error_code=ErrorCode.REQUEST_TIMED_OUT)


class CounterShard:
    def __init__(self, partition: int, leader_epoch: int) -> None:
        self.partition = partition
        self.numbers: Counter[str] = Counter()
        self.epoch = leader_epoch
        self.history: list[str] = []
        self.ended: list[tuple[int, bool]] = []
        self.scanned: Counter[str] = Counter()
        self._parked: list[Waiter] = []

    # --- operations ---

    def add(self, key: str, waiter: Waiter, now_ms: int) -> list[Effect]:
        record = CoordinatorRecord(key.encode(), b"")
        return [AppendRecords(Result((record,), CountChange(), HeartbeatResponse(error_code=0), waiter)), Added(key)]

    def add_and_publish(self, key: str, waiter: Waiter, now_ms: int) -> list[Effect]:
        return [*self.add(key, waiter, now_ms), Publish(key, self.numbers[key], self.epoch)]

    def park(self, waiter: Waiter, now_ms: int) -> list[Effect]:
        self._parked.append(waiter)
        return [ScheduleTimer("parked", now_ms + 100)]

    def scan(self, key: str, now_ms: int) -> list[Effect]:
        self.scanned[key] += 1
        return []

    # --- the contract ---

    def replay(self, record: CoordinatorRecord, position: BatchPosition, now_ms: int) -> None:
        self.numbers[record.key.decode()] += 1

    def replay_end_transaction(self, producer_id: int, *, committed: bool) -> None:
        self.ended.append((producer_id, committed))

    def stored_keys(self) -> list[str]:
        return list(self.numbers)

    def on_loaded(self, now_ms: int) -> list[Effect]:
        self.history.append("loaded")
        return []

    def on_reelected(self, leader_epoch: int, now_ms: int) -> list[Effect]:
        self.history.append(f"reelected {leader_epoch}")
        self.epoch = leader_epoch
        return []

    def on_timer(self, key: TimerKey, now_ms: int) -> list[Effect]:
        return self._answer_parked(ErrorCode.NONE)

    def on_committed(self, result: Result, now_ms: int) -> list[Effect]:
        assert result.response is not None
        return [Respond(result.waiter, result.response)]

    def on_failed(self, result: Result, error: ErrorCode, now_ms: int) -> list[Effect]:
        response = result.change.failed(error, now_ms)
        assert response is not None
        return [Respond(result.waiter, response)]

    def on_commit_timeout(self, result: Result, now_ms: int) -> list[Effect]:
        response = result.change.timed_out(now_ms)
        assert response is not None
        return [Respond(result.waiter, response)]

    def on_unloaded(self, in_flight: Sequence[Result], now_ms: int) -> list[Effect]:
        waiting = [result.waiter for result in in_flight]
        answers: list[Effect] = [
            Respond(waiter, HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)) for waiter in waiting
        ]
        return answers + self._answer_parked(ErrorCode.NOT_COORDINATOR)

    def _answer_parked(self, error: ErrorCode) -> list[Effect]:
        parked, self._parked = self._parked, []
        return [Respond(waiter, HeartbeatResponse(error_code=error)) for waiter in parked]


def _scans(shard: CounterShard) -> Iterator[Operation[CounterShard]]:
    for key in sorted(shard.numbers):
        yield partial(_scan, key)


def _scan(key: str, shard: CounterShard, now_ms: int) -> list[Effect]:
    return shard.scan(key, now_ms)


class CounterWorld(CoordinatorWorld):
    """`carried_out` are commands, with the partition and its epoch at that moment."""

    def __init__(
        self, log: MemoryLog | None = None, *, partitions_count: int | None = 1, has_commands: bool = True
    ) -> None:
        super().__init__(log, partitions_count)
        self.made: list[CounterShard] = []
        self.events: list[ShardEvent] = []
        self.carried_out: list[tuple[Command, int, int]] = []
        ports: ShardPorts[CounterShard] = ShardPorts(
            topic=TOPIC,
            clock=self.clock,
            timer=self.timer,
            writer=self.log,
            reader=self.log,
            observe=self.events.append,
        )
        if has_commands:
            ports = replace(ports, carry_out=self._carry_out)
        task = PeriodicTask("scan counters", SCAN_INTERVAL_MS, _scans)
        self.runtime = CoordinatorRuntime(self._make_shard, ports, self.tasks, lambda: self.partitions_count, [task])

    def _make_shard(self, partition: int, leader_epoch: int) -> CounterShard:
        self.made.append(CounterShard(partition, leader_epoch))
        return self.made[-1]

    def _carry_out(self, command: Command, context: ShardContext[CounterShard]) -> None:
        self.carried_out.append((command, context.partition, context.leader_epoch))

    def close(self) -> None:
        self.runtime.close()

    async def lead(self, leader_epoch: int = 0) -> None:
        if not self.runtime.is_active:
            self.runtime.start()
        for partition in range(self.partitions_count or 0):
            self.runtime.on_leadership(partition, leader_epoch)
        await self.settle()

    def context_of(self, key: str) -> ShardContext[CounterShard]:
        context = self.runtime.shard_of(key)
        assert isinstance(context, ShardContext)
        return context

    async def add(self, key: str, *, publishing: bool = False) -> ErrorCode:
        def add(shard: CounterShard, waiter: asyncio.Future[HeartbeatResponse], now_ms: int) -> list[Effect]:
            return (shard.add_and_publish if publishing else shard.add)(key, waiter, now_ms)

        return ErrorCode((await self.runtime.run(self.context_of(key), add)).error_code)

    async def park(self, key: str) -> ErrorCode:
        def park(shard: CounterShard, waiter: asyncio.Future[HeartbeatResponse], now_ms: int) -> list[Effect]:
            return shard.park(waiter, now_ms)

        return ErrorCode((await self.runtime.run(self.context_of(key), park)).error_code)
