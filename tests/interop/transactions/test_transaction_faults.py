"""Transactions in a cluster of three brokers of ours whose coordinator is killed: commits go on, and every one is whole. The
same with the newest feature levels and producers of Apache Kafka 4.3.0, whose epoch grows with each transaction.

MEMBERS=kafka,kafka,kafka (or any mix) puts other brokers in their place.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.messages.describe_transactions import DescribeTransactionsRequest
from tests.interop.clients.java_clients import JavaClients
from tests.interop.cluster.cluster_logs import assert_equal_logs
from tests.interop.conftest import need_java
from tests.interop.transactions.clients.clients import NEWER_JAVA
from tests.interop.transactions.clients.java_driven import JavaClient
from tests.interop.transactions.driven_load import DrivenLoad
from tests.interop.transactions.transaction_load import TransactionLoad, check
from tests.oracle.admin import Admin, ask
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
    ids = list(transactional_ids(Admin(cluster)).values())
    cause_faults(cluster, TransactionLoad(cluster.bootstrap_servers, TOPIC, PARTITIONS, ids), ids[0])


@pytest.mark.long
@pytest.mark.timeout(900)
def test_faults_of_a_coordinator_of_newer_producers(tmp_path: Path) -> None:
    need_java()
    with Cluster([OURS] * 3, settings={"barnabas.initial.features": "newest"}) as cluster:
        Admin(cluster).create(TOPIC, {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
        ids = list(transactional_ids(Admin(cluster)).values())
        with JavaClients(NEWER_JAVA, tmp_path / "java.log") as clients:
            producers = JavaClient(clients, NEWER_JAVA, cluster.bootstrap_servers)
            load = DrivenLoad(cluster.bootstrap_servers, TOPIC, PARTITIONS, ids, producers)
            cause_faults(cluster, load, ids[0])
        assert all(epoch_of(cluster, name) >= 20 for name in ids), "each transaction has raised it"


def epoch_of(cluster: Cluster, transactional_id: str) -> int:
    coordinator = cluster.brokers[Admin(cluster).transaction_coordinator_of(transactional_id)]
    response = ask(coordinator, DescribeTransactionsRequest(transactional_ids=[transactional_id]))
    return int(response.transaction_states[0].producer_epoch)


def cause_faults(cluster: Cluster, load: TransactionLoad, of_id: str) -> None:
    """The coordinator is killed, hangs for longer than its session, is stopped in order, is killed and started at once: twice,
    in that order."""
    admin = Admin(cluster)
    with load:
        for fault in (kill, hang, stop, kill_and_start_at_once) * 2:
            load.wait_for_commits(20)
            started_s = time.monotonic()
            fault(cluster, cluster.brokers[admin.transaction_coordinator_of(of_id)], load)
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
