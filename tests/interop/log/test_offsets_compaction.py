"""A running broker compacts its `__consumer_offsets`, and the topics of its users, while clients work.

After many commits of few offsets the partition holds little more than the last of each, a restart finds every one of them,
and a consumer that reads on from the start meets the latest value of every key. Settings changed meanwhile take effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from storage.checkpoint import decode_offsets
from tests.interop.retried_requests import answered
from tests.oracle.barnabas import Barnabas
from tests.oracle.process import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(400)]

GROUPS = 5
COMMITS = 400
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.segment.bytes": "10000",
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.threads": "0",
    "log.segment.delete.delay.ms": "0",
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Barnabas]:
    broker = Barnabas(SETTINGS, folder=tmp_path)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def set_broker(admin: AdminClient, **values: str) -> None:
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in values.items()
    ]
    for changed in admin.incremental_alter_configs(
        [ConfigResource(ResourceType.BROKER, "0", incremental_configs=entries)]
    ).values():
        changed.result(30)


def size_of(folder: Path) -> int:
    """Of a log's segments. The cleaner may take one away after it was listed."""
    size = 0
    for path in folder.glob("*.log"):
        with suppress(FileNotFoundError):
            size += path.stat().st_size
    return size


def first_dirty(broker: Barnabas, topic: str) -> int:
    path = broker.data / "cleaner-offset-checkpoint"
    return decode_offsets(path.read_bytes()).get((topic, 0), 0) if path.exists() else 0


def commit_often(bootstrap: str, first: int) -> None:
    for group in range(GROUPS):
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"g{group}", "enable.auto.commit": False})
        for number in range(first, first + COMMITS):
            consumer.commit(offsets=[TopicPartition("orders", 0, number, "m" * 20)], asynchronous=False)
        consumer.close()


def committed(bootstrap: str) -> list[int]:
    found = []
    for group in range(GROUPS):
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"g{group}"})
        asked = [TopicPartition("orders", 0)]
        found.append(answered(lambda c=consumer, a=asked: c.committed(a, timeout=30))[0].offset)  # type: ignore[misc]
        consumer.close()
    return found


def test_committed_offsets_survive_their_compaction(broker: Barnabas) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for created in admin.create_topics([NewTopic("orders", 1, 1)]).values():
        created.result(30)
    folder = broker.data / "__consumer_offsets-0"
    commit_often(broker.bootstrap_servers, 0)
    before = size_of(folder)
    assert before > 15 * 10_000 and not first_dirty(broker, "__consumer_offsets"), "nothing is cleaned without workers"
    set_broker(admin, log_cleaner_threads="1")
    assert wait_until(lambda: size_of(folder) < 4 * 10_000, timeout_s=90), f"{size_of(folder)} of {before} bytes"
    commit_often(broker.bootstrap_servers, COMMITS)
    assert wait_until(lambda: size_of(folder) < 4 * 10_000, timeout_s=90), f"{size_of(folder)} of {before} bytes"
    assert committed(broker.bootstrap_servers) == [2 * COMMITS - 1] * GROUPS
    assert broker.stop() == 0
    broker.start()
    assert wait_until(lambda: committed(broker.bootstrap_servers) == [2 * COMMITS - 1] * GROUPS, timeout_s=60)
    broker.kill()
    broker.start()
    assert wait_until(lambda: committed(broker.bootstrap_servers) == [2 * COMMITS - 1] * GROUPS, timeout_s=60)


def test_consumers_read_on_while_their_topic_is_compacted(broker: Barnabas) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    config = {"cleanup.policy": "compact", "segment.bytes": "20000", "min.cleanable.dirty.ratio": "0.1"}
    for created in admin.create_topics([NewTopic("prices", 1, 1, config=config)]).values():
        created.result(30)
    set_broker(admin, log_cleaner_threads="2")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "batch.num.messages": 10, "linger.ms": 1})
    latest: dict[bytes, bytes] = {}
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers, "group.id": "reader", "enable.auto.commit": False,
            "auto.offset.reset": "earliest", "fetch.message.max.bytes": 2000,
        }
    )  # fmt: skip
    for turn in range(5):
        for number in range(1000):
            key, value = b"%d" % (number % 37), b"%d %d" % (turn, number)
            latest[key] = value
            producer.produce("prices", key=key, value=value)
        assert producer.flush(60) == 0
        consumer.assign([TopicPartition("prices", 0, 0)])
        found: dict[bytes, bytes] = {}
        while found != latest:
            message = consumer.poll(60)
            assert message is not None and message.error() is None, "the latest values do not come"
            found[message.key()] = message.value()
    consumer.close()
    assert wait_until(lambda: first_dirty(broker, "prices") > 4000, timeout_s=60)
