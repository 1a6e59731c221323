"""One data directory, two brokers: Apache Kafka writes it, ours takes it over and appends, Apache Kafka takes it back.

Both know the same ZooKeeper, with the same broker id, so that the znodes move along. What clients see must be the same
before and after each change of hands: records, offsets, timestamps, headers, groups, producers. The one that takes over
must have nothing to complain of in what the other left.
"""

from __future__ import annotations

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop import kafka_directory
from tests.interop.kafka_directory import CODECS, START_MS, Seen
from tests.interop.swap.moved_directories import (
    MovedDirectories,
    are_led,
    assert_same,
    complaints_about_storage,
    move_log,
    producers,
    seen,
    verify_files,
)
from tests.oracle.barnabas import Barnabas
from tests.oracle.broker import Broker
from tests.oracle.folder import paths
from tests.oracle.kafka import KafkaServer
from tests.oracle.process import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(400)]


def append(bootstrap: str) -> None:
    """More of everything that does not need a coordinator of transactions."""
    for codec in CODECS:
        kafka_directory.produce(
            bootstrap, f"codec-{codec}", 200, {"compression.type": codec, "batch.num.messages": "20"}, first=1000
        )
    for topic in ("shortened", "transactions", "compacted"):
        settings = {"enable.idempotence": "true", "batch.num.messages": "10"}
        kafka_directory.produce(bootstrap, topic, 200, settings, first=2000)
    kafka_directory.commit(bootstrap, "readers", "codec-gzip", 0, 300, "further")
    kafka_directory.consume_as_group(bootstrap, "members", "codec-none")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for deleted in admin.delete_records([TopicPartition("shortened", 0, 211)]).values():
        deleted.result(30)


def open_transaction(bootstrap: str) -> Producer:
    """One that stays undecided for as long as the test runs, whoever may abort it."""
    settings = {"transactional.id": "undecided", "transaction.timeout.ms": 900_000, "message.timeout.ms": 60_000}
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    producer.init_transactions(60)
    producer.begin_transaction()
    for number in range(5):
        producer.produce("mixed", key=b"open", value=b"%d" % number, partition=1, timestamp=START_MS)
    assert producer.flush(60) == 0
    return producer


@pytest.mark.parametrize("end", [pytest.param("stop", marks=pytest.mark.long), "kill"])
def test_there_and_back(moved: MovedDirectories, end: str) -> None:
    """Apache Kafka, ours, Apache Kafka; each left by `end`."""
    kafka = moved.start(KafkaServer)
    kafka_directory.fill(kafka.bootstrap_servers)
    kafka_directory.wait_until_compacted(kafka.bootstrap_servers, moved.folders)
    kafka_directory.seal_compacted(kafka.bootstrap_servers)
    undecided = open_transaction(kafka.bootstrap_servers)
    written, known = seen(kafka), producers(kafka)
    assert (
        len(written.records["mixed", 1, "read_committed"]) == 20 < len(written.records["mixed", 1, "read_uncommitted"])
    )
    assert (
        written.records["transactions", 0, "read_committed"] != written.records["transactions", 0, "read_uncommitted"]
    )
    assert known["mixed", 1] and known["transactions", 0]
    moved.stop(end)
    del undecided

    barnabas = moved.start(Barnabas)
    assert_same(seen(barnabas), written)
    assert producers(barnabas) == known
    if end == "stop":
        assert not complaints_about_storage(barnabas)
    append(barnabas.bootstrap_servers)
    appended, known = seen(barnabas), producers(barnabas)
    assert appended.bounds["codec-zstd", 0] == (0, 600) and appended.bounds["shortened", 0] == (211, 500)
    for key, records in written.records.items():
        if key[0] != "shortened":
            assert appended.records[key][: len(records)] == records, key
    moved.stop(end)
    if end == "stop":
        verify_files(moved)

    again = moved.start(KafkaServer)
    assert_same(seen(again), appended)
    assert producers(again) == known
    if end == "stop":
        assert not complaints_about_storage(again)
        assert "Skipping recovery" in again.log.read_text()
    append(again.bootstrap_servers)
    moved.stop("stop")
    verify_files(moved)


