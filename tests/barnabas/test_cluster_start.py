"""`python -m barnabas.cluster` joins no ZooKeeper but its own, and keeps out of another cluster's folder."""

from __future__ import annotations

import fcntl
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas import cluster as module
from barnabas.cluster import BROKERS, Cluster, ClusterStartError, main
from tests.oracle.ports import lasting_port

LISTENS = (
    "import socket, sys; server = socket.create_server(('127.0.0.1', int(sys.argv[1]))); sys.stdout.close(); input()"
)


class Ports:
    """What a cluster of a test needs, and nobody else has."""

    def __init__(self) -> None:
        self.first, self.zookeeper, self.http = lasting_port(count=BROKERS), lasting_port(), lasting_port(count=BROKERS)

    def cluster(self, folder: Path) -> Cluster:
        return Cluster(folder, first_port=self.first, zookeeper_port=self.zookeeper, http_port=self.http)


@pytest.fixture
def ports() -> Ports:
    return Ports()


@pytest.fixture
def no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cluster, "_start_broker", lambda _cluster, number: pytest.fail(f"broker {number} starts"))


def java(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a program of this name that runs a line of shell."""
    path = folder / "bin" / "java"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(module, "jars", lambda: folder)


@pytest.mark.parametrize("wanted", ["first", "zookeeper", "http"])
@pytest.mark.usefixtures("no_broker")
def test_a_port_that_another_process_has_is_refused_before_anything_starts(
    wanted: str, ports: Ports, tmp_path: Path
) -> None:
    port, cluster = getattr(ports, wanted), ports.cluster(tmp_path)
    with socket.create_server(("127.0.0.1", port)):
        try:
            with pytest.raises(
                ClusterStartError, match=rf"^port {port} is taken by process {os.getpid()} .*--zookeeper"
            ):
                cluster.start()
            assert cluster.children == []
        finally:
            cluster.stop()


@pytest.mark.usefixtures("no_broker")
def test_a_zookeeper_that_answers_in_the_place_of_the_own_one_is_not_joined(
    ports: Ports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the port between the look at it and the start of the own one, which ends."""
    java(tmp_path, "echo 'Address already in use'; exit 1", monkeypatch)
    monkeypatch.setattr(module, "require_free", lambda _ports: None)
    cluster = ports.cluster(tmp_path)
    with socket.create_server(("127.0.0.1", ports.zookeeper)):
        try:
            with pytest.raises(ClusterStartError, match=r"zookeeper did not start.*\n.*Address already in use"):
                cluster.start()
        finally:
            cluster.stop()


@pytest.fixture
def own_zookeeper(ports: Ports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A cluster whose ZooKeeper, a stand-in, has its port; its brokers do not start."""
    java(tmp_path, f'exec {sys.executable} -c "{LISTENS}" {ports.zookeeper} < {tmp_path}/end', monkeypatch)
    os.mkfifo(tmp_path / "end")
    end = os.open(tmp_path / "end", os.O_RDWR)
    monkeypatch.setattr(Cluster, "_start_broker", lambda *_: None)
    monkeypatch.setattr(Cluster, "_wait_until_ready", lambda *_: None)
    cluster = ports.cluster(tmp_path / "data")
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        os.close(end)


def test_a_second_cluster_in_a_folder_is_refused_while_the_first_runs(own_zookeeper: Cluster) -> None:
    second = Ports().cluster(own_zookeeper.folder)
    try:
        with pytest.raises(ClusterStartError, match=r"a cluster runs, or is stopping, in .*: process .*--folder"):
            second.start()
    finally:
        second.stop()


def test_the_folder_is_in_use_as_long_as_the_zookeeper_runs(own_zookeeper: Cluster) -> None:
    """The supervisor may have been killed."""
    (zookeeper,) = own_zookeeper.children
    os.close(own_zookeeper._lock)
    own_zookeeper._lock = -1
    with (own_zookeeper.folder / "lock").open("r+") as lock:
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        zookeeper.process.kill()
        zookeeper.process.wait()
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_free_http_ports_are_found_and_the_command_that_looks_at_the_cluster_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = {8092, 8094}
    monkeypatch.setattr(module, "is_free", lambda port: port not in taken)
    monkeypatch.setattr(module, "require_free", lambda _ports: None)
    cluster = Cluster(tmp_path, first_port=8095)
    cluster._take_ports()
    assert cluster._http_ports == [8093, 8098, 8099]
    assert module.asking_for_health(cluster) == "barnabas cluster health --bootstrap-server localhost:8095"


def test_a_refusal_is_one_line_and_ends_with_1(
    ports: Ports, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with socket.create_server(("127.0.0.1", ports.zookeeper)):
        arguments = ["--folder", str(tmp_path), "--port", str(ports.first), "--zookeeper-port", str(ports.zookeeper)]
        assert main(arguments) == 1
    told = capsys.readouterr().err.splitlines()
    assert told[-1].startswith(f"barnabas: port {ports.zookeeper} is taken by ")
