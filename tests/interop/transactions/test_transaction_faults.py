"""Transactions in a cluster of three brokers of ours whose coordinator is killed: commits go on, and every one is whole.

MEMBERS=kafka,kafka,kafka (or any mix) puts other brokers in their place.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from tests.interop.cluster.cluster_logs import assert_equal_logs
from tests.interop.conftest import need_java
from tests.interop.transactions.transaction_load import TransactionLoad, check
from tests.oracle.admin import Admin
from tests.oracle.broker import Broker
from tests.oracle.cluster import OURS, Cluster
from tests.oracle.machine import Limits

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(400)]

MEMBERS = os.environ.get("MEMBERS", f"{OURS},{OURS},{OURS}").split(",")
TOPIC = "orders"
PARTITIONS = 3
SESSION_TIMEOUT_S = 6.0
STATE = "__transaction_state"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    need_java()
    with Cluster(MEMBERS) as made:
        Admin(made).create(TOPIC, {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
        yield made


def transactional_ids(admin: Admin) -> dict[int, str]:
    """An id for each broker that coordinates one, by the broker."""
    found: dict[int, str] = {}
    for number in range(40):
        found.setdefault(admin.transaction_coordinator_of(f"tx-{number}"), f"tx-{number}")
    return found


@pytest.mark.parametrize("duration_s", [15, pytest.param(60, marks=pytest.mark.long)])
def test_commits_go_on_without_their_coordinator(cluster: Cluster, duration_s: int) -> None:
    admin, limits = Admin(cluster), Limits()
    ids = transactional_ids(admin)
    victim = cluster.brokers[admin.transaction_coordinator_of("tx-0")]
    started_s = time.monotonic()
    with TransactionLoad(cluster.bootstrap_servers, TOPIC, PARTITIONS, list(ids.values())) as load:
        load.wait_for_commits(20)
        victim.kill()
        cluster.wait_for("it is gone", lambda: victim.broker_id not in cluster.registered())
        load.wait_for_commits(20)
        victim.start()
        cluster.wait_in_sync()
        admin.elect_preferred(STATE, cluster.partitions(STATE))
        while time.monotonic() < started_s + duration_s:
            load.wait_for_commits(1)
    check(load, cluster.bootstrap_servers)
    cluster.wait_in_sync()
    assert_equal_logs(cluster, TOPIC)
    assert_equal_logs(cluster, STATE)
    gap_s = load.longest_gap_s()
    told = f"{len(load.ended)} transactions of {len(ids)} producers; the longest time without a commit: {gap_s:.2f} s"
    print(told)
    limits.check(kept=duration_s < 60 or gap_s < SESSION_TIMEOUT_S + 2, told=told)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_faults_of_a_coordinator_in_a_row(cluster: Cluster) -> None:
    """Killed, hung for longer than its session, stopped in order, killed and started at once: twice, in that order."""
    admin = Admin(cluster)
    ids = list(transactional_ids(admin).values())
    with TransactionLoad(cluster.bootstrap_servers, TOPIC, PARTITIONS, ids) as load:
        for fault in (kill, hang, stop, kill_and_start_at_once) * 2:
            load.wait_for_commits(20)
            started_s = time.monotonic()
            fault(cluster, cluster.brokers[admin.transaction_coordinator_of(ids[0])], load)
            cluster.wait_for("all are there", lambda: cluster.registered() == set(cluster.brokers))
            cluster.wait_in_sync()
            admin.elect_preferred(STATE, cluster.partitions(STATE))
            load.wait_for_commits(20)
            print(f"{fault.__name__}: {time.monotonic() - started_s:.1f} s")
    check(load, cluster.bootstrap_servers)
    cluster.wait_in_sync()
    assert_equal_logs(cluster, TOPIC)
    assert_equal_logs(cluster, STATE)


def kill(cluster: Cluster, victim: Broker, load: TransactionLoad) -> None:
    victim.kill()
    cluster.wait_for("it is gone", lambda: victim.broker_id not in cluster.registered())
    load.wait_for_commits(20)
    victim.start()


def hang(cluster: Cluster, victim: Broker, load: TransactionLoad) -> None:
    """It wakes up and believes to coordinate."""
    victim.pause()
    try:
        cluster.wait_for("it is gone", lambda: victim.broker_id not in cluster.registered())
        load.wait_for_commits(20)
    finally:
        victim.resume()


def stop(cluster: Cluster, victim: Broker, load: TransactionLoad) -> None:
    victim.stop()
    load.wait_for_commits(20)
    victim.start()


def kill_and_start_at_once(cluster: Cluster, victim: Broker, load: TransactionLoad) -> None:
    victim.kill()
    victim.start()
    load.wait_for_commits(20)
