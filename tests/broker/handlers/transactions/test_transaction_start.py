"""The first batches of a transaction in a Produce request: who is asked, what producers are told, and in which order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.handlers.records.produce import produce
from broker.network.deferred import CloseConnection, Deferred
from protocol.errors import ErrorCode
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.control import ControlType, EndTxnMarker, encode_marker
from protocol.topic_partition import TopicPartition
from storage.log.partition_log import AppendOrigin
from tests.broker.handlers.replica_broker import Answer, ReplicaBroker, replica_broker
from tests.storage.logs import NOW_MS, batch

PRODUCER = 7
T = ("t", 0)


class Coordinator:
    """Fits `CoordinatorVerification`: answers at once, or when `answer` is called while `is_elsewhere`."""

    def __init__(self) -> None:
        self.error = ErrorCode.NONE
        self.is_elsewhere = False
        self.asked: list[tuple[str, int, int, list[TopicPartition]]] = []
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


def test_the_coordinator_is_asked_before_the_first_batch_alone(tmp_path: Path) -> None:
    async def scenario(broker: ReplicaBroker, coordinator: Coordinator) -> None:
        assert (await produced(broker)).base_offset == 0
        assert (await produced(broker, sending(sequence=1))).base_offset == 1
        assert coordinator.asked == [("tx", PRODUCER, 0, [T])]
        mark(broker)
        assert (await produced(broker, sending(sequence=2))).base_offset == 3
        assert len(coordinator.asked) == 2

    play(tmp_path, scenario)


NOT_CONFIRMED = "Unable to verify the partition has been added to the transaction. Underlying error: "
NOT_ADDED = "Partition was not added to the transaction"


@pytest.mark.parametrize(
    ("said", "version", "told", "message"),
    [
        *[
            (said, version, ErrorCode.NOT_ENOUGH_REPLICAS, f"{NOT_CONFIRMED}{said.name}")
            for said in (
                ErrorCode.CONCURRENT_TRANSACTIONS,
                ErrorCode.NETWORK_EXCEPTION,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                ErrorCode.NOT_COORDINATOR,
            )
            for version in (8, 11)
        ],
        (ErrorCode.INVALID_TXN_STATE, 11, ErrorCode.INVALID_TXN_STATE, NOT_ADDED),
        (ErrorCode.TRANSACTION_ABORTABLE, 10, ErrorCode.INVALID_TXN_STATE, NOT_ADDED),
        (ErrorCode.TRANSACTION_ABORTABLE, 11, ErrorCode.TRANSACTION_ABORTABLE, None),
        (ErrorCode.INVALID_PRODUCER_EPOCH, 11, ErrorCode.INVALID_PRODUCER_EPOCH, None),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 9, ErrorCode.INVALID_PRODUCER_ID_MAPPING, None),
    ],
)
@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_producers_are_told_what_they_know(
    tmp_path: Path, said: ErrorCode, version: int, told: ErrorCode, message: str | None, is_elsewhere: bool
) -> None:
    async def scenario(broker: ReplicaBroker, coordinator: Coordinator) -> None:
        coordinator.error, coordinator.is_elsewhere = said, is_elsewhere
        answer = broker.start(produce, sending(), version)
        await asyncio.sleep(0)
        coordinator.answer()
        row = await row_of(answer)
        assert (ErrorCode(row.error_code), row.base_offset, row.log_start_offset) == (told, -1, -1)
        assert row.error_message == (said.message if message is None else message)
        assert broker.one.partition.log.next_offset == 0

    play(tmp_path, scenario)


def test_a_coordinator_elsewhere_is_waited_for_as_a_barrier(tmp_path: Path) -> None:
    async def scenario(broker: ReplicaBroker, coordinator: Coordinator) -> None:
        coordinator.is_elsewhere = True
        answer = broker.start(produce, sending(), 11)
        assert isinstance(answer._outcome, Deferred) and answer._outcome.is_barrier
        assert await row_of(answer) is None and broker.one.partition.log.next_offset == 0
        coordinator.answer()
        await asyncio.sleep(0)
        await broker.one.partition.log.await_appends()
        assert (await row_of(answer)).error_code == ErrorCode.NONE
        assert broker.one.partition.log.next_offset == 1

    play(tmp_path, scenario)


def test_a_marker_that_comes_first_leaves_nothing_to_begin(tmp_path: Path) -> None:
    async def scenario(broker: ReplicaBroker, coordinator: Coordinator) -> None:
        coordinator.is_elsewhere = True
        answer = broker.start(produce, sending(), 11)
        assert await row_of(answer) is None
        mark(broker)
        coordinator.answer()
        assert (await row_of(answer)).error_code == ErrorCode.INVALID_TXN_STATE
        assert broker.one.partition.log.next_offset == 1
        assert not broker.one.partition.log.producers.states.has_open_transaction(PRODUCER, 0)

    play(tmp_path, scenario)


def test_a_leadership_that_ends_meanwhile_refuses_the_batch(tmp_path: Path) -> None:
    async def scenario(broker: ReplicaBroker, coordinator: Coordinator) -> None:
        coordinator.is_elsewhere = True
        answer = broker.start(produce, sending(), 11)
        assert await row_of(answer) is None
        broker.one.follow(leader=2, epoch=1, partition_epoch=1)
        coordinator.answer()
        assert (await row_of(answer)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    play(tmp_path, scenario)


def test_nobody_is_asked_by_a_follower(tmp_path: Path) -> None:
    async def scenario(broker: ReplicaBroker, coordinator: Coordinator) -> None:
        broker.one.follow(leader=2, epoch=1, partition_epoch=1)
        assert (await produced(broker)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert coordinator.asked == []

    play(tmp_path, scenario)


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_producer_that_needs_no_answer_learns_of_a_refusal_by_the_end_of_its_connection(
    tmp_path: Path, error: ErrorCode
) -> None:
    async def scenario(broker: ReplicaBroker, coordinator: Coordinator) -> None:
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

    play(tmp_path, scenario)


def test_what_needs_no_verification_is_not_verified(tmp_path: Path) -> None:
    async def scenario(broker: ReplicaBroker, coordinator: Coordinator) -> None:
        assert (await produced(broker, sending(in_transaction=False))).error_code == ErrorCode.NONE
        assert coordinator.asked == []

    play(tmp_path, scenario)


def test_a_setting_turns_it_off(tmp_path: Path) -> None:
    async def scenario(broker: ReplicaBroker, coordinator: Coordinator) -> None:
        assert (await produced(broker)).error_code == ErrorCode.NONE
        assert coordinator.asked == []
        assert broker.one.partition.log.producers.states.has_open_transaction(PRODUCER, 0)

    play(tmp_path, scenario, is_enabled=False)


def test_a_client_that_is_gone_does_not_stop_the_append(tmp_path: Path) -> None:
    async def scenario(broker: ReplicaBroker, coordinator: Coordinator) -> None:
        coordinator.is_elsewhere = True
        answer = broker.start(produce, sending(acks=-1), 11)
        assert await row_of(answer) is None
        answer.abandon()
        coordinator.answer()
        await asyncio.sleep(0)
        await broker.one.partition.log.await_appends()
        assert broker.one.partition.log.next_offset == 1 and broker.one.partition.waiters.produces_count == 0

    play(tmp_path, scenario)
