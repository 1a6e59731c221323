"""Produce v0 to v2 and Fetch v0 to v3: clients of before record batches."""

from __future__ import annotations

import asyncio
import struct
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from broker.handlers.records.fetch import fetch
from broker.handlers.records.fetch_message_sets import fetch_message_sets
from broker.handlers.records.produce_message_sets import produce_message_sets
from broker.network.deferred import CloseConnection
from broker.observability.metric_table import CONVERSIONS_TIME, FETCH_CONVERSIONS, PRODUCE_CONVERSIONS
from config.topic import LogConfig
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from protocol.records.any_format import iter_any_headers, iter_any_records
from protocol.records.compression import Compression
from protocol.records.legacy import encode_message, encode_message_set
from protocol.records.record import Record, encode_batch
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


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4])
@pytest.mark.parametrize("magic", [0, 1])
def test_what_old_producers_send_old_consumers_read(tmp_path: Path, magic: int, codec: Compression) -> None:
    async def scenario(broker: ReplicaBroker) -> None:
        content = encode_message_set(sample(3), magic, compression=codec)
        for version, offset in ((0, 0), (1, 3), (2, 6)):
            row = await produced(broker, content, version=version)
            assert (row.error_code, row.base_offset) == (0, offset)
        for version in range(4):
            row = await fetched(broker, 0, version)
            assert row.error_code == 0 and row.high_watermark == 9
            found = records_in(row)
            assert {each[0] for each in found} == {0 if version < 2 else 1}
            assert [each[1:] for each in found] == [(at, b"value %d" % (at % 3)) for at in range(len(found))]
            assert len(found) >= 3
        assert broker.one.partition.log.log_end_offset == 9

    play(tmp_path, scenario)


def test_batches_are_taken_from_old_producers_too(tmp_path: Path) -> None:
    async def scenario(broker: ReplicaBroker) -> None:
        assert (await produced(broker, encode_batch(sample(2)))).base_offset == 0
        assert (await produced(broker, b"")).error_code == 0
        assert (await produced(broker, encode_message(1, 0, 0, None, b"cut")[:-1])).error_code == 0
        assert broker.one.partition.log.log_end_offset == 2

    play(tmp_path, scenario)


