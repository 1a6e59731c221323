"""The lag that brokers measure, on three brokers of ours under load, while leaders and coordinators die and groups rebalance.

One topic grows and is read by a group with members. Two others stand still, and a group without members waits at known offsets
of theirs: whatever happens, a sample of its lag is the known number or unknown. No sample of anything is ever negative.
The long forms make more faults, and a million samples of a model (tests/broker/cluster/lag_model.py).
"""

from __future__ import annotations

import itertools
import json
import math
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from types import TracebackType
from typing import Self

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.commands import main
from tests.broker.cluster.lag_model import run
from tests.interop.cluster.cluster_load import Load
from tests.interop.conftest import need_java
from tests.oracle.admin import Admin
from tests.oracle.cluster import OURS, Cluster
from tests.oracle.ports import lasting_port
from tests.oracle.process import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.interop]

INTERVAL_MS = 200
SAMPLE = re.compile(r"^kafka_consumergroup_lag\{(.*?)\} (\S+)$", re.MULTILINE)
Key = tuple[str, str, int]
WAITER = "waiter"
# (topic, partition): (end, committed offset of the group that waits)
STILL = {("still", 0): (30, 10), ("still", 1): (20, 20), ("still", 2): (40, 0), ("single", 0): (50, 45)}


class Samples:
    """Reads the pages of all brokers again and again. `latest` is what the last look has shown, by broker."""

    def __init__(self, ports: dict[int, int]) -> None:
        self._ports = ports
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)
        self.expected: dict[Key, int] = {}
        self.latest: dict[int, dict[Key, float]] = {}
        self.count = self.unknown = 0
        self.wrong: list[tuple[Key, float]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(30)

    def _look_on(self) -> None:
        while not self._stop.wait(0.05):
            self.look()

    def look(self) -> None:
        for broker_id, port in self._ports.items():
            expected = dict(self.expected)
            found = page(port)
            self.latest[broker_id] = found
            for key, lag in found.items():
                self.count += 1
                self.unknown += math.isnan(lag)
                wanted = expected.get(key)
                is_right = math.isnan(lag) or (lag >= 0 and wanted in (None, lag))
                # What is expected may just have changed.
                if not is_right and self.expected.get(key) == wanted:
                    self.wrong.append((key, lag))

    def shown(self, group: str) -> dict[Key, float] | None:
        """The lag of a group, when just one broker shows it."""
        found = [
            rows for page in list(self.latest.values()) if (rows := {k: v for k, v in page.items() if k[0] == group})
        ]
        return found[0] if len(found) == 1 else None


def page(port: int) -> dict[Key, float]:
    """Nothing of a broker that is not there."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            text = answer.read().decode()
    except (urllib.error.URLError, OSError):
        return {}
    found = {}
    for labels, value in SAMPLE.findall(text):
        named = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        found[named["group"], named["topic"], int(named["partition"])] = float(value)
    return found


@pytest.fixture
def cluster() -> Iterator[tuple[Cluster, dict[int, int]]]:
    need_java()
    settings = {"barnabas.lag.interval.ms": str(INTERVAL_MS), "min.insync.replicas": "1"}
    ports = {number: lasting_port() for number in (1, 2, 3)}
    made = Cluster((), settings=settings)
    for number, port in ports.items():
        made.add(number, OURS, {"barnabas.http.port": str(port)})
    with made:
        yield made, ports


def filled(cluster: Cluster, topic: str, records: dict[int, int]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for partition, count in records.items():
        for number in range(count):
            producer.produce(topic, b"%d" % number, partition=partition)
    assert producer.flush(60) == 0


def commit(cluster: Cluster, offsets: dict[tuple[str, int], int]) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": WAITER})
    places = [TopicPartition(*key, offset) for key, offset in offsets.items()]
    try:
        assert all(place.error is None for place in consumer.commit(offsets=places, asynchronous=False) or ())
    finally:
        consumer.close()


def is_shown(samples: Samples, expected: dict[Key, float]) -> bool:
    shown = samples.shown(WAITER)
    return shown is not None and {key: None if math.isnan(lag) else lag for key, lag in shown.items()} == expected


def described(cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> dict[Key, int | None]:
    """As the command line computes it over the wire."""
    capfd.readouterr()
    assert main(["groups", "describe", WAITER, "--json", "--bootstrap-server", cluster.bootstrap_servers]) == 0
    rows = json.loads(capfd.readouterr().out)["partitions"]
    return {(WAITER, row["topic"], row["partition"]): row["lag"] for row in rows}


def kill(cluster: Cluster, victim_id: int, load: Load) -> None:
    cluster.brokers[victim_id].kill()
    cluster.wait_for(f"{victim_id} is gone", lambda: victim_id not in cluster.registered())
    load.wait_for_acknowledgements(200)
    load.wait_for_reads(200)


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(1, marks=pytest.mark.timeout(300)),
        pytest.param(12, marks=[pytest.mark.long, pytest.mark.timeout(1200)]),
    ],
)
def test_lag_is_what_a_checker_computes(
    cluster: tuple[Cluster, dict[int, int]], faults: int, capfd: pytest.CaptureFixture[str]
) -> None:
    brokers, ports = cluster
    admin = Admin(brokers)
    admin.create("orders", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    admin.create("still", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    coordinator = admin.wait_until_loaded(WAITER)
    apart = next(number for number in ports if number != coordinator)
    admin.create("single", {0: [apart]})
    filled(brokers, "still", {key[1]: end for key, (end, _) in STILL.items() if key[0] == "still"})
    filled(brokers, "single", {0: STILL["single", 0][0]})
    commit(brokers, {key: at for key, (_, at) in STILL.items()})
    known = {(WAITER, *key): end - at for key, (end, at) in STILL.items()}
    with Samples(ports) as samples:
        samples.expected = dict(known)
        assert wait_until(lambda: is_shown(samples, known), 30), samples.latest
        with Load(brokers.bootstrap_servers, "orders", 3, rate=300, group="readers") as load:
            # The first fault takes the leader of `single`, later ones the coordinator and others.
            for number, victim in enumerate(itertools.islice(itertools.cycle((apart, None)), faults)):
                victim_id = victim if victim is not None else admin.coordinator_of(WAITER)
                kill(brokers, victim_id, load)
                lost = {key: None if key[1] == "single" and victim_id == apart else lag for key, lag in known.items()}
                assert wait_until(lambda lost=lost: is_shown(samples, lost), 60), (number, samples.latest)  # type: ignore[misc]
                assert described(brokers, capfd) == lost
                brokers.brokers[victim_id].start()
                brokers.wait_in_sync()
                assert wait_until(lambda: is_shown(samples, known), 60), (number, samples.latest)
            shown = samples.shown("readers")
            assert shown is not None and len(shown) == 3
        assert wait_until(lambda: set((samples.shown("readers") or {1: 1}).values()) == {0}, 30), samples.latest
        topics_change(brokers, admin, samples, known, capfd)
    assert not samples.wrong, samples.wrong[:10]
    assert samples.count > 100 and samples.unknown < samples.count / 2
    print(f"{samples.count} samples, {samples.unknown} unknown")


def topics_change(
    cluster: Cluster, admin: Admin, samples: Samples, known: dict[Key, int], capfd: pytest.CaptureFixture[str]
) -> None:
    """Records are deleted, behind the commit too: the lag stays. A topic is deleted: its rows go. It comes back, smaller."""
    admin.delete_records("still", 0, 25)
    admin.delete_records("still", 2, 40)
    assert described(cluster, capfd) == known
    samples.expected = {key: lag for key, lag in known.items() if key[1] != "single"}
    admin.delete("single")
    left = dict(samples.expected)
    assert wait_until(lambda: is_shown(samples, left), 30), samples.latest
    admin.create("single", {0: [1, 2]})
    filled(cluster, "single", {0: 8})
    commit(cluster, {("single", 0): 2})
    samples.expected = left | {(WAITER, "single", 0): 6}
    again = dict(samples.expected)
    assert wait_until(lambda: is_shown(samples, again), 30), samples.latest
    assert described(cluster, capfd) == again


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_million_samples_of_the_model_are_right() -> None:
    model = run(seed=1_000_000, samples=1_000_000)
    assert 0.1 < model.unknown / model.samples < 0.6
