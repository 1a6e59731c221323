"""Three brokers of ours over the store server: a share group of Java's and librdkafka's consumers, while leaders and
coordinators move, are killed, and hang. Nothing is lost; what was accepted does not come again."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from metadata.image import SHARE_GROUP_STATE_TOPIC
from protocol.share_states import share_key
from tests.interop.clients.java_clients import JavaClients
from tests.interop.groups.conftest import NEWEST_LEVELS, QUICK_GROUPS, ShareConsumerOf
from tests.interop.groups.share_members import (
    PATIENCE_S,
    Reading,
    has_gone_on,
    set_group,
)
from tests.oracle.admin import Admin, java_hash
from tests.oracle.broker import Broker
from tests.oracle.cluster import OURS, Cluster
from tests.oracle.process import wait_until
from tests.oracle.store_server import StoreServerProcess

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(600)]

TOPIC, GROUP = "orders", "g"
PARTITIONS = 3
MEMBERS = ("Java", "librdkafka", "Java", "librdkafka")
TIMES = int(os.environ.get("TIMES", "3"))
"""How often each fault comes."""
SETTINGS = {
    "zookeeper.session.timeout.ms": "6000",
    "zookeeper.connection.timeout.ms": "60000",
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    **QUICK_GROUPS,
    **NEWEST_LEVELS,
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster((OURS,) * 3, settings=SETTINGS, store=StoreServerProcess(tmp_path)) as made:
        replicas = {one: [one % 3 + 1, (one + 1) % 3 + 1, (one + 2) % 3 + 1] for one in range(PARTITIONS)}
        Admin(made).create(TOPIC, replicas)
        set_group(made.bootstrap_servers, GROUP, auto_offset_reset="earliest")
        yield made


@pytest.fixture
def reading(cluster: Cluster, share_consumer_of: ShareConsumerOf) -> Reading:
    servers = cluster.bootstrap_servers
    return Reading(servers, TOPIC, PARTITIONS, MEMBERS, lambda client: share_consumer_of(client, servers, GROUP, TOPIC))


def leader(cluster: Cluster) -> Broker:
    return Admin(cluster).leader_of(TOPIC, 0)


def group_coordinator(cluster: Cluster) -> Broker:
    return cluster.brokers[Admin(cluster).coordinator_of(GROUP)]


def share_coordinator(cluster: Cluster) -> Broker:
    """Of the first partition's state."""
    return Admin(cluster).leader_of(SHARE_GROUP_STATE_TOPIC, state_partition(cluster))


def state_partition(cluster: Cluster) -> int:
    key = share_key(GROUP, Admin(cluster).metadata(TOPIC).topic_id, 0)
    return java_hash(key) % len(cluster.partitions(SHARE_GROUP_STATE_TOPIC))


def test_coordinators_move_and_every_record_is_delivered_once(cluster: Cluster, reading: Reading) -> None:
    admin = Admin(cluster)
    with reading.checked() as group:
        places = [
            ("__consumer_offsets", admin.coordinator_partition(GROUP)),
            (SHARE_GROUP_STATE_TOPIC, state_partition(cluster)),
        ]
        for _ in range(TIMES):
            for topic, partition in places:
                admin.move_leader(topic, cluster.leader_id(topic, partition) % 3 + 1, partition)
                assert wait_until(has_gone_on(group), PATIENCE_S)
    delivered = group.delivered()
    assert {record.count for record in delivered} == {1}
    assert len(delivered) == len({record.place for record in delivered}) == group.accepted().total()


@pytest.mark.parametrize("role", [leader, group_coordinator, share_coordinator])
def test_a_broker_is_killed(cluster: Cluster, reading: Reading, role: Callable[[Cluster], Broker]) -> None:
    with reading.checked() as group:
        for _ in range(TIMES):
            victim = role(cluster)
            victim.kill()
            cluster.wait_for("it is gone", lambda broker=victim: broker.broker_id not in cluster.registered())
            assert wait_until(has_gone_on(group), PATIENCE_S)
            victim.start()
            cluster.wait_in_sync()


@pytest.mark.parametrize("role", [leader, share_coordinator])
def test_a_broker_hangs_until_another_has_its_place(
    cluster: Cluster, reading: Reading, role: Callable[[Cluster], Broker]
) -> None:
    with reading.checked() as group:
        victim = role(cluster)
        assert victim.process is not None
        os.kill(victim.process.pid, signal.SIGSTOP)
        try:
            cluster.wait_for("it is gone", lambda: victim.broker_id not in cluster.registered())
            assert wait_until(has_gone_on(group), PATIENCE_S)
        finally:
            os.kill(victim.process.pid, signal.SIGCONT)
        cluster.wait_in_sync()
        assert wait_until(has_gone_on(group), PATIENCE_S)


def test_a_member_that_hangs_loses_its_records_to_the_others(reading: Reading, share_jvm: JavaClients) -> None:
    """All of one JVM's, until their session has ended."""
    with reading.checked() as group:
        os.kill(share_jvm.process_id, signal.SIGSTOP)
        try:
            assert wait_until(has_gone_on(group), PATIENCE_S)
        finally:
            os.kill(share_jvm.process_id, signal.SIGCONT)
        assert wait_until(has_gone_on(group), PATIENCE_S)
