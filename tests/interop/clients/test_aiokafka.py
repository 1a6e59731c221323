"""The whole tour with aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

pytestmark = pytest.mark.interop

Fresh = Callable[[str], str]


def run(tour: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(tour, 300))


async def created(bootstrap: str, topic: str, partitions: int = 1, **settings: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        configs = {name.replace("_", "."): value for name, value in settings.items()}
        answer = await admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=configs)], timeout_ms=30000)
        assert answer.topic_errors[0][1] == 0
    finally:
        await admin.close()


async def produced(bootstrap: str, topic: str, values: list[bytes], partition: int = 0, **settings: Any) -> list[int]:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, **settings) as producer:
        futures = [await producer.send(topic, value, partition=partition) for value in values]
        return [(await future).offset for future in futures]


async def take(consumer: AIOKafkaConsumer, count: int) -> list[Any]:
    taken: list[Any] = []
    while len(taken) < count:
        for records in (await consumer.getmany(timeout_ms=500, max_records=count - len(taken))).values():
            taken += records
    return taken


def consumer_of(bootstrap: str, *topics: str, **settings: Any) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        *topics, bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False, **settings
    )


def test_admin_creates_changes_grows_and_deletes(bootstrap: str, fresh: Fresh) -> None:
    async def tour() -> None:
        topic = fresh("t")
        await created(bootstrap, topic, 2, retention_ms="123456")
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"segment.bytes": "1000000"})])
            described = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
            assert "1000000" in str(described)
            await admin.create_partitions({topic: NewPartitions(3)})
            (description,) = await admin.describe_topics([topic])
            assert len(description["partitions"]) == 3
            await admin.delete_topics([topic])
            assert topic not in await admin.list_topics()
        finally:
            await admin.close()

    run(tour())


@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])
def test_every_compression_round_trips_by_assignment(bootstrap: str, fresh: Fresh, compression: str | None) -> None:
    async def tour() -> None:
        topic = fresh("t")
        await created(bootstrap, topic)
        values = [b"value %d " % index * 10 for index in range(300)]
        offsets = await produced(bootstrap, topic, values, compression_type=compression, linger_ms=10)
        assert offsets == list(range(300))
        async with consumer_of(bootstrap) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            assert [record.value for record in await take(consumer, 300)] == values

    run(tour())


def test_an_idempotent_producer_keeps_order(bootstrap: str, fresh: Fresh) -> None:
    async def tour() -> None:
        topic = fresh("t")
        await created(bootstrap, topic)
        values = [b"%d" % index for index in range(2000)]
        assert await produced(bootstrap, topic, values, enable_idempotence=True) == list(range(2000))
        async with consumer_of(bootstrap, isolation_level="read_committed") as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            assert [record.value for record in await take(consumer, 2000)] == values

    run(tour())


def test_a_group_shares_commits_and_goes_on(bootstrap: str, fresh: Fresh) -> None:
    async def tour() -> None:
        topic, group = fresh("t"), fresh("g")
        await created(bootstrap, topic, 2)
        for partition in range(2):
            await produced(bootstrap, topic, [b"%d-%d" % (partition, index) for index in range(20)], partition)
        settings = {"group_id": group, "session_timeout_ms": 30000, "heartbeat_interval_ms": 200}
        async with consumer_of(bootstrap, topic, **settings) as first:
            assert len({record.value for record in await take(first, 40)}) == 40
            await first.commit()
            async with consumer_of(bootstrap, topic, **settings) as second:
                while (len(first.assignment()), len(second.assignment())) != (1, 1):
                    assert not await first.getmany(timeout_ms=100) and not await second.getmany(timeout_ms=100)
            while len(first.assignment()) < 2:
                await first.getmany(timeout_ms=100)

    run(tour())


def test_offsets_lag_and_the_group(bootstrap: str, fresh: Fresh) -> None:
    async def tour() -> None:
        topic, group = fresh("t"), fresh("g")
        await created(bootstrap, topic)
        await produced(bootstrap, topic, [b"x"] * 10)
        partition = TopicPartition(topic, 0)
        async with consumer_of(bootstrap, group_id=group) as consumer:
            consumer.assign([partition])
            await consumer.commit({partition: (4, "note")})
            assert await consumer.committed(partition) == 4
            assert (await consumer.end_offsets([partition]))[partition] == 10
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        offsets = await admin.list_consumer_group_offsets(group)
        assert (offsets[partition].offset, offsets[partition].metadata) == (4, "note")
        assert group in [entry[0] for entry in await admin.list_consumer_groups()]
        await admin.close()

    run(tour())


def test_seek_by_time(bootstrap: str, fresh: Fresh) -> None:
    async def tour() -> None:
        topic, start = fresh("t"), 1_700_000_000_000
        await created(bootstrap, topic)
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            for index in range(20):
                await producer.send_and_wait(topic, b"%d" % index, timestamp_ms=start + index * 1000)
        partition = TopicPartition(topic, 0)
        async with consumer_of(bootstrap) as consumer:
            consumer.assign([partition])
            for wanted, offset in ((start, 0), (start + 1, 1), (start + 7000, 7)):
                found = (await consumer.offsets_for_times({partition: wanted}))[partition]
                assert found.offset == offset
                consumer.seek(partition, found.offset)
                assert (await take(consumer, 1))[0].value == b"%d" % offset

    run(tour())


def test_deleted_records_are_gone(bootstrap: str, fresh: Fresh) -> None:
    async def tour() -> None:
        topic = fresh("t")
        await created(bootstrap, topic)
        await produced(bootstrap, topic, [b"%d" % index for index in range(10)])
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        from aiokafka.admin import RecordsToDelete

        await admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(before_offset=7)})
        await admin.close()
        async with consumer_of(bootstrap) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            assert [record.value for record in await take(consumer, 3)] == [b"7", b"8", b"9"]

    run(tour())
