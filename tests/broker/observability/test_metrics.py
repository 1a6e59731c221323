"""The table is Kafka's, counters count, and what clients say never becomes a label."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.network.dispatch import Route
from broker.observability import metric_table as table
from broker.observability.metric_table import METRICS, Kind, Metric
from broker.observability.metrics import BrokerMetrics
from metadata.store.port import SessionEvent
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.produce import ProduceRequest
from tests.clocks import ManualClock

MBEANS = [line for line in (Path(__file__).parent / "mbeans-3.9.txt").read_text().splitlines() if line[:1] != "#"]


def _pattern(mbean: str) -> str:
    """Values of the keys behind type and name go, since they are a running broker's."""
    domain, keys = mbean.split(":", 1)
    kept = [key if key.startswith(("type=", "name=")) else key.partition("=")[0] for key in keys.split(",")]
    return f"{domain}:{','.join(kept)}"


KNOWN = {_pattern(mbean) for mbean in MBEANS}

# What Apache Kafka has and this broker has not, by the reason; "*" stands for anything.
NOT_KEPT = {
    "sums of the rows by topic, which a query adds up": [
        f"kafka.server:type=BrokerTopicMetrics,name={name}PerSec"
        for name in ("MessagesIn", "BytesIn", "BytesOut", "TotalProduceRequests", "TotalFetchRequests")
    ],
    "reasons of refusals are in the answers": [
        "kafka.server:type=BrokerTopicMetrics,name=NoKeyCompactedTopicRecordsPerSec",
    ],
    "of what quotas count, one of the two labels is empty here where Apache Kafka leaves it out": [
        "kafka.server:type=Fetch,user",
        "kafka.server:type=Request,user",
        "kafka.server:type=Request,client-id",
    ],
    "connections that are throttled are in no queue": [
        *(f"kafka.server:type={kind}" for kind in ("ControllerMutation", "Fetch", "Produce", "Request")),
    ],
    "threads, their queues, and control plane listeners: there is one event loop": [
        "kafka.network:type=Acceptor,*",
        "kafka.network:type=Processor,*",
        "kafka.network:type=RequestChannel,*",
        *(f"kafka.network:type=RequestMetrics,name={name}TimeMs,request" for name in ("RequestQueue", "ResponseQueue")),
        "kafka.network:type=RequestMetrics,name=LocalTimeMs,request",
        "kafka.network:type=RequestMetrics,name=RemoteTimeMs,request",
        "kafka.network:type=RequestMetrics,name=ResponseSendTimeMs,request",
        "kafka.network:type=RequestMetrics,name=TemporaryMemoryBytes,request",
        "kafka.network:type=SocketServer,name=ControlPlane*",
        "kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent",
        "kafka.server:type=KafkaRequestHandlerPool,*",
    ],
    "connections: not counted yet": [
        "kafka.network:type=SocketServer,name=ExpiredConnectionsKilledCount",
        "kafka.server:type=socket-server-metrics,clientSoftwareName*",
        "kafka.server:type=alter-partition-metrics,BrokerId",
        "kafka.server:type=controller-channel-metrics,broker-id",
        "kafka.server:type=forwarding-metrics,BrokerId",
        "kafka.server:type=replica-fetcher-metrics,broker-id,fetcher-id",
        "kafka.server:type=AddPartitionsManager-channel-metrics",
        "kafka.server:type=txn-marker-channel-metrics",
        "kafka.controller:type=ControllerChannelManager,name=RequestRateAndQueueTimeMs,broker-id",
        "kafka.server:type=ZooKeeperClientMetrics,name=ZooKeeperRequestLatencyMs",
        "kafka.server:type=SessionExpireListener,name=ZooKeeperSaslAuthenticationsPerSec",
        "kafka.server:type=SessionExpireListener,name=ZooKeeperAuthFailuresPerSec",
    ],
    "refused requests: errors are counted by request and code": [
        "kafka.server:type=BrokerTopicMetrics,name=BytesRejectedPerSec",
        "kafka.server:type=BrokerTopicMetrics,name=FailedFetchRequestsPerSec",
        "kafka.server:type=BrokerTopicMetrics,name=Invalid*",
        "kafka.server:type=DelayedFetchMetrics,name=ExpiresPerSec,fetcherType",
    ],
    "nobody could read it, or it never happens": [
        "kafka.controller:type=ControllerStats,name=ControllerShutdownRateAndTimeMs",
        "kafka.server:type=SessionExpireListener,name=ZooKeeperReadOnlyConnectsPerSec",
        "kafka.server:type=KafkaServer,name=BrokerState",
    ],
    "rates over a window, which a query makes of counters": ["kafka.server:type=LeaderReplication"],
    "words, and figures of the process and of the JVM": [
        "kafka.server:type=KafkaServer,name=ClusterId",
        "kafka.server:type=KafkaServer,name=linux-disk*",
        "kafka.server:type=KafkaServer,name=yammer-metrics-count",
        "kafka.server:type=app-info*",
        "kafka.server:type=kafka-metrics-count",
        "kafka:type=kafka.Log4jController",
    ],
    "flushes are not timed yet": ["kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs"],
}
MISSING = [wildcard for wildcards in NOT_KEPT.values() for wildcard in wildcards]


