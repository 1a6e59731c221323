"""The producer on an event loop: memory, partitions, what goes into one request, and what becomes of records at its end."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from client.event_loop.producer import AsyncProducer, Delivered
from client.producing.core import ProducerLimits
from protocol.errors import ErrorCode, KafkaError
from protocol.key_hashes import by_murmur2
from protocol.messages.init_producer_id import InitProducerIdResponse
from protocol.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse
from protocol.records.record import Record
from protocol.topic_partition import TopicPartition


class Cluster:
    """Two brokers that lead a partition each, and answer when `answers` is set."""

    transaction_version = 0

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.answers = asyncio.Event()
        self.requests: list[tuple[int, list[int]]] = []
        self.log_append_time_ms = -1

    async def partition_count(self, topic: str) -> int:
        return 4

    def leader_of(self, key: TopicPartition) -> int | None:
        return key[1] % 2

    async def send_to_any(self, request: Any, response_type: type[Any]) -> Any:
        return InitProducerIdResponse(throttle_time_ms=0, error_code=0, producer_id=7, producer_epoch=0)

    async def send(
        self, broker_id: int, request: ProduceRequest, response_type: type[Any], *, max_version: int | None = None
    ) -> Any:
        rows = request.topic_data[0].partition_data
        self.requests.append((broker_id, [row.index for row in rows]))
        self.asked.set()
        await self.answers.wait()
        done = [
            PartitionProduceResponse(
                index=row.index, error_code=0, base_offset=10, log_append_time_ms=self.log_append_time_ms
            )
            for row in rows
        ]
        return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=done)])


def producer_of(cluster: Cluster, **options: Any) -> AsyncProducer:
    return AsyncProducer(cluster, lambda: 5, Random(1), **options)  # type: ignore[arg-type]


async def test_batches_of_one_leader_go_in_one_request_and_each_record_learns_its_offset() -> None:
    cluster = Cluster()
    producer = producer_of(cluster)
    cluster.answers.set()
    sent = [await producer.send("t", b"v", partition=partition) for partition in (0, 1, 2, 0)]
    await producer.flush()
    assert sorted(cluster.requests) == [(0, [0, 2]), (1, [1])]
    places = ((0, 10), (1, 10), (2, 10), (0, 11))
    assert [each.result() for each in sent] == [Delivered("t", *each, 5) for each in places]
    await producer.close()


def records(count: int, size_bytes: int = 1) -> list[Record]:
    return [Record(0, 5, None, b"x" * size_bytes) for _ in range(count)]


async def test_many_records_of_a_partition_have_one_future_with_the_offset_of_each() -> None:
    cluster = Cluster()
    producer = producer_of(cluster, limits=ProducerLimits(batch_size_bytes=50))
    cluster.answers.set()
    assert not await (await producer.send_many("t", 1, []))
    sent = await producer.send_many("t", 1, records(5))
    assert not sent.done()
    assert list(await sent) == [10, 11, 10, 11, 10], "of each batch, as this cluster counts"
    with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
        await producer.send_many("t", 1, [*records(2), *records(1, 2 << 20)])
    await producer.close()
    assert len(cluster.requests) == 3


async def test_many_records_take_bounded_memory_and_fail_as_the_first_that_fails() -> None:
    cluster = Cluster()
    producer = producer_of(cluster, buffer_memory_bytes=1_000, max_record_bytes=500)
    sending = asyncio.ensure_future(producer.send_many("t", 0, records(4, 400)))
    await cluster.asked.wait()
    assert not sending.done(), "two of them fill the memory"
    cluster.answers.set()
    await producer.flush()
    assert list(await (await sending)) == [10, 11, 10, 11]
    cluster.answers.clear()
    failing = await producer.send_many("t", 0, records(2, 400))
    await producer.close()
    with pytest.raises(KafkaError, match="the producer was closed"):
        failing.result()


async def test_a_key_has_one_partition_and_no_key_keeps_one_for_a_batch() -> None:
    cluster = Cluster()
    cluster.answers.set()
    producer = producer_of(cluster, limits=ProducerLimits(batch_size_bytes=200))
    keyed = await producer.send("t", b"v", b"key")
    plain = [await producer.send("t", b"x" * 150) for _ in range(20)]
    await producer.flush()
    assert keyed.result().partition == by_murmur2(b"key", 4)
    assert {each.result().partition for each in plain} == {0, 1, 2, 3}
    await producer.close()


async def test_records_without_an_answer_take_bounded_memory() -> None:
    cluster = Cluster()
    producer = producer_of(cluster, buffer_memory_bytes=1_000)
    sent = [await producer.send("t", b"x" * 400, partition=0) for _ in range(2)]
    third = asyncio.ensure_future(producer.send("t", b"x" * 400, partition=0))
    flushing = asyncio.ensure_future(producer.flush())
    await cluster.asked.wait()
    assert not third.done()
    with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
        await producer.send("t", b"x" * 1_001, partition=0)
    cluster.answers.set()
    await flushing
    await (await third)
    assert all(each.done() for each in sent)
    await producer.close()


async def test_a_record_has_at_most_the_size_that_the_producer_allows() -> None:
    cluster = Cluster()
    cluster.answers.set()
    small, large = producer_of(cluster), producer_of(cluster, max_record_bytes=3 << 20)
    with pytest.raises(KafkaError, match="1048576 is the limit"):
        await small.send("t", b"x" * (2 << 20), partition=0)
    sent = [await large.send("t", b"x" * (2 << 20), partition=partition) for partition in (0, 2)]
    await large.flush()
    assert [each.result().partition for each in sent] == [0, 2]
    assert cluster.requests == [(0, [0]), (0, [2])], "what is larger than a request goes alone"
    await small.close()
    await large.close()


async def test_a_record_has_the_time_of_the_broker_where_the_topic_takes_it() -> None:
    cluster = Cluster()
    cluster.log_append_time_ms = 77
    cluster.answers.set()
    producer = producer_of(cluster)
    sent = await producer.send("t", b"v", partition=0, timestamp_ms=9)
    await producer.flush()
    assert sent.result().timestamp_ms == 77
    await producer.close()


async def test_what_has_no_answer_fails_at_the_end() -> None:
    producer = producer_of(Cluster())
    sent = [await producer.send("t", b"v", partition=0) for _ in range(2)]
    await producer.close()
    for each in sent:
        with pytest.raises(KafkaError) as raised:
            each.result()
        assert raised.value.code is ErrorCode.NETWORK_EXCEPTION
