"""One data directory, two brokers: Apache Kafka writes it, ours takes it over and appends, Apache Kafka takes it back.

Both know the same ZooKeeper, with the same broker id, so that the znodes move along. What clients see must be the same
before and after each change of hands: records, offsets, timestamps, headers, groups, producers. The one that takes over
must have nothing to complain of in what the other left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from tests.interop import kafka_directory
from tests.interop.asking import bounds
from tests.interop.conftest import need_java
from tests.interop.kafka_directory import CODECS, START_MS, TOPICS, Content, Seen, log_files
from tests.interop.test_dump_log import SEGMENT_FILES, ours, reference
from tests.oracle.admin import ask
from tests.oracle.barnabas import Barnabas
from tests.oracle.broker import Broker
from tests.oracle.kafka import KafkaServer
from tests.oracle.ports import lasting_port
from tests.oracle.process import wait_until
from tests.oracle.zookeeper import ZooKeeper

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(400)]

PARTITIONS = [
    (topic, partition) for topic, (count, _) in TOPICS.items() if topic != "doomed" for partition in range(count)
]
_COMPLAINT = re.compile(r"\b(WARN|ERROR|FATAL)\b")
_OF_STORAGE = re.compile(
    r"corrupt|recover|rebuil|sanity|index file|invalid|truncat|unflushed|snapshot|checkpoint|stray|exception",
    re.IGNORECASE,
)


@dataclass
class House:
    """Two log directories, and whoever lives in them."""

    folder: Path
    zookeeper: str
    port: int
    tenant: Broker | None = None
    moves: int = 0

    @property
    def directories(self) -> list[Path]:
        return [self.folder / "one", self.folder / "two"]

    def move_in(self, kind: type[Broker], more: Mapping[str, str] | None = None) -> Broker:
        self.moves += 1
        own = self.folder / f"tenant-{self.moves}"
        own.mkdir()
        settings = {**kafka_directory.SETTINGS, "log.dirs": ",".join(map(str, self.directories)), **(more or {})}
        broker: Broker = kind(zookeeper=self.zookeeper, folder=own, port=self.port, settings=settings)
        broker.start()
        self.tenant = broker
        return broker

    def move_out(self, end: str) -> None:
        assert self.tenant is not None
        if end == "kill":
            assert wait_until(lambda: self._is_checkpointed("shortened", 0), 120)
            self.throw_out()
        else:
            assert self.tenant.stop() in (0, 143), self.tenant.log_tail()
            self.tenant = None

    def throw_out(self) -> None:
        """Kill the tenant, whatever it has checkpointed."""
        assert self.tenant is not None
        self.tenant.kill()
        self._wait_until_forgotten()
        self.tenant = None

    def _is_checkpointed(self, topic: str, partition: int) -> bool:
        """Whether the file of log starts has this one's, which Apache Kafka writes first after half a minute."""
        assert self.tenant is not None
        consumer = Consumer({"bootstrap.servers": self.tenant.bootstrap_servers, "group.id": "looks"})
        start, _ = bounds(consumer, topic, partition)
        consumer.close()
        files = [folder / "log-start-offset-checkpoint" for folder in self.directories]
        return any(f"{topic} {partition} {start}\n" in path.read_text() for path in files if path.exists())

    def _wait_until_forgotten(self) -> None:
        """Apache Kafka does not start while the session of a broker with its id lives."""
        client = KazooClient(self.zookeeper)
        client.start(60)
        try:
            assert wait_until(lambda: not client.exists("/brokers/ids/0"), 60)
        finally:
            client.stop()
            client.close()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    need_java()
    with ZooKeeper() as zookeeper:
        made = House(tmp_path, zookeeper.connect, lasting_port())
        try:
            yield made
        finally:
            if made.tenant is not None:
                made.tenant.kill()


def seen(broker: Broker) -> Content:
    return kafka_directory.content(broker.bootstrap_servers)


