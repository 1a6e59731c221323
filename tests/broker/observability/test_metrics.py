"""The table is Kafka's, counters count, and what clients say never becomes a label."""

from __future__ import annotations

import math
import re
from fnmatch import fnmatchcase
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.network.routes import Route
from broker.observability import metric_table as table
from broker.observability.metric_table import METRICS
from broker.observability.metrics import BrokerMetrics
from broker.observability.not_kept import NOT_KEPT, OTHER_LABELS
from metadata.store.port import SessionEvent
from metadata.store.store_use import StoreUse
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from protocol.messages.fetch import FetchRequest
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse
from protocol.records.invalid import Fault, InvalidBatch
from runtime.monitoring.exposition import family_of, sample_line
from runtime.monitoring.metric import Kind, Metric, Sample
from storage.log.record_errors import RecordsRejected, RecordsTooLarge
from tests.doubles.clock import ManualClock

MBEANS = [line for line in (Path(__file__).parent / "mbeans-3.9.txt").read_text().splitlines() if line[:1] != "#"]


def _pattern(mbean: str) -> str:
    """Values of the keys behind type and name go, since they are a running broker's."""
    domain, keys = mbean.split(":", 1)
    kept = [key if key.startswith(("type=", "name=")) else key.partition("=")[0] for key in keys.split(",")]
    return f"{domain}:{','.join(kept)}"


KNOWN = {_pattern(mbean) for mbean in MBEANS}
SUMS = {
    f"{mbean.removesuffix(',topic')}" for mbean in KNOWN if mbean.endswith(",topic") and "BrokerTopicMetrics" in mbean
}
"""Over all topics: samples of the same metric, without the label."""

MISSING = [wildcard for wildcards in NOT_KEPT.values() for wildcard in wildcards]
EXPORTED = [
    line for line in (Path(__file__).parent / "jmx-exporter-3.9.txt").read_text().splitlines() if line[:1] != "#"
]


@pytest.mark.parametrize(
    "metric", [metric for metric in METRICS if not metric.own], ids=lambda metric: metric.prometheus_name
)
def test_every_metric_is_one_of_kafkas(metric: Metric) -> None:
    assert KNOWN.intersection(metric.patterns)


@pytest.mark.parametrize("mbean", sorted(KNOWN))
def test_every_metric_of_kafka_is_kept_or_named_as_missing(mbean: str) -> None:
    is_kept = mbean in SUMS or any(mbean in metric.patterns for metric in METRICS)
    assert is_kept != any(fnmatchcase(mbean, wildcard) for wildcard in MISSING)


@pytest.mark.parametrize("wildcard", MISSING)
def test_what_is_named_as_missing_is_kafkas(wildcard: str) -> None:
    assert any(fnmatchcase(mbean, wildcard) for mbean in KNOWN)


def _families() -> dict[tuple[str, str], set[frozenset[str]]]:
    """The labels of each metric that is in the table, by name and type. A label may be left out where it has no value."""
    families: dict[tuple[str, str], set[frozenset[str]]] = {}
    for metric in METRICS:
        for name, kind in metric.families:
            is_quantile = metric.kind is Kind.SUMMARY and kind is Kind.GAUGE
            labels = frozenset((*metric.label_names, *(["quantile"] if is_quantile else [])))
            families.setdefault((name, kind.value), set()).add(labels)
    return families


FAMILIES = _families()
OPTIONAL = {
    **{name: {"topic"} for name, _ in FAMILIES if name.startswith("kafka_server_brokertopicmetrics_")},
    **{name: {"user"} for name, _ in FAMILIES if name.startswith("kafka_server_quota_")},
}


def _exported_name(mbean: str) -> str:
    """The name of an MBean by the rules of jmx_exporter's file, without what is put behind it."""
    domain, keys = mbean.split(":", 1)
    values = [key.partition("=")[2] for key in keys.split(",")[:2] if key.startswith(("type=", "name="))]
    name = "_".join([domain, *values, *(["*"] if keys.endswith(",*") else [])]).removesuffix("PerSec").lower()
    return re.sub(r"[.\-]", "_", name)


NOT_EXPORTED = [_exported_name(wildcard) for wildcard in MISSING if ",name=" in wildcard or ",*" in wildcard]


