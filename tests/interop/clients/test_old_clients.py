"""Clients of before record batches: Apache Kafka's own of 0.8.2, 0.9 and 0.10, and kafka-python that plays them.

They send Produce v0 to v2 and Fetch v0 to v3: message sets of format v0 (0.8, 0.9) and v1 (0.10).
"""

from __future__ import annotations

import fcntl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.interop.conftest import need_java
from tests.oracle import java

Fresh = Callable[[str], str]
POM = Path(__file__).parent / "old" / "pom.xml"
OLD_KAFKAS = ("0.8.2.2", "0.9.0.1", "0.10.2.2")
CODECS = ("none", "gzip", "snappy", "lz4")
LINES = [f"line {number} {'x' * (number % 50)}" for number in range(300)]


def jars(version: str) -> Path:
    """The folder with the jars of that Apache Kafka, fetched once."""
    folder = java.CACHE / f"old-{version}"
    java.CACHE.mkdir(parents=True, exist_ok=True)
    with (java.CACHE / "old-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            command = ["mvn", "--quiet", "--batch-mode", "--file", str(POM), f"-Dkafka.version={version}"]
            command += ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=500)
            (folder / "complete").touch()
    return folder


def run(version: str, main_class: str, arguments: list[str], standard_input: str = "") -> list[str]:
    """The lines that a tool of that Apache Kafka prints."""
    command = ["java", *java.QUICK_START, java.scratch_option(), "-cp", f"{jars(version)}/*", main_class, *arguments]
    ran = subprocess.run(command, input=standard_input, capture_output=True, text=True, timeout=180, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return [line for line in ran.stdout.splitlines() if line.startswith("line ")]


def send(version: str, bootstrap: str, topic: str, codec: str) -> None:
    arguments = ["--broker-list", bootstrap, "--topic", topic]
    if codec != "none":
        arguments += ["--compression-codec", codec]
    if version.startswith("0.8"):
        arguments.append("--new-producer")
    run(version, "kafka.tools.ConsoleProducer", arguments, "".join(f"{line}\n" for line in LINES))


def receive(version: str, bootstrap: str, topic: str, count: int = len(LINES)) -> list[str]:
    limit = ["--topic", topic, "--max-messages", str(count)]
    if version.startswith("0.8"):  # its other consumers need ZooKeeper
        arguments = ["--broker-list", bootstrap, "--partition", "0", "--no-wait-at-logend", *limit]
        return run(version, "kafka.tools.SimpleConsumerShell", arguments)
    arguments = ["--bootstrap-server", bootstrap, "--from-beginning", *limit]
    if version.startswith("0.9"):
        arguments.append("--new-consumer")
    return run(version, "kafka.tools.ConsoleConsumer", arguments)


def received_now(bootstrap: str, topic: str) -> list[str]:
    """By a client of today."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[str] = []
    try:
        while len(found) < len(LINES):
            message = consumer.poll(60)
            assert message is not None and message.error() is None, message
            assert message.offset() == len(found)
            found.append((message.value() or b"").decode())
    finally:
        consumer.close()
    return found


def sent_now(bootstrap: str, topic: str, codec: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 50})
    for line in LINES:
        producer.produce(topic, line.encode(), partition=0, headers=[("h", b"x")])
    assert producer.flush(60) == 0


@pytest.mark.oracle
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", OLD_KAFKAS)
def test_old_java_clients(bootstrap: str, fresh: Fresh, version: str, codec: str) -> None:
    need_java()
    sent, topic = fresh("sent"), fresh("received")
    send(version, bootstrap, sent, codec)
    assert receive(version, bootstrap, sent) == LINES
    assert received_now(bootstrap, sent) == LINES
    sent_now(bootstrap, topic, codec)
    assert receive(version, bootstrap, topic) == LINES


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", [(0, 8, 2), (0, 9), (0, 10, 0), (0, 10, 1)])
def test_kafka_python_as_an_old_client(bootstrap: str, fresh: Fresh, version: tuple[int, ...], codec: str) -> None:
    if codec == "lz4" and version < (0, 10):
        pytest.skip("kafka-python writes the wrong lz4 header of v0 with one more library only")
    sent, topic = fresh("sent"), fresh("received")
    sent_by_kafka_python(bootstrap, sent, version, codec)
    assert taken_by_kafka_python(bootstrap, sent, version) == LINES
    assert received_now(bootstrap, sent) == LINES
    sent_now(bootstrap, topic, codec)
    assert taken_by_kafka_python(bootstrap, topic, version) == LINES


def sent_by_kafka_python(bootstrap: str, topic: str, version: tuple[int, ...], codec: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        api_version=version,
        compression_type=None if codec == "none" else codec,
        linger_ms=50,
    )
    try:
        futures = [producer.send(topic, line.encode(), partition=0) for line in LINES]
        assert [future.get(60).offset for future in futures] == list(range(len(LINES)))
    finally:
        producer.close()


def taken_by_kafka_python(bootstrap: str, topic: str, version: tuple[int, ...]) -> list[str]:
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        api_version=version,
        group_id=None,
        auto_offset_reset="earliest",
        consumer_timeout_ms=60_000,
    )
    try:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        found: list[str] = []
        for message in consumer:
            assert message.offset == len(found)
            found.append(message.value.decode())
            if len(found) == len(LINES):
                break
        return found
    finally:
        consumer.close()