def producers(broker: Broker) -> Mapping[tuple[str, int], set[tuple[int, ...]]]:
    """What a broker knows of producers, as DescribeProducers tells it."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in PARTITIONS:
        by_topic.setdefault(topic, []).append(partition)
    request = DescribeProducersRequest(
        topics=[TopicRequest(name=topic, partition_indexes=numbers) for topic, numbers in by_topic.items()]
    )
    found: dict[tuple[str, int], set[tuple[int, ...]]] = {}
    for topic in ask(broker, request, 0).topics:
        for row in topic.partitions:
            assert row.error_code == 0, (topic.name, row)
            found[topic.name, row.partition_index] = {
                (
                    each.producer_id, each.producer_epoch, each.last_sequence, each.last_timestamp,
                    each.coordinator_epoch, each.current_txn_start_offset,
                )
                for each in row.active_producers
            }  # fmt: skip
    return found


def assert_same(now: Content, before: Content) -> None:
    assert now.bounds == before.bounds
    for key, records in before.records.items():
        assert now.records[key] == records, key
    assert now.committed == before.committed


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


def verify_files(house: House, folder: str | None = None) -> None:
    """Apache Kafka's tool finds nothing wrong in any file, or those of one partition, and ours prints the same of them."""
    files = [path for path in log_files(house.directories, *SEGMENT_FILES) if folder in (None, path.parent.name)]
    assert files
    printed, complaints = reference(files, "--deep-iteration")
    assert not [line for line in printed if "isvalid: false" in line or "invalid bytes" in line]
    wrong = [line for line in complaints if re.search("Mismatch|not found|out of order|Exception|Snapshot", line)]
    assert not wrong, wrong[:10]
    assert ours(files, "--deep-iteration")[0] == printed


def complaints_about_storage(broker: Broker) -> list[str]:
    lines = broker.log.read_text(errors="replace").splitlines()
    return [line for line in lines if _COMPLAINT.search(line) and _OF_STORAGE.search(line)]


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
def test_there_and_back(house: House, end: str) -> None:
    """Apache Kafka, ours, Apache Kafka; each left by `end`."""
    kafka = house.move_in(KafkaServer)
    kafka_directory.fill(kafka.bootstrap_servers)
    kafka_directory.wait_until_compacted(kafka.bootstrap_servers, house.directories)
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
    house.move_out(end)
    del undecided

    barnabas = house.move_in(Barnabas)
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
    house.move_out(end)
    if end == "stop":
        verify_files(house)

    again = house.move_in(KafkaServer)
    assert_same(seen(again), appended)
    assert producers(again) == known
    if end == "stop":
        assert not complaints_about_storage(again)
        assert "Skipping recovery" in again.log.read_text()
    append(again.bootstrap_servers)
    house.move_out("stop")
    verify_files(house)


@pytest.mark.parametrize("end", ["stop", pytest.param("kill", marks=pytest.mark.long)])
def test_ours_first(house: House, end: str) -> None:
    """The directory, and the cluster in ZooKeeper, are made by ours."""
    barnabas = house.move_in(Barnabas)
    kafka_directory.fill(barnabas.bootstrap_servers, has_transactions=False)
    kafka_directory.wait_until_compacted(barnabas.bootstrap_servers, house.directories)
    kafka_directory.seal_compacted(barnabas.bootstrap_servers)
    written, known = seen(barnabas), producers(barnabas)
    assert written.bounds["shortened", 0] == (137, 300) and len(written.committed) == 4
    house.move_out(end)
    if end == "stop":
        verify_files(house)

    kafka = house.move_in(KafkaServer)
    assert_same(seen(kafka), written)
    assert producers(kafka) == known
    if end == "stop":
        assert not complaints_about_storage(kafka)
        assert "Skipping recovery" in kafka.log.read_text()
    append(kafka.bootstrap_servers)
    kafka_directory.transact(kafka.bootstrap_servers, "transactions", "later", rounds=12)
    appended, known = seen(kafka), producers(kafka)
    house.move_out(end)

    again = house.move_in(Barnabas)
    assert_same(seen(again), appended)
    assert producers(again) == known
    house.move_out("stop")
    verify_files(house)


