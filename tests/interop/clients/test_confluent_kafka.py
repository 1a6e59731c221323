"""The whole tour with confluent-kafka, that is librdkafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

pytestmark = pytest.mark.interop

Fresh = Callable[[str], str]
PATIENCE_S = 60.0
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


def created(bootstrap: str, topic: str, partitions: int = 1, **settings: str) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    config = {name.replace("_", "."): value for name, value in settings.items()}
    admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(PATIENCE_S)
    return admin


def produce(bootstrap: str, topic: str, values: list[bytes], partition: int = 0, **settings: Any) -> list[Message]:
    """Send and wait; answers the delivered messages."""
    config = {name.replace("_", "."): value for name, value in settings.items()}
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **config})
    delivered: list[Message] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        delivered.append(message)

    for value in values:
        producer.produce(topic, value, partition=partition, on_delivery=on_delivery)
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
    return delivered


@contextmanager
def consuming(bootstrap: str, group: str, **settings: Any) -> Iterator[Consumer]:
    config = {name.replace("_", "."): value for name, value in settings.items()}
    base = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**base, "enable.auto.commit": False, **config})
    try:
        yield consumer
    finally:
        consumer.close()


def take(consumer: Consumer, count: int) -> list[Message]:
    """The next `count` messages."""
    taken: list[Message] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(taken) < count and time.monotonic() < deadline:
        for message in consumer.consume(count - len(taken), 0.5):
            assert message.error() is None, message.error()
            taken.append(message)
    assert len(taken) == count
    return taken


def consume_until(holds: Callable[[], bool], *consumers: Consumer) -> list[Message]:
    """Poll each in turn until it holds; what came meanwhile."""
    came: list[Message] = []
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        for consumer in consumers:
            came += consumer.consume(10, 0.1)
    return came


def test_admin_creates_describes_changes_grows_and_deletes(bootstrap: str, fresh: Fresh) -> None:
    topic = fresh("t")
    admin = created(bootstrap, topic, 2, retention_ms="123456")
    assert len(admin.list_topics(topic, PATIENCE_S).topics[topic].partitions) == 2
    resource = ConfigResource(ResourceType.TOPIC, topic)
    assert admin.describe_configs([resource])[resource].result(PATIENCE_S)["retention.ms"].value == "123456"
    change = ConfigEntry("segment.bytes", "1000000", incremental_operation=AlterConfigOpType.SET)
    changed = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    admin.incremental_alter_configs([changed])[changed].result(PATIENCE_S)
    settings = admin.describe_configs([resource])[resource].result(PATIENCE_S)
    assert (settings["segment.bytes"].value, settings["retention.ms"].value) == ("1000000", "123456")
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(PATIENCE_S)
    assert len(admin.list_topics(topic, PATIENCE_S).topics[topic].partitions) == 5
    with pytest.raises(KafkaException) as caught:
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(PATIENCE_S)
    assert caught.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    admin.delete_topics([topic])[topic].result(PATIENCE_S)
    assert topic not in admin.list_topics(timeout=PATIENCE_S).topics


def test_cluster_is_described(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    cluster = admin.describe_cluster().result(PATIENCE_S)
    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [bootstrap]
    assert cluster.controller.id == 0


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_every_compression_round_trips_by_assignment(bootstrap: str, fresh: Fresh, compression: str) -> None:
    topic = fresh("t")
    created(bootstrap, topic)
    values = [b"value %d " % index * 10 for index in range(500)]
    delivered = produce(bootstrap, topic, values, compression_type=compression)
    assert [message.offset() for message in delivered] == list(range(500))
    with consuming(bootstrap, fresh("g")) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        taken = take(consumer, 500)
    assert [message.value() for message in taken] == values
    assert [message.offset() for message in taken] == list(range(500))


def test_keys_headers_timestamps_and_nulls_survive(bootstrap: str, fresh: Fresh) -> None:
    topic = fresh("t")
    created(bootstrap, topic)
    producer = Producer({"bootstrap.servers": bootstrap})
    headers = [("a", b"1"), ("a", None), ("", b"")]
    producer.produce(topic, None, key=b"k", headers=headers, timestamp=1_700_000_000_123)
    producer.produce(topic, b"", key=None)
    assert producer.flush(PATIENCE_S) == 0
    with consuming(bootstrap, fresh("g")) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        first, second = take(consumer, 2)
    assert (first.key(), first.value(), first.headers()) == (b"k", None, headers)
    assert first.timestamp()[1] == 1_700_000_000_123
    assert (second.key(), second.value()) == (None, b"")


def test_an_idempotent_producer_keeps_order(bootstrap: str, fresh: Fresh) -> None:
    topic = fresh("t")
    created(bootstrap, topic)
    values = [b"%d" % index for index in range(20_000)]
    produce(bootstrap, topic, values, enable_idempotence=True, batch_num_messages=500)
    with consuming(bootstrap, fresh("g")) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert [message.value() for message in take(consumer, len(values))] == values


def test_a_missing_topic_is_made_by_its_first_message(bootstrap: str, fresh: Fresh) -> None:
    topic = fresh("auto")
    produce(bootstrap, topic, [b"first"], partition=0)
    with consuming(bootstrap, fresh("g")) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert take(consumer, 1)[0].value() == b"first"


def test_a_group_shares_rebalances_commits_and_goes_on(bootstrap: str, fresh: Fresh) -> None:
    topic, group = fresh("t"), fresh("g")
    created(bootstrap, topic, 4)
    for partition in range(4):
        produce(bootstrap, topic, [b"%d-%d" % (partition, index) for index in range(50)], partition)
    settings = {"session_timeout_ms": 30000, "heartbeat_interval_ms": 300}
    with consuming(bootstrap, group, **settings) as first:
        first.subscribe([topic])
        seen = {message.value() for message in take(first, 200)}
        first.commit(asynchronous=False)
        assert len(first.assignment()) == 4
        with consuming(bootstrap, group, **settings) as second:
            second.subscribe([topic])
            shared = lambda: [len(first.assignment()), len(second.assignment())] == [2, 2]
            assert not consume_until(shared, first, second)
            for partition in range(4):
                produce(bootstrap, topic, [b"more %d" % partition], partition)
            more = set()
            deadline = time.monotonic() + PATIENCE_S
            while len(more) < 4 and time.monotonic() < deadline:
                for message in [*first.consume(10, 0.1), *second.consume(10, 0.1)]:
                    more.add(message.value())
            assert more == {b"more %d" % partition for partition in range(4)}
            second.commit(asynchronous=False)
        consume_until(lambda: len(first.assignment()) == 4, first)
    assert len(seen) == 200


def test_a_consumer_of_the_newer_group_protocol_gets_no_record_and_no_word(bootstrap: str, fresh: Fresh) -> None:
    """As docs/operations.md says: this librdkafka waits for a broker with a later version of the heartbeat."""
    topic, group = fresh("t"), fresh("g")
    admin = created(bootstrap, topic)
    produce(bootstrap, topic, [b"one"])
    with consuming(bootstrap, group, group_protocol="consumer") as consumer:
        consumer.subscribe([topic])
        assert consumer.consume(1, 3) == [], "neither a record nor an error"
        groups = admin.list_consumer_groups().result(PATIENCE_S)
        assert group not in {each.group_id for each in groups.valid}
    with consuming(bootstrap, group, group_protocol="classic") as consumer:
        consumer.subscribe([topic])
        assert take(consumer, 1)[0].value() == b"one"


def test_offsets_lag_and_the_end_of_a_group(bootstrap: str, fresh: Fresh) -> None:
    topic, group = fresh("t"), fresh("g")
    admin = created(bootstrap, topic)
    produce(bootstrap, topic, [b"x"] * 10)
    with consuming(bootstrap, group) as consumer:
        consumer.subscribe([topic])
        take(consumer, 10)
        consumer.commit(offsets=[TopicPartition(topic, 0, 4, metadata="note")], asynchronous=False)
        (committed,) = consumer.committed([TopicPartition(topic, 0)], PATIENCE_S)
        assert (committed.offset, committed.metadata) == (4, "note")
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), PATIENCE_S) == (0, 10)
        description = admin.describe_consumer_groups([group])[group].result(PATIENCE_S)
        assert description.state.name == "STABLE"
        assert [len(member.assignment.topic_partitions) for member in description.members] == [1]
    listed = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(PATIENCE_S)
    end = admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.latest()})[TopicPartition(topic, 0)].result(
        PATIENCE_S
    )
    assert end.offset - listed.topic_partitions[0].offset == 6
    assert group in [entry.group_id for entry in admin.list_consumer_groups().result(PATIENCE_S).valid]
    moved = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 9)])
    assert admin.alter_consumer_group_offsets([moved])[group].result(PATIENCE_S).topic_partitions[0].error is None
    with consuming(bootstrap, group) as consumer:
        consumer.subscribe([topic])
        assert [message.offset() for message in take(consumer, 1)] == [9]
    admin.delete_consumer_groups([group])[group].result(PATIENCE_S)
    with pytest.raises(KafkaException) as caught:
        admin.delete_consumer_groups([group])[group].result(PATIENCE_S)
    assert caught.value.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND


def test_seek_by_time(bootstrap: str, fresh: Fresh) -> None:
    topic = fresh("t")
    created(bootstrap, topic)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    start = 1_700_000_000_000
    for index in range(100):
        producer.produce(topic, b"%d" % index, timestamp=start + index * 1000)
        if index % 10 == 9:
            assert producer.flush(PATIENCE_S) == 0
    with consuming(bootstrap, fresh("g")) as consumer:
        for wanted, offset in (
            (start, 0),
            (start + 500, 1),
            (start + 42_000, 42),
            (start + 42_001, 43),
            (start + 99_000, 99),
        ):
            (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, wanted)], PATIENCE_S)
            assert found.offset == offset
            consumer.assign([found])
            assert take(consumer, 1)[0].value() == b"%d" % offset
        (beyond,) = consumer.offsets_for_times([TopicPartition(topic, 0, start + 10**9)], PATIENCE_S)
        assert beyond.offset == -1


def test_deleted_records_are_gone(bootstrap: str, fresh: Fresh) -> None:
    topic = fresh("t")
    admin = created(bootstrap, topic)
    produce(bootstrap, topic, [b"%d" % index for index in range(10)])
    partition = TopicPartition(topic, 0, 7)
    assert admin.delete_records([partition])[partition].result(PATIENCE_S).low_watermark == 7
    with consuming(bootstrap, fresh("g")) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert [message.value() for message in take(consumer, 3)] == [b"7", b"8", b"9"]


def test_too_large_a_message_is_refused(bootstrap: str, fresh: Fresh) -> None:
    topic = fresh("t")
    created(bootstrap, topic, max_message_bytes="1000")
    producer = Producer({"bootstrap.servers": bootstrap})
    errors: list[KafkaError | None] = []
    producer.produce(topic, b"x" * 2000, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert [error.code() for error in errors if error] == [KafkaError.MSG_SIZE_TOO_LARGE]
