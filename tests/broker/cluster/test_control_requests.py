"""Control requests: who is refused with what, in which order they count, and how large they may be."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import cast

import pytest

from broker.cluster.control_requests import ControlRequests
from broker.cluster.controller_claims import ControllerClaims
from broker.handlers import ALL
from broker.network.connections.connection_shared import ConnectionLimits
from broker.network.routes import CONTROL_KEYS, DispatchTable
from metadata.image import MetadataCache
from metadata.store import znodes
from metadata.store.port import Create
from protocol.errors import ErrorCode
from protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from protocol.primitives import DecodeError
from protocol.topic_partition import TopicPartition
from replication.partitions import Partitions
from runtime.clock import SystemClock
from tests.simulation.store import SimulatedEnsemble

OWN_ID, OTHER_ID, EPOCH, BROKER_EPOCH = 1, 2, 5, 70


class NotedPartitions:
    """Takes requests as `Partitions` would."""

    def __init__(self) -> None:
        self.taken: list[object] = []

    def find(self, _topic: str, _partition: int) -> None:
        return None

    async def on_leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        self.taken.append(request)
        return LeaderAndIsrResponse(error_code=ErrorCode.NONE)

    async def on_stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        self.taken.append(request)
        return StopReplicaResponse(error_code=ErrorCode.NONE, partition_errors=[])

    async def on_room_again(self) -> None:
        self.taken.append("room again")


class NotedSettings:
    def __init__(self) -> None:
        self.learnt: list[str] = []

    async def learn_topics(self, topics: Iterable[str]) -> None:
        self.learnt += topics

    def forget_topic(self, topic: str) -> None:
        self.learnt.remove(topic)


class Site:
    """Broker 1, in a cluster that broker 2 controls."""

    def __init__(self, *, is_registered: bool = True) -> None:
        self.store = SimulatedEnsemble(SystemClock()).connect()
        self.partitions = NotedPartitions()
        self.settings = NotedSettings()
        self.metadata = MetadataCache()
        self.claims = ControllerClaims(OWN_ID, self.store)
        self.deleted: list[TopicPartition] = []
        self.control = ControlRequests(
            OWN_ID, cast(Partitions, self.partitions), self.metadata, self.settings, self.claims, self.deleted.extend
        )
        if is_registered:
            self.control.registered(BROKER_EPOCH)

    async def elect(self, controller_id: int, epoch: int) -> None:
        await self.store.multi(
            [
                Create(znodes.CONTROLLER, znodes.encode_controller(controller_id, 0)),
                Create(znodes.CONTROLLER_EPOCH, znodes.encode_controller_epoch(epoch)),
            ]
        )


def metadata_request(controller_id: int, epoch: int, broker_epoch: int = -1, leader: int = 1) -> UpdateMetadataRequest:
    state = UpdateMetadataPartitionState(
        partition_index=0, controller_epoch=epoch, leader=leader, leader_epoch=0, isr=[1], zk_version=0, replicas=[1]
    )
    return UpdateMetadataRequest(
        controller_id=controller_id,
        controller_epoch=epoch,
        broker_epoch=broker_epoch,
        topic_states=[UpdateMetadataTopicState(topic_name="t", partition_states=[state])],
        live_brokers=[UpdateMetadataBroker(id=1)],
    )


@pytest.mark.parametrize(
    ("sender", "epoch", "broker_epoch", "code"),
    [
        (OTHER_ID, EPOCH, BROKER_EPOCH, ErrorCode.NONE),
        (OTHER_ID, EPOCH, -1, ErrorCode.NONE),
        (OTHER_ID, EPOCH, BROKER_EPOCH + 1, ErrorCode.NONE),
        (OTHER_ID, EPOCH, BROKER_EPOCH - 1, ErrorCode.STALE_BROKER_EPOCH),
        (OTHER_ID, EPOCH + 1, -1, ErrorCode.STALE_CONTROLLER_EPOCH),
        (OTHER_ID, EPOCH - 1, -1, ErrorCode.STALE_CONTROLLER_EPOCH),
        (3, EPOCH, -1, ErrorCode.STALE_CONTROLLER_EPOCH),
        (OWN_ID, EPOCH, -1, ErrorCode.STALE_CONTROLLER_EPOCH),
    ],
)
async def test_who_is_refused_over_a_connection(sender: int, epoch: int, broker_epoch: int, code: ErrorCode) -> None:
    site = Site()
    await site.elect(OTHER_ID, EPOCH)
    assert await site.control.refusal(metadata_request(sender, epoch, broker_epoch)) is code


async def test_what_comes_before_the_registration_waits_for_it() -> None:
    site = Site(is_registered=False)
    await site.elect(OTHER_ID, EPOCH)
    waiting = [
        asyncio.ensure_future(site.control.refusal(metadata_request(OTHER_ID, EPOCH, broker_epoch)))
        for broker_epoch in (BROKER_EPOCH - 1, BROKER_EPOCH)
    ]
    await asyncio.sleep(0.01)
    assert not any(each.done() for each in waiting)
    site.control.registered(BROKER_EPOCH)
    assert await asyncio.gather(*waiting) == [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.NONE]


async def test_a_controller_that_was_replaced_meanwhile_changes_nothing() -> None:
    site = Site()
    await site.elect(OTHER_ID, EPOCH)
    request = metadata_request(OTHER_ID, EPOCH)
    assert await site.control.refusal(request) is ErrorCode.NONE
    assert site.claims.accept_own_epoch(EPOCH + 1)
    leader = LeaderAndIsrRequest(controller_id=OTHER_ID, controller_epoch=EPOCH, live_leaders=[])
    stop = StopReplicaRequest(controller_id=OTHER_ID, controller_epoch=EPOCH)
    codes = [
        (await site.control.on_update_metadata(request)).error_code,
        (await site.control.on_leader_and_isr(leader)).error_code,
        (await site.control.on_stop_replica(stop)).error_code,
    ]
    assert codes == [ErrorCode.STALE_CONTROLLER_EPOCH] * 3
    assert site.partitions.taken == []
    assert site.metadata.image.topics == {}


async def test_what_waits_for_room_waits_for_the_requests_before_it_as_well() -> None:
    site = Site()
    request = LeaderAndIsrRequest(controller_id=OWN_ID, controller_epoch=1, live_leaders=[])
    is_asking, may_answer = asyncio.Event(), asyncio.Event()

    async def slow(_topics: Iterable[str]) -> None:
        is_asking.set()
        await may_answer.wait()

    site.settings.learn_topics = slow  # type: ignore[assignment]
    asking = asyncio.ensure_future(site.control.on_leader_and_isr(request))
    await is_asking.wait()
    taking_up = asyncio.ensure_future(site.control.on_room_again())
    await asyncio.sleep(0)
    assert site.partitions.taken == []
    may_answer.set()
    await asyncio.gather(asking, taking_up)
    assert site.partitions.taken == [request, "room again"]


async def test_our_own_controller_is_heard_in_process() -> None:
    site = Site()
    assert (await site.control.on_update_metadata(metadata_request(OWN_ID, 1))).error_code == ErrorCode.NONE
    assert site.metadata.image.has_leader("t", 0)
    gone = metadata_request(OWN_ID, 1, leader=-2)
    site.settings.learnt.append("t")
    assert (await site.control.on_update_metadata(gone)).error_code == ErrorCode.NONE
    assert site.deleted == [("t", 0)]
    assert site.settings.learnt == []
    stale = metadata_request(OWN_ID, 1, BROKER_EPOCH - 1)
    assert (await site.control.on_update_metadata(stale)).error_code == ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize("version", range(8))
async def test_settings_of_new_topics_are_read_before_their_logs_open(version: int) -> None:
    site = Site()
    state = LeaderAndIsrPartitionState(
        topic_name="t", partition_index=0, controller_epoch=1, leader=1, leader_epoch=0, isr=[1],
        partition_epoch=0, replicas=[1],
    )  # fmt: skip
    request = LeaderAndIsrRequest(controller_id=OWN_ID, controller_epoch=1, live_leaders=[])
    if version < 2:
        request.ungrouped_partition_states = [state]
    else:
        request.topic_states = [LeaderAndIsrTopicState(topic_name="t", partition_states=[state])]
    decoded = LeaderAndIsrRequest.decode(request.encode(version), version)
    assert (await site.control.on_leader_and_isr(decoded)).error_code == ErrorCode.NONE
    assert site.settings.learnt == ["t"]
    assert site.partitions.taken == [decoded]


def test_a_controllers_request_may_hold_a_whole_cluster_and_others_may_not() -> None:
    limits = ConnectionLimits()
    rows = 100_000
    request = metadata_request(OTHER_ID, EPOCH)
    request.topic_states[0].partition_states *= rows
    frame = request.encode(8)
    assert limits.refusal(len(frame), may_be_large=True) is None
    route = DispatchTable(ALL).route(UpdateMetadataRequest.api_key, 8)
    assert route is not None
    assert route.is_control
    decoded, _ = route.decode(frame, 0, limits.max_control_elements // route.element_cost)
    assert isinstance(decoded, UpdateMetadataRequest)
    assert len(decoded.topic_states[0].partition_states) == rows
    with pytest.raises(DecodeError):
        route.decode(frame, 0, limits.max_elements // route.element_cost)
    large = {key for key in range(70) if (each := DispatchTable(ALL).handler(key)) and each.api_key in CONTROL_KEYS}
    assert large == {4, 5, 6}
