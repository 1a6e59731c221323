"""What a scrape of the brokers of a cluster tells, as it goes through a failure."""

from __future__ import annotations

import asyncio
import math
from itertools import chain
from types import SimpleNamespace
from typing import cast

from prometheus_client.parser import text_string_to_metric_families

from broker.cluster.logins.delegation_tokens import DelegationTokens
from broker.observability.gauges import _authorizer, _fetchers, _tokens, gauges
from broker.observability.metric_table import COMPLETIONS_WAITING, FETCHER_LAG, TXN_LOADS_AVG, TXN_LOADS_MAX
from broker.observability.metrics import BrokerMetrics
from broker.server import Broker
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from replication.followers.fetchers import Fetchers
from runtime.monitoring.exposition import family_of, header, sample_line
from runtime.monitoring.metric import Metric
from security.access import Operation, ResourceType
from security.acls.acl_authorizer import AclAuthorizer
from security.acls.entries import AclEntry, PatternType, PermissionType, ResourcePattern
from security.authorizer import EverybodyAllowed
from security.principal import Principal
from tests.async_tests import simulated
from tests.broker.cluster_world import ClusterWorld
from tests.doubles.clock import ManualClock
from tests.simulation.loop import SimLoop

Read = dict[tuple[str, ...], float]


def read(broker: Broker) -> Read:
    """By (name with suffix, *labels)."""
    samples = chain(broker.services.metrics.samples(), gauges(broker.services))
    return {(sample.metric.name + sample.suffix, *sample.labels): sample.value for sample in samples}


def total(pages: dict[int, Read], name: str) -> float:
    return sum(value for page in pages.values() for key, value in page.items() if key[0] == name)


@simulated(1)
async def test_replication_is_seen_from_both_ends(loop: SimLoop) -> None:
    world = ClusterWorld(loop)
    await world.start()
    await world.create_topic("orders")
    for number in range(5):
        assert await world.produce("orders", b"%d" % number) == (ErrorCode.NONE, number)
    leader = world.leader_of("orders")
    followers = sorted(set(world.live) - {leader})
    await world.until(
        lambda: all(("ConsumerLag", _fetcher(leader), "orders", "0") in read(world.live[each]) for each in followers)
    )
    pages = {broker_id: read(broker) for broker_id, broker in world.live.items()}

    sent = pages[leader][("ReplicationBytesOutPerSec",)]
    assert sent > 0
    assert {pages[each][("ReplicationBytesInPerSec",)] for each in followers} == {sent / 2}
    assert total(pages, "ReassignmentBytesInPerSec") == total(pages, "ReassignmentBytesOutPerSec") == 0
    for follower in followers:
        page = pages[follower]
        line = (_fetcher(leader), f"host{leader}", "9092")
        assert page["BytesPerSec", *line] == sent / 2
        assert page["RequestsPerSec", *line] >= 5
        assert page["ConsumerLag", _fetcher(leader), "orders", "0"] == 0
        assert page["MaxLag", "Replica"] == page["FailedPartitionsCount", "Replica"] == 0
        assert page["DeadThreadCount", "Replica"] == 0
    assert not any(key[0] == "ConsumerLag" and "orders" in key for key in pages[leader])


def _fetcher(source_id: int) -> str:
    return f"ReplicaFetcherThread-0-{source_id}"


@simulated(2)
async def test_a_broker_that_dies_shows_on_the_leader_and_on_the_controller(loop: SimLoop) -> None:
    world = ClusterWorld(loop)
    await world.start()
    await world.create_topic("orders", partitions=3, min_insync_replicas="2")
    victim = next(each for each in world.live if each != world.controller_id)
    controller = world.live[world.controller_id]
    before = read(controller)
    assert before[("ControllerState",)] == 0
    assert before[("ZkMigrationState",)] == 4
    assert before["ControllerChangeRateAndTimeMs_count",] >= 1
    assert before["TopicChangeRateAndTimeMs_count",] >= 1
    assert before["EventQueueTimeMs_count",] >= 1
    assert before[("ActiveBrokerCount",)] == 3

    world.machines[victim].crash()
    await world.until(lambda: read(controller)[("ActiveBrokerCount",)] == 2)
    await world.until(lambda: all(world.leader_of("orders", index) != victim for index in range(3)))
    await world.until(lambda: all(victim not in world.isr_of("orders", index) for index in range(3)))
    pages = {broker_id: read(broker) for broker_id, broker in world.live.items()}
    assert total(pages, "ActiveControllerCount") == 1
    assert {page[("CurrentControllerId",)] for page in pages.values()} == {world.controller_id}
    assert total(pages, "UnderReplicatedPartitions") == total(pages, "AtMinIsrPartitionCount") == 3
    assert total(pages, "UnderMinIsrPartitionCount") == total(pages, "OfflinePartitionsCount") == 0
    after = pages[world.controller_id]
    assert after["LeaderElectionRateAndTimeMs_count",] > before["LeaderElectionRateAndTimeMs_count",]
    assert after[("ActiveBrokerCount",)] == 2

    await world.start(victim)
    await world.until(lambda: all(world.isr_of("orders", index) == {1, 2, 3} for index in range(3)))
    pages = {broker_id: read(broker) for broker_id, broker in world.live.items()}
    assert total(pages, "UnderReplicatedPartitions") == 0
    assert total(pages, "IsrExpandsPerSec") >= 3