@pytest.mark.parametrize("line", EXPORTED)
def test_every_metric_that_jmx_exporter_gives_is_ours_with_its_type_and_labels(line: str) -> None:
    name, kind, *labels = line.split(" ")
    wanted = frozenset(filter(None, labels[0].split(",")))
    if (name, kind) in FAMILIES:
        assert any(wanted <= ours and ours - wanted <= OPTIONAL.get(name, set()) for ours in FAMILIES[name, kind]) != (
            name in OTHER_LABELS
        )
    else:
        bare = name.removesuffix("_count").removesuffix("_total")
        assert any(fnmatchcase(bare, each) or fnmatchcase(name, each) for each in NOT_EXPORTED), (
            "neither kept nor named as missing"
        )


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
    assert table.DELAYED_OPERATIONS.label_names == ("delayedOperation",)
    assert table.CONTROL_QUEUE.label_names == ("broker_id",)
    assert table.CLEANER_IO.prometheus_name == "kafka_utils_throttler_cleaner_io_count"
    assert table.QUOTA_BYTE_RATE.prometheus_name == "kafka_server_quota_byte_rate"


def _values(metrics: BrokerMetrics) -> dict[tuple[Any, ...], float]:
    return {
        (sample.metric.name + sample.suffix, *filter(None, (*sample.labels, sample.bound))): sample.value
        for sample in metrics.samples()
    }


def test_topics() -> None:
    metrics = BrokerMetrics(ManualClock(1_000))
    metrics.produced("a", 100, 3)
    metrics.produced("a", 50, 0)
    metrics.produced("b", 1, 1)
    metrics.fetched("a", 70)
    for error in (
        InvalidBatch(ErrorCode.CORRUPT_MESSAGE, "damaged", Fault.CRC),
        InvalidBatch(ErrorCode.CORRUPT_MESSAGE, "from the future", Fault.MAGIC),
        InvalidBatch(ErrorCode.INVALID_RECORD, "counts 3 and 4", Fault.OFFSET_OR_SEQUENCE),
        InvalidBatch(ErrorCode.INVALID_RECORD, "otherwise wrong"),
        RecordsTooLarge(ErrorCode.MESSAGE_TOO_LARGE, "too large", 2_000),
        RecordsRejected(ErrorCode.INVALID_RECORD, "no keys", [(0, "no key")], 3),
        KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS),
        KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ):
        metrics.produce_failed(error, "a")
    metrics.produce_failed(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), None)
    metrics.produce_failed(KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING), None)
    values = _values(metrics)
    assert values["MessagesInPerSec", "a"] == 3
    assert values["BytesInPerSec", "a"] == 150
    assert values[("BytesInPerSec",)] == 151
    assert values["TotalProduceRequestsPerSec", "a"] == values["TotalProduceRequestsPerSec",] - 1 == 2 + 7
    assert values["BytesOutPerSec", "a"] == 70
    assert values["TotalFetchRequestsPerSec", "a"] == 1
    assert values[("FailedProduceRequestsPerSec",)] == values["FailedProduceRequestsPerSec", "a"] == 4
    assert ("FailedProduceRequestsPerSec", "b") not in values
    assert values[("InvalidMessageCrcRecordsPerSec",)] == values[("InvalidMagicNumberRecordsPerSec",)] == 1
    assert values[("InvalidOffsetOrSequenceRecordsPerSec",)] == 1
    assert values[("BytesRejectedPerSec",)] == values["BytesRejectedPerSec", "a"] == 2_000
    assert values[("NoKeyCompactedTopicRecordsPerSec",)] == 3
    metrics.keep_topics(["b"])
    assert ("BytesInPerSec", "a") not in _values(metrics)
    assert _values(metrics)[("BytesInPerSec",)] == 151, "the sum over all topics never falls"
    assert _values(metrics)["BytesInPerSec", "b"] == 1


def test_fetches_that_end_otherwise() -> None:
    metrics = BrokerMetrics(ManualClock(1_000))
    metrics.fetch_failed("a")
    for is_replica in (True, False, False):
        metrics.fetch_expired(is_replica=is_replica)
    values = _values(metrics)
    assert values[("FailedFetchRequestsPerSec",)] == values["FailedFetchRequestsPerSec", "a"] == 1
    assert values["ExpiresPerSec", "follower"] == 1
    assert values["ExpiresPerSec", "consumer"] == 2


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


def test_requests_to_the_store() -> None:
    metrics, use = BrokerMetrics(ManualClock(1_000)), StoreUse()
    metrics.use_store(use)
    metrics.on_store_session(SessionEvent.CONNECTED)
    use.latencies.add(4_000_000)
    use.authentications_count, use.authentication_failures_count = 2, 1
    values = _values(metrics)
    assert values[("ZooKeeperRequestLatencyMs_count",)] == 1
    assert values["ZooKeeperRequestLatencyMs", "0.50"] == pytest.approx(4, rel=0.3)
    assert values[("ZooKeeperSaslAuthenticationsPerSec",)] == 2
    assert values[("ZooKeeperAuthFailuresPerSec",)] == 1


