"""What clients and followers are told of a partition whose log directory is offline, since it failed or since the start.

Recorded with Apache Kafka 3.9.1, two log directories, one of them moved away; each row is of all versions served.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from broker.handlers.records.fetch import fetch
from broker.handlers.records.list_offsets import list_offsets
from broker.handlers.records.produce import produce
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.handlers.replica_broker import ReplicaBroker, replica_broker
from tests.differential.wire import fitted
from tests.storage.logs import batch

Scenario = Callable[[ReplicaBroker], Awaitable[None]]
STORAGE, NOT_LEADER = ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER
ANY_EPOCH, LATER_EPOCH = -1, 9


def go_offline(broker: ReplicaBroker) -> None:
    """As the log manager and `Partitions.on_directory_failed` do it."""
    broker.one.partition.log.take_offline(OSError(errno.EIO, "I/O error"))
    broker.one.partition.stop(STORAGE)


@pytest.fixture(params=["failed", "offline at the start"])
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Scenario], None]:
    def run_in(scenario: Scenario) -> None:
        async def run() -> None:
            async with replica_broker(tmp_path) as broker:
                if request.param == "failed":
                    broker.one.lead(isr=(1,), epoch=1, partition_epoch=1)
                    await broker.one.append("a")
                    go_offline(broker)
                else:
                    broker.lose_partition()
                await scenario(broker)

        asyncio.run(run())

    return run_in


def producing(acks: int = 1) -> ProduceRequest:
    data = [PartitionProduceData(index=0, records=bytes(batch("b")))]
    return ProduceRequest(acks=acks, timeout_ms=100, topic_data=[TopicProduceData(name="t", partition_data=data)])


def fetching(broker: ReplicaBroker, version: int, replica: int, epoch: int) -> FetchRequest:
    row = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000, current_leader_epoch=epoch)
    topic_id = broker.one.partition.topic_id
    return FetchRequest(
        replica_id=replica if version < 15 else -1,
        replica_state=ReplicaState(replica_id=replica),
        max_wait_ms=1000,
        min_bytes=1,
        session_epoch=-1,
        topics=[FetchTopic(topic="t", topic_id=topic_id, partitions=[row])],
    )


def only(rows: Any) -> Any:
    (row,) = rows
    return row


@pytest.mark.parametrize("replica", [-1, -2, 2, 5])
def test_fetch(play: Callable[[Scenario], None], replica: int) -> None:
    async def scenario(broker: ReplicaBroker) -> None:
        for version in range(4, 18):
            for epoch in (ANY_EPOCH, LATER_EPOCH):
                answer = await broker.start(
                    fetch, fitted(fetching(broker, version, replica, epoch), version), version
                ).now()
                row = only(only(answer.responses).partitions)
                assert row.error_code == (STORAGE if version > 5 else NOT_LEADER), version
                assert (row.high_watermark, row.last_stable_offset, bytes(row.records)) == (-1, -1, b"")

    play(scenario)


def test_list_offsets(play: Callable[[Scenario], None]) -> None:
    async def scenario(broker: ReplicaBroker) -> None:
        for version in range(10):
            for replica in (-1, -2, 2):
                for epoch in (ANY_EPOCH, LATER_EPOCH):
                    row = ListOffsetsPartition(partition_index=0, timestamp=-1, current_leader_epoch=epoch)
                    request = ListOffsetsRequest(
                        replica_id=replica, topics=[ListOffsetsTopic(name="t", partitions=[row])]
                    )
                    answer = await broker.start(list_offsets, fitted(request, version), version).now()
                    assert only(only(answer.topics).partitions).error_code == STORAGE

    play(scenario)


async def test_a_fetch_that_waits_hears_of_it(tmp_path: Path) -> None:
    async with replica_broker(tmp_path) as broker:
        broker.one.lead(isr=(1,), epoch=1, partition_epoch=1)
        waiting = broker.start(fetch, fitted(fetching(broker, 12, -1, ANY_EPOCH), 12), 12)
        assert await waiting.now() is None
        go_offline(broker)
        answer = await waiting.now()
        assert only(only(answer.responses).partitions).error_code == STORAGE


async def test_a_topic_that_is_deleted_is_unknown(tmp_path: Path) -> None:
    async with replica_broker(tmp_path) as broker:
        broker.lose_partition()
        broker.forget_topic()
        answer = await broker.start(produce, producing(), 9).now()
        row = only(only(answer.responses).partition_responses)
        assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
