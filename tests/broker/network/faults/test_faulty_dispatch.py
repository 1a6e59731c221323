"""Requests meet the faults that are injected, on either path; others are handled as ever."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.handlers import ALL
from broker.network.dispatch import Dispatch, handles
from broker.network.faults.fault_table import FaultTable
from broker.network.faults.faulty_dispatch import FaultyDispatch
from broker.network.responses.deferred import Deferred
from protocol.errors import ErrorCode
from protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.messages.produce import ProduceRequest
from protocol.schema import Response
from security.access import NOTHING
from tests.broker.handlers.records.produce_twins import Twins, error_of, on_twins, request_of, teach
from tests.broker.harness import Broker, Peer
from tests.storage.logs import batch

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


PARTITION = MetadataResponsePartition(
    error_code=ErrorCode.NONE, partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1]
)


def metadata_of(
    names: Sequence[str | None], error: ErrorCode, partitions: list[MetadataResponsePartition]
) -> MetadataResponse:
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="h", port=9092)],
        topics=[MetadataResponseTopic(error_code=error, name=name, partitions=partitions) for name in names],
    )


class World:
    """A broker with faults. `handled` are the requests that reached a handler; fetches wait in `parked`."""

    def __init__(self) -> None:
        self.handled: list[str] = []
        self.parked: list[Deferred[Any]] = []

        @handles(HeartbeatRequest, NOTHING)
        async def heartbeat(_: HeartbeatRequest, __: object) -> HeartbeatResponse:
            self.handled.append("Heartbeat")
            return HeartbeatResponse(error_code=ErrorCode.NONE)

        @handles(FetchRequest, NOTHING)
        def fetch(_: FetchRequest, __: object) -> Deferred[Any]:
            self.handled.append("Fetch")
            self.parked.append(Deferred())
            return self.parked[-1]

        @handles(JoinGroupRequest, NOTHING)
        async def join(_: JoinGroupRequest, __: object) -> JoinGroupResponse:
            raise AssertionError("it is refused")

        @handles(MetadataRequest, NOTHING)
        async def metadata(request: MetadataRequest, __: object) -> MetadataResponse:
            self.handled.append("Metadata")
            names = ["t", "u"] if request.topics is None else [topic.name for topic in request.topics]
            return metadata_of(names, ErrorCode.NONE, [PARTITION])

        self.broker = Broker([heartbeat, fetch, join, metadata])
        self.faults = FaultTable(ALL)
        assert isinstance(self.broker.shared.dispatch, Dispatch)
        dispatch = FaultyDispatch(self.broker.shared.dispatch, self.broker.timer, self.faults)
        self.broker.shared.dispatch_through(dispatch)
        self.peer: Peer = self.broker.connect()

    def heartbeats(self) -> list[Response]:
        self.peer.send(HEARTBEAT, 4)
        return self.peer.answers()


def fetch_of(*, session_epoch: int = 0, replica_id: int = -1) -> FetchRequest:
    named = [FetchTopic(topic="t", partitions=[FetchPartition(partition=1, fetch_offset=5, partition_max_bytes=10)])]
    return FetchRequest(
        replica_id=replica_id, max_wait_ms=500, min_bytes=1, session_id=session_epoch and 7, session_epoch=session_epoch,
        topics=[] if session_epoch > 0 else named,
    )  # fmt: skip


def fetched(world: World, **options: int) -> FetchResponse:
    world.peer.send(fetch_of(**options), 12)
    (response,) = world.peer.answers()
    assert isinstance(response, FetchResponse)
    return response


def test_an_error_is_the_answer_of_so_many_requests() -> None:
    world = World()
    world.faults.inject({"api": "Heartbeat", "error": "REBALANCE_IN_PROGRESS", "times": 2})
    for code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NONE):
        assert world.heartbeats() == [HeartbeatResponse(error_code=code)]
    assert world.handled == ["Heartbeat"]


@pytest.mark.parametrize(("asked", "names"), [(None, ["t", "u"]), (["t"], ["t"])])
def test_errors_of_metadata_stand_in_the_rows_of_topics_beside_the_brokers(
    asked: list[str] | None, names: list[str]
) -> None:
    world = World()
    error = ErrorCode.LEADER_NOT_AVAILABLE
    world.faults.inject({"api": "Metadata", "error": error.name})
    topics = None if asked is None else [MetadataRequestTopic(name=name) for name in asked]
    for request, expected in (
        (MetadataRequest(topics=[]), metadata_of([], ErrorCode.NONE, [])),  # for the brokers alone
        (MetadataRequest(topics=topics), metadata_of(names, error, [])),
        (MetadataRequest(topics=topics), metadata_of(names, ErrorCode.NONE, [PARTITION])),
    ):
        world.peer.send(request, 9)
        assert world.peer.answers() == [expected]


def test_a_request_that_waits_undecoded_is_refused_too() -> None:
    world = World()
    world.faults.inject({"api": "JoinGroup", "error": "COORDINATOR_LOAD_IN_PROGRESS"})
    request = JoinGroupRequest(
        group_id="g" * 5_000, session_timeout_ms=1, member_id="", protocol_type="consumer", protocols=[]
    )
    world.peer.send(request, 5)
    (response,) = world.peer.answers()
    assert isinstance(response, JoinGroupResponse)
    assert response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_late_requests_hold_back_those_behind_them_and_no_others() -> None:
    world = World()
    world.faults.inject({"api": "Heartbeat", "delay_ms": 100})
    assert world.heartbeats() == [] == world.heartbeats()
    other = world.broker.connect()
    other.send(HEARTBEAT, 4)
    assert len(other.answers()) == 1
    world.broker.turns.advance(99)
    assert world.peer.answers() == []
    world.broker.turns.advance(1)
    world.peer.go_on()
    assert len(world.peer.answers()) == 2
    assert world.broker.plain_budget.used_bytes == world.broker.plain_budget.parked_bytes == 0


def test_a_late_request_is_carried_out_though_its_client_has_left() -> None:
    world = World()
    world.faults.inject({"api": "Heartbeat", "delay_ms": 100})
    world.faults.inject({"api": "Fetch", "delay_ms": 100})
    world.heartbeats()
    leaver = world.broker.connect()
    leaver.send(fetch_of(), 12)
    for each in (world.peer, leaver):
        each.disconnect()
    world.broker.turns.advance(100)
    assert sorted(world.handled) == ["Fetch", "Heartbeat"]
    abandoned: list[bool] = []
    world.parked[0].then(lambda _: abandoned.append(False))  # nobody waits for it
    for budget in (world.broker.budget, world.broker.plain_budget):
        assert budget.used_bytes == budget.parked_bytes == 0


def test_a_broker_that_stops_does_not_wait_for_late_requests() -> None:
    world = World()
    world.faults.inject({"api": "Heartbeat", "delay_ms": 60_000})
    world.heartbeats()
    world.peer.handler.finish("the broker stops")
    world.broker.turns.run()
    assert len(world.peer.answers()) == 1
    world.broker.turns.advance(60_000)
    assert world.handled == ["Heartbeat"]


@pytest.mark.parametrize("delay_ms", [0, 10])
def test_a_connection_is_closed_in_place_of_an_answer(delay_ms: int) -> None:
    world = World()
    world.faults.inject({"api": "Heartbeat", "disconnect": True, "delay_ms": delay_ms})
    assert world.heartbeats() == []
    world.broker.turns.advance(delay_ms)
    assert world.peer.stream.is_closed
    assert not world.handled


def test_errors_of_a_fetch_stand_in_its_rows() -> None:
    world = World()
    world.faults.inject({"api": "Fetch", "error": "KAFKA_STORAGE_ERROR"})
    response = fetched(world)
    assert response.error_code == ErrorCode.NONE
    (topic,) = response.responses
    assert isinstance(topic, FetchableTopicResponse) and topic.topic == "t"
    (row,) = topic.partitions
    assert (row.partition_index, row.error_code, row.high_watermark) == (1, STORAGE_ERROR, -1)
    assert row.records == b"", "null is for no client"


def test_a_fetch_of_a_session_has_to_name_its_partitions_first() -> None:
    world = World()
    world.faults.inject({"api": "Fetch", "error": "KAFKA_STORAGE_ERROR"})
    response = fetched(world, session_epoch=1)
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert not response.responses
    assert fetched(world).responses[0].partitions[0].error_code == STORAGE_ERROR
    world.faults.inject({"api": "Fetch", "error": "INVALID_FETCH_SESSION_EPOCH"})
    assert fetched(world, session_epoch=1).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    world.peer.send(fetch_of(session_epoch=2), 12)
    assert len(world.parked) == 1, "each fault was for one request"


def test_a_follower_does_not_use_up_what_is_for_consumers() -> None:
    world = World()
    world.faults.inject({"api": "Fetch", "error": "KAFKA_STORAGE_ERROR"})
    follower = world.broker.connect()
    follower.send(fetch_of(replica_id=2), 12)
    assert len(world.parked) == 1
    assert fetched(world).responses[0].partitions[0].error_code == STORAGE_ERROR


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_repeated_requests_of_a_producer_meet_them_as_others_do(tmp_path: Path, acks: int) -> None:
    def frame(both: Twins) -> bytes:
        request: ProduceRequest = request_of(batch("again"), acks=acks)
        return both.frame(request, 9)

    async def scenario(both: Twins) -> None:
        tables = []
        for side in both.sides:
            shared = side.broker.shared
            assert isinstance(shared.dispatch, Dispatch)
            tables.append(FaultTable(ALL))
            shared.dispatch_through(FaultyDispatch(shared.dispatch, side.broker.timer, tables[-1]))
        await teach(both, 9, acks=acks)
        both.send(frame(both))
        before = len(await both.compare())
        assert both.short_count == 1
        for table in tables:
            table.inject({"api": "Produce", "delay_ms": 50})
        both.send(frame(both), frame(both))
        assert len(await both.compare()) == before
        for side in both.sides:
            side.broker.turns.advance(50)
        after = len(await both.compare())
        assert after == (before if acks == 0 else before + 2)
        for table in tables:
            table.inject({"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER"})
        both.send(frame(both))
        answers = await both.compare()
        if acks == 0:
            assert all(side.peer.stream.is_closed for side in both.sides)
        else:
            assert error_of(answers[-1], 9) == ErrorCode.NOT_LEADER_OR_FOLLOWER

    on_twins(tmp_path, scenario)