def test_each_partition_answers_for_itself(tmp_path: Path) -> None:
    async def scenario(broker: ReplicaBroker) -> None:
        sound, damaged = encode_message(1, 0, 0, None, b"a"), bytearray(encode_message(1, 0, 0, None, b"a"))
        damaged[-1] ^= 1
        for first, code in ((sound, ErrorCode.NONE), (bytes(damaged), ErrorCode.CORRUPT_MESSAGE)):
            request = producing(first, sound, partitions=(0, 7))
            response = await response_of(broker, broker.start(produce_message_sets, request, 1))
            rows = response.responses[0].partition_responses
            assert [row.error_code for row in rows] == [code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert broker.one.partition.log.log_end_offset == 1

    play(tmp_path, scenario)


def test_of_a_partition_named_again_the_last_set_counts(tmp_path: Path) -> None:
    async def scenario(broker: ReplicaBroker) -> None:
        sets = encode_message_set(sample(3), 1), encode_message_set(sample(2), 1)
        request = producing(*sets, partitions=(0, 0))
        response = await response_of(broker, broker.start(produce_message_sets, request, 1))
        rows = response.responses[0].partition_responses
        assert [(row.error_code, row.base_offset) for row in rows] == [(ErrorCode.NONE, 0)]
        assert broker.one.partition.log.log_end_offset == 2

    play(tmp_path, scenario)


def test_the_sets_of_one_request_are_not_all_converted_before_the_first_is_written(tmp_path: Path) -> None:
    """A hundred small sets make a hundred large batches."""

    async def scenario(broker: ReplicaBroker) -> None:
        broker.one.partition.log.config = LogConfig({"compression.type": "uncompressed"})
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

    play(tmp_path, scenario)


def test_no_answer_for_acks_of_zero_but_a_closed_connection_for_a_failure(tmp_path: Path) -> None:
    async def scenario(broker: ReplicaBroker) -> None:
        context = broker.context(1)
        sound = encode_message(0, 0, 0, None, b"a")
        assert await produce_message_sets(producing(sound, acks=0), context) is None
        with pytest.raises(CloseConnection):
            await produce_message_sets(producing(sound[:-1] + b"b", acks=0), context)

    play(tmp_path, scenario)


def test_a_produce_waits_for_the_replicas(tmp_path: Path) -> None:
    async def scenario(broker: ReplicaBroker) -> None:
        broker.one.lead(isr=(1, 2))
        answer = broker.start(produce_message_sets, producing(encode_message(0, 0, 0, None, b"a"), acks=-1), 0)
        for _ in range(5):
            assert await answer.now() is None
        broker.wait(1000)
        response = await response_of(broker, answer)
        assert response.responses[0].partition_responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT

    play(tmp_path, scenario)


def test_a_fetch_waits_for_records(tmp_path: Path) -> None:
    async def scenario(broker: ReplicaBroker) -> None:
        answer = broker.start(fetch_message_sets, fetching(0, wait_ms=5000, min_bytes=1), 1)
        assert await answer.now() is None
        await produced(broker, encode_message(0, 0, 0, None, b"awaited"))
        response = await response_of(broker, answer)
        assert records_in(response.responses[0].partitions[0]) == [(0, 0, b"awaited")]

    play(tmp_path, scenario)


def test_a_first_batch_that_is_too_large_for_its_partition_ends_no_wait_of_who_is_not_given_it(tmp_path: Path) -> None:
    async def scenario(broker: ReplicaBroker) -> None:
        await produced(broker, encode_message(1, 0, 0, None, bytes(1000)))
        request = fetching(0, max_bytes=100, wait_ms=5000, min_bytes=1000)
        waiting = broker.start(fetch_message_sets, request, 2)
        assert await waiting.now() is None
        waiting.abandon()
        assert (await response_of(broker, broker.start(fetch_message_sets, request, 3))).responses

    play(tmp_path, scenario)


def test_a_first_batch_that_is_too_large(tmp_path: Path) -> None:
    async def scenario(broker: ReplicaBroker) -> None:
        await produced(broker, encode_message(1, 0, 0, None, bytes(1000)))
        for version in (0, 1, 2):
            assert not (await fetched(broker, 0, version, max_bytes=100)).records
        assert len(records_in(await fetched(broker, 0, 3, max_bytes=100))) == 1

    play(tmp_path, scenario)


def test_a_topic_without_conversion(tmp_path: Path) -> None:
    async def scenario(broker: ReplicaBroker) -> None:
        log = broker.one.partition.log
        log.config = LogConfig({"message.downconversion.enable": "false"})
        await produced(broker, encode_message(1, 0, 0, None, b"a"))
        for version in range(4):
            row = await fetched(broker, 0, version)
            assert (row.error_code, row.high_watermark, row.records) == (ErrorCode.UNSUPPORTED_VERSION, -1, None)
        copying = fetching(0)
        copying.replica_id = 2
        response = await response_of(broker, broker.start(fetch_message_sets, copying, 3))
        assert len(records_in(response.responses[0].partitions[0])) == 1

    play(tmp_path, scenario)


def test_zstandard_has_no_place_in_a_message_set(tmp_path: Path) -> None:
    async def scenario(broker: ReplicaBroker) -> None:
        await produced(broker, encode_message(1, 0, 0, None, b"a"))
        await produced(broker, encode_batch(sample(2), compression=Compression.ZSTD))
        assert len(records_in(await fetched(broker, 0, 3))) == 1
        row = await fetched(broker, 1, 3)
        assert (row.error_code, row.records) == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, None)

    play(tmp_path, scenario)


def test_conversions_are_counted(tmp_path: Path) -> None:
    async def scenario(broker: ReplicaBroker) -> None:
        await produced(broker, encode_message_set(sample(5), 1))
        await produced(broker, encode_batch(sample(2)))
        await fetched(broker, 0, 1)
        counted = {(sample.metric, sample.labels, sample.suffix): sample.value for sample in broker.metrics.samples()}
        assert counted[PRODUCE_CONVERSIONS, (), ""] == 5
        assert counted[FETCH_CONVERSIONS, (), ""] >= 5
        assert counted[CONVERSIONS_TIME, ("Produce",), "_count"] == 1
        assert counted[CONVERSIONS_TIME, ("Fetch",), "_count"] == 1

    play(tmp_path, scenario)


def test_memory_is_reserved_while_a_large_conversion_stands_in_line_and_released(tmp_path: Path) -> None:
    async def scenario(broker: ReplicaBroker) -> None:
        await produced(broker, encode_message_set(sample(8000), 1))
        budget = broker.services.response_memory.budget
        async with broker.services.serial_queue.begin():
            answer = broker.start(fetch_message_sets, fetching(0), 0)
            for _ in range(3):
                assert await answer.now() is None
            assert budget.used_bytes == 2 << 20
        await response_of(broker, answer)
        assert budget.used_bytes == 0

    play(tmp_path, scenario)


def test_an_answer_is_no_larger_than_was_asked_for_but_for_its_first_batch(tmp_path: Path) -> None:
    async def scenario(broker: ReplicaBroker) -> None:
        for _ in range(50):
            await produced(broker, encode_batch([Record(at, NOW_MS, None, b"x") for at in range(10)]))
        for version in range(4):
            row = await fetched(broker, 0, version, max_bytes=2000)
            assert row.records is not None and len(row.records) <= 2000
            assert len(records_in(row)) >= 10
            assert struct.unpack_from(">q", row.records)[0] == 0

    play(tmp_path, scenario)


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
