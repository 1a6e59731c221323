"""Offsets of transactions from the request to the log: verification, the batch, the marker, a load in between."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.group.offsets import CommittedOffset
from coordinator.group_coordinator import GroupCoordinatorSettings
from coordinator.runtime.contract import BatchProducer
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from protocol.records.batch import read_header
from protocol.records.compression import Compression
from protocol.records.control import ControlType, EndTxnMarker, encode_marker
from tests.coordinator.requests import commit_request, fetch_group, transactional_commit_request
from tests.coordinator.world import START_MS, MemoryLog, World

ORDERS_0 = ("orders", 0)
ORDERS_1 = ("orders", 1)


class Verification:
    """Raises `error`, or returns `guard`, when `gate` is open."""

    def __init__(self, error: ErrorCode = ErrorCode.NONE) -> None:
        self.error = error
        self.guard = object()
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked: list[tuple[int, str, BatchProducer]] = []
        self.added: list[bool] = []

    async def verify(
        self, partition: int, transactional_id: str, producer: BatchProducer, *, adds: bool = False
    ) -> object | None:
        self.asked.append((partition, transactional_id, producer))
        self.added.append(adds)
        await self.gate.wait()
        if self.error is not ErrorCode.NONE:
            raise KafkaError(self.error)
        return self.guard


async def commit(world: World, request: TxnOffsetCommitRequest, api_version: int = 4) -> ErrorCode:
    response = await world.groups.commit_offsets_in_transaction(request, api_version)
    (error,) = {row.error_code for topic in response.topics for row in topic.partitions}
    return ErrorCode(error)


def fetched(world: World, *, require_stable: bool = True) -> int | ErrorCode:
    group = world.groups.fetch_offsets(fetch_group("g", [ORDERS_0]), require_stable=require_stable)
    assert group.error is ErrorCode.NONE
    found = group.topic_partitions["orders"][0]
    return found.offset if isinstance(found, CommittedOffset) else found or -1


def end(world: World, *, committed: bool, producer_id: int = 7) -> None:
    """The marker is appended and committed."""
    kind = ControlType.COMMIT if committed else ControlType.ABORT
    world.log.add(0, encode_marker(EndTxnMarker(kind, 0, START_MS), producer_id=producer_id, producer_epoch=0))
    world.groups.on_transaction_ended(0, producer_id, committed=committed)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
async def test_the_batch_is_that_of_the_producer_and_a_load_reads_it(compression: Compression) -> None:
    settings = GroupCoordinatorSettings(compression=compression)
    async with World(settings, partitions_count=1) as world:
        await world.lead()
        request = transactional_commit_request("g", {ORDERS_0: 5, ORDERS_1: 6}, producer_id=7, producer_epoch=3)
        assert await commit(world, request) is ErrorCode.NONE
        [batch] = world.log.batches_of[0]
        header = read_header(batch, 0)
        assert header.is_transactional and (header.producer_id, header.producer_epoch) == (7, 3)
        assert header.base_sequence == 0 and header.records_count == 2 and header.compression is compression
        assert fetched(world) is ErrorCode.UNSTABLE_OFFSET_COMMIT
    async with World(settings, world.log, partitions_count=1) as world:
        await world.lead(1)
        assert fetched(world) is ErrorCode.UNSTABLE_OFFSET_COMMIT
        end(world, committed=True)
        assert fetched(world) == 5
    async with World(settings, world.log, partitions_count=1) as world:
        await world.lead(2)
        assert fetched(world) == 5


@pytest.mark.parametrize(
    ("found", "version", "response"),
    [
        (ErrorCode.NONE, 4, ErrorCode.NONE),
        (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 0, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.INVALID_TXN_STATE, 4, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.INVALID_PRODUCER_EPOCH, 4, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 4, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 4, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.NETWORK_EXCEPTION, 4, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, 4, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_COORDINATOR, 4, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, 4, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
async def test_nothing_is_stored_unless_the_transaction_is_verified(
    found: ErrorCode, version: int, response: ErrorCode
) -> None:
    verification = Verification(found)
    async with World(partitions_count=1, verification=verification) as world:
        await world.lead()
        assert await commit(world, transactional_commit_request("g", {ORDERS_0: 5}), version) is response
        assert verification.asked == [(0, "tx", BatchProducer(7, 0))]
        is_stored = found is ErrorCode.NONE
        assert world.log.guards == ([verification.guard] if is_stored else [])
        assert fetched(world) == (ErrorCode.UNSTABLE_OFFSET_COMMIT if is_stored else -1)


async def test_who_is_not_the_coordinator_does_not_verify() -> None:
    verification = Verification()
    async with World(partitions_count=1, verification=verification) as world:
        request = transactional_commit_request("g", {ORDERS_0: 5})
        assert await commit(world, request) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        world.groups.start()
        assert await commit(world, request) is ErrorCode.NOT_COORDINATOR
        assert verification.asked == []


async def test_a_member_is_checked_after_the_verification() -> None:
    verification = Verification(ErrorCode.INVALID_TXN_STATE)
    async with World(partitions_count=1, verification=verification) as world:
        await world.lead()
        request = transactional_commit_request("g", {ORDERS_0: 5}, member_id="stranger", generation_id=1)
        assert await commit(world, request) is ErrorCode.INVALID_TXN_STATE
        verification.error = ErrorCode.NONE
        assert await commit(world, request) is ErrorCode.UNKNOWN_MEMBER_ID


async def test_the_leadership_ends_while_the_transaction_is_verified() -> None:
    verification = Verification()
    verification.gate.clear()
    async with World(partitions_count=1, verification=verification) as world:
        await world.lead()
        committing = asyncio.create_task(commit(world, transactional_commit_request("g", {ORDERS_0: 5})))
        await world.settle()
        world.groups.runtime.on_resignation(0)
        verification.gate.set()
        assert await committing is ErrorCode.NOT_COORDINATOR
        assert world.log.batches_of == {}


async def test_a_marker_counts_behind_the_appends_in_front_of_it() -> None:
    async with World(partitions_count=1) as world:
        await world.lead()
        world.log.is_holding = True
        committing = asyncio.create_task(commit(world, transactional_commit_request("g", {ORDERS_0: 5})))
        await world.settle()
        assert fetched(world) is ErrorCode.UNSTABLE_OFFSET_COMMIT
        world.log.commit_all()
        end(world, committed=True)
        assert await committing is ErrorCode.NONE
        assert fetched(world) == 5


@pytest.mark.parametrize(
    ("refusal", "response"),
    [
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
    ],
)
async def test_a_log_that_refuses_the_batch(refusal: ErrorCode, response: ErrorCode) -> None:
    async with World(partitions_count=1) as world:
        await world.lead()
        world.log.refuse_with = refusal
        assert await commit(world, transactional_commit_request("g", {ORDERS_0: 5})) is response
        assert fetched(world) == -1


async def test_without_a_producer_the_offsets_are_part_of_no_transaction() -> None:
    """As in Apache Kafka, where only the verification refuses this."""
    async with World(partitions_count=1) as world:
        await world.lead()
        request = transactional_commit_request("g", {ORDERS_0: 5}, producer_id=-1, producer_epoch=-1)
        assert await commit(world, request) is ErrorCode.NONE
        assert not read_header(world.log.batches_of[0][0], 0).is_transactional
        assert fetched(world) == 5


async def test_a_marker_that_comes_during_a_load_counts_once() -> None:
    """It is read, and its commitment is reported: what the same producer stores after the load is not ended by it."""
    log = MemoryLog()
    async with World(log=log, partitions_count=1) as world:
        await world.lead()
        assert await commit(world, transactional_commit_request("g", {ORDERS_0: 5})) is ErrorCode.NONE
    async with World(log=log, partitions_count=1) as world:
        log.gate = asyncio.Event()
        world.groups.start()
        world.groups.runtime.on_leadership(0, 1)
        await world.settle()
        end(world, committed=True)
        end(world, committed=True)  # it comes again
        log.gate.set()
        await world.settle()
        assert fetched(world) == 5
        assert await commit(world, transactional_commit_request("g", {ORDERS_0: 6})) is ErrorCode.NONE
        assert fetched(world) is ErrorCode.UNSTABLE_OFFSET_COMMIT
        end(world, committed=False)
        assert fetched(world) == 5


async def test_a_plain_commit_between_the_record_and_the_marker_wins() -> None:
    log = MemoryLog()
    async with World(log=log, partitions_count=1) as world:
        await world.lead()
        assert await commit(world, transactional_commit_request("g", {ORDERS_0: 5})) is ErrorCode.NONE
        await world.groups.commit_offsets(commit_request("g", {ORDERS_0: 9}))
        end(world, committed=True)
        assert fetched(world) == 9
    async with World(log=log, partitions_count=1) as world:
        await world.lead(1)
        assert fetched(world) == 9