def test_authentications() -> None:
    clock = ManualClock(1_000)
    metrics = BrokerMetrics(clock)
    counted = metrics.authentication
    counted.authenticated("SASL", knows_lifetime=True)
    counted.authenticated("OTHER", knows_lifetime=False)
    assert not any(key[0].startswith("reauthentication-latency") for key in _values(metrics))
    for took_ms in (10, 30):
        counted.reauthenticated("SASL", took_ms, clock.now_ms)
    counted.expired_connection_killed("SASL")
    counted.expired_connection_killed("OTHER")
    values = _values(metrics)
    assert values["successful-authentication-total", "SASL", "0"] == 1
    assert values["successful-reauthentication-total", "SASL", "0"] == 2
    assert values["reauthentication-latency-avg", "SASL", "0"] == 20
    assert values["reauthentication-latency-max", "SASL", "0"] == 30
    assert ("reauthentication-latency-max", "OTHER", "0") not in values
    assert values[("ExpiredConnectionsKilledCount",)] == 2
    clock.now_ms += 40_000
    assert math.isnan(_values(metrics)["reauthentication-latency-avg", "SASL", "0"]), "nobody has of late"


def _route(request_type: Any, version: int, kind: str = "") -> Route:
    return cast(
        Route, SimpleNamespaceRoute(handler=SimpleNamespace(request_type=request_type), version=version, kind=kind)
    )


class SimpleNamespaceRoute(SimpleNamespace):
    __hash__ = object.__hash__


def test_requests() -> None:
    clock = ManualClock(1_000)
    metrics = BrokerMetrics(clock)
    third, fourth, produce = _route(HeartbeatRequest, 3), _route(HeartbeatRequest, 4), _route(ProduceRequest, 9)
    for route, took_ms, error in ((third, 5, 0), (third, 7, 27), (fourth, 1, 27)):
        stamp = metrics.requests.began(route, 40)
        clock.now_ms += took_ms
        metrics.requests.answered(route, stamp, HeartbeatResponse(error_code=error))
    metrics.requests.answered(produce, metrics.requests.began(produce, 1000), None)
    assert ("ErrorsPerSec", "Produce", "NONE") not in _values(metrics), "acks=0 has no answer"
    rows = [PartitionProduceResponse(index=0, error_code=code, base_offset=0) for code in (0, 0, 19, -1, 9_999)]
    response = ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=rows)])
    metrics.requests.answered(produce, metrics.requests.began(produce, 1000), response)
    metrics.requests.answered_encoded(produce, metrics.requests.began(produce, 1000))
    values = _values(metrics)
    assert values["ErrorsPerSec", "Produce", "NONE"] == 3
    assert values["ErrorsPerSec", "Produce", "NOT_ENOUGH_REPLICAS"] == 1
    assert values["ErrorsPerSec", "Produce", "UNKNOWN_SERVER_ERROR"] == 2
    assert values["TotalTimeMs_count", "Produce"] == 3
    assert values["RequestsPerSec", "Heartbeat", "3"] == 2
    assert values["RequestsPerSec", "Heartbeat", "4"] == 1
    assert values["ErrorsPerSec", "Heartbeat", "NONE"] == 1
    assert values["ErrorsPerSec", "Heartbeat", "REBALANCE_IN_PROGRESS"] == 2
    assert values["TotalTimeMs_count", "Heartbeat"] == 3
    assert values["TotalTimeMs_sum", "Heartbeat"] == 13
    assert values["RequestBytes_sum", "Heartbeat"] == 120
    assert values["RequestBytes_sum", "Produce"] == 3000


def test_the_time_of_a_request_that_waits_has_two_parts() -> None:
    clock = ManualClock(1_000)
    metrics = BrokerMetrics(clock)
    requests, produce = metrics.requests, _route(ProduceRequest, 9)
    for local_ms, remote_ms in ((2, 0), (3, 50), (1, 2_000)):
        stamp = requests.began(produce, 100)
        clock.now_ms += local_ms
        if remote_ms:
            waiting_since = requests.waits()
            clock.now_ms += remote_ms
            requests.answered(produce, stamp, None, waiting_since)
        else:
            requests.answered(produce, stamp, None)
    values = _values(metrics)
    for name in ("TotalTimeMs", "LocalTimeMs", "RemoteTimeMs"):
        assert values[f"{name}_count", "Produce"] == 3
    assert values["TotalTimeMs_sum", "Produce"] == 2_056
    assert values["LocalTimeMs_sum", "Produce"] == 6
    assert values["RemoteTimeMs_sum", "Produce"] == 2_050
    assert values["LocalTimeMs", "Produce", "0.50"] == pytest.approx(2, rel=0.3)
    assert values["RemoteTimeMs", "Produce", "0.50"] == pytest.approx(50, rel=0.3)
    assert values["RemoteTimeMs", "Produce", "0.999"] == pytest.approx(2_000, rel=0.3)
    assert [
        values["seconds_bucket", "Produce", "total", bound] for bound in ("0.001", "0.005", "0.1", "10", "+Inf")
    ] == [*(0, 1, 2, 3, 3)]
    assert values["seconds_bucket", "Produce", "remote", "0.0001"] == 1
    assert values["seconds_count", "Produce", "local"] == 3
    assert values["seconds_sum", "Produce", "remote"] == 2.05


