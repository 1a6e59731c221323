"""Streaming queries on a cluster of three that loses the leaders of what they read, and of what they write, in mid-stream: they
go on, and nothing is lost or repeated.

MEMBERS=kafka,kafka,kafka (or any mix) puts other brokers in place of ours.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.interop.conftest import need_java
from tests.interop.spark.copies import CopiesProcess, assert_copied
from tests.interop.spark.feed import feed
from tests.interop.spark.job_cases import need_spark
from tests.oracle.admin import Admin
from tests.oracle.broker import Broker
from tests.oracle.cluster import OURS, Cluster

pytestmark = [pytest.mark.spark, pytest.mark.oracle, pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(3600)]

MEMBERS = os.environ.get("MEMBERS", f"{OURS},{OURS},{OURS}").split(",")
PARTITIONS = 3
GIVEN, COPIED = "given", "copied"
CHUNK = 200
LEADS_GIVEN, LEADS_COPIED, CONTROLS = 1, 2, 3
"""Which broker leads all partitions that are read, and all that are written."""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    need_spark()
    need_java()
    with Cluster(MEMBERS, settings={"log.retention.ms": "-1"}) as made:
        admin = Admin(made)
        admin.create(GIVEN, {key: [LEADS_GIVEN, 2, 3] for key in range(PARTITIONS)})
        admin.create(COPIED, {key: [LEADS_COPIED, 3, 1] for key in range(PARTITIONS)})
        yield made


def kill(cluster: Cluster, victim: Broker, go_on: Callable[[], None]) -> None:
    victim.kill()
    go_on()
    victim.start()


def hang(cluster: Cluster, victim: Broker, go_on: Callable[[], None]) -> None:
    """For longer than its session lives: it wakes up, believes to lead, and knows older offsets than its successor."""
    victim.pause()
    try:
        cluster.wait_for(f"{victim.broker_id} is gone", lambda: victim.broker_id not in cluster.registered())
        go_on()
    finally:
        victim.resume()


def stop(cluster: Cluster, victim: Broker, go_on: Callable[[], None]) -> None:
    victim.stop()
    go_on()
    victim.start()


Fault = Callable[[Cluster, Broker, Callable[[], None]], None]


def play(cluster: Cluster, folder: Path, faults: list[tuple[Fault, int]], chunks: int) -> None:
    """Copy and archive while one broker after the other goes; each comes back before the next one goes."""
    admin = Admin(cluster)
    fed = 0

    def feed_more() -> None:
        nonlocal fed
        for _ in range(chunks):
            feed(cluster.bootstrap_servers, GIVEN, PARTITIONS, fed, CHUNK)
            fed += CHUNK

    with CopiesProcess(cluster.bootstrap_servers, GIVEN, COPIED, folder, 50) as copies, ThreadPoolExecutor(1) as pool:
        feed_more()
        copies.start(PARTITIONS)
        copies.wait_for_batches(2)
        for fault, broker_id in faults:
            feeding = pool.submit(feed_more)

            def go_on(gone: int = broker_id) -> None:
                done = sum(copies.batches())
                for topic in (GIVEN, COPIED):
                    cluster.wait_for(
                        f"{topic} has another leader", lambda t=topic: cluster.leader_id(t) not in (gone, -1)
                    )  # type: ignore[misc]
                copies.wait_until("batches without it", lambda: sum(copies.batches()) >= done + 4)

            fault(cluster, cluster.brokers[broker_id], go_on)
            feeding.result()
            cluster.wait_for("all are there", lambda: cluster.registered() == set(cluster.brokers))
            cluster.wait_in_sync(GIVEN, COPIED)
            for topic in (GIVEN, COPIED):
                admin.elect_preferred(topic, range(PARTITIONS))
            copies.assert_alive(f"after {fault.__name__} of {broker_id}")
        copies.finish(PARTITIONS)
    assert_copied(cluster.bootstrap_servers, GIVEN, COPIED, folder, fed)


def test_queries_go_on_without_the_leaders_of_what_they_read_and_write(cluster: Cluster, tmp_path: Path) -> None:
    play(cluster, tmp_path, [(kill, LEADS_GIVEN), (kill, LEADS_COPIED)], chunks=2)


def test_queries_go_on_over_leaders_that_hang_stop_and_die(cluster: Cluster, tmp_path: Path) -> None:
    faults: list[tuple[Fault, int]] = [
        (hang, LEADS_GIVEN), (stop, LEADS_COPIED), (kill, LEADS_GIVEN), (hang, LEADS_COPIED), (stop, LEADS_GIVEN),
        (kill, LEADS_COPIED), (kill, CONTROLS),
    ]  # fmt: skip
    play(cluster, tmp_path, faults, chunks=3)
