"""A broker's partitions over several real log directories, and the moves of their logs between them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from config.broker import BrokerSettings
from config.topic import LogConfig
from protocol.errors import ErrorCode
from protocol.messages.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest, LeaderAndIsrTopicState
from protocol.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaTopicState
from protocol.topic_partition import TopicPartition
from replication.moves.log_moves import LogMoveDependencies, LogMoves
from replication.partition import Partition
from replication.partitions import Partitions
from replication.throttle import NO_LIMIT, ReplicationQuota
from runtime.disk.disk_queue import Disk
from runtime.disk.filesystem import FileSystem
from runtime.disk.os_disk_queue import OsDisk
from runtime.disk.os_filesystem import OsFileSystem
from runtime.tasks import TaskScope
from storage.directories.log_manager import LogManager
from storage.log.partition_log import AppendOrigin
from tests.doubles.clock import LoopClock
from tests.storage.logs import SETTINGS, all_values, batch, until

ME = 1
OTHER = 2
TOPIC = "orders"
TOPIC_ID = bytes(range(16))


CLOCK = LoopClock()
"""Its wall begins with the tests: on a machine that is up for a day producers would expire."""


class Listener:
    def on_leader(self, partition: Partition) -> None: ...

    def on_not_leader(self, topic: str, partition: int, leader_epoch: int) -> None: ...


class Following:
    """Notes whom it follows."""

    def __init__(self) -> None:
        self.followed: dict[TopicPartition, int] = {}
        self.calls: list[str] = []

    def follow(self, partition: Partition, leader_id: int, leader_epoch: int) -> None:
        self.calls.append("follow")
        self.followed[partition.topic, partition.partition] = leader_epoch

    def refresh(self, partition: Partition) -> None: ...

    async def stop_following(self, topic: str, partition: int) -> None:
        self.calls.append("leave")
        self.followed.pop((topic, partition), None)

    def follows(self, topic: str, partition: int) -> bool:
        return (topic, partition) in self.followed

    def forget(self, topic: str, partition: int) -> None:
        self.followed.pop((topic, partition), None)

    def finish_assignment(self) -> None: ...


def numbers(count: int, start: int = 0) -> list[str]:
    """Values to tell records by."""
    return [f"v{at}" for at in range(start, start + count)]


@dataclass
class MoveWorld:
    directories: Sequence[Path]
    logs: LogManager
    moves: LogMoves
    partitions: Partitions
    following: Following
    quota: ReplicationQuota
    tasks: TaskScope
    disk: Disk
    failed: list[str]

    async def start(self) -> None:
        self.logs.lock()
        self.logs.claim(ME, "c")
        await self.logs.load()
        self.logs.start()

    async def stop(self) -> None:
        await self.moves.close()
        await self.tasks.close()
        await self.logs.close(broker_epoch=7)
        await self._close_disk()

    async def kill(self) -> None:
        await self.tasks.close()
        self.logs.abandon()
        await self._close_disk()

    async def _close_disk(self) -> None:
        if isinstance(self.disk, OsDisk):
            await self.disk.close()

    async def assign(self, index: int = 0, *, leader: int = ME, epoch: int = 0, is_new: bool = True) -> Partition:
        assert await self._assigned(index, leader, epoch, is_new) is ErrorCode.NONE
        partition = self.partitions.find(TOPIC, index)
        assert partition is not None
        return partition

    async def refused(self) -> ErrorCode:
        """What the controller hears that names this broker the leader of a partition it cannot hold."""
        return await self._assigned(0, ME, 1, is_new=False)

    async def _assigned(self, index: int, leader: int, epoch: int, is_new: bool) -> ErrorCode:
        state = LeaderAndIsrPartitionState(
            partition_index=index, controller_epoch=1, leader=leader, leader_epoch=epoch, isr=[leader],
            partition_epoch=epoch, replicas=sorted({ME, leader}), is_new=is_new,
        )  # fmt: skip
        answer = await self.partitions.on_leader_and_isr(
            LeaderAndIsrRequest(
                controller_id=ME,
                controller_epoch=1,
                topic_states=[LeaderAndIsrTopicState(topic_name=TOPIC, topic_id=TOPIC_ID, partition_states=[state])],
                live_leaders=[],
            )
        )
        return ErrorCode(answer.partition_errors[0].error_code)

    async def filled(self, count: int, **assignment: Any) -> Partition:
        """An assigned partition with the values of `numbers(count)`, all written."""
        partition = await self.assign(**assignment)
        for value in numbers(count):
            self.produce(partition, value)
        await partition.log.await_appends()
        return partition

    async def delete(self, index: int = 0) -> None:
        state = StopReplicaPartitionState(partition_index=index, leader_epoch=-2, delete_partition=True)
        await self.partitions.on_stop_replica(
            StopReplicaRequest(
                controller_id=ME,
                controller_epoch=1,
                topic_states=[StopReplicaTopicState(topic_name=TOPIC, partition_states=[state])],
            )
        )

    def produce(self, partition: Partition, *values: str) -> int:
        """The offset behind the batch."""
        result = partition.append(batch(*values), origin=AppendOrigin.CLIENT, acks=1, now_ms=1)
        return result.last_offset + 1

    async def values(self, partition: Partition) -> list[str]:
        await partition.log.await_appends()
        return [value for _, value in await all_values(partition.log)]

    def other_than(self, partition: Partition) -> str:
        return next(str(each) for each in self.directories if not partition.log.directory.startswith(f"{each}/"))

    async def move(self, partition: Partition, path: str) -> None:
        await self.moves.move(partition.topic, partition.partition, partition, path)

    async def moved(self) -> None:
        """Return when no move is under way."""
        await until(lambda: len(self.moves) == 0)

    def copied(self, index: int = 0) -> int:
        """So far reaches the copy; -1 when there is none."""
        copy = self.logs.future.future_log(TOPIC, index)
        return -1 if copy is None else copy.log_end_offset

    def folders(self) -> dict[str, list[str]]:
        """The partition folders of each directory, without what is only there to be deleted."""
        return {
            directory.name: sorted(
                each.name for each in directory.iterdir() if each.is_dir() and not each.name.endswith("-delete")
            )
            for directory in self.directories
        }


def make_world(
    *directories: Path,
    filesystem: FileSystem | None = None,
    overrides: dict[str, str] | None = None,
    limit_bytes_per_second: int = NO_LIMIT,
    fetch_max_bytes: int = 1000,
    settings: BrokerSettings = SETTINGS,
    disk: Disk | None = None,
) -> MoveWorld:
    """`start` comes next, then `stop` or `kill`."""
    disk, clock, tasks = disk or OsDisk(), CLOCK, TaskScope("test moves")
    failed: list[str] = []
    logs = LogManager(
        settings=settings,
        directories=[str(path) for path in directories],
        config_of=lambda topic: LogConfig.from_settings(settings, overrides or {}),
        filesystem=filesystem or OsFileSystem(),
        disk=disk,
        clock=clock,
        randomness=random.Random(1),
        on_directory_failed=lambda path, error: failed.append(path),
    )
    following = Following()
    quota = ReplicationQuota(
        clock.monotonic_ms, window_ms=100, samples_max=11, limit_bytes_per_second=limit_bytes_per_second
    )
    doors = LogMoveDependencies(
        logs=logs.future, following=following, clock=clock, tasks=tasks, quota=quota, copies_at_once=2,
        fetch_max_bytes=fetch_max_bytes,
    )  # fmt: skip
    moves = LogMoves(doors)
    partitions = Partitions(
        ME, logs, asyncio.get_running_loop().call_soon, Listener(), following=following, moving=moves
    )
    return MoveWorld(directories, logs, moves, partitions, following, quota, tasks, disk, failed)


@asynccontextmanager
async def move_world(*directories: Path, kill: bool = False, **options: Any) -> AsyncIterator[MoveWorld]:
    """From start to stop, or to kill -9."""
    world = make_world(*directories, **options)
    try:
        await world.start()
        yield world
    finally:
        await (world.kill() if kill else world.stop())