def test_fetches_count_by_who_fetches_as_well() -> None:
    metrics = BrokerMetrics(ManualClock(1_000))
    for kind, count in (("FetchConsumer", 2), ("FetchFollower", 3)):
        route = _route(FetchRequest, 12, kind)
        for _ in range(count):
            metrics.requests.answered(route, metrics.requests.began(route, 10), None)
    values = _values(metrics)
    assert [values["TotalTimeMs_count", name] for name in ("Fetch", "FetchConsumer", "FetchFollower")] == [5, 2, 3]
    assert values["RequestsPerSec", "FetchFollower", "12"] == 3
    assert not any(key[:2] == ("ErrorsPerSec", "FetchFollower") for key in values), "errors are those of the API"


def test_a_verification_of_a_transaction_is_a_request_of_its_own() -> None:
    metrics = BrokerMetrics(ManualClock(1_000))
    for version in (3, 4):
        route = _route(AddPartitionsToTxnRequest, version)
        response = AddPartitionsToTxnResponse(throttle_time_ms=0, error_code=0)
        metrics.requests.answered(route, metrics.requests.began(route, 10), response)
    values = _values(metrics)
    assert values["RequestsPerSec", "AddPartitionsToTxn", "3"] == 1
    assert values["RequestsPerSec", "AddPartitionsToTxnVerification", "4"] == 1
    assert values["TotalTimeMs_count", "AddPartitionsToTxn"] == 1
    assert values["ErrorsPerSec", "AddPartitionsToTxn", "NONE"] == 1
    requests = [each for each in metrics.samples() if each.metric is table.REQUESTS]
    assert len({each.labels for each in requests}) == len(requests)


def test_groups() -> None:
    metrics = BrokerMetrics(ManualClock(1_000))
    metrics.rebalance_started("member-joined")
    metrics.rebalance_started("member-joined")
    metrics.rebalance_completed()
    metrics.consumer_group_rebalanced()
    for _ in range(3):
        metrics.share_group_rebalanced()
    metrics.offsets_committed(5)
    metrics.offsets_expired(2)
    metrics.offsets_deleted(1)
    values = _values(metrics)
    assert values["rebalances-total", "member-joined"] == 2
    assert values[("group-completed-rebalance-count",)] == values[("consumer-group-rebalance-count",)] == 1
    assert values[("share-group-rebalance-count",)] == 3
    assert [values[(f"offset-{what}-count",)] for what in ("commit", "expiration", "deletion")] == [5, 2, 1]


def test_verifications_are_counted_with_their_time() -> None:
    metrics = BrokerMetrics(ManualClock(1_000))
    metrics.verified(30)
    metrics.verified(12)
    metrics.verification_failed(3)
    found = {(each.metric.name, each.suffix): each.value for each in metrics.samples()}
    assert found["VerificationTimeMs", "_count"] == 2 and found["VerificationTimeMs", "_sum"] == 42
    assert found["VerificationFailureRate", ""] == 3


def test_an_unknown_value_is_written_as_prometheus_writes_it() -> None:
    assert sample_line(Sample(table.GROUP_LAG, ("g", "t", "0"), math.nan)).endswith("} NaN\n")
    assert sample_line(Sample(table.GROUP_LAG, ("g", "t", "0"), 7)).endswith("} 7\n")


def test_samples_of_a_metric_stand_together() -> None:
    metrics = BrokerMetrics(ManualClock(1_000))
    for topic in ("a", "b"):
        metrics.produced(topic, 1, 1)
    seen: list[tuple[Metric, str]] = []
    for sample in metrics.samples():
        if not seen or seen[-1] != family_of(sample):
            seen.append(family_of(sample))
    assert len(set(seen)) == len(seen)
    assert {metric.kind for metric, _ in seen} == {Kind.COUNTER, Kind.GAUGE, Kind.SUMMARY}
