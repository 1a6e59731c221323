"""`barnabas cluster health`: each fault is injected into a live cluster, of our brokers and of Apache Kafka's, and is told with
its object, its cause, since when, and the next command."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.differential.batches import MARCH, batch
from tests.interop.conftest import need_java
from tests.oracle.admin import Admin, ask
from tests.oracle.barnabas import Barnabas
from tests.oracle.broker import Broker
from tests.oracle.cluster import KAFKA, OURS, Cluster
from tests.oracle.kafka import ApacheKafka
from tests.oracle.ports import lasting_port
from tests.oracle.process import wait_until
from tests.tools.test_operations_page import CHECK, FLAGS, PAGE

pytestmark = [pytest.mark.oracle, pytest.mark.interop]

KINDS = [OURS, KAFKA]
ROOT = Path(__file__).parents[3]
SETTINGS = {
    "transaction.partition.verification.enable": "false",  # a transaction can hang
    "log.retention.ms": "-1",
    "controlled.shutdown.enable": "false",
}
TIMEOUT_S = 60.0
Problem = dict[str, Any]


def barnabas(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command; a look takes less than ten seconds, and the machine may be busy."""
    return subprocess.run(
        [sys.executable, "-m", "barnabas.cli", *arguments], cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip


def health(servers: str, *options: str) -> tuple[int, dict[str, list[Problem]]]:
    """The exit code, and the problems by check."""
    done = barnabas("cluster", "health", "--bootstrap-server", servers, "--json", *options)
    assert done.returncode in (0, 1), done.stderr
    assert not done.stderr
    document = json.loads(done.stdout)
    found: dict[str, list[Problem]] = {}
    for problem in document["problems"]:
        found.setdefault(problem["check"], []).append(problem)
    assert (document["status"] == "healthy") == (done.returncode == 0)
    return done.returncode, found


def found(servers: str, check: str, *options: str) -> list[Problem]:
    """The problems that a check finds, which must be some and make the exit code 1."""
    code, problems = health(servers, *options)
    assert problems.get(check), problems
    assert code == 1
    return problems[check]


def is_documented(problem: Problem) -> bool:
    """Whether docs/operations.md shows it as it is printed; `...` in what the page shows stands for anything."""
    since = problem["since"] or "unknown"
    next_step = re.sub(r" --bootstrap-server [\d.:,]+", "", problem["next"])
    printed = (
        f"{problem['severity']}: {problem['subject']}: {problem['cause']}\n  since: {since} ({problem['since_note']})\n"
        f"  next: {next_step}\n"
    )
    return any(
        CHECK(shown, printed, FLAGS) for shown in re.findall(r"^```text\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    )


def is_healthy(servers: str) -> bool:
    return health(servers)[0] == 0


def produce(servers: str, topic: str, count: int, size: int = 1) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
    for _ in range(count):
        producer.produce(topic, bytes(size), partition=0)
    assert producer.flush(TIMEOUT_S) == 0


@contextlib.contextmanager
def member(servers: str, group: str, topic: str) -> Iterator[Consumer]:
    """A consumer that has joined and has committed one record; it is not left in order."""
    settings = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": servers, **settings})
    # With a callback, revoking waits until the consumer polls.
    consumer.subscribe([topic], on_revoke=lambda *_: None)
    try:
        messages = consumer.consume(1, TIMEOUT_S)
        assert messages
        consumer.commit(message=messages[0], asynchronous=False)
        yield consumer
    finally:
        consumer.close()


def hang(broker: Broker, topic: str) -> int:
    """Write one record of a transaction that no coordinator knows; the id of its producer."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    answers: list[Any] = []

    def has_an_id() -> bool:
        answers.append(ask(broker, request, 4))
        return bool(answers[-1].error_code == 0)

    assert wait_until(has_an_id, TIMEOUT_S), "a broker gets its first ids from the controller"
    answer = answers[-1]
    records = batch(b"hangs", attributes=0x10, producer_id=answer.producer_id, producer_epoch=0, base_sequence=0)
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
    written = ask(broker, ProduceRequest(transactional_id="unknown", acks=-1, timeout_ms=10_000, topic_data=[data]), 9)
    assert written.responses[0].partition_responses[0].error_code == 0, written
    return int(answer.producer_id)


class SlowRelay:
    """Passes on what clients send and brokers answer; each piece of an answer `delay_s` late."""

    def __init__(self) -> None:
        self.delay_s = 0.0
        self.target_port = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # it is closed
            while True:
                client, _ = self._listener.accept()
                self._open.append(client)
                try:
                    server = socket.create_connection(("127.0.0.1", self.target_port))
                except ConnectionError:  # the broker does not run
                    client.close()
                    continue
                self._open.append(server)
                for source, sink, is_answer in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._pass_on, args=(source, sink, is_answer), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(1 << 16):
                if is_answer and self.delay_s:
                    time.sleep(self.delay_s)
                sink.sendall(piece)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.timeout(400)
def test_faults_of_clients_and_brokers_are_told(kind: str, tmp_path: Path) -> None:
    need_java()
    with SlowRelay() as relay, Cluster((), settings=SETTINGS) as cluster:
        for number in (1, 2):
            cluster.add(number, kind, {"barnabas.http.port": str(lasting_port())} if kind == OURS else {})
        third = cluster.add(3, kind, {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{relay.port}"})
        relay.target_port = third.port
        for broker in cluster.brokers.values():
            broker.start()
        cluster.wait_until_known()
        admin, servers = Admin(cluster), cluster.bootstrap_servers
        admin.create("orders", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
        admin.create("single", {0: [3]})
        produce(servers, "orders", 20)
        produce(servers, "single", 1)
        assert health(servers) == (0, {})
        a_group_that_cannot_be_read(cluster, admin, servers)
        groups_that_stand_still(cluster, servers)
        a_transaction_that_hangs(cluster, servers)
        a_broker_that_is_slow(relay, servers)
        a_message_that_is_lost(servers, tmp_path)
        brokers_that_hang_and_go(cluster, servers, tells=kind == OURS)
        a_store_that_hangs(cluster, servers)


def a_group_that_cannot_be_read(cluster: Cluster, admin: Admin, servers: str) -> None:
    """Its leader has assigned rubbish: one client harms no look at the cluster."""
    admin.wait_until_loaded("rubbish")
    broker = cluster.brokers[admin.coordinator_of("rubbish")]
    joined = ask(broker, JoinGroupRequest(
        group_id="rubbish", session_timeout_ms=6_000, rebalance_timeout_ms=6_000, member_id="", protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    ), 3)  # fmt: skip
    assigned = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"\0\0\x7f\xff\xff\xff")
    asked = SyncGroupRequest(
        group_id="rubbish", generation_id=joined.generation_id, member_id=joined.member_id, assignments=[assigned]
    )
    assert ask(broker, asked, 2).error_code == 0
    assert health(servers) == (0, {})
    done = barnabas("groups", "describe", "rubbish", "--bootstrap-server", servers)
    assert (done.returncode, "were assigned cannot be read" in done.stderr) == (1, True), done.stderr


def groups_that_stand_still(cluster: Cluster, servers: str) -> None:
    with member(servers, "billing", "orders") as consumer:
        produce(servers, "orders", 5)
        [stuck] = found(servers, "stuck group", "--window-ms", "2500")
        assert stuck["subject"] == "group billing"
        assert "its member has committed nothing" in stuck["cause"] and "orders-0; lag 24" in stuck["cause"]
        assert is_documented(stuck)
        assert "barnabas groups describe billing" in stuck["next"]
        assert stuck["since_note"] == "time of the oldest record that it has not read"
        assert stuck["since"] is not None
        # Another one joins, and this one never comes to the rebalance.
        other = Consumer({"bootstrap.servers": servers, "group.id": "billing"})
        other.subscribe(["orders"])
        try:
            other.poll(0.1)
            assert wait_until(lambda: state_of(servers, "billing") == "PreparingRebalance", TIMEOUT_S, step_s=0.2)
            [rebalance] = found(servers, "rebalance does not end", "--window-ms", "2500")
            assert rebalance["subject"] == "group billing"
            assert is_documented(rebalance)
        finally:
            consumer.close()
            other.close()
    code, problems = health(servers)
    assert (code, list(problems)) == (0, ["group without members"]), problems
    assert barnabas("groups", "delete", "billing", "--execute", "--bootstrap-server", servers).returncode == 0


def state_of(servers: str, group: str) -> str:
    rows = json.loads(barnabas("groups", "list", "--bootstrap-server", servers, "--json").stdout)
    return str(next(row["state"] for row in rows if row["group"] == group))


def a_transaction_that_hangs(cluster: Cluster, servers: str) -> None:
    producer_id = hang(cluster.brokers[cluster.leader_id("orders", 0)], "orders")
    [hanging] = found(servers, "hanging transaction")
    assert hanging["subject"] == "partition orders-0"
    assert f"producer id {producer_id} hangs in it from offset 25 on" in hanging["cause"]
    assert hanging["since"].startswith(time.strftime("%Y-%m-%d", time.gmtime(MARCH / 1000)))
    assert is_documented(hanging)
    find = ("transactions", "find-hanging", "--json", "--bootstrap-server", servers)
    [row] = json.loads(barnabas(*find).stdout)
    assert (row["topic"], row["partition"], row["producer_id"]) == ("orders", 0, producer_id)
    assert barnabas(*shlex.split(hanging["next"])[1:]).returncode == 0, "the next command helps"
    assert json.loads(barnabas(*find).stdout) == []
    assert is_healthy(servers)


def a_broker_that_is_slow(relay: SlowRelay, servers: str) -> None:
    relay.delay_s = 0.5
    try:
        [slow] = found(servers, "slow broker")
        assert slow["subject"] == "broker 3"
        assert is_documented(slow)
        assert "its fastest answer took" in slow["cause"] and "the others take" in slow["cause"]
    finally:
        relay.delay_s = 0.0
    assert wait_until(lambda: is_healthy(servers), TIMEOUT_S)


def a_message_that_is_lost(servers: str, folder: Path) -> None:
    """The command that the docs name tells it; `cluster health` knows of no record."""
    where = ("--state", str(folder / "state.json"), "--bootstrap-server", servers)
    assert barnabas("topics", "create", "counted", "--partitions", "1", *where[2:]).returncode == 0
    assert barnabas("verify", "produce", "counted", "--num-records", "30", *where).returncode == 0
    assert barnabas("verify", "consume", "counted", *where).returncode == 0
    gone = ("--partition", "0", "--before-offset", "2", "--execute")
    assert barnabas("records", "delete", "counted", *gone, *where[2:]).returncode == 0
    done = barnabas("verify", "consume", "counted", *where)
    assert done.returncode == 1
    assert "missing: {0: {'count': 2, 'sequences': [[0, 1]]}}" in done.stderr


def brokers_that_hang_and_go(cluster: Cluster, servers: str, *, tells: bool) -> None:
    """Brokers of ours tell since when; where, is in their settings."""
    cluster.brokers[3].pause()
    try:
        problems = health(servers)[1]
        if 3 in cluster.registered():  # its session lives a few seconds longer
            [silent] = problems["broker silent"]
            assert silent["subject"] == "broker 3"
            assert is_documented(silent)
            assert "it is registered, but does not answer" in silent["cause"]
    finally:
        cluster.brokers[3].kill()
    cluster.wait_for("3 is gone", lambda: cluster.registered() == {1, 2})
    cluster.wait_for("the others lead", lambda: cluster.leader_id("orders", 2) in (1, 2))
    assert wait_until(lambda: "broker gone" in health(servers)[1], TIMEOUT_S)
    code, problems = health(servers)
    assert code == 1
    [gone], [leaderless] = problems["broker gone"], problems["partition without leader"]
    assert gone["subject"] == "broker 3"
    assert gone["next"].startswith("start broker 3")
    assert leaderless["subject"] == "partition single-0"
    assert "in sync: 3 of replicas 3; gone: broker 3" in leaderless["cause"]
    for problem in (gone, leaderless):
        assert is_documented(problem)
        assert problem["since_note"].startswith("seen by broker" if tells else "the brokers do not tell"), problem
        assert (problem["since"] is not None) == tells
    where = ("--timeout-ms", "500", "--bootstrap-server", servers)
    done = barnabas("consume", "single", "--from-beginning", *where)
    assert (done.returncode, "not everything was read: without leader are single-0" in done.stderr) == (1, True), done
    cluster.brokers[2].kill()
    cluster.wait_for("2 is gone", lambda: cluster.registered() == {1})
    assert wait_until(lambda: "under min ISR" in health(servers)[1], TIMEOUT_S)
    too_few = health(servers)[1]["under min ISR"]
    assert "partition orders-0" in {problem["subject"] for problem in too_few}
    cluster.brokers[2].start()
    cluster.brokers[3].start()
    cluster.wait_in_sync()
    assert wait_until(lambda: is_healthy(servers), TIMEOUT_S)


def a_store_that_hangs(cluster: Cluster, servers: str) -> None:
    for server in cluster.zookeeper.servers.values():
        server.pause()
    try:
        [stalled] = found(servers, "broker stalls")
        assert stalled["cause"].startswith("it answers, but did not tell settings of topics")
        assert is_documented(stalled)
    finally:
        for server in cluster.zookeeper.servers.values():
            server.resume()
    assert wait_until(lambda: is_healthy(servers), TIMEOUT_S)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256M", "barnabas-health", str(place)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small file system: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def broker_of(kind: str, settings: dict[str, str]) -> Broker:
    if kind == KAFKA:
        return ApacheKafka(settings)
    return Barnabas(settings | {"barnabas.http.port": str(lasting_port())})


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_is_told(kind: str, small_disk: Path) -> None:
    need_java()
    settings = {"log.dirs": str(small_disk / "data"), "log.index.size.max.bytes": "4096"}
    with broker_of(kind, settings) as broker:
        servers = broker.bootstrap_servers
        assert is_healthy(servers)
        disk = os.statvfs(small_disk)
        free_bytes, floor_bytes = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize // 4
        filler = small_disk / "filler"
        filler.write_bytes(bytes(free_bytes - (8 << 20)))
        [full] = found(servers, "disk full")
        assert full["subject"] == f"broker 0, {small_disk / 'data'}"
        assert full["severity"] == "error"
        assert is_documented(full)
        assert "the disk is full: " in full["cause"] and "of 268 MB are free" in full["cause"]
        if kind == OURS:
            assert f"barnabas.disk.free.min.bytes={floor_bytes}: records are refused" in full["cause"]
            # The broker measures the disk about once a second.
            assert wait_until(lambda: found(servers, "disk full")[0]["since"] is not None, TIMEOUT_S)
        filler.unlink()
        assert is_healthy(servers)


@pytest.mark.parametrize("kind", KINDS)
def test_a_log_directory_that_is_offline_is_told(kind: str, tmp_path: Path) -> None:
    """Directories stand where its next segments would be."""
    need_java()
    paths = [tmp_path / "a", tmp_path / "b"]
    with broker_of(kind, {"log.dirs": ",".join(map(str, paths)), "log.segment.bytes": "10000"}) as broker:
        servers = broker.bootstrap_servers
        assert (
            barnabas("topics", "create", "orders", "--partitions", "4", "--bootstrap-server", servers).returncode == 0
        )
        # Our only broker keeps its store in the first directory, and ends with it.
        index = next(number for number in range(4) if (paths[1] / f"orders-{number}").exists())
        for offset in range(1, 40):
            (paths[1] / f"orders-{index}" / f"{offset:020d}.log" / "not empty").mkdir(parents=True)
        producer = Producer({"bootstrap.servers": servers, "linger.ms": 0, "retries": 0, "message.timeout.ms": 10_000})
        refusals: list[KafkaError] = []

        def is_refused() -> bool:
            producer.produce(
                "orders", bytes(4000), partition=index,
                on_delivery=lambda error, _message: refusals.append(error) if error else None,
            )  # fmt: skip
            return producer.flush(TIMEOUT_S) == 0 and bool(refusals)

        assert wait_until(is_refused, TIMEOUT_S), "the third record needs a new segment"
        [offline] = found(servers, "log directory offline")
        assert (offline["since"] is not None) == (kind == OURS)
        assert offline["subject"] == f"broker 0, {paths[1]}"
        assert is_documented(offline)
        assert wait_until(lambda: "partition without leader" in health(servers)[1], TIMEOUT_S)
        leaderless = found(servers, "partition without leader")
        assert f"partition orders-{index}" in {problem["subject"] for problem in leaderless}
        assert "its log directory is offline on broker 0" in leaderless[0]["cause"]


@pytest.mark.long
@pytest.mark.parametrize("kind", [OURS, KAFKA])
@pytest.mark.timeout(400)
def test_a_move_that_stands_still_and_its_throttle_are_told(kind: str) -> None:
    need_java()
    with Cluster((kind, kind, kind), settings=SETTINGS) as cluster:
        Admin(cluster).create("single", {0: [3]})
        a_move_that_stands_still(Admin(cluster), cluster.bootstrap_servers)


def a_move_that_stands_still(admin: Admin, servers: str) -> None:
    where = ("--bootstrap-server", servers)
    topic = ("configs", "alter", "--topic", "single", *where)
    names = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
    rates = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
    for name in names:
        assert barnabas(*topic, "--add-config", f"{name}=*").returncode == 0
    for broker in ("1", "3"):
        options = [option for rate in rates for option in ("--add-config", f"{rate}=1")]
        assert barnabas("configs", "alter", "--broker", broker, *options, *where).returncode == 0
    left = found(servers, "throttle left behind")
    assert {problem["subject"] for problem in left} == {"topic single", "broker 1", "broker 3"}
    produce(servers, "single", 60, size=100_000)  # more than the first fetch takes, which no throttle delays
    admin.reassign("single", {0: [1]}, wait=False)
    assert wait_until(lambda: "reassignment stands still" in health(servers)[1], TIMEOUT_S)
    for problem in left:  # what the command said a moment ago
        assert barnabas(*shlex.split(problem["next"])[1:]).returncode == 0
    assert wait_until(lambda: not admin.reassignments(), TIMEOUT_S)
    admin.reassign("single", {0: [3]})
    assert wait_until(lambda: is_healthy(servers), TIMEOUT_S)
