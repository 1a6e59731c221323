"""The table of metrics: Kafka's MBeans that are kept, under one rule for their Prometheus names.

A row is one MBean pattern: `kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=T`. Its Prometheus name is
domain, type and name in lower case joined by underscores; rates are counters (`PerSec` goes, `_total` comes), times and
sizes are summaries (`_count`, `_sum`), the rest are gauges; other keys are labels. MBeans that gather attributes instead
of having a name (Kafka's newer metrics) give one row an attribute.
Rules: nothing is counted under a name that is not here. `own=True` marks what Apache Kafka does not have.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass


class Kind(enum.Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True)
class Metric:
    """`labels` are the MBean's keys behind type and name. `attribute` is set where the MBean has no name."""

    domain: str
    type: str
    name: str
    kind: Kind
    labels: tuple[str, ...]
    doc: str
    attribute: bool = False
    own: bool = False

    @property
    def mbean(self) -> str:
        """Without the labels' values: `domain:type=...,name=...,label,label`."""
        keys = [f"type={self.type}", *([] if self.attribute else [f"name={self.name}"]), *self.labels]
        return f"{self.domain}:{','.join(keys)}"

    @property
    def prometheus_name(self) -> str:
        name = self.name
        if self.kind is Kind.COUNTER:
            name = name.removesuffix("PerSec").removesuffix("-count").removesuffix("-total") + "_total"
        return re.sub(r"[.\-]", "_", "_".join(filter(None, (self.domain, self.type, name)))).lower()

    @property
    def label_names(self) -> tuple[str, ...]:
        return tuple(label.replace("-", "_").lower() for label in self.labels)


def _counter(domain: str, type: str, name: str, *labels: str, doc: str) -> Metric:  # noqa: A002  the MBean's key
    return Metric(domain, type, name, Kind.COUNTER, labels, doc)


def _gauge(domain: str, type: str, name: str, *labels: str, doc: str) -> Metric:  # noqa: A002  the MBean's key
    return Metric(domain, type, name, Kind.GAUGE, labels, doc)


def _summary(domain: str, type: str, name: str, *labels: str, doc: str) -> Metric:  # noqa: A002  the MBean's key
    return Metric(domain, type, name, Kind.SUMMARY, labels, doc)


def _group(attribute: str, doc: str) -> Metric:
    return Metric("kafka.server", "group-coordinator-metrics", attribute, Kind.COUNTER, (), doc, attribute=True)


# fmt: off
_TOPIC, _REQUEST = ("kafka.server", "BrokerTopicMetrics"), ("kafka.network", "RequestMetrics")
MESSAGES_IN        = _counter(*_TOPIC, "MessagesInPerSec", "topic", doc="Records appended by clients.")
BYTES_IN           = _counter(*_TOPIC, "BytesInPerSec", "topic", doc="Bytes of records appended by clients.")
BYTES_OUT          = _counter(*_TOPIC, "BytesOutPerSec", "topic", doc="Bytes of records sent to clients.")
TOTAL_PRODUCE      = _counter(*_TOPIC, "TotalProduceRequestsPerSec", "topic", doc="Appends asked for, one a partition.")
TOTAL_FETCH        = _counter(*_TOPIC, "TotalFetchRequestsPerSec", "topic", doc="Fetches of records, one a partition.")
FAILED_PRODUCE     = _counter(*_TOPIC, "FailedProduceRequestsPerSec", doc="Appends that were refused.")

REQUESTS           = _counter(*_REQUEST, "RequestsPerSec", "request", "version", doc="Requests handled.")
ERRORS             = _counter(*_REQUEST, "ErrorsPerSec", "request", "error", doc="Answers by their top-level error code.")
TOTAL_TIME         = _summary(*_REQUEST, "TotalTimeMs", "request", doc="Time from decoding to the answer, waiting included.")
REQUEST_BYTES      = _summary(*_REQUEST, "RequestBytes", "request", doc="Size of requests.")

_REPLICAS, _PARTITION = ("kafka.server", "ReplicaManager"), ("kafka.cluster", "Partition")
LEADER_COUNT       = _gauge(*_REPLICAS, "LeaderCount", doc="Partitions led by this broker.")
PARTITION_COUNT    = _gauge(*_REPLICAS, "PartitionCount", doc="Partitions held by this broker.")
UNDER_REPLICATED   = _gauge(*_REPLICAS, "UnderReplicatedPartitions", doc="Led partitions with replicas out of sync.")
UNDER_MIN_ISR      = _gauge(*_REPLICAS, "UnderMinIsrPartitionCount", doc="Led partitions below min.insync.replicas.")
AT_MIN_ISR         = _gauge(*_REPLICAS, "AtMinIsrPartitionCount", doc="Led partitions exactly at min.insync.replicas.")
OFFLINE_REPLICAS   = _gauge(*_REPLICAS, "OfflineReplicaCount", doc="Partitions on failed log directories.")
P_IN_SYNC          = _gauge(*_PARTITION, "InSyncReplicasCount", "topic", "partition", doc="Replicas in sync; 0 on a follower.")
P_REPLICAS         = _gauge(*_PARTITION, "ReplicasCount", "topic", "partition", doc="Replicas; 0 on a follower.")
P_LSO_LAG          = _gauge(*_PARTITION, "LastStableOffsetLag", "topic", "partition", doc="High watermark less LSO.")
P_UNDER_REPLICATED = _gauge(*_PARTITION, "UnderReplicated", "topic", "partition", doc="1 when a replica is out of sync.")
P_UNDER_MIN_ISR    = _gauge(*_PARTITION, "UnderMinIsr", "topic", "partition", doc="1 below min.insync.replicas.")
P_AT_MIN_ISR       = _gauge(*_PARTITION, "AtMinIsr", "topic", "partition", doc="1 exactly at min.insync.replicas.")

