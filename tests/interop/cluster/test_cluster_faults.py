"""Three brokers of ours on an ensemble of ZooKeeper: whoever dies or hangs under load, the history stays right.

MEMBERS=kafka,kafka,kafka (or any mix) puts other brokers in their place. The long form makes twenty faults in a row.
"""

from __future__ import annotations

import itertools
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator

import pytest

from tests.interop.cluster.cluster_load import Load, check
from tests.interop.cluster.cluster_logs import assert_equal_logs
from tests.interop.conftest import need_java
from tests.oracle.admin import Admin
from tests.oracle.broker import Broker
from tests.oracle.cluster import OURS, Cluster
from tests.oracle.machine import Limits

pytestmark = [pytest.mark.oracle, pytest.mark.interop]

MEMBERS = os.environ.get("MEMBERS", f"{OURS},{OURS},{OURS}").split(",")
TOPIC = "orders"
PARTITIONS = 3
GROUP = "readers"
SESSION_TIMEOUT_S = 6.0
TIMES = int(os.environ.get("TIMES", "20"))
"""How often the long form measures."""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    need_java()
    with Cluster(MEMBERS, zookeeper_servers=3) as made:
        Admin(made).create(TOPIC, {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
        yield made


class Faults:
    """What can happen to a cluster under load; each ends with everything in sync again."""

    def __init__(self, cluster: Cluster, load: Load) -> None:
        self._cluster = cluster
        self._load = load
        self._admin = Admin(cluster)

    def kill_leader(self) -> None:
        self._kill(self._leader())

    def kill_controller(self) -> None:
        self._kill(self._cluster.controller)

    def kill_coordinator(self) -> None:
        self._kill(self._cluster.brokers[self._admin.coordinator_of(GROUP)])

    def hang_leader(self) -> None:
        self._hang(self._leader())

    def hang_controller(self) -> None:
        self._hang(self._cluster.controller)

    def stop_leader(self) -> None:
        victim = self._leader()
        victim.stop()
        self._load.wait_for_acknowledgements(300)
        victim.start()
        self._heal()

    def kill_and_start_at_once(self) -> None:
        victim = self._leader()
        victim.kill()
        victim.start()
        self._load.wait_for_acknowledgements(300)
        self._heal()

    def kill_zookeeper_leader(self) -> None:
        victim = self._cluster.zookeeper.leader
        victim.kill()
        self._load.wait_for_acknowledgements(1000)
        victim.start()
        self._heal()

    def _leader(self) -> Broker:
        return self._cluster.brokers[self._cluster.leader_id(TOPIC, 0)]

    def _kill(self, victim: Broker) -> None:
        victim.kill()
        self._go_on_without(victim)
        victim.start()
        self._heal()

    def _hang(self, victim: Broker) -> None:
        """For longer than its session lives: it wakes up and believes to lead."""
        victim.pause()
        try:
            self._go_on_without(victim)
        finally:
            victim.resume()
        self._heal()

    def _go_on_without(self, victim: Broker) -> None:
        gone = victim.broker_id
        self._cluster.wait_for(f"{gone} is gone", lambda: gone not in self._cluster.registered())
        self._cluster.wait_for("the controller knows", lambda: not self._counts_as_in_sync(gone))
        self._load.wait_for_acknowledgements(300)
        self._load.wait_for_reads(300)

    def _counts_as_in_sync(self, broker_id: int) -> bool:
        return any(broker_id in self._cluster.isr(TOPIC, partition) for partition in range(PARTITIONS))

    def _heal(self) -> None:
        self._cluster.wait_for("all are there", lambda: self._cluster.registered() == set(self._cluster.brokers))
        self._cluster.wait_in_sync()
        self._admin.elect_preferred(TOPIC, range(PARTITIONS))
        self._load.wait_for_acknowledgements(300)
        self._load.wait_for_reads(300)


FAULTS: list[Callable[[Faults], None]] = [
    Faults.kill_leader,
    Faults.stop_leader,
    Faults.kill_controller,
    Faults.hang_leader,
    Faults.kill_zookeeper_leader,
    Faults.kill_coordinator,
    Faults.kill_and_start_at_once,
    Faults.hang_controller,
]


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(len(FAULTS), marks=pytest.mark.timeout(400)),
        pytest.param(20, marks=[pytest.mark.long, pytest.mark.timeout(1200)]),
    ],
)
def test_faults_in_a_row(cluster: Cluster, count: int) -> None:
    order = list(FAULTS)
    random.Random(count).shuffle(order)
    with Load(cluster.bootstrap_servers, TOPIC, PARTITIONS, group=GROUP) as load:
        faults = Faults(cluster, load)
        for number, fault in enumerate(itertools.islice(itertools.cycle(order), count)):
            started_s = time.monotonic()
            fault(faults)
            print(f"{number}: {fault.__name__} {time.monotonic() - started_s:.1f} s")
    check(load, cluster.bootstrap_servers)
    assert_equal_logs(cluster, TOPIC)
    assert_equal_logs(cluster, "__consumer_offsets")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("rounds", [1, pytest.param(TIMES, marks=pytest.mark.long)])