@pytest.mark.parametrize("end", ["stop", pytest.param("kill", marks=pytest.mark.long)])
def test_ours_first(moved: MovedDirectories, end: str) -> None:
    """The directory, and the cluster in ZooKeeper, are made by ours."""
    barnabas = moved.start(Barnabas)
    kafka_directory.fill(barnabas.bootstrap_servers, has_transactions=False)
    kafka_directory.wait_until_compacted(barnabas.bootstrap_servers, moved.folders)
    kafka_directory.seal_compacted(barnabas.bootstrap_servers)
    written, known = seen(barnabas), producers(barnabas)
    assert written.bounds["shortened", 0] == (137, 300) and len(written.committed) == 4
    moved.stop(end)
    if end == "stop":
        verify_files(moved)

    kafka = moved.start(KafkaServer)
    assert_same(seen(kafka), written)
    assert producers(kafka) == known
    if end == "stop":
        assert not complaints_about_storage(kafka)
        assert "Skipping recovery" in kafka.log.read_text()
    append(kafka.bootstrap_servers)
    kafka_directory.transact(kafka.bootstrap_servers, "transactions", "later", rounds=12)
    appended, known = seen(kafka), producers(kafka)
    moved.stop(end)

    again = moved.start(Barnabas)
    assert_same(seen(again), appended)
    assert producers(again) == known
    moved.stop("stop")
    verify_files(moved)


def test_message_sets_of_old_formats(moved: MovedDirectories) -> None:
    """Segments in formats v0 and v1, which Apache Kafka writes for a protocol before 3.0."""
    settings = {"inter.broker.protocol.version": "2.8"}
    kafka = moved.start(KafkaServer, settings)
    kafka_directory.fill_old(kafka.bootstrap_servers)
    topics = [f"{name}-{codec}" for name in ("v0", "v1") for codec in kafka_directory.OLD_CODECS]

    def records(broker: Broker) -> dict[str, list[Seen]]:
        return {topic: kafka_directory.read(broker.bootstrap_servers, topic, 0, "read_uncommitted") for topic in topics}

    written = records(kafka)
    assert all(len(each) == 200 for each in written.values())
    moved.stop("stop")
    barnabas = moved.start(Barnabas)
    assert wait_until(lambda: are_led(barnabas, topics), 60)
    assert records(barnabas) == written
    for topic in topics:
        kafka_directory.produce(barnabas.bootstrap_servers, topic, 20, {}, has_headers=False)
    appended = records(barnabas)
    moved.stop("stop")
    verify_files(moved)
    again = moved.start(KafkaServer, settings)
    assert wait_until(lambda: are_led(again, topics), 60)
    assert records(again) == appended


def test_deleted_topics_stay_deleted(moved: MovedDirectories) -> None:
    """A topic that one broker has set aside is gone with the other, and nobody takes it for a partition."""
    kafka = moved.start(KafkaServer, {"log.segment.delete.delay.ms": "600000"})
    kafka_directory.fill(kafka.bootstrap_servers)
    assert wait_until(lambda: bool(paths(moved.folder, "*/doomed-*-delete")), 60)
    moved.stop("kill")
    barnabas = moved.start(Barnabas)
    assert wait_until(lambda: not paths(moved.folder, "*/doomed-*"), 60)
    assert wait_until(lambda: are_led(barnabas, ["codec-gzip"]), 60)
    topics = AdminClient({"bootstrap.servers": barnabas.bootstrap_servers}).list_topics(timeout=60).topics
    assert "doomed" not in topics


def test_a_log_that_was_moved_can_be_taken_over(moved: MovedDirectories) -> None:
    """What a copy was made of is indexed batch by batch: Apache Kafka recovers segments whose indexes hold 16 entries."""
    barnabas = moved.start(Barnabas)
    admin = AdminClient({"bootstrap.servers": barnabas.bootstrap_servers, "log_level": 0})
    config = {"segment.bytes": "65536", "index.interval.bytes": "512", "segment.index.bytes": "192"}
    admin.create_topics([NewTopic("moved", 1, 1, config=config)])["moved"].result(60)
    kafka_directory.produce(barnabas.bootstrap_servers, "moved", 1_000, {"batch.num.messages": "1"})
    move_log(moved, "moved")
    before = kafka_directory.read(barnabas.bootstrap_servers, "moved", 0, "read_uncommitted")
    assert len(before) == 1_000
    moved.kill()
    kafka = moved.start(KafkaServer)
    assert wait_until(lambda: are_led(kafka, ["moved"]), 60)
    assert kafka_directory.read(kafka.bootstrap_servers, "moved", 0, "read_uncommitted") == before
    moved.stop("stop")
    verify_files(moved, "moved-0")
