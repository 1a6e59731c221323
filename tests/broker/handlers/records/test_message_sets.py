"""Produce v0 to v2 and Fetch v0 to v3: clients of before record batches."""

from __future__ import annotations

import asyncio
import struct
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from broker.handlers.records.fetch import fetch
from broker.handlers.records.fetch_message_sets import fetch_message_sets
from broker.handlers.records.produce_message_sets import produce_message_sets
from broker.observability.metric_table import CONVERSIONS_TIME, FETCH_CONVERSIONS, PRODUCE_CONVERSIONS
from config.topic import LogConfig
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from protocol.messages.produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData
from protocol.records.any_format import iter_any_headers, iter_any_records
from protocol.records.compression import Compression
from protocol.records.legacy import encode_message, encode_message_set
from protocol.records.record import Record, encode_batch
from tests.async_tests import played_by
from tests.broker.handlers.replica_broker import Answer, ReplicaBroker, replica_broker
from tests.storage.logs import NOW_MS

Scenario = Callable[[ReplicaBroker], Awaitable[None]]


def play(folder: Path, scenario: Scenario, **settings: Any) -> None:
    async def run() -> None:
        async with replica_broker(folder, **settings) as broker:
            broker.one.lead(isr=(1,))
            await scenario(broker)

    asyncio.run(run())


def sample(count: int, first_offset: int = 0) -> list[Record]:
    return [Record(first_offset + at, NOW_MS + at, b"key", b"value %d" % at) for at in range(count)]


def producing(*sets: bytes | None, acks: int = 1, partitions: tuple[int, ...] = (0,)) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=each) for index, each in zip(partitions, sets, strict=True)]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=data)])


def fetching(offset: int, *, max_bytes: int = 1 << 20, wait_ms: int = 0, min_bytes: int = 0) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=wait_ms, min_bytes=min_bytes, topics=[FetchTopic(topic="t", partitions=[partition])]
    )


async def response_of(broker: ReplicaBroker, answer: Answer) -> Any:
    for _ in range(200):
        response = await answer.now()
        if response is not None:
            return response
        if broker.one.partition.log.failure is None:
            await broker.one.partition.log.await_appends()
    raise AssertionError("no answer")


async def produced(
    broker: ReplicaBroker, *sets: bytes | None, version: int = 2, **more: Any
) -> PartitionProduceResponse:
    response = await response_of(broker, broker.start(produce_message_sets, producing(*sets, **more), version))
    row: PartitionProduceResponse = response.responses[0].partition_responses[0]
    return row


async def fetched(broker: ReplicaBroker, offset: int, version: int, **more: Any) -> PartitionData:
    response = await response_of(broker, broker.start(fetch_message_sets, fetching(offset, **more), version))
    row: PartitionData = response.responses[0].partitions[0]
    return row


def records_in(row: PartitionData) -> list[tuple[int, int, bytes | None]]:
    content = bytes(row.records or b"")
    return [
        (header.magic, record.offset, record.value)
        for position, header in iter_any_headers(content)
        for record in iter_any_records(content, position, header, 1 << 22)
    ]


@played_by(play, "tmp_path")
async def test_the_sets_of_one_request_are_not_all_converted_before_the_first_is_written(broker: ReplicaBroker) -> None:
    """A hundred small sets make a hundred large batches."""
    broker.one.partition.log.configure(LogConfig({"compression.type": "uncompressed"}))
    bomb = encode_message_set([Record(0, NOW_MS, None, bytes(500_000))], 1, compression=Compression.GZIP)
    partition = broker.one.partition  # of a hundred partitions one does for all
    broker.services.partitions.find = lambda _topic, _index: partition  # type: ignore[method-assign]
    request = producing(*[bomb] * 100, partitions=tuple(range(100)))
    tracemalloc.start()
    try:
        response = await response_of(broker, broker.start(produce_message_sets, request, 2))
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()
    rows = response.responses[0].partition_responses
    assert [row.base_offset for row in rows] == list(range(100))


@played_by(play, "tmp_path")
async def test_a_produce_waits_for_the_replicas(broker: ReplicaBroker) -> None:
    broker.one.lead(isr=(1, 2))
    answer = broker.start(produce_message_sets, producing(encode_message(0, 0, 0, None, b"a"), acks=-1), 0)
    for _ in range(5):
        assert await answer.now() is None
    broker.wait(1000)
    response = await response_of(broker, answer)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT


@played_by(play, "tmp_path")
async def test_a_first_batch_that_is_too_large_for_its_partition_ends_no_wait_of_who_is_not_given_it(
    broker: ReplicaBroker,
) -> None:
    await produced(broker, encode_message(1, 0, 0, None, bytes(1000)))
    request = fetching(0, max_bytes=100, wait_ms=5000, min_bytes=1000)
    waiting = broker.start(fetch_message_sets, request, 2)
    assert await waiting.now() is None
    waiting.abandon()
    assert (await response_of(broker, broker.start(fetch_message_sets, request, 3))).responses


@played_by(play, "tmp_path")
async def test_conversions_are_counted(broker: ReplicaBroker) -> None:
    await produced(broker, encode_message_set(sample(5), 1))
    await produced(broker, encode_batch(sample(2)))
    await fetched(broker, 0, 1)
    counted = {(sample.metric, sample.labels, sample.suffix): sample.value for sample in broker.metrics.samples()}
    assert counted[PRODUCE_CONVERSIONS, (), ""] == 5
    assert counted[FETCH_CONVERSIONS, (), ""] >= 5
    assert counted[CONVERSIONS_TIME, ("Produce",), "_count"] == 1
    assert counted[CONVERSIONS_TIME, ("Fetch",), "_count"] == 1


@played_by(play, "tmp_path")
async def test_memory_is_reserved_while_a_large_conversion_stands_in_line_and_released(broker: ReplicaBroker) -> None:
    await produced(broker, encode_message_set(sample(8000), 1))
    budget = broker.services.response_memory.budget
    async with broker.services.serial_queue.begin():
        answer = broker.start(fetch_message_sets, fetching(0), 0)
        for _ in range(3):
            assert await answer.now() is None
        assert budget.used_bytes == 2 << 20
    await response_of(broker, answer)
    assert budget.used_bytes == 0


@played_by(play, "tmp_path")
async def test_an_answer_is_no_larger_than_was_asked_for_but_for_its_first_batch(broker: ReplicaBroker) -> None:
    for _ in range(50):
        await produced(broker, encode_batch([Record(at, NOW_MS, None, b"x") for at in range(10)]))
    for version in range(4):
        row = await fetched(broker, 0, version, max_bytes=2000)
        assert row.records is not None and len(row.records) <= 2000
        assert len(records_in(row)) >= 10
        assert struct.unpack_from(">q", row.records)[0] == 0


def test_clients_that_do_not_know_of_storage_errors_look_for_another_leader(tmp_path: Path) -> None:
    answered: list[int] = []

    async def scenario(broker: ReplicaBroker) -> None:
        await produced(broker, encode_message(1, 0, 0, None, b"a"))
        broker.one.partition.log.writer.refusals.fail(OSError("broken"))
        answered.extend([(await fetched(broker, 0, version)).error_code for version in range(4)])
        for version in (5, 6):
            response = await response_of(broker, broker.start(fetch, fetching(0), version))
            answered.append(response.responses[0].partitions[0].error_code)

    play(tmp_path, scenario)
    assert answered == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 5 + [ErrorCode.KAFKA_STORAGE_ERROR]
