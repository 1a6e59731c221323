"""Before the first write of a transaction in a group's partition its coordinator is asked, and a marker makes that void."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.cluster.internal_topics import InternalLog
from broker.cluster.transactions.offset_commit_verification import OffsetsPartitionVerification
from coordinator.runtime.contract import BatchProducer
from protocol.errors import ErrorCode, KafkaError
from protocol.records.control import ControlType, EndTxnMarker, encode_marker
from protocol.records.record import Record, encode_batch
from protocol.topic_partition import TopicPartition
from storage.log.partition_log import AppendOrigin
from tests.doubles.clock import ManualClock
from tests.replication.replica_world import Replica, replica
from tests.storage.logs import NOW_MS

PRODUCER = BatchProducer(7, 0)


class Coordinator:
    """A transaction coordinator that answers `error`. `meanwhile` runs while it is asked."""

    def __init__(self) -> None:
        self.error = ErrorCode.NONE
        self.asked: list[tuple[str, int, int, list[TopicPartition]]] = []
        self.added: list[tuple[str, int, int, list[TopicPartition]]] = []
        self.meanwhile: Any = lambda: None

    async def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        self.asked.append((transactional_id, producer_id, producer_epoch, list(partitions)))
        self.meanwhile()
        return dict.fromkeys(partitions, self.error)

    async def add(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        self.added.append((transactional_id, producer_id, producer_epoch, list(partitions)))
        self.meanwhile()
        return dict.fromkeys(partitions, self.error)


class World:
    def __init__(self, one: Replica) -> None:
        self.one = one
        self.coordinator = Coordinator()
        self.is_enabled = True
        partitions: Any = SimpleNamespace(find=lambda _topic, index: one.partition if index == 0 else None)
        self.log = InternalLog("t", partitions, ManualClock(NOW_MS), acks=-1, read_bytes=1 << 20)
        self.verification = OffsetsPartitionVerification("t", partitions, self.coordinator, lambda: self.is_enabled)

    async def verify(self, producer: BatchProducer = PRODUCER, partition: int = 0) -> object | None:
        return await self.verification.verify(partition, "tx", producer)

    async def append(self, guard: object | None, producer: BatchProducer = PRODUCER) -> ErrorCode:
        batch = encode_batch(
            [Record(0, NOW_MS, b"key", b"value", [])],
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        outcomes: list[ErrorCode] = []
        try:
            self.log.append(0, batch, lambda error, _next_offset: outcomes.append(error), guard)
        except KafkaError as error:
            return error.code
        await self.one.partition.log.await_appends()
        [outcome] = outcomes
        return outcome

    def append_marker(self, kind: ControlType = ControlType.ABORT) -> None:
        marker = encode_marker(EndTxnMarker(kind, 0, NOW_MS), producer_id=7, producer_epoch=0)
        self.one.partition.append(bytearray(marker), origin=AppendOrigin.COORDINATOR, acks=-1, now_ms=NOW_MS)


@asynccontextmanager
async def leading(folder: Path) -> AsyncIterator[World]:
    async with replica(folder) as one:
        one.lead(isr=(1,), replicas=(1,))
        yield World(one)


async def test_the_first_write_is_verified_and_the_next_is_not(tmp_path: Path) -> None:
    async with leading(tmp_path) as world:
        assert await world.append(await world.verify()) is ErrorCode.NONE
        assert world.coordinator.asked == [("tx", 7, 0, [("t", 0)])]
        assert await world.append(await world.verify()) is ErrorCode.NONE
        assert len(world.coordinator.asked) == 1
        world.append_marker()
        assert await world.append(await world.verify()) is ErrorCode.NONE
        assert len(world.coordinator.asked) == 2


@pytest.mark.parametrize("error", [ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.NETWORK_EXCEPTION])
async def test_what_the_coordinator_does_not_confirm_is_refused(tmp_path: Path, error: ErrorCode) -> None:
    async with leading(tmp_path) as world:
        world.coordinator.error = error
        with pytest.raises(KafkaError) as refused:
            await world.verify()
        assert refused.value.code is error


async def test_a_marker_after_the_verification_makes_it_void(tmp_path: Path) -> None:
    """Else the late write would begin a transaction that no coordinator ends."""
    async with leading(tmp_path) as world:
        world.coordinator.meanwhile = world.append_marker
        guard = await world.verify()
        assert await world.append(guard) is ErrorCode.INVALID_TXN_STATE
        assert not world.one.partition.log.producers.states.has_open_transaction(7, 0)


async def test_a_marker_after_a_write_that_was_not_verified_makes_that_void_too(tmp_path: Path) -> None:
    async with leading(tmp_path) as world:
        assert await world.append(await world.verify()) is ErrorCode.NONE
        ongoing = await world.verify()
        world.append_marker()
        assert await world.append(ongoing) is ErrorCode.INVALID_TXN_STATE


async def test_a_producer_that_is_fenced_is_refused_by_the_log(tmp_path: Path) -> None:
    async with leading(tmp_path) as world:
        newer = BatchProducer(7, 1)
        assert await world.append(await world.verify(newer), newer) is ErrorCode.NONE
        assert await world.append(await world.verify(), PRODUCER) is ErrorCode.INVALID_PRODUCER_EPOCH


async def test_without_verification_any_producer_may_begin_a_transaction(tmp_path: Path) -> None:
    async with leading(tmp_path) as world:
        world.is_enabled = False
        guard = await world.verify()
        assert guard is None
        assert await world.append(guard) is ErrorCode.NONE
        assert world.coordinator.asked == []


async def test_only_a_leader_verifies(tmp_path: Path) -> None:
    async with leading(tmp_path) as world:
        with pytest.raises(KafkaError) as elsewhere:
            await world.verify(partition=1)
        assert elsewhere.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        world.one.follow(epoch=1)
        with pytest.raises(KafkaError) as lost:
            await world.verify()
        assert lost.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert world.coordinator.asked == []


async def test_for_a_newer_client_the_partition_is_added_whether_transactions_are_verified_or_not(
    tmp_path: Path,
) -> None:
    async with leading(tmp_path) as world:
        world.is_enabled = False
        for _ in range(2):
            guard = await world.verification.verify(0, "tx", PRODUCER, adds=True)
            assert await world.append(guard) is ErrorCode.NONE
        assert world.coordinator.added == [("tx", 7, 0, [("t", 0)])] and world.coordinator.asked == []
        newer = BatchProducer(7, 1)
        assert await world.append(await world.verification.verify(0, "tx", newer, adds=True), newer) is ErrorCode.NONE
        with pytest.raises(KafkaError) as refused:
            await world.verification.verify(0, "tx", PRODUCER, adds=True)
        assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


async def test_the_marker_of_the_transaction_before_may_come_while_the_partition_is_added(tmp_path: Path) -> None:
    async with leading(tmp_path) as world:

        def mark_once() -> None:
            world.coordinator.meanwhile = lambda: None
            world.append_marker()

        world.coordinator.meanwhile = mark_once
        guard = await world.verification.verify(0, "tx", PRODUCER, adds=True)
        assert await world.append(guard) is ErrorCode.NONE and len(world.coordinator.added) == 2
