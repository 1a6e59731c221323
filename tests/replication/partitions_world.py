"""The partitions of one broker, on logs that are made at once: what the tests of LeaderAndIsr and StopReplica share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from protocol.errors import ErrorCode, KafkaError
from protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from protocol.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaTopicState
from protocol.primitives import ZERO_UUID
from protocol.topic_partition import TopicPartition
from replication.dependencies import PartitionDependencies
from replication.partition import Partition
from replication.partitions import Partitions
from storage.free_space import NoRoom
from storage.log.opening import open_log
from storage.log.partition_log import PartitionLog
from tests.replication.leader_world import ME, SOURCE, FollowerWorld, play
from tests.storage.logs import config

ID, OTHER_ID = bytes(range(16)), bytes(range(16, 32))


class Logs:
    """Fits `replication.partitions.Logs` with logs of the world."""

    def __init__(self, world: FollowerWorld) -> None:
        self.world = world
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.deleted: list[TopicPartition] = []
        self.is_offline = False
        self.rooms_left = 1_000  # so many logs can be made

    async def log_for(
        self, topic: str, partition: int, topic_id: bytes = ZERO_UUID, *, is_new: bool = True
    ) -> PartitionLog:
        if self.is_offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        key = (topic, partition)
        if key not in self.logs:
            if not self.rooms_left:
                raise NoRoom(ErrorCode.KAFKA_STORAGE_ERROR)
            self.rooms_left -= 1
            folder = f"/logs/{topic}-{partition}"
            self.logs[key] = await open_log(
                topic, partition, folder, config(), self.world.environment, topic_id=topic_id
            )
        return self.logs[key]

    async def delete(self, topic: str, partition: int) -> None:
        self.deleted.append((topic, partition))
        self.logs.pop((topic, partition), None)


class Listener:
    def __init__(self) -> None:
        self.heard: list[tuple[object, ...]] = []

    def on_leader(self, partition: Partition) -> None:
        self.heard.append(("leader", partition.topic, partition.partition, partition.assignment.leader_epoch))

    def on_not_leader(self, topic: str, partition: int, leader_epoch: int) -> None:
        self.heard.append(("not leader", topic, partition, leader_epoch))


class Following:
    """Notes what it is told; `leaving` holds `leave` up."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.leaving = asyncio.Event()
        self.leaving.set()

    def follow(self, partition: Partition, leader_id: int, leader_epoch: int) -> None:
        self.calls.append(("follow", partition.topic, partition.partition, leader_id, leader_epoch))

    def refresh(self, partition: Partition) -> None:
        self.calls.append(("refresh", partition.topic, partition.partition, partition.topic_id))

    async def stop_following(self, topic: str, partition: int) -> None:
        self.calls.append(("leave", topic, partition))
        await self.leaving.wait()

    def forget(self, topic: str, partition: int) -> None:
        self.calls.append(("forget", topic, partition))

    def finish_assignment(self) -> None:
        self.calls.append(("settle",))


class Broker:
    def __init__(self, world: FollowerWorld) -> None:
        self.world = world
        self.logs, self.listener, self.following = Logs(world), Listener(), Following()
        self.alive = {ME, SOURCE, 3}
        self.partitions = Partitions(
            ME,
            self.logs,
            world.loop.call_soon,
            self.listener,
            dependencies=PartitionDependencies(is_alive=lambda broker_id: broker_id in self.alive),
            following=self.following,
        )

    async def leader_and_isr(
        self, *states: LeaderAndIsrPartitionState, topic_id: bytes = ID, controller_epoch: int = 1
    ) -> LeaderAndIsrResponse:
        topic = LeaderAndIsrTopicState(topic_name="t", topic_id=topic_id, partition_states=list(states))
        request = LeaderAndIsrRequest(
            controller_id=9, controller_epoch=controller_epoch, topic_states=[topic], live_leaders=[]
        )
        return await self.partitions.on_leader_and_isr(request)

    async def become(self, leader: int, epoch: int = 0, **more: Any) -> ErrorCode:
        """The error of partition t-0."""
        answer = await self.leader_and_isr(state(leader, epoch), **more)
        return ErrorCode(answer.topics[0].partition_errors[0].error_code)

    async def stop(self, epoch: int, *, delete: bool, controller_epoch: int = 1) -> ErrorCode:
        row = StopReplicaPartitionState(partition_index=0, leader_epoch=epoch, delete_partition=delete)
        request = StopReplicaRequest(
            controller_id=9,
            controller_epoch=controller_epoch,
            topic_states=[StopReplicaTopicState(topic_name="t", partition_states=[row])],
        )
        answer = await self.partitions.on_stop_replica(request)
        return (
            ErrorCode(answer.partition_errors[0].error_code)
            if answer.partition_errors
            else ErrorCode(answer.error_code)
        )

    @property
    def partition(self) -> Partition:
        found = self.partitions.find("t", 0)
        assert found is not None
        return found


def state(leader: int, epoch: int = 0, index: int = 0, **more: Any) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        partition_index=index,
        controller_epoch=1,
        leader=leader,
        leader_epoch=epoch,
        isr=more.pop("isr", [leader]),
        partition_epoch=more.pop("partition_epoch", epoch),
        replicas=more.pop("replicas", [ME, SOURCE, 3]),
        **more,
    )


def with_broker(program: Callable[[Broker], Coroutine[Any, Any, None]]) -> None:
    async def run(world: FollowerWorld) -> None:
        await program(Broker(world))

    play(run)
