"""The starters of the reference: ready when they say so, and gone without a trace."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys

import pytest

from tests.oracle import java, tools
from tests.oracle.barnabas import REPOSITORY, Barnabas
from tests.oracle.kafka import ApacheKafka
from tests.oracle.kraft import KraftKafka
from tests.oracle.process import Server, StartError, wait_until
from tests.oracle.readiness import listed_brokers


class Broken(Server):
    name = "broken"

    def prepare(self) -> list[str]:
        return ["sh", "-c", "echo the reason; exit 3"]

    def is_ready(self) -> bool:
        return False


def test_a_server_that_ends_tells_why_and_keeps_its_log() -> None:
    server = Broken()
    with pytest.raises(StartError, match="the reason"), server:
        pass
    assert "the reason" in server.log_tail()
    server.remove()


class Displaced(Broken):
    """Something answers at its port, and it is another process."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.port = port

    def is_ready(self) -> bool:
        return True


def test_a_server_is_not_ready_because_another_process_answers_at_its_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        server = Displaced(other.getsockname()[1])
        with pytest.raises(StartError, match="the reason"), server:
            pass
        server.remove()


def test_our_broker_starts_and_leaves_nothing() -> None:
    with Barnabas() as broker:
        assert listed_brokers("127.0.0.1", broker.port, timeout_s=30) == 1
        assert broker.process is not None
        process_id = broker.process.pid
    assert not broker.folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(process_id, 0)
    assert broker.process.returncode == 0


def test_a_server_that_runs_is_not_started_again() -> None:
    with Barnabas() as broker, pytest.raises(AssertionError, match="runs"):
        broker.start()


def test_a_broker_ends_with_the_process_that_started_it() -> None:
    code = """
import sys, time
from tests.oracle.barnabas import REPOSITORY, Barnabas
broker = Barnabas()
broker.start()
print(broker.port, broker.folder, flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        port, folder = owner.stdout.readline().split()
        owner.kill()
    try:
        assert wait_until(lambda: listed_brokers("127.0.0.1", int(port)) == 0, 60)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.oracle
def test_apache_kafka_starts_serves_its_tools_and_leaves_nothing() -> None:
    reason = java.missing()
    if reason and not java.required():
        pytest.skip(reason)
    with ApacheKafka() as kafka:
        server = ["--bootstrap-server", kafka.bootstrap_servers]
        tools.run("topics", [*server, "--create", "--topic", "t", "--partitions", "2"])
        assert "PartitionCount: 2" in tools.run("topics", [*server, "--describe", "--topic", "t"])
        with pytest.raises(tools.ToolError, match="already exists"):
            tools.run("topics", [*server, "--create", "--topic", "t"])
    assert not kafka.folder.exists() and not kafka.own_zookeeper.folder.exists()
    assert listed_brokers("127.0.0.1", kafka.port) == 0


@pytest.mark.oracle
def test_apache_kafka_in_kraft_mode_starts_with_the_levels_that_it_is_given() -> None:
    reason = java.missing()
    if reason and not java.required():
        pytest.skip(reason)
    with KraftKafka({"num.partitions": "3"}, features={"group.version": 0}) as kafka:
        server = ["--bootstrap-server", kafka.bootstrap_servers]
        with tools.ToolsJvm(java.KRAFT_MODE) as jvm:
            described = jvm.run("features", *server, "describe")
            jvm.run("topics", *server, "--create", "--topic", "t")
            assert "PartitionCount: 3" in jvm.run("topics", *server, "--describe", "--topic", "t")
            assert "Kafka Server started" in kafka.log_tail(100_000)
        levels = {row[1]: row[7] for row in (line.split() for line in described.splitlines())}
        assert (levels["group.version"], levels["transaction.version"]) == ("0", "2")
        controller_port = kafka.controller_port
        kafka.stop()
        kafka.start()
        assert kafka.controller_port == controller_port
        assert "PartitionCount: 3" in tools.run(
            "topics", [*server, "--describe", "--topic", "t"], release=java.KRAFT_MODE
        )
    assert not kafka.folder.exists()
    assert listed_brokers("127.0.0.1", kafka.port) == 0


@pytest.mark.oracle
def test_a_directory_that_cannot_be_formatted_tells_why() -> None:
    reason = java.missing()
    if reason and not java.required():
        pytest.skip(reason)
    kafka = KraftKafka(features={"group.version": 9})
    with pytest.raises(StartError, match=r"group\.version"), kafka:
        pass
    kafka.remove()
