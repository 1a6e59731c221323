"""One partition on one broker: a log on the real file system, its host, and everything around it by hand."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.leader_and_isr import LeaderAndIsrPartitionState
from protocol.topic_partition import TopicPartition
from replication.dependencies import PartitionContext, PartitionDependencies
from replication.isr_requests import IsrOwner
from replication.leader import IsrChange, IsrResponse
from replication.partition import Partition, WakeUps
from replication.replica_selector import nearest_rack
from storage.log.partition_log import AppendOrigin
from tests.storage.logs import NOW_MS, batch, config, open_log, world

ME = 1
LAG_MS = 1_000


class Quota:
    """A throttle by hand."""

    def __init__(self) -> None:
        self.throttled: set[TopicPartition] = set()
        self.is_exceeded = False
        self.recorded: list[int] = []

    def is_throttled(self, topic: str, partition: int) -> bool:
        return (topic, partition) in self.throttled

    def record(self, size_bytes: int) -> None:
        self.recorded.append(size_bytes)


class Metrics:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def isr_expanded(self) -> None:
        self.counts["expanded"] += 1

    def isr_shrunk(self) -> None:
        self.counts["shrunk"] += 1

    def isr_change_failed(self) -> None:
        self.counts["failed"] += 1

    def produced(self, topic: str, size_bytes: int, records_count: int) -> None:
        self.counts["produced"] += records_count

    def sent_to_replica(self, size_bytes: int, *, is_reassignment: bool) -> None:
        self.counts["reassignment" if is_reassignment else "replication"] += size_bytes


@dataclass
class Surroundings:
    """What a partition is joined to. `turn` runs what waits for the end of the loop turn."""

    now_ms: int = 0
    alive: set[int] = field(default_factory=lambda: {1, 2, 3})
    wishes: list[IsrChange] = field(default_factory=list)
    quota: Quota = field(default_factory=Quota)
    metrics: Metrics = field(default_factory=Metrics)
    soon: deque[Callable[[], None]] = field(default_factory=deque)

    def submit(self, _owner: IsrOwner, change: IsrChange) -> None:
        self.wishes.append(change)

    def doors(self) -> PartitionDependencies:
        return PartitionDependencies(
            now_ms=lambda: self.now_ms,
            is_alive=lambda broker_id: broker_id in self.alive,
            isr_changes=self,
            quota=self.quota,
            metrics=self.metrics,
            select_replica=nearest_rack,
            lag_max_ms=LAG_MS,
        )

    def turn(self) -> None:
        while self.soon:
            self.soon.popleft()()


@dataclass
class Replica:
    """The partition t-0 on broker 1."""

    partition: Partition
    around: Surroundings

    def lead(self, isr: Iterable[int] = (1, 2), epoch: int = 0, **more: Any) -> bool:
        return self.partition.become_leader(state(ME, isr=isr, epoch=epoch, **more))

    def follow(self, leader: int = 2, epoch: int = 0, **more: Any) -> bool:
        return self.partition.become_follower(state(leader, epoch=epoch, **more))

    async def append(self, *values: str, acks: int = 1) -> int:
        """The offset behind what was appended, and is written."""
        result = self.partition.append(batch(*(values or ("v",))), origin=AppendOrigin.CLIENT, acks=acks, now_ms=NOW_MS)
        await self.partition.log.await_appends()
        return result.last_offset + 1

    def fetched(self, offset: int, *, replica: int = 2, start: int = 0, broker_epoch: int = 5) -> None:
        """A follower holds everything below `offset`."""
        self.partition.check_replica(replica, broker_epoch, -1)
        self.partition.on_follower_fetch(replica, broker_epoch, offset, start, self.around.now_ms)

    def answer(self, change: IsrChange, **changed: Any) -> None:
        self.partition.on_isr_response(
            change,
            changed.get("answer") or fulfilled(change, changed.get("partition_epoch", change.partition_epoch + 1)),
        )


def fulfilled(change: IsrChange, partition_epoch: int) -> IsrResponse:
    return IsrResponse(ErrorCode.NONE, change.leader_epoch, change.isr, partition_epoch)


def state(
    leader: int,
    *,
    isr: Iterable[int] = (1, 2),
    epoch: int = 0,
    partition_epoch: int = 0,
    replicas: Iterable[int] = (1, 2, 3),
    adding: Iterable[int] = (),
) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        partition_index=0,
        controller_epoch=1,
        leader=leader,
        leader_epoch=epoch,
        isr=list(isr),
        partition_epoch=partition_epoch,
        replicas=list(replicas),
        adding_replicas=list(adding),
    )


@asynccontextmanager
async def replica(folder: Path, **settings: Any) -> AsyncIterator[Replica]:
    async with world(str(folder)) as around_log:
        log = await open_log(around_log, str(folder), config(**settings))
        around = Surroundings()
        yield Replica(Partition(log, PartitionContext(ME, WakeUps(around.soon.append), around.doors())), around)
        await log.close(flush=log.failure is None)