@pytest.mark.parametrize("metric", [metric for metric in METRICS if not metric.own], ids=lambda metric: metric.mbean)
def test_every_metric_is_one_of_kafkas(metric: Metric) -> None:
    assert metric.mbean in KNOWN


@pytest.mark.parametrize("mbean", sorted(KNOWN))
def test_every_metric_of_kafka_is_kept_or_named_as_missing(mbean: str) -> None:
    is_kept = mbean in {metric.mbean for metric in METRICS}
    assert is_kept != any(fnmatchcase(mbean, wildcard) for wildcard in MISSING)


@pytest.mark.parametrize("wildcard", MISSING)
def test_what_is_named_as_missing_is_kafkas(wildcard: str) -> None:
    assert any(fnmatchcase(mbean, wildcard) for mbean in KNOWN)


def test_metrics_that_the_documentation_names_exist() -> None:
    docs = Path(__file__).parents[3] / "docs"
    pages = [(docs / page).read_text(encoding="utf-8") for page in ("replication.md", "storage.md")]
    named = {name for page in pages for name in re.findall(r"`((?:kafka|barnabas)_[a-z_]+[a-z])(?:{[^`]*})?`", page)}
    assert len(named) > 15 and {metric.prometheus_name for metric in METRICS if metric.own} & named
    assert named <= {metric.prometheus_name for metric in METRICS}


def test_names_are_unique_and_follow_the_rule() -> None:
    names = [metric.prometheus_name for metric in METRICS]
    assert len(set(names)) == len(names)
    assert table.MESSAGES_IN.prometheus_name == "kafka_server_brokertopicmetrics_messagesin_total"
    assert table.LEADER_COUNT.prometheus_name == "kafka_server_replicamanager_leadercount"
    assert table.OFFSET_COMMITS.prometheus_name == "kafka_server_group_coordinator_metrics_offset_commit_total"
    assert table.TOTAL_TIME.prometheus_name == "kafka_network_requestmetrics_totaltimems"
    assert table.REBALANCES.prometheus_name == "barnabas_group_rebalances_total"
    assert table.DELAYED_OPERATIONS.label_names == ("delayedoperation",)


def _values(metrics: BrokerMetrics) -> dict[tuple[Any, ...], float]:
    return {(sample.metric.name + sample.suffix, *sample.labels): sample.value for sample in metrics.samples()}


def test_topics() -> None:
    metrics = BrokerMetrics(ManualClock(1_000))
    metrics.produced("a", 100, 3)
    metrics.produced("a", 50, 0)
    metrics.produced("b", 1, 1)
    metrics.fetched("a", 70)
    metrics.produce_failed("made up by a client")
    values = _values(metrics)
    assert values["MessagesInPerSec", "a"] == 3
    assert values["BytesInPerSec", "a"] == 150
    assert values["TotalProduceRequestsPerSec", "a"] == 2
    assert values["BytesOutPerSec", "a"] == 70
    assert values["TotalFetchRequestsPerSec", "a"] == 1
    assert values[("FailedProduceRequestsPerSec",)] == 1
    assert not any("made up by a client" in key for key in values)
    metrics.keep_topics(["b"])
    assert ("BytesInPerSec", "a") not in _values(metrics)
    assert _values(metrics)["BytesInPerSec", "b"] == 1


def test_replication() -> None:
    metrics = BrokerMetrics(ManualClock(1_000))
    metrics.copied(100, is_reassignment=False)
    metrics.copied(20, is_reassignment=True)
    metrics.sent_to_replica(7, is_reassignment=False)
    metrics.sent_to_replica(3, is_reassignment=True)
    metrics.isr_shrunk()
    metrics.isr_expanded()
    metrics.isr_expanded()
    metrics.isr_change_failed()
    values = _values(metrics)
    assert values[("ReplicationBytesInPerSec",)] == 120
    assert values[("ReassignmentBytesInPerSec",)] == 20
    assert values[("ReplicationBytesOutPerSec",)] == 10
    assert values[("ReassignmentBytesOutPerSec",)] == 3
    assert values[("IsrShrinksPerSec",)] == 1
    assert values[("IsrExpandsPerSec",)] == 2
    assert values[("FailedIsrUpdatesPerSec",)] == 1


