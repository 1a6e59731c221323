"""The whole tour with kafka-python."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import MessageSizeTooLargeError, TopicAlreadyExistsError
from kafka.structs import OffsetAndMetadata

from tests.kafka_python_members import member_of

pytestmark = pytest.mark.interop

Fresh = Callable[[str], str]
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> Any:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


def created(admin: Any, topic: str, partitions: int = 1, **settings: str) -> str:
    configs = {name.replace("_", "."): value for name, value in settings.items()}
    admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=configs)], timeout_ms=25000)
    return topic


def produce(bootstrap: str, topic: str, values: list[bytes], partition: int = 0, **settings: Any) -> list[int]:
    """Send and wait; answers the offsets."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, **settings)
    try:
        futures = [producer.send(topic, value, partition=partition) for value in values]
        return [future.get(PATIENCE_S).offset for future in futures]
    finally:
        producer.close()


def take(consumer: Any, count: int) -> list[Any]:
    taken: list[Any] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(taken) < count and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=500, max_records=count - len(taken)).values():
            taken += records
    assert len(taken) == count
    return taken


def consumer_of(bootstrap: str, group: str | None = None, *topics: str, **settings: Any) -> Any:
    base: dict[str, Any] = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
    given = {"bootstrap_servers": bootstrap, **base, **settings}
    return member_of(group, *topics, **given) if group and topics else KafkaConsumer(group_id=group, **given)


def test_admin_creates_describes_changes_grows_and_deletes(admin: Any, fresh: Fresh) -> None:
    topic = created(admin, fresh("t"), 2, retention_ms="123456")
    with pytest.raises(TopicAlreadyExistsError):
        created(admin, topic)
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"segment.bytes": "1000000"})])
    described = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    text = str(described)
    assert "1000000" in text and "123456" in text
    admin.create_partitions({topic: 4})
    (description,) = [entry for entry in admin.describe_topics([topic]) if entry["name"] == topic]
    assert len(description["partitions"]) == 4
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()


@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])
def test_every_compression_round_trips_by_assignment(
    bootstrap: str, admin: Any, fresh: Fresh, compression: str | None
) -> None:
    topic = created(admin, fresh("t"))
    values = [b"value %d " % index * 10 for index in range(300)]
    assert produce(bootstrap, topic, values, compression_type=compression, linger_ms=20) == list(range(300))
    consumer = consumer_of(bootstrap)
    consumer.assign([TopicPartition(topic, 0)])
    assert [record.value for record in take(consumer, 300)] == values
    consumer.close()


def test_without_idempotence_and_with_each_acks(bootstrap: str, admin: Any, fresh: Fresh) -> None:
    topic = created(admin, fresh("t"))
    for acks, offsets in ((1, [0, 1]), ("all", [2, 3])):
        assert produce(bootstrap, topic, [b"a", b"b"], acks=acks, enable_idempotence=False) == offsets


def test_headers_and_timestamps(bootstrap: str, admin: Any, fresh: Fresh) -> None:
    topic = created(admin, fresh("t"))
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    producer.send(topic, None, key=b"k", headers=[("h", b"1")], timestamp_ms=1_700_000_000_123).get(PATIENCE_S)
    producer.close()
    consumer = consumer_of(bootstrap)
    consumer.assign([TopicPartition(topic, 0)])
    (record,) = take(consumer, 1)
    assert (record.key, record.value, record.timestamp) == (b"k", None, 1_700_000_000_123)
    assert list(record.headers) == [("h", b"1")]
    consumer.close()


def test_a_group_shares_commits_and_goes_on(bootstrap: str, admin: Any, fresh: Fresh) -> None:
    topic, group = created(admin, fresh("t"), 2), fresh("g")
    for partition in range(2):
        produce(bootstrap, topic, [b"%d-%d" % (partition, index) for index in range(20)], partition)
    settings = {"session_timeout_ms": 30000, "heartbeat_interval_ms": 300}
    first = consumer_of(bootstrap, group, topic, **settings)
    assert len({record.value for record in take(first, 40)}) == 40
    first.commit()
    second = consumer_of(bootstrap, group, topic, **settings)
    shared = lambda: (len(first.assignment()), len(second.assignment())) == (1, 1)
    deadline = time.monotonic() + PATIENCE_S
    with ThreadPoolExecutor(2) as threads:
        # At once, as consumers are: one whose poll ends while the other's has yet to begin joins anew, and so on for ever.
        while not shared() and time.monotonic() < deadline:
            assert not any(threads.map(lambda consumer: consumer.poll(100), (first, second)))
    assert shared(), (first.assignment(), second.assignment())
    second.close()
    deadline = time.monotonic() + PATIENCE_S
    while len(first.assignment()) < 2 and time.monotonic() < deadline:
        first.poll(100)
    assert len(first.assignment()) == 2
    first.close()


def test_offsets_lag_and_the_end_of_a_group(bootstrap: str, admin: Any, fresh: Fresh) -> None:
    topic, group = created(admin, fresh("t")), fresh("g")
    produce(bootstrap, topic, [b"x"] * 10)
    partition = TopicPartition(topic, 0)
    consumer = consumer_of(bootstrap, group)
    consumer.assign([partition])
    consumer.commit({partition: OffsetAndMetadata(4, "note", 0)})
    assert consumer.committed(partition) == 4
    assert consumer.end_offsets([partition])[partition] - consumer.committed(partition) == 6
    assert consumer.beginning_offsets([partition])[partition] == 0
    consumer.close()
    assert group in str(admin.list_groups())
    admin.delete_groups([group])
    assert group not in str(admin.list_groups())


def test_seek_by_time_and_back(bootstrap: str, admin: Any, fresh: Fresh) -> None:
    topic = created(admin, fresh("t"))
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    start = 1_700_000_000_000
    for index in range(20):
        producer.send(topic, b"%d" % index, timestamp_ms=start + index * 1000)
    producer.flush(PATIENCE_S)
    producer.close()
    partition = TopicPartition(topic, 0)
    consumer = consumer_of(bootstrap)
    consumer.assign([partition])
    for wanted, offset in ((start, 0), (start + 1, 1), (start + 7000, 7)):
        found = consumer.offsets_for_times({partition: wanted})[partition]
        assert found.offset == offset
        consumer.seek(partition, found.offset)
        assert take(consumer, 1)[0].value == b"%d" % offset
    assert consumer.offsets_for_times({partition: start + 10**9})[partition] is None
    consumer.close()


def test_deleted_records_are_gone(bootstrap: str, admin: Any, fresh: Fresh) -> None:
    topic = created(admin, fresh("t"))
    produce(bootstrap, topic, [b"%d" % index for index in range(10)])
    admin.delete_records({TopicPartition(topic, 0): 7})
    consumer = consumer_of(bootstrap)
    consumer.assign([TopicPartition(topic, 0)])
    assert [record.value for record in take(consumer, 3)] == [b"7", b"8", b"9"]
    consumer.close()


def test_too_large_a_message_is_refused(bootstrap: str, admin: Any, fresh: Fresh) -> None:
    topic = created(admin, fresh("t"), max_message_bytes="1000")
    with pytest.raises(MessageSizeTooLargeError):
        produce(bootstrap, topic, [b"x" * 2000])
