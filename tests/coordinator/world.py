"""A group coordinator with a log in memory and a clock that tests move."""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from typing import Self

from coordinator.group.share.state_keeping import StateKeeper
from coordinator.group_coordinator import CommitVerification, GroupCoordinator, GroupCoordinatorSettings
from coordinator.runtime.coordinator_runtime import CoordinatorDependencies
from protocol.errors import ErrorCode, KafkaError
from protocol.records.batch import patch, read_header
from runtime.disk.filesystem import Buffer
from runtime.tasks import TaskScope
from runtime.timer import Timer
from tests.doubles.clock import Cancellable, ManualClock, Turns

START_MS = 1_000_000_000_000


class ManualCallLater(Turns):
    """Called as `call_later` is."""

    def __call__(self, delay: float, callback: Callable[[], None], /) -> Cancellable:
        return self.call_later(delay, callback)


class MemoryLog:
    """Writer and reader. `is_holding`: commits wait for `commit_all`; `refuse_with`: appends raise."""

    def __init__(self) -> None:
        self.batches_of: dict[int, list[bytes]] = {}
        self.end_offsets: dict[int, int] = {}
        self.waiting: list[tuple[Callable[[ErrorCode, int], None], int]] = []
        self.guards: list[object | None] = []
        self.is_holding = False
        self.refuse_with: ErrorCode | None = None
        self.on_refusal: Callable[[], None] = lambda: None
        self.read_failure: Exception | None = None
        self.on_read: Callable[[], None] = lambda: None
        self.gate: asyncio.Event | None = None

    def append(
        self, partition: int, batch: Buffer, committed: Callable[[ErrorCode, int], None], guard: object | None = None
    ) -> int:
        self.guards.append(guard)
        if self.refuse_with is not None:
            self.on_refusal()
            raise KafkaError(self.refuse_with)
        base_offset = self.add(partition, batch)
        if self.is_holding:
            self.waiting.append((committed, self.end_offsets[partition]))
        else:
            committed(ErrorCode.NONE, self.end_offsets[partition])
        return base_offset

    def add(self, partition: int, batch: Buffer) -> int:
        written = bytearray(batch)
        base_offset = self.end_offsets.get(partition, 0)
        patch(written, 0, base_offset, 0)
        self.batches_of.setdefault(partition, []).append(bytes(written))
        self.end_offsets[partition] = base_offset + read_header(written, 0).records_count
        return base_offset

    def commit_all(self) -> None:
        while self.waiting:
            committed, next_offset = self.waiting.pop(0)
            committed(ErrorCode.NONE, next_offset)

    async def batches(self, partition: int) -> AsyncIterator[Buffer]:
        if self.gate is not None:
            await self.gate.wait()
        for batch in list(self.batches_of.get(partition, [])):
            self.on_read()
            yield batch
        if self.read_failure is not None:
            raise self.read_failure


class CoordinatorWorld(ABC):
    """A clock, a timer and a log in memory for a coordinator. Use as an async context manager."""

    def __init__(self, log: MemoryLog | None, partitions_count: int | None, *, wall_ahead_ms: int = 0) -> None:
        """`partitions_count` is the topic's; None: it is not known yet."""
        self.partitions_count = partitions_count
        self.clock = ManualClock(wall_ahead_ms=wall_ahead_ms)
        self.call_later = ManualCallLater(self.clock)
        self.log = log or MemoryLog()
        self.tasks = TaskScope("test")
        self.timer = Timer(self.clock, self.call_later)

    @abstractmethod
    def close(self) -> None:
        """End the coordinator."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
        await self.tasks.close()

    async def settle(self) -> None:
        """Let everything that can run, run."""
        for _ in range(50):
            await asyncio.sleep(0)

    async def advance(self, duration_ms: int) -> None:
        self.call_later.advance(duration_ms)
        await self.settle()


class World(CoordinatorWorld):
    """`lead` elects the coordinator of groups for every partition."""

    def __init__(
        self,
        settings: GroupCoordinatorSettings | None = None,
        log: MemoryLog | None = None,
        *,
        partitions_count: int | None = 4,
        verification: CommitVerification | None = None,
        keeper: StateKeeper | None = None,
    ) -> None:
        super().__init__(log, partitions_count, wall_ahead_ms=START_MS)
        dependencies = CoordinatorDependencies(
            clock=self.clock, timer=self.timer, randomness=random.Random(7), tasks=self.tasks, writer=self.log,
            reader=self.log, partitions_count=lambda: self.partitions_count,
        )  # fmt: skip
        self.groups = GroupCoordinator(
            settings or GroupCoordinatorSettings(), dependencies, verification=verification, keeper=keeper
        )

    def close(self) -> None:
        self.groups.close()

    async def lead(self, leader_epoch: int = 0) -> None:
        self.groups.start()
        for partition in range(self.partitions_count or 0):
            self.groups.runtime.on_leadership(partition, leader_epoch)
        await self.settle()
