"""Requests of every API that waits: meanwhile they hold neither the budget of requests nor their frames."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from broker.network.dispatch import handles
from broker.network.memory_budget import LEAST_WAITING_BYTES
from broker.network.request_context import RequestContext
from broker.network.requests.request_starter import RequestStarter
from broker.network.responses.deferred import Deferred
from broker.network.routes import Handler
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.schema import Request, Response
from runtime.disk.filesystem import Buffer
from security.access import NOTHING
from tests.broker.harness import Broker, Peer, settle
from tests.broker.recorded_requests import HEARTBEAT_V, Log, V, heartbeat_of, produce_of

LIMIT = 300_000
CLIENTS = 8  # whose requests are three times the limit
NAMES = [f"{number:04d}" + "x" * 96 for number in range(1_000)]
ROWS = list(range(10_000))
METADATA = b"m" * 100_000
EMPTY: dict[str, object] = {"array": [], "string": "", "bytes_": b"", "bool_": False, "int16": 0, "int32": 0}

LARGE: dict[str, tuple[Request, int]] = {
    "JoinGroup": (
        JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=METADATA)],
        ),
        3,
    ),
    "SyncGroup": (
        SyncGroupRequest(
            group_id="g",
            generation_id=1,
            member_id="m",
            assignments=[SyncGroupRequestAssignment(member_id="m", assignment=METADATA)],
        ),
        3,
    ),
    "LeaveGroup": (LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=name) for name in NAMES]), 3),
    "OffsetCommit": (
        OffsetCommitRequest(
            group_id="g",
            topics=[
                OffsetCommitRequestTopic(
                    name=name,
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=None)
                    ],
                )
                for name in NAMES
            ],
        ),
        7,
    ),
    "OffsetDelete": (
        OffsetDeleteRequest(
            group_id="g",
            topics=[
                OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
                for name in NAMES
            ],
        ),
        0,
    ),
    "DeleteGroups": (DeleteGroupsRequest(groups_names=NAMES), 1),
    "DeleteRecords": (
        DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name="t", partitions=[DeleteRecordsPartition(partition_index=row, offset=-1) for row in ROWS]
                )
            ],
            timeout_ms=3_600_000,
        ),
        1,
    ),
    "CreateTopics": (
        CreateTopicsRequest(
            topics=[
                CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
                for name in NAMES
            ],
            timeout_ms=3_600_000,
        ),
        4,
    ),
    "CreatePartitions": (
        CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=2, assignments=None) for name in NAMES],
            timeout_ms=3_600_000,
            validate_only=False,
        ),
        1,
    ),
    "DeleteTopics": (DeleteTopicsRequest(topic_names=NAMES, timeout_ms=3_600_000), 3),
    "ElectLeaders": (
        ElectLeadersRequest(
            election_type=0,
            topic_partitions=[TopicPartitions(topic=name, partitions=[0]) for name in NAMES],
            timeout_ms=3_600_000,
        ),
        1,
    ),
    "AlterPartitionReassignments": (
        AlterPartitionReassignmentsRequest(
            topics=[
                ReassignableTopic(name=name, partitions=[ReassignablePartition(partition_index=0, replicas=[1])])
                for name in NAMES
            ],
            timeout_ms=3_600_000,
        ),
        0,
    ),
    "Fetch": (
        FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            topics=[
                FetchTopic(topic=name, partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)])
                for name in NAMES
            ],
        ),
        11,
    ),
}


class _Frame(bytearray):
    """That somebody can ask whether it is still there."""


class Frames:
    """The frames of the requests that start, for as long as somebody keeps a view of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._known: list[weakref.ref[_Frame]] = []
        start = RequestStarter.start

        def watched(starter: RequestStarter, route: Any, frame: Buffer, *rest: Any) -> None:
            content = _Frame(frame)
            self._known.append(weakref.ref(content))
            start(starter, route, memoryview(content) if route.has_records else content, *rest)

        monkeypatch.setattr(RequestStarter, "start", watched)

    @property
    def kept_bytes(self) -> int:
        gc.collect()
        return sum(len(frame) for known in self._known if (frame := known()) is not None)


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> Frames:
    return Frames(monkeypatch)


def empty(response_type: type[Response]) -> Response:
    """An answer without rows."""
    values: dict[str, Any] = {field.name: EMPTY[field.kind] for field in response_type.__fields__}
    return response_type(**values)


def waiting_handler(request_type: type[Request], begun: list[Callable[[], None]]) -> Handler[Any]:
    """Waits until its entry in `begun` is called."""
    if request_type is FetchRequest:

        @handles(request_type, NOTHING)
        def wait(request: Request, context: RequestContext) -> Deferred[Any]:
            deferred: Deferred[Any] = Deferred()
            begun.append(lambda: deferred.complete(empty(FetchResponse)))
            return deferred

        return wait

    @handles(request_type, NOTHING)
    async def wait_apart(request: Request, context: RequestContext) -> Any:
        gate = asyncio.get_running_loop().create_future()
        begun.append(lambda: gate.set_result(None))
        await gate
        return empty(request_type.response_type)

    return wait_apart


