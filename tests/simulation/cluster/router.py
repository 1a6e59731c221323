"""A client's way through a cluster: which broker to ask, learnt from Metadata and FindCoordinator, forgotten when wrong.

Rules: a partition's leader is never looked for in an older leader epoch than the newest that this client has heard of
(KIP-320): a broker that is behind does not lead it back to a leader that was; and that epoch goes with every fetch, so
that no broker answers for another one. After an answer that says so, after no
answer and before another try everything is asked anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from protocol.messages.delete_records import DeleteRecordsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.messages.sync_group import SyncGroupRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from protocol.schema import Request, Response
from protocol.topic_partition import TopicPartition
from tests.simulation.clients.coordinator import GROUP, TRANSACTION
from tests.simulation.clients.wire import Wire
from tests.simulation.line import R, Unavailable

if TYPE_CHECKING:
    from tests.simulation.cluster.world import ClusterWorld

NO_EPOCH = -1
METADATA_MAX_AGE_S = 10.0  # a leader that was may not know it, and answer for ever
GROUP_REQUESTS = (
    JoinGroupRequest,
    SyncGroupRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    TxnOffsetCommitRequest,
)
TRANSACTION_REQUESTS = (InitProducerIdRequest, AddOffsetsToTxnRequest, EndTxnRequest)
CONTROLLER_REQUESTS = ("AlterPartitionReassignments", "CreateTopics", "DeleteTopics", "ElectLeaders")
MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_CONTROLLER,
    }
)


class Router:
    """Fits `Line`."""

    def __init__(self, world: ClusterWorld, name: str) -> None:
        self.name = name
        self.life = 0
        self.is_up_to_date = True
        self._world = world
        self._wires = {
            broker_id: Wire(world, name, world.address(broker_id), lambda m=machine: m.starts_count)  # type: ignore[misc]
            for broker_id, machine in world.machines.items()
        }
        self._leaders: dict[TopicPartition, int] = {}
        self._epochs: dict[TopicPartition, int] = {}
        self._controller: int | None = None
        self._coordinators: dict[tuple[int, str], int] = {}  # by type and name
        self._fetched_at: int | None = None  # where the fetch session is
        self._asking = asyncio.Lock()
        self._asked_s = 0.0
        self._answers = 0  # that came, or did not come

    @property
    def connections_count(self) -> int:
        return sum(wire.connections_count for wire in self._wires.values())

    async def pause(self) -> None:
        self._forget()
        await asyncio.sleep(self._world.random.uniform(0.05, 0.5))

    def _forget(self) -> None:
        self._asked_s = self._world.loop.time()
        self._leaders.clear()
        self._coordinators.clear()
        self._controller = None

    # --- calls ---

    async def call(self, request: Request, version: int, response_type: type[R]) -> R:
        broker_id = await self._target(request)
        if isinstance(request, FetchRequest):
            self._fetched_at = broker_id
        if isinstance(request, FetchRequest | ListOffsetsRequest):
            self._tell_epochs(request)
        try:
            response = await self._wires[broker_id].call(request, version, response_type)
        except Unavailable:
            self._forget()
            raise
        if any(code in MOVED for code in _codes(response)):
            self._forget()
        key, group = _key_of(request, self._world), _group_of(request)
        if group is not None:
            self.life, self.is_up_to_date = self._world.coordinator_term(group, broker_id)
        elif key is not None:
            self.is_up_to_date = self._world.is_leader(broker_id, key)
        elif (coordinated := _coordinated_by(request)) is not None:
            self.is_up_to_date = self._world.is_transaction_coordinator(broker_id, coordinated[1])
        return response

    async def call_unanswered(self, request: Request, version: int) -> None:
        wire = self._wires[await self._target(request)]
        if wire.is_broken:  # which is all that a broker says to such a request when it does not lead
            self._forget()
            wire = self._wires[await self._target(request)]
        await wire.call_unanswered(request, version)

    def _tell_epochs(self, request: FetchRequest | ListOffsetsRequest) -> None:
        match request:
            case FetchRequest():
                for topic in request.topics:
                    name = topic.topic or self._world.name_of(topic.topic_id)
                    for row in topic.partitions:
                        row.current_leader_epoch = self._epochs.get((name, row.partition), NO_EPOCH)
            case ListOffsetsRequest():
                for of_topic in request.topics:
                    for asked in of_topic.partitions:
                        key = (of_topic.name, asked.partition_index)
                        asked.current_leader_epoch = self._epochs.get(key, NO_EPOCH)

    def _anybody(self) -> int:
        return self._world.random.choice(sorted(self._wires))

    async def _target(self, request: Request) -> int:
        """Raises Unavailable."""
        key, coordinated = _key_of(request, self._world), _coordinated_by(request)
        if key is not None:
            return await self._found(lambda: self._leaders.get(key), request)
        if coordinated is not None:
            if coordinated not in self._coordinators:
                await self._find_coordinator(*coordinated)
            if coordinated not in self._coordinators:
                raise Unavailable(f"the coordinator of {coordinated} was forgotten meanwhile")
            return self._coordinators[coordinated]
        if isinstance(request, FetchRequest):
            return await self._found(lambda: self._fetched_at, request)
        if request.api_name in CONTROLLER_REQUESTS:
            return await self._found(lambda: self._controller, request)
        return self._anybody()

    async def _found(self, look: Callable[[], int | None], request: Request) -> int:
        if self._world.loop.time() - self._asked_s > METADATA_MAX_AGE_S:
            self._forget()
        if look() is None:
            answers = self._answers
            async with self._asking:
                # Else somebody has asked while we waited: what comes behind fares no better.
                if self._answers == answers:
                    try:
                        await self._ask_metadata()
                    finally:
                        self._answers += 1
        found = look()
        if found is None:
            self._world.count("nowhere to go")
            raise Unavailable(f"nobody knows where {request.api_name} goes")
        return found

    async def _ask_metadata(self) -> None:
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        answer = await self._wires[self._anybody()].call(request, 12, MetadataResponse)
        known = {broker.node_id for broker in answer.brokers}
        self._asked_s = self._world.loop.time()
        self._controller = answer.controller_id if answer.controller_id in known else None
        for topic in answer.topics:
            for row in topic.partitions:
                assert topic.name is not None
                key = (topic.name, row.partition_index)
                if row.error_code != ErrorCode.NONE or row.leader_id not in known:
                    continue
                if row.leader_epoch >= self._epochs.get(key, -1):
                    self._leaders[key], self._epochs[key] = row.leader_id, row.leader_epoch

    async def _find_coordinator(self, key_type: int, name: str) -> None:
        request = FindCoordinatorRequest(key=name, key_type=key_type)
        answer = await self._wires[self._anybody()].call(request, 3, FindCoordinatorResponse)
        if answer.error_code != ErrorCode.NONE or answer.node_id not in self._wires:
            raise Unavailable(f"no coordinator of {name}")
        self._coordinators[key_type, name] = answer.node_id


def _key_of(request: Request, world: ClusterWorld) -> TopicPartition | None:
    """The partition that decides where the request goes. Clients here ask for one at a time."""
    match request:
        case ProduceRequest():
            return request.topic_data[0].name, request.topic_data[0].partition_data[0].index
        case FetchRequest(topics=[topic, *_]):
            return topic.topic or world.name_of(topic.topic_id), topic.partitions[0].partition
        case ListOffsetsRequest():
            return request.topics[0].name, request.topics[0].partitions[0].partition_index
        case DeleteRecordsRequest():
            return request.topics[0].name, request.topics[0].partitions[0].partition_index
        case _:
            return None


def _group_of(request: Request) -> str | None:
    match request:
        case OffsetFetchRequest():
            return request.groups[0].group_id if request.groups else request.group_id
        case _ if isinstance(request, GROUP_REQUESTS):
            return request.group_id
        case _:
            return None


def _coordinated_by(request: Request) -> tuple[int, str] | None:
    """The type and the name of what the request's coordinator coordinates."""
    group = _group_of(request)
    if group is not None:
        return GROUP, group
    match request:
        case AddPartitionsToTxnRequest():
            return TRANSACTION, request.v3_and_below_transactional_id
        case _ if isinstance(request, TRANSACTION_REQUESTS) and request.transactional_id is not None:
            return TRANSACTION, request.transactional_id
        case _:
            return None


def _codes(response: Response) -> Iterator[int]:
    match response:
        case ProduceResponse():
            yield from (row.error_code for topic in response.responses for row in topic.partition_responses)
        case FetchResponse():
            yield from (row.error_code for topic in response.responses for row in topic.partitions)
        case ListOffsetsResponse():
            yield from (row.error_code for topic in response.topics for row in topic.partitions)
        case AddPartitionsToTxnResponse():
            for added in response.results_by_topic_v3_and_below:
                yield from (row.partition_error_code for row in added.results_by_partition)
        case TxnOffsetCommitResponse():
            yield from (row.error_code for topic in response.topics for row in topic.partitions)
        case _:
            yield getattr(response, "error_code", 0)