def test_sessions_of_the_store() -> None:
    metrics = BrokerMetrics(ManualClock(1_000))
    assert ("SessionState",) not in _values(metrics), "a store without sessions has nothing to tell"
    for event, is_connected in (
        (SessionEvent.CONNECTED, 1),
        (SessionEvent.SUSPENDED, 0),
        (SessionEvent.EXPIRED, 0),
        (SessionEvent.CONNECTED, 1),
    ):
        metrics.on_store_session(event)
        assert _values(metrics)[("SessionState",)] == is_connected
    values = _values(metrics)
    assert values[("ZooKeeperSyncConnectsPerSec",)] == 2
    assert values[("ZooKeeperDisconnectsPerSec",)] == 1
    assert values[("ZooKeeperExpiresPerSec",)] == 1


def _route(request_type: Any, version: int) -> Route:
    return cast(Route, SimpleNamespaceRoute(handler=SimpleNamespace(request_type=request_type), version=version))


class SimpleNamespaceRoute(SimpleNamespace):
    __hash__ = object.__hash__


def test_requests() -> None:
    clock = ManualClock(1_000)
    metrics = BrokerMetrics(clock)
    third, fourth, produce = _route(HeartbeatRequest, 3), _route(HeartbeatRequest, 4), _route(ProduceRequest, 9)
    for route, took_ms, error in ((third, 5, 0), (third, 7, 27), (fourth, 1, 27)):
        stamp = metrics.began(route, 40)
        clock.now_ms += took_ms
        metrics.answered(route, stamp, HeartbeatResponse(error_code=error))
    metrics.answered(produce, metrics.began(produce, 1000), None)
    values = _values(metrics)
    assert values["RequestsPerSec", "Heartbeat", "3"] == 2
    assert values["RequestsPerSec", "Heartbeat", "4"] == 1
    assert values["ErrorsPerSec", "Heartbeat", "NONE"] == 1
    assert values["ErrorsPerSec", "Heartbeat", "REBALANCE_IN_PROGRESS"] == 2
    assert values["TotalTimeMs_count", "Heartbeat"] == 3
    assert values["TotalTimeMs_sum", "Heartbeat"] == 13
    assert values["RequestBytes_sum", "Heartbeat"] == 120
    assert values["RequestBytes_sum", "Produce"] == 1000
    assert not any(key[:2] == ("ErrorsPerSec", "Produce") for key in values)


def test_groups() -> None:
    metrics = BrokerMetrics(ManualClock(1_000))
    metrics.rebalance_started("member-joined")
    metrics.rebalance_started("member-joined")
    metrics.rebalance_completed()
    metrics.offsets_committed(5)
    metrics.offsets_expired(2)
    metrics.offsets_deleted(1)
    values = _values(metrics)
    assert values["rebalances-total", "member-joined"] == 2
    assert values[("group-completed-rebalance-count",)] == 1
    assert [values[(f"offset-{what}-count",)] for what in ("commit", "expiration", "deletion")] == [5, 2, 1]


def test_verifications_are_counted_with_their_time() -> None:
    metrics = BrokerMetrics(ManualClock(1_000))
    assert ("VerificationTimeMs", "_count") not in {(each.metric.name, each.suffix) for each in metrics.samples()}
    metrics.verified(30)
    metrics.verified(12)
    metrics.verification_failed(3)
    found = {(each.metric.name, each.suffix): each.value for each in metrics.samples()}
    assert found["VerificationTimeMs", "_count"] == 2 and found["VerificationTimeMs", "_sum"] == 42
    assert found["VerificationFailureRate", ""] == 3


def test_samples_of_a_metric_stand_together() -> None:
    metrics = BrokerMetrics(ManualClock(1_000))
    for topic in ("a", "b"):
        metrics.produced(topic, 1, 1)
    seen: list[Metric] = []
    for sample in metrics.samples():
        if not seen or seen[-1] is not sample.metric:
            seen.append(sample.metric)
    assert len(set(seen)) == len(seen)
    assert {metric.kind for metric in seen} == {Kind.COUNTER}
