"""Two log directories, the broker that runs on them, and what is compared when another broker takes them over.

All these brokers know the same ZooKeeper and have the same broker id and port, so that the znodes move along, and clients
need not notice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient

from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from tests.interop import kafka_directory
from tests.interop.dumping import SEGMENT_FILES, ours, reference
from tests.interop.kafka_directory import TOPICS, Content, log_files
from tests.interop.retried_requests import bounds
from tests.oracle.admin import ask
from tests.oracle.broker import Broker
from tests.oracle.process import wait_until

PARTITIONS = [
    (topic, partition) for topic, (count, _) in TOPICS.items() if topic != "doomed" for partition in range(count)
]
_COMPLAINT = re.compile(r"\b(WARN|ERROR|FATAL)\b")
_OF_STORAGE = re.compile(
    r"corrupt|recover|rebuil|sanity|index file|invalid|truncat|unflushed|snapshot|checkpoint|stray|exception",
    re.IGNORECASE,
)


@dataclass
class MovedDirectories:
    """Two log directories, and the broker that runs on them."""

    folder: Path
    zookeeper: str
    port: int
    broker: Broker | None = None
    moves: int = 0

    @property
    def folders(self) -> list[Path]:
        return [self.folder / "one", self.folder / "two"]

    def start(self, kind: type[Broker], more: Mapping[str, str] | None = None) -> Broker:
        self.moves += 1
        own = self.folder / f"broker-{self.moves}"
        own.mkdir()
        settings = {**kafka_directory.SETTINGS, "log.dirs": ",".join(map(str, self.folders)), **(more or {})}
        broker: Broker = kind(zookeeper=self.zookeeper, folder=own, port=self.port, settings=settings)
        broker.start()
        self.broker = broker
        return broker

    def stop(self, end: str) -> None:
        assert self.broker is not None
        if end == "kill":
            assert wait_until(lambda: self._is_checkpointed("shortened", 0), 120)
            self.kill()
        else:
            assert self.broker.stop() in (0, 143), self.broker.log_tail()
            self.broker = None

    def kill(self) -> None:
        """Kill the broker, whatever it has checkpointed."""
        assert self.broker is not None
        self.broker.kill()
        self._wait_until_forgotten()
        self.broker = None

    def _is_checkpointed(self, topic: str, partition: int) -> bool:
        """Whether the files tell where this one starts: a checkpoint, which Apache Kafka writes first after half a minute, or
        the name of its first segment."""
        assert self.broker is not None
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap_servers, "group.id": "looks"})
        start, _ = bounds(consumer, topic, partition)
        consumer.close()
        segments = min(
            path.stem for path in log_files(self.folders, ".log") if path.parent.name == f"{topic}-{partition}"
        )
        files = [folder / "log-start-offset-checkpoint" for folder in self.folders]
        lines = [path.read_text() for path in files if path.exists()]
        return int(segments) == start or any(f"{topic} {partition} {start}\n" in each for each in lines)

    def _wait_until_forgotten(self) -> None:
        """Apache Kafka does not start while the session of a broker with its id lives."""
        client = KazooClient(self.zookeeper)
        client.start(60)
        try:
            assert wait_until(lambda: not client.exists("/brokers/ids/0"), 60)
        finally:
            client.stop()
            client.close()


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


def verify_files(moved: MovedDirectories, folder: str | None = None) -> None:
    """Apache Kafka's tool finds nothing wrong in any file, or those of one partition, and ours prints the same of them."""
    files = [path for path in log_files(moved.folders, *SEGMENT_FILES) if folder in (None, path.parent.name)]
    assert files
    printed, complaints = reference(files, "--deep-iteration")
    assert not [line for line in printed if "isvalid: false" in line or "invalid bytes" in line]
    wrong = [line for line in complaints if re.search("Mismatch|not found|out of order|Exception|Snapshot", line)]
    assert not wrong, wrong[:10]
    assert ours(files, "--deep-iteration")[0] == printed


def complaints_about_storage(broker: Broker) -> list[str]:
    lines = broker.log.read_text(errors="replace").splitlines()
    return [line for line in lines if _COMPLAINT.search(line) and _OF_STORAGE.search(line)]


def are_led(broker: Broker, topics: list[str]) -> bool:
    known = AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=60).topics
    return all(topic in known and known[topic].partitions[0].leader >= 0 for topic in topics)


def move_log(moved: MovedDirectories, topic: str) -> None:
    """Have the broker bring partition 0 to the directory where it is not; returns when it is there."""
    assert moved.broker is not None
    (source,) = (folder for folder in moved.folders if (folder / f"{topic}-0").exists())
    (target,) = (folder for folder in moved.folders if folder != source)
    wanted = AlterReplicaLogDirTopic(name=topic, partitions=[0])
    answer = ask(moved.broker, AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(target), topics=[wanted])]))
    assert answer.results[0].partitions[0].error_code == 0
    assert wait_until(lambda: (target / f"{topic}-0").exists() and not (source / f"{topic}-0").exists(), 60)
