"""How long clients wait when something happens to a cluster, for the table in docs/cluster.md: the events beside a plain stop
or kill, which test_cluster_faults.py measures. MEMBERS as there; TIMES is how often each happens.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined, unused-ignore]

from tests.interop.cluster.cluster_load import QUICK, REQUEST_TIMEOUT_MS, Load, check
from tests.interop.conftest import need_java
from tests.oracle.admin import Admin
from tests.oracle.cluster import OURS, Cluster
from tests.oracle.machine import Limits
from tests.oracle.process import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(1800)]

MEMBERS = os.environ.get("MEMBERS", f"{OURS},{OURS},{OURS}").split(",")
TIMES = int(os.environ.get("TIMES", "5"))
TOPIC = "orders"
PARTITIONS = 3
SESSION_TIMEOUT_S = 6.0
AWAY_S = 9.0
"""Longer than sessions live."""
HANGS_S = 15.0
"""Longer than clients wait for an answer, which they do while the connection stays."""
CLIENT_TICK_S = 1.0
"""librdkafka looks once a second whether a request has waited for too long."""

Measured = dict[str, list[float]]


class Events:
    """Each happens under load; its gap is the longest time without an acknowledgement on some partition."""

    def __init__(self, cluster: Cluster, load: Load) -> None:
        self._cluster = cluster
        self._load = load
        self._admin = Admin(cluster)
        self._client = AdminClient({**QUICK, "bootstrap.servers": cluster.bootstrap_servers})
        self._names = iter(range(1_000_000))
        self.measured: Measured = {}

    def killed_and_started_at_once(self, note: Callable[[str, float], None]) -> None:
        victim = self._cluster.brokers[self._cluster.leader_id(TOPIC, 0)]
        victim.kill()
        started_s = time.monotonic()
        victim.start()
        self._cluster.wait_in_sync(TOPIC)
        note("back in the ISR", time.monotonic() - started_s)

    def hangs(self, note: Callable[[str, float], None]) -> None:
        victim = self._cluster.brokers[self._cluster.leader_id(TOPIC, 0)]
        victim.pause()
        try:
            time.sleep(HANGS_S)
        finally:
            victim.resume()
        started_s = time.monotonic()
        self._cluster.wait_for("it is back", lambda: self._cluster.registered() == set(self._cluster.brokers))
        self._cluster.wait_in_sync(TOPIC)
        note("back in the ISR", time.monotonic() - started_s)

    def controller_stops(self, note: Callable[[str, float], None]) -> None:
        victim = self._cluster.controller
        with self._watching_for_a_controller() as seat_empty_s:
            victim.stop()
            self._load.wait_for_acknowledgements(500)
        note("nobody controls", sum(seat_empty_s))
        victim.start()

    def zookeeper_leader_is_killed(self, note: Callable[[str, float], None]) -> None:
        victim = self._cluster.zookeeper.leader
        started_s = time.monotonic()
        victim.kill()
        self._create()
        note("a topic is created after", time.monotonic() - started_s)
        self._load.wait_for_acknowledgements(500)
        victim.start()

    def ensemble_loses_its_quorum(self, note: Callable[[str, float], None]) -> None:
        victims = list(self._cluster.zookeeper.servers.values())[:2]
        for victim in victims:
            victim.kill()
        time.sleep(AWAY_S)
        started_s = time.monotonic()
        for victim in victims:
            victim.start()
        self._create()
        note("a topic is created after the return of the quorum", time.monotonic() - started_s)

    def disk_is_lost(self, note: Callable[[str, float], None]) -> None:
        victim = self._cluster.leader_id(TOPIC, 0)
        self._cluster.brokers[victim].stop()
        started_s = time.monotonic()
        self._cluster.add(victim, MEMBERS[victim - 1]).start()
        self._cluster.wait_in_sync(TOPIC)
        note("refilled, in the ISR", time.monotonic() - started_s)

    def happen(self, event: Callable[[Events, Callable[[str, float], None]], None]) -> None:
        name = event.__name__.replace("_", " ")
        self._load.wait_for_acknowledgements(500)
        begun_s = time.monotonic()
        event(self, lambda what, took_s: self.measured.setdefault(f"{name}: {what}", []).append(took_s))
        self._load.wait_for_acknowledgements(500)
        self.measured.setdefault(name, []).append(self._load.longest_gap_s(begun_s - 0.1))
        self._cluster.wait_for("all are there", lambda: self._cluster.registered() == set(self._cluster.brokers))
        self._cluster.wait_in_sync()
        self._admin.elect_preferred(TOPIC, range(PARTITIONS))

    def _create(self) -> None:
        """As a client does who asks until it is done."""
        wanted = NewTopic(f"another-{next(self._names)}", 1, 3)

        def is_created() -> bool:
            try:
                for future in self._client.create_topics([wanted], request_timeout=5, operation_timeout=2).values():
                    future.result(10)
            except KafkaException as error:
                return bool(error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS)
            return True

        assert wait_until(is_created, 60), "no topic is created"

    @contextmanager
    def _watching_for_a_controller(self) -> Iterator[list[float]]:
        """For how long there was none."""
        done, empty_s = threading.Event(), []

        def watch() -> None:
            seen_s = time.monotonic()
            while not done.wait(0.002):
                now_s = time.monotonic()
                if self._cluster.controller_id == -1:
                    empty_s.append(now_s - seen_s)
                seen_s = now_s

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield empty_s
        finally:
            done.set()
            thread.join(10)


EVENTS = {
    Events.killed_and_started_at_once: SESSION_TIMEOUT_S + 1,
    Events.hangs: max(SESSION_TIMEOUT_S, REQUEST_TIMEOUT_MS / 1000) + CLIENT_TICK_S + 1,
    Events.controller_stops: 1.0,
    Events.zookeeper_leader_is_killed: 2.0,
    Events.ensemble_loses_its_quorum: 1.0,
    Events.disk_is_lost: 1.0,
}
"""What the median of the gaps must stay below, in seconds."""


def test_waits() -> None:
    need_java()
    with Cluster(MEMBERS, zookeeper_servers=3) as cluster:
        Admin(cluster).create(TOPIC, {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
        limits = Limits()
        with Load(cluster.bootstrap_servers, TOPIC, PARTITIONS) as load:
            events = Events(cluster, load)
            for event in [*EVENTS] * TIMES:
                events.happen(event)
        check(load, cluster.bootstrap_servers)
    medians = {name: statistics.median(values) for name, values in events.measured.items()}
    for name, values in events.measured.items():
        print(f"{name}: median {medians[name]:.3f} s, worst {max(values):.3f} s of {len(values)}")
    limits_s = {event.__name__.replace("_", " "): limit_s for event, limit_s in EVENTS.items()}
    late = {name: medians[name] for name, limit_s in limits_s.items() if medians[name] >= limit_s}
    limits.check(kept=not late, told=f"medians in seconds: {late}")