@simulated(3)
async def test_a_lost_session_is_counted(loop: SimLoop) -> None:
    world = ClusterWorld(loop)
    await world.start()
    broker_id = world.controller_id
    page = read(world.live[broker_id])
    assert page[("SessionState",)] == page[("ZooKeeperSyncConnectsPerSec",)] == 1
    assert page[("ZooKeeperExpiresPerSec",)] == 0
    world.ensemble.expire(world.live[broker_id].services.store.session().session_id)
    await world.until(lambda: read(world.live[broker_id])[("ZooKeeperExpiresPerSec",)] == 1)
    await world.until(lambda: read(world.live[broker_id])[("SessionState",)] == 1)
    assert read(world.live[broker_id])[("ZooKeeperSyncConnectsPerSec",)] == 2


@simulated(4)
async def test_prometheus_can_read_the_page(loop: SimLoop) -> None:
    world = ClusterWorld(loop)
    await world.start()
    await world.create_topic("orders", partitions=4)
    await world.create_topic("payments", partitions=4)
    for broker in world.live.values():
        lines: list[str] = []
        seen: list[tuple[Metric, str]] = []
        for sample in gauges(broker.services):
            if not seen or seen[-1] != family_of(sample):
                seen.append(family_of(sample))
                lines += header(*seen[-1])
            lines.append(sample_line(sample))
        assert len(set(seen)) == len(seen), "samples of a metric stand together"
        families = list(text_string_to_metric_families("".join(lines)))
        samples = [(each.name, *sorted(each.labels.items())) for family in families for each in family.samples]
        assert len(set(samples)) == len(samples)


def test_partitions_that_come_and_go_while_they_are_told_are_no_failure() -> None:
    """The page is written in slices, with the event loop running in between."""
    followed = {("orders", partition): 0 for partition in range(3)}
    fetcher = SimpleNamespace(source_id=2, bytes_count=0, requests_count=0, lags=lambda: iter(followed.items()))
    fetchers = SimpleNamespace(
        max_lag=0, min_fetch_rate=lambda: 0.0, failed_partitions_count=0, by_place=lambda: iter([(0, None, fetcher)])
    )
    lags = (sample for sample in _fetchers(cast(Fetchers, fetchers)) if sample.metric is FETCHER_LAG)
    told = [next(lags)]
    followed["orders", 3] = 0
    told += lags
    assert [sample.labels[-1] for sample in told] == ["0", "1", "2"]


@simulated(3)
async def test_the_loads_of_a_transaction_coordinator_are_shown_for_half_a_minute(loop: SimLoop) -> None:
    world = ClusterWorld(loop, transaction_state_log_num_partitions="3")
    await world.start()
    broker = world.live[1]

    def loads() -> list[float]:
        return [
            sample.value
            for sample in gauges(broker.services)
            if sample.metric in (TXN_LOADS_AVG, TXN_LOADS_MAX, COMPLETIONS_WAITING)
        ]

    completions, *times = loads()
    assert completions == 0 and all(math.isnan(each) for each in times)
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=["t"])
    await world.ask(1, request, 6, FindCoordinatorResponse)
    await world.until(lambda: not any(math.isnan(each) for each in loads()))
    _, average, longest = loads()
    assert 0 <= average <= longest
    await asyncio.sleep(31)
    assert all(math.isnan(each) for each in loads()[1:])


def test_an_authorizer_with_acls_counts_its_decisions() -> None:
    alice, host = Principal("User", "alice"), "10.0.0.1"
    authorizer = AclAuthorizer()
    pattern = ResourcePattern(ResourceType.TOPIC, "orders", PatternType.LITERAL)
    authorizer.replace(pattern, [AclEntry(alice, "*", Operation.READ, PermissionType.ALLOW)])
    for name in ("orders", "orders", "payments"):
        authorizer.allows(alice, host, Operation.READ, ResourceType.TOPIC, name)
    authorizer.allows_any(alice, host, Operation.WRITE, ResourceType.TOPIC)
    file = SimpleNamespace(dropped_count=7)
    clock = ManualClock(1_000)
    services = SimpleNamespace(
        authorizer=authorizer, audit=SimpleNamespace(file=file), metrics=BrokerMetrics(clock), clock=clock
    )
    assert {sample.value for sample in _authorizer(cast(Services, services)) if "per-minute" in sample.metric.name} == {
        0
    }
    clock.now_ms += 120_000
    authorizer.allows(alice, host, Operation.READ, ResourceType.TOPIC, "orders")
    authorizer.allows(alice, host, Operation.READ, ResourceType.TOPIC, "payments")
    read = {sample.metric.name: sample.value for sample in _authorizer(cast(Services, services))}
    assert read == {
        "authorization-request-rate-per-minute": 1,
        "authorization-allowed-rate-per-minute": 0.5,
        "authorization-denied-rate-per-minute": 0.5,
        "acls-total-count": 1,
        "authorization-request-total": 6,
        "authorization-allowed-total": 3,
        "authorization-denied-total": 3,
        "dropped-lines-total": 7,
    }
    nothing = SimpleNamespace(authorizer=EverybodyAllowed(), audit=SimpleNamespace(file=None))
    assert not list(_authorizer(cast(Services, nothing)))


def test_delegation_tokens_are_counted() -> None:
    class Tokens:
        kept_bytes = 700

        def __len__(self) -> int:
            return 3

    read = {sample.metric.name: sample.value for sample in _tokens(cast(DelegationTokens, Tokens()))}
    assert read == {"count": 3, "bytes": 700}
    assert not list(_tokens(None))
