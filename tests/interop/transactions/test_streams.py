"""Kafka Streams 3.9.1 with `exactly_once_v2` on three brokers of ours, over restarts of each: results are exact.

MEMBERS=kafka,kafka,kafka (or any mix) puts other brokers in their place. The long form has more records and rounds, two
instances of each application, and kills brokers and instances, too.
"""

from __future__ import annotations

import os
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from confluent_kafka import Producer

from tests.interop.clients import java_clients
from tests.interop.cluster.cluster_load import QUICK
from tests.interop.conftest import need_java
from tests.interop.kafka_directory import Seen
from tests.interop.transactions.transaction_load import read_decided
from tests.oracle.admin import Admin
from tests.oracle.broker import Broker
from tests.oracle.cluster import OURS, Cluster
from tests.oracle.process import wait_until, watch_over

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(900)]

MEMBERS = os.environ.get("MEMBERS", f"{OURS},{OURS},{OURS}").split(",")
VERSION = "3.9.1"
PARTITIONS = 3
PATIENCE_S = 240.0
WORDS = [f"word{number}" for number in range(20)]
CUSTOMERS = [f"customer{number}" for number in range(20)]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    need_java()
    with Cluster(MEMBERS) as made:
        yield made


class Application:
    """An instance of `ExactlyOnceStreams.java`."""

    def __init__(self, cluster: Cluster, app: str, topology: str, folder: Path) -> None:
        arguments = [cluster.bootstrap_servers, app, str(folder / "state"), topology]
        self._command = java_clients.command(VERSION, "ExactlyOnceStreams", arguments, log_level="warn")
        self.log = folder / "streams.log"
        folder.mkdir()

    def __enter__(self) -> Self:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        self._watch = watch_over(self._process.pid)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            print(self.log.read_text()[-4000:])
            self._process.kill()
        self._process.communicate(timeout=60)
        self._watch.kill()
        self._watch.communicate()

    def start_again(self) -> None:
        """After SIGKILL: with the state that is left, of which nothing may be believed."""
        self._process.kill()
        self.__exit__(None, None, None)
        self.__enter__()


class Feed:
    """Records written with idempotence; each is acknowledged."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._topic = topic
        settings = {"enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 120_000}
        self._producer = Producer({**QUICK, "bootstrap.servers": cluster.bootstrap_servers, **settings})
        self._failed: list[str] = []

    def write(self, key: str, value: str) -> None:
        self._producer.produce(
            self._topic,
            value.encode(),
            key=key.encode(),
            on_delivery=lambda error, _message: self._failed.append(str(error)) if error else None,
        )
        self._producer.poll(0)

    def flush(self) -> None:
        assert self._producer.flush(PATIENCE_S) == 0
        assert not self._failed, self._failed[:3]


def committed(cluster: Cluster, topic: str) -> list[Seen]:
    """Of every partition, one behind the other."""
    return [each for one in range(PARTITIONS) for each in read_decided(cluster.bootstrap_servers, topic, one)]


def restart(cluster: Cluster, broker: Broker, *, kill: bool) -> None:
    if kill:
        broker.kill()
        cluster.wait_for("it is gone", lambda: broker.broker_id not in cluster.registered())
    else:
        broker.stop()
    broker.start()
    cluster.wait_in_sync()


@pytest.mark.parametrize(
    ("rounds", "instances"), [pytest.param(1, 1, id="short"), pytest.param(3, 2, id="long", marks=pytest.mark.long)]
)
def test_word_count_and_join_are_exact_over_restarts(
    cluster: Cluster, tmp_path: Path, rounds: int, instances: int
) -> None:
    admin = Admin(cluster)
    for topic in ("count-words", "count-counts", "join-customers", "join-orders", "join-joined"):
        admin.create(topic, partitions=PARTITIONS)
    customers, orders, lines = (Feed(cluster, topic) for topic in ("join-customers", "join-orders", "count-words"))
    for customer in CUSTOMERS:
        customers.write(customer, f"name of {customer}")
    customers.flush()
    words: Counter[str] = Counter()
    ordered: list[tuple[str, str]] = []

    def feed(count: int) -> None:
        for number in range(len(ordered), len(ordered) + count):
            line = [WORDS[(number * step) % len(WORDS)] for step in (1, 3, 7)]
            words.update(line)
            lines.write(f"{number}", " ".join(line))
            ordered.append((CUSTOMERS[number % len(CUSTOMERS)], f"order {number}"))
            orders.write(*ordered[-1])
        lines.flush()
        orders.flush()

    def are_exact() -> bool:
        return len(committed(cluster, "count-counts")) >= words.total() and len(
            committed(cluster, "join-joined")
        ) >= len(ordered)

    applications = [
        Application(cluster, topology, topology, tmp_path / f"{topology}-{number}")
        for topology in ("count", "join")
        for number in range(instances)
    ]
    with ExitStack() as stack:
        for each in applications:
            stack.enter_context(each)
        feed(100)
        assert wait_until(are_exact, PATIENCE_S, 1), "nothing is processed"
        for turn in range(rounds):
            for broker in list(cluster.brokers.values()):
                feed(60)
                restart(cluster, broker, kill=(turn + broker.broker_id) % 3 == 2)
                feed(60)
            if turn:
                applications[turn % len(applications)].start_again()
        assert wait_until(are_exact, PATIENCE_S, 1), "it does not come to an end"
    counts: dict[str, list[int]] = defaultdict(list)
    for one in committed(cluster, "count-counts"):
        counts[(one.key or b"").decode()].append(int(one.value or b""))
    assert counts == {word: list(range(1, count + 1)) for word, count in words.items()}
    joined = [((one.key or b"").decode(), (one.value or b"").decode()) for one in committed(cluster, "join-joined")]
    expected = [(customer, f"{order} of name of {customer}") for customer, order in ordered]
    assert Counter(joined) == Counter(expected)
    for customer in CUSTOMERS:
        assert [each for each in joined if each[0] == customer] == [each for each in expected if each[0] == customer]