def test_a_rolling_restart_is_not_noticed(cluster: Cluster, rounds: int) -> None:
    """No delivery fails, poll raises nothing, and nobody waits for long."""
    admin, limits = Admin(cluster), Limits()
    gaps_s = []
    with Load(cluster.bootstrap_servers, TOPIC, PARTITIONS, group=GROUP) as load:
        for _ in range(rounds):
            load.wait_for_reads(500)
            started_s = time.monotonic()
            for broker in cluster.brokers.values():
                broker.stop()
                broker.start()
                cluster.wait_in_sync()
                admin.elect_preferred(TOPIC, range(PARTITIONS))
                load.wait_for_acknowledgements(500)
            gaps_s.append(load.longest_gap_s(started_s))
    check(load, cluster.bootstrap_servers)
    assert_equal_logs(cluster, TOPIC)
    told = f"longest gap: median {statistics.median(gaps_s):.3f} s, worst {max(gaps_s):.3f} s of {rounds}"
    print(told)
    # One round tells how long the machine had other things to do; that no session had to expire first it tells, too.
    limits.check(kept=statistics.median(gaps_s) < (1.0 if rounds > 1 else SESSION_TIMEOUT_S), told=told)


# --- how long clients wait: medians ---


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_unavailability(cluster: Cluster) -> None:
    """The longest time without an acknowledgement on a partition, as the producer sees it."""
    admin, limits = Admin(cluster), Limits()
    measured: dict[str, list[float]] = {}
    with Load(cluster.bootstrap_servers, TOPIC, PARTITIONS, group=GROUP) as load:
        for _ in range(TIMES):
            for name, act in (
                ("controlled shutdown", lambda: cluster.brokers[_follower_of_controller(cluster)].stop()),
                ("kill -9 of a leader", lambda: cluster.brokers[_follower_of_controller(cluster)].kill()),
                ("kill -9 of leader and controller", lambda: cluster.controller.kill()),
            ):
                load.wait_for_acknowledgements(500)
                started_s = time.monotonic()
                act()
                cluster.wait_for("it is gone", lambda: len(cluster.registered()) == 2)
                load.wait_for_acknowledgements(500)
                time.sleep(0.5)
                measured.setdefault(name, []).append(load.longest_gap_s(started_s - 0.1))
                victim = next(broker for broker in cluster.brokers.values() if not broker.is_running)
                started_s = time.monotonic()
                victim.start()
                cluster.wait_in_sync(TOPIC)
                measured.setdefault("back in the ISR", []).append(time.monotonic() - started_s)
                cluster.wait_in_sync()
                admin.elect_preferred(TOPIC, range(PARTITIONS))
    check(load, cluster.bootstrap_servers)
    medians = {name: statistics.median(values) for name, values in measured.items()}
    for name, values in measured.items():
        print(f"{name}: median {medians[name]:.3f} s, worst {max(values):.3f} s of {len(values)}")
    limits_s = {
        "controlled shutdown": 0.3,
        "kill -9 of a leader": SESSION_TIMEOUT_S + 1,
        "kill -9 of leader and controller": SESSION_TIMEOUT_S + 1,
    }
    late = {name: medians[name] for name, limit_s in limits_s.items() if medians[name] >= limit_s}
    limits.check(kept=not late, told=f"medians in seconds: {late}")


def _follower_of_controller(cluster: Cluster) -> int:
    """A leader of some partition that does not control."""
    return next(broker for broker in cluster.brokers if broker != cluster.controller_id)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_new_controller_has_told_everybody_within_two_seconds(cluster: Cluster) -> None:
    """With 1,000 partitions: from the new /controller to the moment when every broker knows every new leader."""
    admin, limits = Admin(cluster), Limits()
    admin.create("many", partitions=1000, replicas=3)
    old = cluster.controller
    old.kill()
    cluster.wait_for("another controls", lambda: cluster.controller_id not in (-1, old.broker_id))
    started_s = time.monotonic()
    cluster.wait_for(
        "everybody knows new leaders",
        lambda: admin.everybody_agrees("many", lambda found: _led_without(found, old.broker_id)),
    )
    took_s = time.monotonic() - started_s
    told = f"1,000 partitions: {took_s:.2f} s"
    print(told)
    limits.check(kept=took_s < 2, told=told)


def _led_without(topic: object, gone: int) -> bool:
    return all(one.leader_id not in (-1, gone) for one in topic.partitions)  # type: ignore[attr-defined]
