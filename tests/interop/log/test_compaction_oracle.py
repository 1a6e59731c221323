"""The same log, compacted by Apache Kafka's cleaner and by ours: the same batches are left, with the same records.

Apache Kafka writes a directory whose logs are too young to be cleaned, and stops. Ours cleans a copy of it; Apache Kafka,
told that the logs are old enough now, cleans the original. Both have cleaned up to the same offset then. A second round goes
on from there with Apache Kafka's result, so that ours also continues what the other has begun: delete horizons that have
passed, markers whose records are gone, empty batches that producers have left.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from config.broker import BrokerSettings
from config.topic import LogConfig
from protocol.records.batch import BatchHeader
from protocol.records.record import Record
from runtime.clock import SystemClock
from runtime.disk.os_disk_queue import OsDisk
from runtime.disk.os_filesystem import OsFileSystem
from storage.checkpoint import decode_offsets
from storage.directories.log_manager import LogManager
from storage.segments.txn_index import decode_transactions
from tests.interop.conftest import need_java
from tests.interop.retried_requests import end_of, wait_until_ends_at
from tests.oracle.folder import paths
from tests.oracle.kafka import KafkaServer
from tests.oracle.ports import lasting_port
from tests.oracle.process import wait_until
from tests.oracle.zookeeper import ZooKeeper
from tests.storage.cleaner.cleaning import batches_in

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(600)]

TOO_YOUNG = {"min.compaction.lag.ms": "9000000000000"}
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.0",
    "segment.bytes": "20000",
    "index.interval.bytes": "512",
}
TOPICS: Mapping[str, Mapping[str, str]] = {
    "plain": COMPACTED,
    "gzip": COMPACTED,
    "zstd": {**COMPACTED, "segment.bytes": "4000"},
    "idempotent": {**COMPACTED, "delete.retention.ms": "0"},
    "transactions": {**COMPACTED, "delete.retention.ms": "0", "segment.bytes": "6000"},
    "transactions-kept": {**COMPACTED, "segment.bytes": "3000"},
    "many-keys": {**COMPACTED, "segment.bytes": "1000000"},
}
SETTINGS = {
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": "1100000",
    "log.segment.delete.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "log.retention.check.interval.ms": "3600000",
}


@dataclass
class CompactingKafka:
    """Apache Kafka with the topics to be compacted."""

    kafka: KafkaServer
    folder: Path

    def alter(self, changes: Mapping[str, str]) -> None:
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap_servers})
        wanted = [
            ConfigResource(ResourceType.TOPIC, topic, set_config={**config, **changes})
            for topic, config in TOPICS.items()
        ]
        for changed in admin.alter_configs(wanted).values():
            changed.result(30)

    def is_led(self) -> bool:
        """Every topic has a leader."""
        topics = AdminClient({"bootstrap.servers": self.kafka.bootstrap_servers}).list_topics(timeout=30).topics
        return all(topic in topics and topics[topic].partitions[0].leader >= 0 for topic in TOPICS)

    def progress(self) -> dict[str, tuple[int | None, int]]:
        """Of each log up to where it is clean, and where its active segment begins."""
        data = self.kafka.data
        return {topic: (first_dirty(data, topic), active_base(data, topic)) for topic in TOPICS}

    def is_cleaned(self) -> bool:
        return all(clean == active for clean, active in self.progress().values())

    def is_tidy(self) -> bool:
        """No file is set aside."""
        return not paths(self.kafka.data, "*/*.deleted")


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CompactingKafka]:
    need_java()
    folder = tmp_path_factory.mktemp("compaction")
    with ZooKeeper() as zookeeper:
        kafka = KafkaServer(zookeeper.connect, folder=folder / "kafka", port=lasting_port(), settings=SETTINGS)
        (folder / "kafka").mkdir()
        kafka.start()
        try:
            admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
            wanted = [NewTopic(topic, 1, 1, config={**config, **TOO_YOUNG}) for topic, config in TOPICS.items()]
            for created in admin.create_topics(wanted).values():
                created.result(30)
            yield CompactingKafka(kafka, folder)
        finally:
            kafka.kill()


def test_leaves_what_apache_kafka_leaves(reference: CompactingKafka) -> None:
    for round_ in range(2):
        fill(reference.kafka.bootstrap_servers, round_)
        assert reference.kafka.stop() in (0, 143), reference.kafka.log_tail()
        copy = reference.folder / f"copy-{round_}"
        shutil.copytree(reference.kafka.data, copy)
        before = {topic: left_in(copy / f"{topic}-0") for topic in TOPICS}
        reference.kafka.start()
        assert wait_until(reference.is_led, timeout_s=90), "topics without leaders"
        reference.alter({"min.compaction.lag.ms": "0"})
        assert wait_until(reference.is_cleaned, timeout_s=120), reference.progress()
        reference.alter(TOO_YOUNG)
        assert wait_until(reference.is_tidy, timeout_s=60), "files that were set aside stay"
        asyncio.run(clean(copy))
        for topic in TOPICS:
            ours, theirs = copy / f"{topic}-0", reference.kafka.data / f"{topic}-0"
            assert first_dirty(copy, topic) == first_dirty(reference.kafka.data, topic), topic
            assert left_in(ours) == left_in(theirs), f"{topic}, round {round_}"
            assert segments_in(ours) == segments_in(theirs), f"{topic}, round {round_}"
            assert aborted_in(ours) == aborted_in(theirs), f"{topic}, round {round_}"
            assert left_in(ours) != before[topic], f"{topic} was not cleaned"


async def clean(directory: Path) -> None:
    """Ours, until there is nothing to clean."""
    settings = BrokerSettings({**SETTINGS, "log.cleaner.threads": "1"})
    disk = OsDisk()
    logs = LogManager(
        settings=settings,
        directories=[str(directory)],
        config_of=lambda topic: LogConfig.from_settings(settings, TOPICS.get(topic, {})),
        filesystem=OsFileSystem(),
        disk=disk,
        clock=SystemClock(),
        randomness=random.Random(1),
        on_directory_failed=lambda path, error: pytest.fail(f"{path}: {error}"),
    )
    logs.lock()
    await logs.load()
    while await logs.cleaner.clean_dirtiest():
        pass
    assert not logs.cleaner.report.logs_set_aside
    await logs.close()
    await disk.close()


# --- what is written ---


def fill(bootstrap: str, round_: int) -> None:
    rng = random.Random(round_)
    produce(bootstrap, "plain", rng, 900, {"batch.num.messages": "11"})
    produce(bootstrap, "gzip", rng, 600, {"compression.type": "gzip", "batch.num.messages": "30"})
    produce(bootstrap, "zstd", rng, 400, {"compression.type": "zstd", "batch.num.messages": "7"})
    for _ in range(4):
        produce(bootstrap, "idempotent", rng, 200, {"enable.idempotence": "true", "batch.num.messages": "9"})
    transact(bootstrap, "transactions", rng, round_)
    transact(bootstrap, "transactions-kept", rng, round_)
    produce(bootstrap, "many-keys", rng, 90_000, {"batch.num.messages": "500"}, keys=200_000, value_bytes=8)


def produce(
    bootstrap: str,
    topic: str,
    rng: random.Random,
    count: int,
    settings: Mapping[str, str],
    *,
    keys: int = 60,
    value_bytes: int = 100,
) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **settings})
    for number in range(count):
        value = None if rng.random() < 0.15 else b"%d " % number + rng.randbytes(rng.randrange(value_bytes))
        headers = [("h", b"x")] if rng.random() < 0.1 else []
        producer.produce(topic, key=b"key-%d" % rng.randrange(keys), value=value, headers=headers)
        if not number % 1000:
            producer.poll(0)
    assert producer.flush(60) == 0


def transact(bootstrap: str, topic: str, rng: random.Random, round_: int) -> None:
    """Transactions of three producers that overlap, some without records that stay."""
    producers = [
        Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-{number}", "linger.ms": 0})
        for number in range(3)
    ]
    for producer in producers:
        producer.init_transactions(60)
    end = end_of(bootstrap, topic)
    for turn in range(25):
        active = rng.sample(producers, rng.randint(1, 3))
        for producer in active:
            producer.begin_transaction()
        for producer in active * rng.randint(1, 2):
            for _ in range(rng.randint(1, 4)):
                value = None if rng.random() < 0.2 else b"%d %d " % (round_, turn) + b"t" * 60
                producer.produce(topic, key=b"key-%d" % rng.randrange(12), value=value)
                end += 1
            assert producer.flush(60) == 0
        for producer in active:
            if rng.random() < 0.4:
                producer.abort_transaction(60)
            else:
                producer.commit_transaction(60)
            end += 1
    wait_until_ends_at(bootstrap, topic, end)  # or the markers would come in the middle of a stop


# --- what is left ---


def left_in(folder: Path) -> list[tuple[object, ...]]:
    """Every batch with its records, but for what depends on the moment of the cleaning: when delete horizons begin."""
    return [(*_fields(header), *map(_row, records)) for header, records in batches_in(folder)]


def _fields(header: BatchHeader) -> tuple[object, ...]:
    return (
        header.base_offset, header.last_offset, header.partition_leader_epoch, header.attributes, header.max_timestamp,
        header.producer_id, header.producer_epoch, header.base_sequence, header.records_count,
    )  # fmt: skip


def _row(record: Record) -> tuple[object, ...]:
    return record.offset, record.timestamp, record.key, record.value, tuple(record.headers)


def segments_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.log"))


def aborted_in(folder: Path) -> dict[str, list[object]]:
    found = {
        path.name: list[object](decode_transactions(path.read_bytes())) for path in sorted(folder.glob("*.txnindex"))
    }
    return {name: rows for name, rows in found.items() if rows}


def first_dirty(data: Path, topic: str) -> int | None:
    path = data / "cleaner-offset-checkpoint"
    return decode_offsets(path.read_bytes()).get((topic, 0)) if path.exists() else None


def active_base(data: Path, topic: str) -> int:
    return max(int(path.stem) for path in (data / f"{topic}-0").glob("*.log"))
