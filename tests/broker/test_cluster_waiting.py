"""What waits in several real brokers, for other brokers, members or the ensemble, holds no budget of requests and no frame."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from broker.server import Broker
from metadata.image import GROUP_METADATA_TOPIC
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.legacy import encode_message_set
from protocol.records.record import Record, encode_batch
from protocol.schema import Request, Response
from tests.async_tests import simulated
from tests.broker.cluster_world import PATIENCE_S, ClusterWorld
from tests.broker.test_cluster_groups import commit, coordinator_of
from tests.broker.test_waiting_requests import Frames
from tests.simulation.loop import SimLoop

LIMIT = 300_000
CLIENTS = 8
SIZE = 100_000
RECORD_BYTES = 20_000  # the simulated network takes long for many large ones
GROUP = "readers"


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> Frames:
    return Frames(monkeypatch)


class Askers:
    """Clients of one broker, each of which sends one request and waits."""

    def __init__(self, world: ClusterWorld, broker_id: int, requests: list[tuple[Request, int]]) -> None:
        self.broker: Broker = world.live[broker_id]
        self.tasks = [
            asyncio.ensure_future(world.ask(broker_id, request, version, request.response_type))
            for request, version in requests
        ]

    @property
    def are_waiting(self) -> bool:
        return not any(task.done() for task in self.tasks)

    @property
    def held_bytes(self) -> int:
        budgets = self.broker.request_budget, self.broker.plain_budget
        return sum(budget.used_bytes + budget.parked_bytes for budget in budgets)

    async def answers(self) -> list[Response]:
        async with asyncio.timeout(PATIENCE_S):
            return list(await asyncio.gather(*self.tasks))


async def a_cluster(loop: SimLoop, **settings: str) -> tuple[ClusterWorld, int]:
    """With the topic `orders`, and who leads it, which coordinates the group as well."""
    world = ClusterWorld(loop, queued_max_request_bytes=str(LIMIT), offsets_topic_num_partitions="1", **settings)
    await world.start()
    coordinator = await coordinator_of(world, next(iter(world.live)))
    others = [broker_id for broker_id in world.live if broker_id != coordinator]
    await world.create_topic("orders", assignment=[coordinator, *others])
    await world.until(lambda: world.isr_of("orders") == set(world.live) == world.isr_of(GROUP_METADATA_TOPIC))
    async with asyncio.timeout(PATIENCE_S):
        while (code := await commit(world, coordinator, "orders", 1)) is not ErrorCode.NONE:
            assert code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            await asyncio.sleep(0.1)
    return world, coordinator


def join_of(number: int) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=600_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes([number]) * SIZE)],
    )


def produce_of(records: bytes) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=records)
    topic = TopicProduceData(name="orders", partition_data=[data])
    return ProduceRequest(transactional_id=None, acks=-1, timeout_ms=30_000, topic_data=[topic])


@simulated(1)
async def test_members_that_wait_for_their_group(loop: SimLoop, frames: Frames) -> None:
    world, coordinator = await a_cluster(loop, group_initial_rebalance_delay_ms="600000")
    groups = world.live[coordinator].services.groups
    askers = Askers(world, coordinator, [(join_of(number), 3) for number in range(CLIENTS)])
    await world.until(lambda: groups.waiting_bytes > CLIENTS * SIZE)
    assert frames.kept_bytes == 0
    assert askers.broker.request_budget.used_bytes == askers.broker.plain_budget.used_bytes == 0
    assert await world.produce("orders", bytes(LIMIT // 2), acks=1) == (ErrorCode.NONE, 0)
    beat = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="nobody")
    answer = await world.ask(coordinator, beat, 3, HeartbeatResponse)
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert askers.are_waiting
    described = await world.ask(coordinator, DescribeGroupsRequest(groups=[GROUP]), 5, DescribeGroupsResponse)
    members = [MemberIdentity(member_id=member.member_id) for member in described.groups[0].members]
    assert len(members) == CLIENTS
    await world.ask(coordinator, LeaveGroupRequest(group_id=GROUP, members=members), 4, LeaveGroupResponse)
    assert len(await askers.answers()) == CLIENTS
    assert groups.waiting_bytes == askers.held_bytes == 0


@simulated(2)
async def test_members_whose_connections_are_lost_count_until_they_are_removed(loop: SimLoop, frames: Frames) -> None:
    world, coordinator = await a_cluster(loop, group_initial_rebalance_delay_ms="600000")
    groups = world.live[coordinator].services.groups
    askers = Askers(world, coordinator, [(join_of(number), 3) for number in range(CLIENTS)])
    await world.until(lambda: groups.waiting_bytes > CLIENTS * SIZE)
    for task in askers.tasks:
        task.cancel()
    await asyncio.gather(*askers.tasks, return_exceptions=True)
    await world.until(lambda: askers.held_bytes == 0)
    assert groups.waiting_bytes > CLIENTS * SIZE  # they are members, and their metadata is kept
    await world.until(lambda: groups.waiting_bytes == 0, patience_s=600)
    assert frames.kept_bytes == 0


BEHIND_FOLLOWERS: dict[str, Callable[[], tuple[Request, int]]] = {
    "Produce": lambda: (produce_of(encode_batch([Record(0, 0, None, bytes(RECORD_BYTES))])), 9),
    "Produce of a message set": lambda: (
        produce_of(encode_message_set([Record(0, 0, None, bytes(RECORD_BYTES))], magic=1)),
        2,
    ),
    "DeleteRecords": lambda: (
        DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name="orders",
                    partitions=[DeleteRecordsPartition(partition_index=row, offset=-1) for row in range(SIZE // 12)],
                )
            ],
            timeout_ms=60_000,
        ),
        1,
    ),
    "OffsetCommit": lambda: (
        OffsetCommitRequest(
            group_id=GROUP,
            topics=[
                OffsetCommitRequestTopic(
                    name=name,
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=0, committed_offset=2, committed_metadata=None)
                    ],
                )
                for name in ["orders", *(f"{number:04d}".ljust(SIZE // 1000, "x") for number in range(1_000))]
            ],
        ),
        7,
    ),
    "Fetch": lambda: (
        FetchRequest(
            max_wait_ms=3_000,
            min_bytes=1 << 30,
            session_epoch=-1,
            topics=[
                FetchTopic(
                    topic="orders",
                    partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)],
                )
            ],
            forgotten_topics_data=[ForgottenTopic(topic="gone", partitions=list(range(SIZE // 4)))],
        ),
        11,
    ),
}


@pytest.mark.parametrize("api", BEHIND_FOLLOWERS)
@simulated(3)
async def test_what_waits_for_followers(loop: SimLoop, frames: Frames, api: str) -> None:
    world, leader = await a_cluster(loop)
    assert (await world.produce("orders", b"first"))[0] is ErrorCode.NONE
    followers = [world.machines[broker_id] for broker_id in world.live if broker_id != leader]
    for follower in followers:
        follower.pause()
    askers = Askers(world, leader, [BEHIND_FOLLOWERS[api]() for _ in range(CLIENTS)])
    await asyncio.sleep(1.0)
    assert askers.are_waiting
    assert askers.broker.request_budget.used_bytes == 0
    assert frames.kept_bytes == 0
    assert 0 < askers.held_bytes <= LIMIT + 2 * SIZE  # and one frame
    error, _ = await world.produce("orders", bytes(LIMIT - 1_000), acks=1)
    assert error is ErrorCode.NONE
    assert askers.are_waiting
    for follower in followers:
        follower.resume()
    assert len(await askers.answers()) == CLIENTS
    assert askers.held_bytes == 0


@simulated(4)
async def test_what_waits_for_the_ensemble(loop: SimLoop, frames: Frames) -> None:
    world, leader = await a_cluster(loop)
    controller = world.controller_id
    names = [f"{number:04d}".ljust(SIZE // 1000, "x") for number in range(1_000)]
    requests: list[tuple[Request, int]] = [
        (
            CreateTopicsRequest(
                topics=[
                    CreatableTopic(name=name, num_partitions=1, replication_factor=3, assignments=[], configs=[])
                    for name in [f"new-{number}", *names, *names]  # twice is refused
                ],
                timeout_ms=60_000,
            ),
            4,
        )
        for number in range(CLIENTS)
    ]
    world.machines[controller].cut_off()
    askers = Askers(world, controller, requests)
    await asyncio.sleep(1.0)
    assert askers.are_waiting
    assert askers.broker.request_budget.used_bytes == 0
    assert frames.kept_bytes == 0
    assert askers.broker.plain_budget.used_bytes > LIMIT // 2
    error, _ = await world.produce("orders", bytes(LIMIT - 1_000), acks=1)
    assert error is ErrorCode.NONE
    assert askers.are_waiting
    world.machines[controller].reach_again()
    assert len(await askers.answers()) == CLIENTS
    assert askers.held_bytes == 0
    assert leader in world.live
