"""Commands that wait say why, each as a process whose lines are read as they come."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.embedded import EmbeddedBroker
from tests.robustness.process import BrokerProcess

ROOT = Path(__file__).parents[3]
PATIENCE_S = 60

pytestmark = pytest.mark.timeout(180)


class Command:
    """A running command; its lines of standard error are read one after the other."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def tells(self, text: str) -> str:
        """Wait until it tells something with this text; return the line."""
        assert self.process.stderr is not None
        lines = []
        while line := self.process.stderr.readline().decode():
            lines.append(line)
            if text in line:
                return line
        raise AssertionError(f"it has told {lines}")

    def writes(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def ends(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, out.decode(), err.decode()

    def is_interrupted(self) -> tuple[int, str, str]:
        self.process.send_signal(signal.SIGINT)
        return self.ends()


@contextmanager
def command(*arguments: str) -> Iterator[Command]:
    with subprocess.Popen(
        [sys.executable, "-m", "barnabas.cli", *arguments],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:  # fmt: skip
        try:
            yield Command(process)
        finally:
            process.kill()


def create(servers: str, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    for future in admin.create_topics([NewTopic(topic, 1, 1) for topic in topics]).values():
        future.result(PATIENCE_S)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """One that is killed and started again at the same address."""
    with BrokerProcess(tmp_path) as running:
        create(running.address, "t")
        yield running


def test_a_consumer_tells_that_the_broker_goes_and_comes(broker: BrokerProcess) -> None:
    with command("consume", "t", "--bootstrap-server", broker.address) as consume:
        consume.tells("at the end of t: waiting for new records")
        broker.kill()
        assert "nothing listens there (broker " in consume.tells("connection lost, retrying: ")
        broker.start()
        consume.tells("connected again: broker ")
        producer = Producer({"bootstrap.servers": broker.address, "log_level": 0})
        producer.produce("t", "new")
        assert producer.flush(PATIENCE_S) == 0
        assert consume.process.stdout is not None
        assert consume.process.stdout.readline() == b"new\n"
        broker.kill()
        consume.tells("connection lost, retrying: ")
        code, _, err = consume.is_interrupted()
        assert (code, err.splitlines()[-1]) == (130, "barnabas: interrupted after 1 record")
        assert "Traceback" not in err


def test_a_producer_tells_it_too_also_while_it_waits_for_a_line(broker: BrokerProcess) -> None:
    with command("produce", "t", "--bootstrap-server", broker.address) as produce:
        produce.writes("one")
        produced(broker, 1)
        broker.kill()
        produce.tells("connection lost, retrying: ")
        produce.writes("two")
        broker.start()
        produce.tells("connected again: broker ")
        broker.signal(signal.SIGSTOP)
        produce.writes("three")
        try:
            assert "takes the connection and does not answer" in produce.tells("connection lost, retrying: ")
        finally:
            broker.signal(signal.SIGCONT)
        code, out, _ = produce.ends()
        assert (code, out) == (0, "3 records written to t\n")


def produced(broker: BrokerProcess, count: int) -> None:
    """Wait until so many records are there."""
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "g", "log_level": 0})
    until_s = time.monotonic() + PATIENCE_S
    while consumer.get_watermark_offsets(TopicPartition("t", 0), 10)[1] < count:
        assert time.monotonic() < until_s
    consumer.close()


def test_a_full_disk_is_named_at_once_and_at_the_end() -> None:
    with (
        EmbeddedBroker({"t": 1}, {"barnabas.disk.free.min.bytes": 10**18}) as broker,
        command("produce", "t", "--bootstrap-server", broker.bootstrap_servers,
                "--producer-property", "message.timeout.ms=6000") as produce,
    ):  # fmt: skip
        produce.writes("x")
        line = produce.tells("waiting for acknowledgements: broker 0, ")
        assert ": the disk is full: " in line and "records are refused" in line
        code, out, err = produce.ends()
        assert (code, out) == (1, "0 records written to t\n")
        last = err.splitlines()[-1]
        assert last.startswith("barnabas: 1 record was not written: _MSG_TIMED_OUT: broker 0, ")
        assert ": the disk is full: " in last


def test_a_topic_that_is_missing_is_named() -> None:
    with (
        EmbeddedBroker(settings={"auto.create.topics.enable": False}) as broker,
        command("produce", "missing", "--bootstrap-server", broker.bootstrap_servers) as produce,
    ):
        produce.writes("x")
        produce.tells("waiting for acknowledgements: topic missing does not exist")
        assert "UNKNOWN_TOPIC" in produce.ends()[2]


def test_a_group_that_waits_for_a_member_is_named() -> None:
    with EmbeddedBroker({"t": 1}) as broker:
        servers = ("--bootstrap-server", broker.bootstrap_servers)
        with command("produce", "t", *servers) as produce:
            produce.writes("x")
            assert produce.ends()[0] == 0
        with command("consume", "t", "--group", "g", "--from-beginning", *servers) as slow:
            assert slow.process.stdout is not None
            assert slow.process.stdout.readline() == b"x\n"
            slow.process.send_signal(signal.SIGSTOP)
            with command("consume", "t", "--group", "g", *servers) as consume:
                assert "member" in consume.tells("waiting for partitions: group g is rebalancing: it waits for ")
                assert consume.is_interrupted()[0] == 130


def test_a_quota_is_named() -> None:
    with EmbeddedBroker({"t": 1}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, "batch.size": 1000})
        for _ in range(20):
            producer.produce("t", os.urandom(1000))
        assert producer.flush(PATIENCE_S) == 0
        servers = ("--bootstrap-server", broker.bootstrap_servers)
        with command(
            "quotas", "alter", "--client-id", "barnabas", "--add", "consumer_byte_rate=100", *servers
        ) as quotas:
            assert quotas.ends()[0] == 0
        small = ("--consumer-property", "max.partition.fetch.bytes=1000", "--consumer-property", "fetch.max.bytes=1000",
                 "--consumer-property", "message.max.bytes=1000")  # fmt: skip
        with command("perf", "consume", "t", *small, *servers) as consume:
            consume.tells(" s, because of a quota")
