"""Three brokers of ours over the store server: members of the consumer protocol read on while their coordinator is killed,
while members join and leave, and while one hangs until it is fenced. Nothing is missed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.groups.conftest import NEWEST_LEVELS, QUICK_GROUPS, GroupOf
from tests.interop.groups.members import CLASSIC, CLIENTS, CONSUMER, FranzConsumer, Group, Numbers
from tests.oracle.admin import Admin
from tests.oracle.cluster import OURS, Cluster
from tests.oracle.process import wait_until
from tests.oracle.store_server import StoreServerProcess

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(600)]

TOPIC = "orders"
PARTITIONS = 6
TIMES = int(os.environ.get("TIMES", "3"))
"""How often the coordinator is killed."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    store = StoreServerProcess(tmp_path)
    session = {"zookeeper.session.timeout.ms": "6000", "zookeeper.connection.timeout.ms": "60000"}
    with Cluster((OURS,) * 3, settings={**session, **QUICK_GROUPS, **NEWEST_LEVELS}, store=store) as made:
        Admin(made).create(
            TOPIC, {one: [one % 3 + 1, (one + 1) % 3 + 1, (one + 2) % 3 + 1] for one in range(PARTITIONS)}
        )
        yield made


def kill_coordinator(cluster: Cluster, members: Group) -> None:
    """And start it again once the group is shared under another."""
    victim = cluster.brokers[Admin(cluster).coordinator_of(members.name)]
    victim.kill()
    cluster.wait_for("it is gone", lambda: victim.broker_id not in cluster.registered())
    members.join(CONSUMER)
    members.wait_until_shared()
    members.leave(members.members[0])
    members.wait_until_shared()
    victim.start()
    cluster.wait_in_sync()


@pytest.mark.parametrize("client", CLIENTS)
def test_members_read_on_while_their_coordinator_is_killed(cluster: Cluster, group_of: GroupOf, client: str) -> None:
    bootstrap = cluster.bootstrap_servers
    members = group_of(client, bootstrap, TOPIC, PARTITIONS)
    with members:
        with Numbers(bootstrap, TOPIC) as numbers:
            for _ in range(3):
                members.join(CONSUMER)
            members.wait_until_shared()
            for _ in range(TIMES):
                kill_coordinator(cluster, members)
        members.wait_until_read(numbers.acknowledged)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_group_changes_its_protocol_while_its_coordinator_is_killed(
    cluster: Cluster, group_of: GroupOf, client: str
) -> None:
    """The coordinator is killed with members of both protocols in the group, on the way to the new one and back."""
    bootstrap = cluster.bootstrap_servers
    members = group_of(client, bootstrap, TOPIC, PARTITIONS)
    with members:
        with Numbers(bootstrap, TOPIC) as numbers:
            for _ in range(2):
                members.join(CLASSIC)
            members.wait_until_shared()
            for protocol in (CONSUMER, CLASSIC):
                for old in list(members.members):
                    members.leave(old)
                    members.join(protocol)
                    members.wait_until_shared()
                    victim = cluster.brokers[Admin(cluster).coordinator_of(members.name)]
                    victim.kill()
                    cluster.wait_for("it is gone", lambda broker=victim: broker.broker_id not in cluster.registered())
                    members.wait_until_shared()
                    victim.start()
                    cluster.wait_in_sync()
        members.wait_until_read(numbers.acknowledged)


def test_a_member_that_hangs_is_fenced_and_comes_back(cluster: Cluster, group_of: GroupOf) -> None:
    bootstrap = cluster.bootstrap_servers
    members = group_of("franz-go", bootstrap, TOPIC, PARTITIONS)
    with members:
        with Numbers(bootstrap, TOPIC) as numbers:
            hung = members.join(CONSUMER)
            other = members.join(CONSUMER)
            members.wait_until_shared()
            assert isinstance(hung.consumer, FranzConsumer)
            process_group = hung.consumer.process.pid
            os.killpg(process_group, signal.SIGSTOP)
            try:
                assert wait_until(lambda: len(other.owned) == PARTITIONS, 60), other.owned
            finally:
                os.killpg(process_group, signal.SIGCONT)
            members.wait_until_shared()
        members.wait_until_read(numbers.acknowledged)
