"""The two brokers under measurement, started alike: one broker, empty data, default settings where they matter."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from barnabas.certificates import Authority
from barnabas.listening import listens
from benchmarks.process import Usage, usage
from benchmarks.wire import produce_answer
from benchmarks.workloads import Target
from tests.barnabas.supervisor.several import Several
from tests.oracle.cluster import OURS, Cluster
from tests.oracle.kafka import ApacheKafka, KafkaServer
from tests.oracle.ports import lasting_port

# Apache Kafka's own start script, but for the heap, which that script also makes 1 GB.
KAFKA_OPTIONS = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
)
# The load with sessions is run again and again, and brokers keep the sessions of the runs before for two minutes.
SESSIONS = {"max.incremental.fetch.session.cache.slots": "100000"}
STOP_TIMEOUT_S = 30.0
BROKERS = 3  # of a cluster


@dataclass(frozen=True, slots=True)
class Running:
    name: str
    target: Target
    pids: tuple[int, ...]
    data: Path | None = None
    """Its log directory, where there is one."""

    def usage(self) -> Usage:
        """Of all its processes together."""
        return sum((usage(pid) for pid in self.pids[1:]), usage(self.pids[0]))


class TlsListener:
    """A second listener of a broker, with TLS and a certificate of an authority of its own. The key is RSA, as most are."""

    def __init__(self, folder: Path) -> None:
        self._port = lasting_port()
        self._authority = folder / "authority.pem"
        keys = folder / "broker.pem"
        authority = Authority.create("bench")
        self._authority.write_text(authority.certificate)
        keys.write_text(authority.issue("broker", hosts=("localhost", "127.0.0.1"), is_rsa=True).both)
        self.settings = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(keys)}

    def listeners(self, port: int) -> str:
        return f"PLAINTEXT://127.0.0.1:{port},SSL://localhost:{self._port}"

    def target(self, bootstrap_servers: str) -> Target:
        return Target(bootstrap_servers, tls_servers=f"localhost:{self._port}", authority=str(self._authority))


@contextmanager
def kafka() -> Iterator[Running]:
    with TemporaryDirectory(prefix="bench-tls-") as folder:
        tls = TlsListener(Path(folder))
        port = lasting_port()
        settings = {"offsets.topic.num.partitions": "50", **SESSIONS, **tls.settings, "listeners": tls.listeners(port)}
        with ApacheKafka(settings, KAFKA_OPTIONS, port=port) as broker:
            assert broker.process is not None
            yield Running("kafka", tls.target(broker.bootstrap_servers), (broker.process.pid,), broker.data)


@contextmanager
def ours(*settings: str) -> Iterator[Running]:
    with TemporaryDirectory(prefix="bench-") as folder:
        port, tls = lasting_port(), TlsListener(Path(folder))
        given = [f"{name}={text}" for name, text in {**SESSIONS, **tls.settings}.items()]
        process = start_ours(folder, port, f"listeners={tls.listeners(port)}", *given, *settings)
        try:
            wait_for_produce(process, port, "ready")
            yield Running("ours", tls.target(f"127.0.0.1:{port}"), (process.pid,), Path(folder) / "data")
        finally:
            process.terminate()
            process.wait(STOP_TIMEOUT_S)


@contextmanager
def several(processes: int) -> Iterator[Running]:
    """So many brokers of ours by one command. What they cost includes the store and the supervisor."""
    settings = {**SESSIONS, "offsets.topic.num.partitions": "50", "group.initial.rebalance.delay.ms": "3000"}
    with TemporaryDirectory(prefix="bench-") as folder, Several(Path(folder), processes, settings=settings) as brokers:
        target = Target(brokers.bootstrap_servers, processes=processes)
        yield Running("ours", target, (brokers.process.pid, *brokers.processes.values()))
        brokers.stop()


@contextmanager
def three_brokers(kind: str) -> Iterator[Running]:
    """Three brokers of one kind over a ZooKeeper of their own; topics get three replicas."""
    cluster = Cluster((kind,) * BROKERS)
    for member in cluster.brokers.values():
        if isinstance(member, KafkaServer):
            member.options = KAFKA_OPTIONS
    with cluster as brokers:
        pids = []
        for broker in brokers.brokers.values():
            assert broker.process is not None
            pids.append(broker.process.pid)
        brokers.disconnect()  # clients are forked from this process, which must have no threads then
        name = "ours" if kind == OURS else "kafka"
        yield Running(name, Target(brokers.bootstrap_servers, replicas=BROKERS), tuple(pids))


def start_ours(folder: str, port: int, *settings: str) -> subprocess.Popen[bytes]:
    """As a user starts it: the command, with a topic called "ready"."""
    overrides = [f"log.dirs={folder}/data", f"listeners=PLAINTEXT://127.0.0.1:{port}", *settings]
    arguments = [part for override in overrides for part in ("--override", override)]
    with (Path(folder) / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "barnabas.cli", "start", "--topic", "ready", "--log-level", "warn", *arguments],
            cwd=Path(__file__).parent.parent,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},
            start_new_session=True,  # as Apache Kafka here: the scheduler shares the cores among sessions
        )


def wait_for_produce(process: subprocess.Popen[bytes], port: int, topic: str, timeout_s: float = 60.0) -> None:
    """Return when this broker has acknowledged a record. Raises RuntimeError when it has ended, or another process has its
    port."""
    deadline = time.perf_counter() + timeout_s
    while time.perf_counter() < deadline:
        try:
            if produce_answer(("127.0.0.1", port), topic) == 0:
                if not listens(process.pid, port):
                    raise RuntimeError(f"another process than the broker has port {port}")
                return
        except OSError:
            pass
        if process.poll() is not None:
            raise RuntimeError(f"the broker has ended with {process.returncode}")
        time.sleep(0.002)
    raise TimeoutError(f"nothing was acknowledged on port {port}")
