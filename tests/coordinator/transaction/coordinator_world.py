"""A transaction coordinator with a log in memory, markers that a test writes, and a clock that it moves."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from coordinator.runtime.coordinator_runtime import CoordinatorDependencies
from coordinator.transaction.markers import MarkerOutcome, TransactionMarkers
from coordinator.transaction_coordinator import TransactionCoordinator, TransactionCoordinatorSettings
from metadata.features import CurrentLevels
from protocol.errors import KafkaError
from runtime.tasks import TaskScope
from runtime.timer import Timer
from tests.coordinator.world import ManualClock, MemoryLog

PARTITIONS = 4


class WrittenMarkers:
    """A `MarkerWriter` whose markers wait for `complete`, unless `is_immediate`."""

    def __init__(self) -> None:
        self.asked: list[tuple[TransactionMarkers, Callable[[MarkerOutcome], None]]] = []
        self.cancelled: list[int] = []
        self.is_immediate = False

    def write(self, markers: TransactionMarkers, done: Callable[[MarkerOutcome], None]) -> None:
        if self.is_immediate:
            done(MarkerOutcome.COMPLETE)
        else:
            self.asked.append((markers, done))

    def cancel(self, coordinator_partition: int) -> None:
        self.cancelled.append(coordinator_partition)
        self.asked = [each for each in self.asked if each[0].coordinator_partition != coordinator_partition]

    def complete(self, outcome: MarkerOutcome = MarkerOutcome.COMPLETE) -> None:
        asked, self.asked = self.asked, []
        for _, done in asked:
            done(outcome)


class ProducerIdSupply:
    """Ids from 1000; `failure` is raised instead; `on_ask` runs while the coordinator waits."""

    def __init__(self) -> None:
        self.next = 1000
        self.failure: KafkaError | None = None
        self.on_ask: Callable[[], None] = lambda: None

    async def next_id(self) -> int:
        self.on_ask()
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        self.next += 1
        return self.next - 1


class TransactionWorld:
    """`lead` elects the coordinator for every partition."""

    def __init__(
        self,
        clock: ManualClock,
        timer: Timer,
        tasks: TaskScope,
        settings: TransactionCoordinatorSettings | None = None,
        log: MemoryLog | None = None,
    ) -> None:
        self.log = log or MemoryLog()
        self.markers = WrittenMarkers()
        self.producer_ids = ProducerIdSupply()
        self.partitions_count: int | None = PARTITIONS
        dependencies = CoordinatorDependencies(
            clock=clock,
            timer=timer,
            randomness=random.Random(7),
            tasks=tasks,
            writer=self.log,
            reader=self.log,
            partitions_count=lambda: self.partitions_count,
        )
        self.levels = CurrentLevels()
        self.coordinator = TransactionCoordinator(
            settings or TransactionCoordinatorSettings(), dependencies, self.markers, self.producer_ids.next_id,
            self.levels,
        )  # fmt: skip

    async def lead(self, leader_epoch: int = 0) -> None:
        self.coordinator.start()
        for partition in range(PARTITIONS):
            self.coordinator.on_leadership(partition, leader_epoch)
        for _ in range(50):
            await asyncio.sleep(0)