@dataclass
class Waiting:
    """Clients whose requests wait, as many as are let in."""

    broker: Broker
    peers: list[Peer]
    begun: list[Callable[[], None]]
    producer: Peer

    def __init__(self, request: Request, version: int) -> None:
        log = Log()
        self.begun = []
        self.broker = Broker([*log.handlers, waiting_handler(type(request), self.begun)], budget_bytes=LIMIT)
        self.peers = [self.broker.connect() for _ in range(CLIENTS)]
        self.producer = self.broker.connect()
        for peer in self.peers:
            peer.expect(request, version)
            peer.send_bytes(peer.frame(request, version), piece_bytes=20_000)  # as from a network

    async def settle(self) -> None:
        for _ in range(10):
            for peer in self.peers:
                peer.go_on()
            await settle()

    async def end(self) -> None:
        while self.begun:
            self.begun.pop()()
            await self.settle()

    @property
    def held_bytes(self) -> int:
        budgets = self.broker.budget, self.broker.plain_budget
        return sum(budget.used_bytes + budget.parked_bytes for budget in budgets)


@pytest.mark.parametrize("api", LARGE)
async def test_what_waits_keeps_no_producer_and_no_heartbeat_out(frames: Frames, api: str) -> None:
    request, version = LARGE[api]
    waiting = Waiting(request, version)
    await waiting.settle()
    assert waiting.begun
    assert waiting.broker.budget.used_bytes == 0
    assert frames.kept_bytes == 0
    assert waiting.held_bytes <= LIMIT + CLIENTS * LEAST_WAITING_BYTES
    for _ in range(2):
        waiting.producer.send(produce_of(b"p" * (LIMIT - 1_000)), V)
        waiting.producer.send(heartbeat_of("g"), HEARTBEAT_V)
    waiting.producer.go_on()
    assert len(waiting.producer.answers()) == 4
    await waiting.end()
    assert [len(peer.answers()) for peer in waiting.peers] == [1] * CLIENTS
    assert waiting.held_bytes == 0


@pytest.mark.parametrize("api", ["JoinGroup", "SyncGroup", "LeaveGroup"])
async def test_what_lets_a_rebalance_end_is_let_in_while_others_wait(api: str) -> None:
    request, version = LARGE[api]
    waiting = Waiting(request, version)
    await waiting.settle()
    assert len(waiting.begun) == CLIENTS
    await waiting.end()


@pytest.mark.parametrize("api", LARGE)
async def test_what_waits_is_released_with_its_connection(frames: Frames, api: str) -> None:
    request, version = LARGE[api]
    waiting = Waiting(request, version)
    await waiting.settle()
    for peer in waiting.peers:
        peer.disconnect()
    assert waiting.held_bytes == 0
    await waiting.end()
    assert waiting.held_bytes == 0
    assert waiting.broker.plain_budget.waiting_count == 0


def test_a_deferred_that_is_freed_while_it_waits(frames: Frames) -> None:
    """Twice, and when it is answered already, changes nothing."""
    log = Log()
    broker = Broker(log.handlers, budget_bytes=LIMIT)
    peer = broker.connect()
    peer.send(produce_of(b"x" * (LIMIT - 1_000), timeout_ms=1), V)
    assert broker.budget.used_bytes > LIMIT // 2
    [(number, deferred)] = log.waiting
    log.records.clear()
    for _ in range(2):
        deferred.release_frame()
        assert (broker.budget.used_bytes, broker.budget.parked_bytes) == (0, LEAST_WAITING_BYTES)
    assert frames.kept_bytes == 0
    log.finish(number)
    deferred.release_frame()
    peer.go_on()
    assert len(peer.answers()) == 1
    assert (broker.budget.used_bytes, broker.budget.parked_bytes) == (0, 0)


def test_a_deferred_that_is_freed_when_its_connection_is_gone() -> None:
    log = Log()
    broker = Broker(log.handlers, budget_bytes=LIMIT)
    peer = broker.connect()
    peer.send(produce_of(b"x" * 100_000, timeout_ms=1), V)
    peer.disconnect()
    log.waiting[0][1].release_frame()
    assert (broker.budget.used_bytes, broker.budget.parked_bytes) == (0, 0)


def test_produces_that_wait_for_replicas_are_bounded_by_the_room_for_parked_ones() -> None:
    begun: list[Deferred[Any]] = []

    @handles(type(produce_of(b"")), NOTHING)
    def produce(request: Request, context: RequestContext) -> Deferred[Any]:
        begun.append(Deferred(keeps_request=False))
        return begun[-1]

    broker = Broker([produce], budget_bytes=10 * LEAST_WAITING_BYTES)
    first, second = broker.connect(), broker.connect()
    for _ in range(30):
        first.send(produce_of(b"x"), V)
    assert len(begun) == 10
    second.send(produce_of(b"x"), V)  # one a connection always
    assert len(begun) == 11
    assert broker.budget.used_bytes == 0
    first.disconnect()
    second.disconnect()
    assert broker.budget.parked_bytes == 0
