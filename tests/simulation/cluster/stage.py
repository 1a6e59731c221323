"""A cluster that does what it is told, for scenarios: who starts when, who is cut off, what is written where.

Everything that is checked in a history is checked here as well; `settled` ends a scenario as a history ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from metadata.store.znodes import PartitionState
from protocol.errors import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from protocol.records.record import Record, encode_batch
from protocol.topic_partition import TopicPartition
from tests.simulation.clients.wire import Wire
from tests.simulation.cluster.history import healed, reckon
from tests.simulation.cluster.plan import ClusterPlan
from tests.simulation.cluster.world import ClusterWorld
from tests.simulation.loop import SimLoop
from tests.simulation.world import TopicPlan

TOPIC = "t"
KEY: TopicPartition = (TOPIC, 0)
PATIENCE_S = 20.0
LAG_MAX_S = 2.0
SESSION_TIMEOUT_S = 3.0


def world_of(loop: SimLoop, brokers_count: int, replicas: int, **configs: str) -> ClusterWorld:
    """Brokers 1 to `brokers_count`, and one partition of `t` to come."""
    settings = {
        "zookeeper.connect": "store:2181",
        "zookeeper.session.timeout.ms": str(round(SESSION_TIMEOUT_S * 1000)),
        "log.dirs": "/data",
        "auto.create.topics.enable": "false",
        "auto.leader.rebalance.enable": "false",
        "replica.lag.time.max.ms": str(round(LAG_MAX_S * 1000)),
        "replica.socket.timeout.ms": "3000",
        "controller.socket.timeout.ms": "3000",
        "replica.high.watermark.checkpoint.interval.ms": "500",
    }
    topic = TopicPlan(TOPIC, 1, {name.replace("_", "."): value for name, value in configs.items()}, replicas)
    brokers = tuple(range(1, brokers_count + 1))
    return ClusterWorld(loop, ClusterPlan(brokers, (topic,), settings, SESSION_TIMEOUT_S, False, False))


class Stage:
    """`controller` starts first, and so controls until it goes."""

    def __init__(self, world: ClusterWorld) -> None:
        self.world = world
        self._wires = {
            broker_id: Wire(world, "client", world.address(broker_id), lambda m=machine: m.starts_count)  # type: ignore[misc]
            for broker_id, machine in world.machines.items()
        }
        self._written = 0

    # --- brokers ---

    async def start(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            assert await self.world.machines[broker_id].start()

    def kill(self, broker_id: int) -> None:
        """Its process is gone, and the ensemble knows at once."""
        self.world.machines[broker_id].expire_session()
        self.world.machines[broker_id].crash()

    def cut(self, one: int, other: int) -> None:
        self.world.network.cut(self.world.machines[one].name, self.world.machines[other].name)

    def mend(self, one: int, other: int) -> None:
        self.world.network.mend(self.world.machines[one].name, self.world.machines[other].name)

    # --- the partition ---

    async def create(self, replicas: list[int]) -> None:
        plan = self.world.topics[0]
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=TOPIC,
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)],
                    configs=[CreatableTopicConfig(name=name, value=value) for name, value in plan.configs.items()],
                )
            ],
            timeout_ms=5_000,
        )
        controller = self._controller()
        answer = await self._wires[controller].call(request, 5, CreateTopicsResponse)
        assert answer.topics[0].error_code == ErrorCode.NONE, answer
        await self.until(lambda: all(self.world.log_end(each, KEY) is not None for each in replicas))

    async def move(self, replicas: list[int]) -> None:
        """Begin to."""
        row = ReassignablePartition(partition_index=0, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=5_000, topics=[ReassignableTopic(name=TOPIC, partitions=[row])]
        )
        wire = self._wires[self._controller()]
        answer = await wire.call(request, 0, AlterPartitionReassignmentsResponse)
        assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE, answer

    async def delete(self) -> ErrorCode:
        request = DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=5_000)
        answer = await self._wires[self._controller()].call(request, 5, DeleteTopicsResponse)
        return ErrorCode(answer.responses[0].error_code)

    def _controller(self) -> int:
        [controller] = self.controllers
        return controller

    @property
    def controllers(self) -> list[int]:
        brokers = {each: machine.broker for each, machine in self.world.machines.items() if machine.is_serving}
        return [each for each, broker in brokers.items() if broker and broker.services.controller.is_active]

    @property
    def state(self) -> PartitionState:
        return self.world.states.states[KEY]

    def high_watermark(self, broker_id: int) -> int:
        broker = self.world.machines[broker_id].broker
        assert broker is not None
        return broker.logs.logs[KEY].high_watermark

    def log_ends(self, *broker_ids: int) -> list[int | None]:
        return [self.world.log_end(each, KEY) for each in broker_ids]

    async def leads(self, broker_id: int) -> None:
        """Wait until the ensemble says that it leads, and it knows."""
        machine = self.world.machines[broker_id]
        await self.until(
            lambda: self.state.leader == broker_id and machine.leader_epoch(KEY) == self.state.leader_epoch
        )

    async def until(self, holds: Callable[[], bool]) -> None:
        deadline_s = self.world.loop.time() + PATIENCE_S
        while not holds():
            if self.world.loop.time() > deadline_s:
                self.world.report(f"waited {PATIENCE_S} s in vain, state {self.world.states.states.get(KEY)}")
                await asyncio.Event().wait()
            await asyncio.sleep(0.001)

    # --- records ---

    async def write(self, broker_id: int, count: int = 1, *, timeout_ms: int = 10_000) -> list[ErrorCode]:
        """Records of one batch each, acks=all, one after another."""
        codes = []
        for _ in range(count):
            value = f"client#{self._written} "
            self._written += 1
            self.world.logs.sending(KEY, [value], self.world.wall_ms())
            view = self.world.logs.view(KEY)
            batch = encode_batch([Record(0, self.world.wall_ms(), None, value.encode())])
            request = ProduceRequest(
                acks=-1,
                timeout_ms=timeout_ms,
                topic_data=[
                    TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=batch)])
                ],
            )
            answer = await self._wires[broker_id].call(request, 9, ProduceResponse)
            row = answer.responses[0].partition_responses[0]
            self.world.loop.note(f"write {value} to {broker_id}: {row.error_code} at {row.base_offset}")
            codes.append(ErrorCode(row.error_code))
            if row.error_code == ErrorCode.NONE:
                self.world.logs.acknowledged(KEY, row.base_offset, [value], -1, view=view)
        return codes

    async def fetch_error(self, broker_id: int, offset: int, leader_epoch: int) -> ErrorCode:
        """What a consumer is answered that believes in `leader_epoch`."""
        view = self.world.logs.view(KEY)
        request = FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            topics=[
                FetchTopic(
                    topic=TOPIC,
                    partitions=[
                        FetchPartition(
                            partition=0,
                            fetch_offset=offset,
                            current_leader_epoch=leader_epoch,
                            partition_max_bytes=1 << 20,
                        )
                    ],
                )
            ],
        )
        answer = await self._wires[broker_id].call(request, 12, FetchResponse)
        row = answer.responses[0].partitions[0]
        if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self.world.logs.out_of_range(KEY, view, offset)
        return ErrorCode(row.error_code)

    # --- the end ---

    async def settled(self) -> None:
        """Everybody comes back; then the cluster must be as after a history."""
        self.world.network.heal()
        for machine in self.world.machines.values():
            if not machine.is_running:
                assert await machine.start()
        await healed(self.world)
        await asyncio.sleep(1)
        await reckon(self.world)