_LOG = ("kafka.log", "Log")
LOG_END_OFFSET     = _gauge(*_LOG, "LogEndOffset", "topic", "partition", doc="Offset of the next record.")
LOG_START_OFFSET   = _gauge(*_LOG, "LogStartOffset", "topic", "partition", doc="Offset of the first record.")
LOG_SEGMENTS       = _gauge(*_LOG, "NumLogSegments", "topic", "partition", doc="Segments.")
LOG_SIZE           = _gauge(*_LOG, "Size", "topic", "partition", doc="Bytes of records on the disk.")
OFFLINE_DIRECTORIES = _gauge("kafka.log", "LogManager", "OfflineLogDirectoryCount", doc="Log directories that failed.")

_CONTROLLER = ("kafka.controller", "KafkaController")
ACTIVE_CONTROLLER  = _gauge(*_CONTROLLER, "ActiveControllerCount", doc="1 on the controller.")
ACTIVE_BROKERS     = _gauge(*_CONTROLLER, "ActiveBrokerCount", doc="Brokers alive; 0 off the controller.")
GLOBAL_TOPICS      = _gauge(*_CONTROLLER, "GlobalTopicCount", doc="Topics of the cluster; 0 off the controller.")
GLOBAL_PARTITIONS  = _gauge(*_CONTROLLER, "GlobalPartitionCount", doc="Partitions of the cluster; 0 off the controller.")
OFFLINE_PARTITIONS = _gauge(*_CONTROLLER, "OfflinePartitionsCount", doc="Partitions without leader; 0 off the controller.")

_GROUPS = ("kafka.coordinator.group", "GroupMetadataManager")
GROUPS             = _gauge(*_GROUPS, "NumGroups", doc="Groups coordinated here.")
GROUPS_EMPTY       = _gauge(*_GROUPS, "NumGroupsEmpty", doc="Groups without members.")
GROUPS_STABLE      = _gauge(*_GROUPS, "NumGroupsStable", doc="Groups at work.")
GROUPS_PREPARING   = _gauge(*_GROUPS, "NumGroupsPreparingRebalance", doc="Groups whose members are joining.")
GROUPS_COMPLETING  = _gauge(*_GROUPS, "NumGroupsCompletingRebalance", doc="Groups that wait for their assignment.")
GROUPS_DEAD        = _gauge(*_GROUPS, "NumGroupsDead", doc="Groups about to go.")
OFFSETS            = _gauge(*_GROUPS, "NumOffsets", doc="Committed offsets kept here.")
OFFSET_COMMITS     = _group("offset-commit-count", "Offsets committed.")
OFFSET_EXPIRATIONS = _group("offset-expiration-count", "Offsets forgotten after their retention.")
OFFSET_DELETIONS   = _group("offset-deletion-count", "Offsets deleted.")
REBALANCES_DONE    = _group("group-completed-rebalance-count", "Rebalances completed.")
REBALANCES         = Metric("barnabas", "group", "rebalances-total", Kind.COUNTER, ("reason",),
                            "Rebalances begun, by reason.", own=True)

_PURGATORY, _SESSIONS = ("kafka.server", "DelayedOperationPurgatory"), ("kafka.server", "FetchSessionCache")
DELAYED_OPERATIONS = _gauge(*_PURGATORY, "NumDelayedOperations", "delayedOperation", doc="Requests that wait.")
PURGATORY_SIZE     = _gauge(*_PURGATORY, "PurgatorySize", "delayedOperation", doc="Places in which requests wait.")
FETCH_SESSIONS     = _gauge(*_SESSIONS, "NumIncrementalFetchSessions", doc="Incremental fetch sessions.")
SESSION_PARTITIONS = _gauge(*_SESSIONS, "NumIncrementalFetchPartitionsCached", doc="Partitions in those sessions.")

_SOCKETS = ("kafka.network", "SocketServer")
MEMORY_AVAILABLE   = _gauge(*_SOCKETS, "MemoryPoolAvailable", doc="Bytes free for requests.")
MEMORY_USED        = _gauge(*_SOCKETS, "MemoryPoolUsed", doc="Bytes taken by requests.")
# fmt: on

METRICS: tuple[Metric, ...] = tuple(value for value in list(vars().values()) if isinstance(value, Metric))