def test_message_sets_of_old_formats(house: House) -> None:
    """Segments in formats v0 and v1, which Apache Kafka writes for a protocol before 3.0."""
    settings = {"inter.broker.protocol.version": "2.8"}
    kafka = house.move_in(KafkaServer, settings)
    kafka_directory.fill_old(kafka.bootstrap_servers)
    topics = [f"{name}-{codec}" for name in ("v0", "v1") for codec in kafka_directory.OLD_CODECS]

    def records(broker: Broker) -> dict[str, list[Seen]]:
        return {topic: kafka_directory.read(broker.bootstrap_servers, topic, 0, "read_uncommitted") for topic in topics}

    written = records(kafka)
    assert all(len(each) == 200 for each in written.values())
    house.move_out("stop")
    barnabas = house.move_in(Barnabas)
    assert wait_until(lambda: _are_led(barnabas, topics), 60)
    assert records(barnabas) == written
    for topic in topics:
        kafka_directory.produce(barnabas.bootstrap_servers, topic, 20, {}, has_headers=False)
    appended = records(barnabas)
    house.move_out("stop")
    verify_files(house)
    again = house.move_in(KafkaServer, settings)
    assert wait_until(lambda: _are_led(again, topics), 60)
    assert records(again) == appended


def _are_led(broker: Broker, topics: list[str]) -> bool:
    known = AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=60).topics
    return all(topic in known and known[topic].partitions[0].leader >= 0 for topic in topics)


def test_deleted_topics_stay_deleted(house: House) -> None:
    """A topic that one broker has set aside is gone with the other, and nobody takes it for a partition."""
    kafka = house.move_in(KafkaServer, {"log.segment.delete.delay.ms": "600000"})
    kafka_directory.fill(kafka.bootstrap_servers)
    assert wait_until(lambda: bool(list(house.folder.glob("*/doomed-*-delete"))), 60)
    house.move_out("kill")
    barnabas = house.move_in(Barnabas)
    assert wait_until(lambda: not list(house.folder.glob("*/doomed-*")), 60)
    assert wait_until(lambda: _are_led(barnabas, ["codec-gzip"]), 60)
    topics = AdminClient({"bootstrap.servers": barnabas.bootstrap_servers}).list_topics(timeout=60).topics
    assert "doomed" not in topics


def test_a_log_that_was_moved_can_be_taken_over(house: House) -> None:
    """What a copy was made of is indexed batch by batch: Apache Kafka recovers segments whose indexes hold 16 entries."""
    barnabas = house.move_in(Barnabas)
    admin = AdminClient({"bootstrap.servers": barnabas.bootstrap_servers, "log_level": 0})
    config = {"segment.bytes": "65536", "index.interval.bytes": "512", "segment.index.bytes": "192"}
    admin.create_topics([NewTopic("moved", 1, 1, config=config)])["moved"].result(60)
    kafka_directory.produce(barnabas.bootstrap_servers, "moved", 1_000, {"batch.num.messages": "1"})
    (source,) = (folder for folder in house.directories if (folder / "moved-0").exists())
    (target,) = (folder for folder in house.directories if folder != source)
    topic = AlterReplicaLogDirTopic(name="moved", partitions=[0])
    answer = ask(barnabas, AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(target), topics=[topic])]))
    assert answer.results[0].partitions[0].error_code == 0
    assert wait_until(lambda: (target / "moved-0").exists() and not (source / "moved-0").exists(), 60)
    before = kafka_directory.read(barnabas.bootstrap_servers, "moved", 0, "read_uncommitted")
    assert len(before) == 1_000
    house.throw_out()
    kafka = house.move_in(KafkaServer)
    assert wait_until(lambda: _are_led(kafka, ["moved"]), 60)
    assert kafka_directory.read(kafka.bootstrap_servers, "moved", 0, "read_uncommitted") == before
    house.move_out("stop")
    verify_files(house, "moved-0")
