"""`python -m barnabas.cluster`: three brokers and a ZooKeeper, up and down again, with what they held; a broker that was
killed comes back."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.cluster import EXAMPLE_USERS
from barnabas.security import SASL_SSL, GeneratedSecurity
from tests.oracle.barnabas import REPOSITORY
from tests.oracle.ports import lasting_port
from tests.oracle.process import hear_interrupts, wait_until
from tests.oracle.readiness import listed_brokers

INTERNAL_TOPICS = {"__consumer_offsets", "__transaction_state"}
pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(400)]


@contextmanager
def cluster(folder: Path, port: int, zookeeper_port: int, *more: str) -> Iterator[tuple[str, dict[str, int]]]:
    """Yields the bootstrap servers, and the process ids of its table by name."""
    arguments = ["--folder", str(folder), "--port", str(port), "--zookeeper-port", str(zookeeper_port), *more]
    http_port = lasting_port(count=3)
    arguments += ["--http-port", str(http_port), "--override", "offsets.topic.num.partitions=3"]
    with subprocess.Popen(
        [sys.executable, "-m", "barnabas.cluster", *arguments],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=hear_interrupts,
    ) as process:
        assert process.stdout is not None
        try:
            told = process.stdout.readline()
            assert told.startswith("3 brokers serve on "), told
            assert process.stdout.readline() == "\n"
            assert process.stdout.readline().split() == ["broker.id", "address", "http", "process", "id", "log"]
            rows = [process.stdout.readline().split() for _ in range(4)]
            addresses = [f"localhost:{one}" for one in range(port, port + 3)]
            pages = [f"localhost:{one}" for one in range(http_port, http_port + 3)]
            assert [row[:4] for row in rows[:3]] == [
                [f"broker{one}", str(one), addresses[one - 1], pages[one - 1]] for one in (1, 2, 3)
            ]
            assert rows[3][:4] == ["zookeeper", "-", f"127.0.0.1:{zookeeper_port}", "-"]
            for page in pages:
                with urllib.request.urlopen(f"http://{page}/health", timeout=10) as health:
                    assert "conditions" in json.load(health)
            yield told.split()[4].rstrip(";"), {row[0]: int(row[4]) for row in rows}
        finally:
            process.send_signal(signal.SIGINT)
            try:
                code = process.wait(150)
            except subprocess.TimeoutExpired:
                process.terminate()
                raise
    assert code == 0


def process_of(data: Path) -> int | None:
    """Of the broker that has its data there."""
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = line.read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended
        if f"log.dirs={data}".encode() in arguments:
            return int(line.parent.name)
    return None


def end_offset(bootstrap: str, partition: int) -> int:
    """-1 while the leader, just elected, does not know what is committed. A consumer keeps asking the leader that it
    heard of first, also when leaders have moved back to where they were: every look has one of its own."""
    consumer = Consumer({"log_level": 0, "bootstrap.servers": bootstrap, "group.id": "g"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition("orders", partition), timeout=10)[1])
    except KafkaException:
        return -1
    finally:
        consumer.close()


def test_the_cluster_comes_up_and_keeps_its_data(tmp_path: Path) -> None:
    if shutil.which("java") is None or importlib.util.find_spec("pyspark") is None:
        pytest.skip("java and pyspark are needed")
    port, zookeeper_port = lasting_port(count=3), lasting_port()
    with cluster(tmp_path, port, zookeeper_port) as (bootstrap, processes):
        assert wait_until(lambda: all(listed_brokers("localhost", one) == 3 for one in range(port, port + 3)), 60)
        admin = AdminClient({"log_level": 0, "bootstrap.servers": bootstrap})
        assert wait_until(lambda: admin.list_topics(timeout=60).topics.keys() >= INTERNAL_TOPICS, 60), (
            "nobody asked for them"
        )
        for future in admin.create_topics([NewTopic("orders", 3, 3)]).values():
            future.result(60)
        producer = Producer({"log_level": 0, "bootstrap.servers": bootstrap, "acks": "all"})
        for number in range(300):
            producer.produce("orders", b"%d" % number, partition=number % 3)
        assert producer.flush(60) == 0
        killed = processes["broker2"]
        assert process_of(tmp_path / "broker2") == killed
        os.kill(killed, signal.SIGKILL)
        assert wait_until(lambda: process_of(tmp_path / "broker2") not in (killed, None), 60)
        assert wait_until(lambda: listed_brokers("localhost", port + 1) == 3, 60)
    assert listed_brokers("localhost", port) == 0
    with cluster(tmp_path, port, zookeeper_port) as (bootstrap, _):
        assert wait_until(lambda: [end_offset(bootstrap, one) for one in range(3)] == [100, 100, 100], 90, 0.2)
    for number in (1, 2, 3):
        last = (tmp_path / f"broker{number}.log").read_text().splitlines()[-1]
        assert "broker stopped: clean_shutdown=True duration_ms=" in last


def test_a_secured_cluster_has_users_and_acls(tmp_path: Path) -> None:
    if shutil.which("java") is None or importlib.util.find_spec("pyspark") is None:
        pytest.skip("java and pyspark are needed")
    port = lasting_port(count=3)
    with cluster(tmp_path, port, lasting_port(), "--secure") as (bootstrap, _):
        security = GeneratedSecurity(SASL_SSL, tmp_path / "security", EXAMPLE_USERS)  # what the command has made
        servers = {"log_level": 0, "bootstrap.servers": bootstrap}
        admin = AdminClient({**servers, **security.client_settings()})
        for future in admin.create_topics([NewTopic("orders", 3, 3)]).values():
            future.result(60)
        refused: list[str] = []

        def produce(user: str) -> None:
            producer = Producer({**servers, **security.client_settings(user), "acks": "all"})
            for number in range(30):
                producer.produce(
                    "orders", b"%d" % number, partition=number % 3,
                    on_delivery=lambda error, _message: refused.append(error.name()) if error else None,
                )  # fmt: skip
            assert producer.flush(60) == 0

        produce("admin")
        assert refused == []
        produce("alice")
        assert set(refused) == {"TOPIC_AUTHORIZATION_FAILED"}
        stranger = {**servers, **security.client_settings("alice"), "sasl.password": "guessed"}
        with pytest.raises(KafkaException):
            AdminClient(stranger).list_topics(timeout=3)
        logs = "".join((tmp_path / f"broker{one}.log").read_text() for one in (1, 2, 3))
        assert not any(secret in logs for secret in security.passwords.values())
