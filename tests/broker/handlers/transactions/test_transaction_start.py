"""The first batches of a transaction in a Produce request: who is asked, what producers are told, and in which order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.handlers.records.produce import produce
from broker.network.responses.deferred import CloseConnection, Deferred
from protocol.errors import ErrorCode
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.control import ControlType, EndTxnMarker, encode_marker
from protocol.topic_partition import TopicPartition
from storage.log.partition_log import AppendOrigin
from tests.async_tests import played_by
from tests.broker.handlers.replica_broker import Answer, ReplicaBroker, replica_broker
from tests.storage.logs import NOW_MS, batch

PRODUCER = 7


class Coordinator:
    """Fits `CoordinatorVerification`: answers at once, or when `answer` is called while `is_elsewhere`."""

    def __init__(self) -> None:
        self.error = ErrorCode.NONE
        self.is_elsewhere = False
        self.asked: list[tuple[str, int, int, list[TopicPartition]]] = []
        self.added: list[tuple[str, int, int, list[TopicPartition]]] = []
        self.meanwhile: Callable[[], None] = lambda: None  # while it is asked to add
        self._waiting: list[asyncio.Future[None]] = []

    def verify_here(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode] | None:
        if self.is_elsewhere:
            return None
        self.asked.append((transactional_id, producer_id, producer_epoch, list(partitions)))
        return dict.fromkeys(partitions, self.error)

    async def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        self.asked.append((transactional_id, producer_id, producer_epoch, list(partitions)))
        self._waiting.append(asyncio.get_running_loop().create_future())
        await self._waiting[-1]
        return dict.fromkeys(partitions, self.error)

    async def add(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        self.added.append((transactional_id, producer_id, producer_epoch, list(partitions)))
        self.meanwhile()
        return dict.fromkeys(partitions, self.error)

    def answer(self) -> None:
        for each in self._waiting:
            each.set_result(None)
        self._waiting.clear()


Scenario = Callable[[ReplicaBroker, Coordinator], Awaitable[None]]


def play(folder: Path, scenario: Scenario, *, is_enabled: bool = True) -> None:
    async def run() -> None:
        async with replica_broker(folder) as broker:
            coordinator = Coordinator()
            services = vars(broker.services)
            services["transaction_verification"] = coordinator
            services["dynamic_settings"] = SimpleNamespace(
                settings=SimpleNamespace(transaction_partition_verification_enable=is_enabled)
            )
            broker.one.lead(isr=(1,))
            await scenario(broker, coordinator)

    asyncio.run(run())


def sending(*, sequence: int = 0, acks: int = 1, epoch: int = 0, in_transaction: bool = True) -> ProduceRequest:
    records = batch(
        "a", producer_id=PRODUCER, producer_epoch=epoch, base_sequence=sequence, is_transactional=in_transaction
    )
    data = PartitionProduceData(index=0, records=bytes(records))
    return ProduceRequest(
        transactional_id="tx", acks=acks, timeout_ms=1000,
        topic_data=[TopicProduceData(name="t", partition_data=[data])],
    )  # fmt: skip


async def row_of(answer: Answer) -> Any:
    response = await answer.now()
    if response is None:
        return None
    return response.responses[0].partition_responses[0]


async def produced(broker: ReplicaBroker, request: ProduceRequest | None = None, version: int = 11) -> Any:
    answer = broker.start(produce, request or sending(), version)
    await broker.one.partition.log.await_appends()
    return await row_of(answer)


def mark(broker: ReplicaBroker) -> None:
    marker = encode_marker(EndTxnMarker(ControlType.COMMIT, 0, NOW_MS), producer_id=PRODUCER, producer_epoch=0)
    broker.one.partition.append(bytearray(marker), origin=AppendOrigin.COORDINATOR, acks=1, now_ms=NOW_MS)


@played_by(play, "tmp_path", gives=2)
async def test_a_coordinator_elsewhere_is_waited_for_as_a_barrier(
    broker: ReplicaBroker, coordinator: Coordinator
) -> None:
    coordinator.is_elsewhere = True
    answer = broker.start(produce, sending(), 11)
    assert isinstance(answer._outcome, Deferred) and answer._outcome.is_barrier
    assert await row_of(answer) is None and broker.one.partition.log.offsets.next_offset == 0
    coordinator.answer()
    await asyncio.sleep(0)
    await broker.one.partition.log.await_appends()
    assert (await row_of(answer)).error_code == ErrorCode.NONE
    assert broker.one.partition.log.offsets.next_offset == 1


@played_by(play, "tmp_path", gives=2)
async def test_a_marker_that_comes_first_leaves_nothing_to_begin(
    broker: ReplicaBroker, coordinator: Coordinator
) -> None:
    coordinator.is_elsewhere = True
    answer = broker.start(produce, sending(), 11)
    assert await row_of(answer) is None
    mark(broker)
    coordinator.answer()
    assert (await row_of(answer)).error_code == ErrorCode.INVALID_TXN_STATE
    assert broker.one.partition.log.offsets.next_offset == 1
    assert not broker.one.partition.log.producers.states.has_open_transaction(PRODUCER, 0)


@played_by(play, "tmp_path", gives=2)
async def test_a_leadership_that_ends_meanwhile_refuses_the_batch(
    broker: ReplicaBroker, coordinator: Coordinator
) -> None:
    coordinator.is_elsewhere = True
    answer = broker.start(produce, sending(), 11)
    assert await row_of(answer) is None
    broker.one.follow(leader=2, epoch=1, partition_epoch=1)
    coordinator.answer()
    assert (await row_of(answer)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@played_by(play, "tmp_path", gives=2)
async def test_nobody_is_asked_by_a_follower(broker: ReplicaBroker, coordinator: Coordinator) -> None:
    broker.one.follow(leader=2, epoch=1, partition_epoch=1)
    assert (await produced(broker)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert coordinator.asked == []


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE])
@played_by(play, "tmp_path", gives=2)
async def test_a_producer_that_needs_no_answer_learns_of_a_refusal_by_the_end_of_its_connection(
    broker: ReplicaBroker, coordinator: Coordinator, error: ErrorCode
) -> None:
    coordinator.is_elsewhere, coordinator.error = True, error
    outcome: Any = produce(sending(acks=0), broker.context(11))
    outcomes: list[Any] = []
    outcome.then(outcomes.append)
    await asyncio.sleep(0)
    coordinator.answer()
    await asyncio.sleep(0)
    await broker.one.partition.log.await_appends()
    (found,) = outcomes
    assert found is None if error is ErrorCode.NONE else isinstance(found, CloseConnection)


@played_by(play, "tmp_path", gives=2)
async def test_a_client_that_is_gone_does_not_stop_the_append(broker: ReplicaBroker, coordinator: Coordinator) -> None:
    coordinator.is_elsewhere = True
    answer = broker.start(produce, sending(acks=-1), 11)
    assert await row_of(answer) is None
    answer.abandon()
    coordinator.answer()
    await asyncio.sleep(0)
    await broker.one.partition.log.await_appends()
    assert broker.one.partition.log.offsets.next_offset == 1 and broker.one.partition.waiters.produces_count == 0


async def added(broker: ReplicaBroker, request: ProduceRequest | None = None, version: int = 12) -> ErrorCode:
    answer = broker.start(produce, request or sending(), version)
    await asyncio.sleep(0)
    await broker.one.partition.log.await_appends()
    return ErrorCode((await row_of(answer)).error_code)


@pytest.mark.parametrize("is_enabled", [True, False])
def test_for_a_newer_client_the_first_batch_adds_the_partition(tmp_path: Path, is_enabled: bool) -> None:
    async def scenario(broker: ReplicaBroker, coordinator: Coordinator) -> None:
        assert await added(broker) is ErrorCode.NONE
        assert await added(broker, sending(sequence=1)) is ErrorCode.NONE
        assert coordinator.added == [("tx", PRODUCER, 0, [("t", 0)])] and coordinator.asked == []
        assert await added(broker, sending(epoch=1)) is ErrorCode.NONE, "a transaction of the next epoch"
        assert len(coordinator.added) == 2
        assert await added(broker, sending(sequence=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert len(coordinator.added) == 2, "nobody is asked about an older epoch"

    play(tmp_path, scenario, is_enabled=is_enabled)


@pytest.mark.parametrize(
    ("error", "version", "answered"),
    [
        (ErrorCode.CONCURRENT_TRANSACTIONS, 12, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.NOT_COORDINATOR, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.TRANSACTION_ABORTABLE, 12, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.INVALID_PRODUCER_EPOCH, 12, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 11, ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
)
def test_what_a_coordinator_s_error_is_to_a_producer(
    tmp_path: Path, error: ErrorCode, version: int, answered: ErrorCode
) -> None:
    async def scenario(broker: ReplicaBroker, coordinator: Coordinator) -> None:
        coordinator.error = error
        assert await added(broker, version=version) is answered
        assert broker.one.partition.log.offsets.next_offset == 0

    play(tmp_path, scenario)


@played_by(play, "tmp_path", gives=2)
async def test_the_first_batch_of_a_newer_client_begins_its_epoch(
    broker: ReplicaBroker, coordinator: Coordinator
) -> None:
    assert await added(broker, sending(sequence=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await added(broker, sending()) is ErrorCode.NONE


@played_by(play, "tmp_path", gives=2)
async def test_the_marker_of_the_transaction_before_may_come_while_the_partition_is_added(
    broker: ReplicaBroker, coordinator: Coordinator
) -> None:
    def mark_once() -> None:
        coordinator.meanwhile = lambda: None
        mark(broker)

    coordinator.meanwhile = mark_once
    assert await added(broker) is ErrorCode.NONE
    assert len(coordinator.added) == 2 and broker.one.partition.log.offsets.next_offset == 2
    mark(broker)
    coordinator.meanwhile = lambda: mark(broker)  # each time: no transaction ends so often
    assert await added(broker, sending(sequence=1)) is ErrorCode.INVALID_TXN_STATE
