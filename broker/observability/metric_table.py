"""The table of metrics: the supported ones of Kafka's MBeans, and the rule for their Prometheus names.

A row is one MBean pattern: `kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=T`. Its Prometheus name is
domain, type and name in lower case joined by underscores; rates are counters (`_total` in place of `PerSec`), times and
sizes are summaries (`_count`, `_sum`), the rest are gauges; other keys are labels. MBeans that gather attributes instead
of having a name (Kafka's newer metrics) give one row an attribute.
Rules: every metric is in this table. `own=True` marks those that Apache Kafka does not have.
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
        """The MBean's name without the values of its labels: `domain:type=...,name=...,label,label`."""
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


def _own_gauge(domain: str, type: str, name: str, *labels: str, doc: str) -> Metric:  # noqa: A002  the MBean's key
    return Metric(domain, type, name, Kind.GAUGE, labels, doc, own=True)


def _summary(domain: str, type: str, name: str, *labels: str, doc: str) -> Metric:  # noqa: A002  the MBean's key
    return Metric(domain, type, name, Kind.SUMMARY, labels, doc)


def _group(attribute: str, doc: str) -> Metric:
    return Metric("kafka.server", "group-coordinator-metrics", attribute, Kind.COUNTER, (), doc, attribute=True)


def _listener(attribute: str, doc: str) -> Metric:
    labels = ("listener", "networkProcessor")
    return Metric("kafka.server", "socket-server-metrics", attribute, Kind.COUNTER, labels, doc, attribute=True)


def _quota(type: str, attribute: str, doc: str) -> Metric:  # noqa: A002  the MBean's key
    return Metric("kafka.server", type, attribute, Kind.GAUGE, ("user", "client-id"), doc, attribute=True)


def _load_time(type: str, attribute: str, doc: str) -> Metric:  # noqa: A002  the MBean's key
    return Metric("kafka.server", type, attribute, Kind.GAUGE, (), doc, attribute=True)


# fmt: off
_TOPIC, _REQUEST = ("kafka.server", "BrokerTopicMetrics"), ("kafka.network", "RequestMetrics")
MESSAGES_IN        = _counter(*_TOPIC, "MessagesInPerSec", "topic", doc="Records appended by clients.")
BYTES_IN           = _counter(*_TOPIC, "BytesInPerSec", "topic", doc="Bytes of records appended by clients.")
BYTES_OUT          = _counter(*_TOPIC, "BytesOutPerSec", "topic", doc="Bytes of records sent to clients.")
TOTAL_PRODUCE      = _counter(*_TOPIC, "TotalProduceRequestsPerSec", "topic", doc="Appends asked for, one a partition.")
TOTAL_FETCH        = _counter(*_TOPIC, "TotalFetchRequestsPerSec", "topic", doc="Fetches of records, one a partition.")
REPLICATION_IN     = _counter(*_TOPIC, "ReplicationBytesInPerSec", doc="Bytes of records copied from leaders.")
REASSIGNMENT_IN    = _counter(*_TOPIC, "ReassignmentBytesInPerSec", doc="Of those, for replicas that are being added here.")
REPLICATION_OUT    = _counter(*_TOPIC, "ReplicationBytesOutPerSec", doc="Bytes of records sent to followers.")
REASSIGNMENT_OUT   = _counter(*_TOPIC, "ReassignmentBytesOutPerSec", doc="Of those, to replicas that are being added.")
FAILED_PRODUCE     = _counter(*_TOPIC, "FailedProduceRequestsPerSec", doc="Appends that were refused.")
PRODUCE_CONVERSIONS = _counter(*_TOPIC, "ProduceMessageConversionsPerSec", doc="Records converted for the log.")
FETCH_CONVERSIONS  = _counter(*_TOPIC, "FetchMessageConversionsPerSec", doc="Records converted for old clients.")

REQUESTS           = _counter(*_REQUEST, "RequestsPerSec", "request", "version", doc="Requests handled.")
ERRORS             = _counter(*_REQUEST, "ErrorsPerSec", "request", "error", doc="Answers by their top-level error code.")
TOTAL_TIME         = _summary(*_REQUEST, "TotalTimeMs", "request", doc="Time from decoding to the answer, waiting included.")
CONVERSIONS_TIME   = _summary(*_REQUEST, "MessageConversionsTimeMs", "request", doc="Conversions of one partition's records.")
REQUEST_BYTES      = _summary(*_REQUEST, "RequestBytes", "request", doc="Size of requests.")

_REPLICAS, _PARTITION = ("kafka.server", "ReplicaManager"), ("kafka.cluster", "Partition")
LEADER_COUNT       = _gauge(*_REPLICAS, "LeaderCount", doc="Partitions led by this broker.")
PARTITION_COUNT    = _gauge(*_REPLICAS, "PartitionCount", doc="Partitions held by this broker.")
UNDER_REPLICATED   = _gauge(*_REPLICAS, "UnderReplicatedPartitions", doc="Led partitions with replicas out of sync.")
UNDER_MIN_ISR      = _gauge(*_REPLICAS, "UnderMinIsrPartitionCount", doc="Led partitions below min.insync.replicas.")
AT_MIN_ISR         = _gauge(*_REPLICAS, "AtMinIsrPartitionCount", doc="Led partitions exactly at min.insync.replicas.")
REASSIGNING        = _gauge(*_REPLICAS, "ReassigningPartitions", doc="Led partitions whose replicas are changing.")
ISR_SHRINKS        = _counter(*_REPLICAS, "IsrShrinksPerSec", doc="Times that replicas left the ISR.")
ISR_EXPANDS        = _counter(*_REPLICAS, "IsrExpandsPerSec", doc="Times that a replica joined the ISR.")
FAILED_ISR_UPDATES = _counter(*_REPLICAS, "FailedIsrUpdatesPerSec", doc="Changes of the ISR that were not made.")
PRODUCER_IDS       = _gauge(*_REPLICAS, "ProducerIdCount", doc="Idempotent producers known, one a partition.")
LATE_TRANSACTIONS  = _gauge(*_REPLICAS, "PartitionsWithLateTransactionsCount", doc="Partitions whose transaction hangs.")
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
OFFLINE_DIRECTORY  = _gauge("kafka.log", "LogManager", "LogDirectoryOffline", "logDirectory", doc="1 when it failed.")
_DIRECTORY = ("barnabas", "log-directory")
FREE_BYTES         = _own_gauge(*_DIRECTORY, "free-bytes", "logDirectory", doc="Bytes that are free for its logs.")
FLOOR_BYTES        = _own_gauge(*_DIRECTORY, "floor-bytes", "logDirectory", doc="Bytes that are to stay free.")
REFUSING           = _own_gauge(*_DIRECTORY, "refusing", "logDirectory", doc="1 while records are refused for want of room.")

_CLEANER = ("kafka.log", "LogCleaner")
CLEANERS_DEAD      = _gauge(*_CLEANER, "DeadThreadCount", doc="Workers of the cleaner that ended with an error.")
CLEANER_RECOPY     = _gauge(*_CLEANER, "cleaner-recopy-percent", doc="What the last cleaning wrote, of what it read.")
CLEANER_BUFFER     = _gauge(*_CLEANER, "max-buffer-utilization-percent", doc="How full the last cleaning's map was.")
CLEANER_TIME       = _gauge(*_CLEANER, "max-clean-time-secs", doc="Seconds that the last cleaning took.")
CLEANER_DELAY      = _gauge(*_CLEANER, "max-compaction-delay-secs", doc="Seconds over max.compaction.lag.ms, at most.")
_CLEANER_CHOICE = ("kafka.log", "LogCleanerManager")
CLEANER_DIRTY      = _gauge(*_CLEANER_CHOICE, "max-dirty-percent", doc="Uncleaned part of the dirtiest log.")
CLEANER_LAST_LOOK  = _gauge(*_CLEANER_CHOICE, "time-since-last-run-ms", doc="Time since the cleaner last looked for work.")
UNCLEANABLE        = _gauge(*_CLEANER_CHOICE, "uncleanable-partitions-count", "logDirectory", doc="Logs set aside.")
UNCLEANABLE_BYTES  = _gauge(*_CLEANER_CHOICE, "uncleanable-bytes", "logDirectory", doc="What could be cleaned of them.")
CLEANER_IO         = _counter("kafka.utils", "Throttler", "cleaner-io", doc="Bytes that the cleaner has read and written.")

_CONTROLLER = ("kafka.controller", "KafkaController")
ACTIVE_CONTROLLER  = _gauge(*_CONTROLLER, "ActiveControllerCount", doc="1 on the controller.")
CONTROLLER_ID      = _gauge("kafka.server", "MetadataLoader", "CurrentControllerId", doc="The controller; -1 without one.")
CONTROLLER_STATE   = _gauge(*_CONTROLLER, "ControllerState", doc="What the controller is busy with, by Kafka's numbers.")
MIGRATION_STATE    = _gauge(*_CONTROLLER, "ZkMigrationState", doc="4: the cluster is kept in ZooKeeper.")
ACTIVE_BROKERS     = _gauge(*_CONTROLLER, "ActiveBrokerCount", doc="Brokers alive; 0 off the controller.")
GLOBAL_TOPICS      = _gauge(*_CONTROLLER, "GlobalTopicCount", doc="Topics of the cluster; 0 off the controller.")
GLOBAL_PARTITIONS  = _gauge(*_CONTROLLER, "GlobalPartitionCount", doc="Partitions of the cluster; 0 off the controller.")
OFFLINE_PARTITIONS = _gauge(*_CONTROLLER, "OfflinePartitionsCount", doc="Partitions without leader; 0 off the controller.")
FENCED_BROKERS     = _gauge(*_CONTROLLER, "FencedBrokerCount", doc="0: a quorum controller's.")
LEADER_IMBALANCE   = _gauge(*_CONTROLLER, "PreferredReplicaImbalanceCount", doc="Partitions led elsewhere than preferred.")
TOPICS_TO_DELETE   = _gauge(*_CONTROLLER, "TopicsToDeleteCount", doc="Topics whose deletion is under way.")
REPLICAS_TO_DELETE = _gauge(*_CONTROLLER, "ReplicasToDeleteCount", doc="Their replicas that are not deleted yet.")
STUCK_TOPICS       = _gauge(*_CONTROLLER, "TopicsIneligibleToDeleteCount", doc="Topics whose deletion waits.")
STUCK_REPLICAS     = _gauge(*_CONTROLLER, "ReplicasIneligibleToDeleteCount", doc="Replicas whose deletion waits.")
UNCLEAN_ELECTIONS  = _counter("kafka.controller", "ControllerStats", "UncleanLeaderElectionsPerSec", doc="Unclean elections.")
CONTROLLER_WAITS   = _summary("kafka.controller", "ControllerEventManager", "EventQueueTimeMs", doc="Waits of its events.")
CONTROLLER_EVENTS  = _gauge("kafka.controller", "ControllerEventManager", "EventQueueSize", doc="Events that wait.")
_CONTROL_CHANNELS = ("kafka.controller", "ControllerChannelManager")
CONTROL_REQUESTS   = _gauge(*_CONTROL_CHANNELS, "TotalQueueSize", doc="Control requests that wait.")
CONTROL_QUEUE      = _gauge(*_CONTROL_CHANNELS, "QueueSize", "broker-id", doc="Control requests that wait for a broker.")

_WORK = ("kafka.controller", "ControllerStats")
W_CONTROLLER_CHANGE = _summary(*_WORK, "ControllerChangeRateAndTimeMs", doc="Standing for election and taking over.")
W_BROKER_CHANGE    = _summary(*_WORK, "LeaderElectionRateAndTimeMs", doc="Brokers that came or went: leaders chosen anew.")
W_TOPIC_CHANGE     = _summary(*_WORK, "TopicChangeRateAndTimeMs", doc="Topics that came or grew.")
W_TOPIC_DELETION   = _summary(*_WORK, "TopicDeletionRateAndTimeMs", doc="Topics that go.")
W_REASSIGNMENT     = _summary(*_WORK, "PartitionReassignmentRateAndTimeMs", doc="Reassignments begun, moved on, called off.")
W_REASSIGNMENTS_LISTED = _summary(*_WORK, "ListPartitionReassignmentRateAndTimeMs", doc="Reassignments listed.")
W_AUTO_BALANCE     = _summary(*_WORK, "AutoLeaderBalanceRateAndTimeMs", doc="Looks at the balance of leaders.")
W_MANUAL_BALANCE   = _summary(*_WORK, "ManualLeaderBalanceRateAndTimeMs", doc="Elections that somebody asked for.")
W_SHUTDOWN         = _summary(*_WORK, "ControlledShutdownRateAndTimeMs", doc="Brokers that hand their partitions over.")
W_ISR_CHANGE       = _summary(*_WORK, "IsrChangeRateAndTimeMs", doc="Changes of in-sync sets that leaders wished.")
W_ANSWERS          = _summary(*_WORK, "LeaderAndIsrResponseReceivedRateAndTimeMs", doc="Answers of brokers that led to work.")
W_LOG_DIRS         = _summary(*_WORK, "LogDirChangeRateAndTimeMs", doc="Log directories of brokers that failed.")
W_UNCLEAN_ENABLED  = _summary(*_WORK, "UncleanLeaderElectionEnableRateAndTimeMs", doc="Unclean elections allowed for all.")
W_TOPIC_UNCLEAN_ENABLED = _summary(*_WORK, "TopicUncleanLeaderElectionEnableRateAndTimeMs", doc="The same for a topic.")
W_FEATURES         = _summary(*_WORK, "UpdateFeaturesRateAndTimeMs", doc="Requests for other features.")

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
_GROUP_LOADS, _TXN_LOADS = "group-coordinator-metrics", "transaction-coordinator-metrics"
GROUP_LOADS_AVG    = _load_time(_GROUP_LOADS, "partition-load-time-avg", "Mean load of a partition, last 30 s, ms.")
GROUP_LOADS_MAX    = _load_time(_GROUP_LOADS, "partition-load-time-max", "Longest load, last 30 s, ms.")
REBALANCES_DONE    = _group("group-completed-rebalance-count", "Rebalances completed.")
GROUP_LAG          = _own_gauge("kafka", "consumergroup", "lag", "group", "topic", "partition",
                                doc="Records behind the committed offset; NaN while the leader does not answer.")
GROUP_LAG_SECONDS  = _own_gauge("kafka", "consumergroup", "lag-seconds", "group", "topic", "partition",
                                doc="Age of the record at the committed offset, or of the next one there is; 0 without lag.")
GROUP_STATUS       = _own_gauge("barnabas", "group", "status", "group", "status",
                                doc="1 for the status of a group: ok, warning, stalled or stopped; 0 for the others.")
TOKENS             = _own_gauge("barnabas", "delegation-token", "count", doc="Delegation tokens in the store.")
TOKEN_BYTES        = _own_gauge("barnabas", "delegation-token", "bytes", doc="Bytes of delegation tokens in the store.")
GROUP_WAITING      = _own_gauge("barnabas", "group", "waiting-bytes", doc="Bytes of requests that wait for their groups.")
REBALANCES         = Metric("barnabas", "group", "rebalances-total", Kind.COUNTER, ("reason",),
                            "Rebalances begun, by reason.", own=True)

TXN_LOADS_AVG      = _load_time(_TXN_LOADS, "partition-load-time-avg", "Mean load of a partition, last 30 s, ms.")
TXN_LOADS_MAX      = _load_time(_TXN_LOADS, "partition-load-time-max", "Longest load, last 30 s, ms.")
COMPLETIONS_WAITING = _gauge("kafka.coordinator.transaction", "TransactionMarkerChannelManager", "LogAppendRetryQueueSize",
                            doc="Marked transactions whose completion the log refused.")
_VERIFICATION = ("kafka.server", "AddPartitionsToTxnManager")
VERIFICATION_FAILURES = _counter(*_VERIFICATION, "VerificationFailureRate", doc="Partitions not confirmed as in a transaction.")
VERIFICATION_TIME  = _summary(*_VERIFICATION, "VerificationTimeMs", doc="Questions to coordinators about transactions.")
MARKERS_WAITING    = _gauge("kafka.coordinator.transaction", "TransactionMarkerChannelManager", "UnknownDestinationQueueSize",
                            doc="Ended transactions that wait for a partition to have a leader.")
TRANSACTIONAL_IDS  = _own_gauge("barnabas", "transactions", "ids", doc="Transactional ids coordinated here.")

_PURGATORY, _SESSIONS = ("kafka.server", "DelayedOperationPurgatory"), ("kafka.server", "FetchSessionCache")
DELAYED_OPERATIONS = _gauge(*_PURGATORY, "NumDelayedOperations", "delayedOperation", doc="Requests that wait.")
PURGATORY_SIZE     = _gauge(*_PURGATORY, "PurgatorySize", "delayedOperation", doc="Places in which requests wait.")
FETCH_SESSIONS     = _gauge(*_SESSIONS, "NumIncrementalFetchSessions", doc="Incremental fetch sessions.")
SESSION_EVICTIONS  = _counter(*_SESSIONS, "IncrementalFetchSessionEvictionsPerSec", doc="Sessions ended to make room.")
_FETCHERS, _FETCHER = ("kafka.server", "ReplicaFetcherManager"), ("kafka.server", "FetcherStats")
_LOG_MOVES = ("kafka.server", "ReplicaAlterLogDirsManager")
FETCH_MAX_LAG      = _gauge(*_FETCHERS, "MaxLag", "clientId", doc="Records that the replica furthest behind is behind.")
FETCH_MIN_RATE     = _gauge(*_FETCHERS, "MinFetchRate", "clientId", doc="Requests a second of the slowest fetcher.")
FETCH_FAILED       = _gauge(*_FETCHERS, "FailedPartitionsCount", "clientId", doc="Replicas that are copied no more.")
FETCH_DEAD         = _gauge(*_FETCHERS, "DeadThreadCount", "clientId", doc="0: a fetcher that dies takes the broker along.")
MOVES_MAX_LAG      = _gauge(*_LOG_MOVES, "MaxLag", "clientId", doc="Records that the copy furthest behind its log is behind.")
MOVES_MIN_RATE     = _gauge(*_LOG_MOVES, "MinFetchRate", "clientId", doc="Pieces a second copied between log directories.")
MOVES_FAILED       = _gauge(*_LOG_MOVES, "FailedPartitionsCount", "clientId", doc="Logs whose move has ended undone.")
MOVES_DEAD         = _gauge(*_LOG_MOVES, "DeadThreadCount", "clientId", doc="0: a move that dies takes the broker along.")
FETCHER_BYTES      = _counter(*_FETCHER, "BytesPerSec", "clientId", "brokerHost", "brokerPort", doc="Bytes copied.")
FETCHER_REQUESTS   = _counter(*_FETCHER, "RequestsPerSec", "clientId", "brokerHost", "brokerPort", doc="Fetches sent.")
FETCHER_LAG        = _gauge("kafka.server", "FetcherLagMetrics", "ConsumerLag", "clientId", "topic", "partition",
                            doc="Records that a replica is behind its leader.")
SESSION_PARTITIONS = _gauge(*_SESSIONS, "NumIncrementalFetchPartitionsCached", doc="Partitions in those sessions.")

_STORE = ("kafka.server", "SessionExpireListener")
SESSION_STATE      = _gauge(*_STORE, "SessionState", doc="1 while the session with ZooKeeper is connected.")
SESSION_CONNECTS   = _counter(*_STORE, "ZooKeeperSyncConnectsPerSec", doc="Connections of a session, new or again.")
SESSION_DISCONNECTS = _counter(*_STORE, "ZooKeeperDisconnectsPerSec", doc="Connections that a session has lost.")
SESSION_EXPIRES    = _counter(*_STORE, "ZooKeeperExpiresPerSec", doc="Sessions that ZooKeeper has ended.")

_AUTHORIZER = ("kafka.server", "authorizer-metrics")  # the names of a quorum's brokers: those of ZooKeeper mode have none
ACLS               = Metric(*_AUTHORIZER, "acls-total-count", Kind.GAUGE, (), "ACLs in force.", attribute=True, own=True)
AUTHORIZATIONS     = Metric(*_AUTHORIZER, "authorization-request-total", Kind.COUNTER, (), "Decisions of the authorizer.",
                            attribute=True, own=True)
ALLOWED            = Metric(*_AUTHORIZER, "authorization-allowed-total", Kind.COUNTER, (), "Decisions that were yes.",
                            attribute=True, own=True)
DENIED             = Metric(*_AUTHORIZER, "authorization-denied-total", Kind.COUNTER, (), "Decisions that were no.",
                            attribute=True, own=True)
AUDIT_DROPPED      = Metric("barnabas", "audit", "dropped-lines-total", Kind.COUNTER, (),
                            "Lines of the audit log that were not written.", own=True)

_SOCKETS = ("kafka.network", "SocketServer")
MEMORY_AVAILABLE   = _gauge(*_SOCKETS, "MemoryPoolAvailable", doc="Bytes free for requests.")
MEMORY_USED        = _gauge(*_SOCKETS, "MemoryPoolUsed", doc="Bytes taken by requests.")
AUTHENTICATIONS    = _listener("successful-authentication-total", "Clients that have authenticated.")
AUTHENTICATIONS_FOR_GOOD = _listener("successful-authentication-no-reauth-total", "Those that cannot do so again.")
AUTHENTICATIONS_FAILED = _listener("failed-authentication-total", "Clients that have not.")
REAUTHENTICATIONS  = _listener("successful-reauthentication-total", "Sessions that were extended.")
REAUTHENTICATIONS_FAILED = _listener("failed-reauthentication-total", "Sessions that were to be, and were not.")
EXPIRED_CONNECTIONS = _listener("expired-connections-killed-count", "Connections closed, their sessions being over.")
CONNECTIONS        = Metric("kafka.server", "socket-server-metrics", "connection-count", Kind.GAUGE,
                            ("listener", "networkProcessor"), "Open connections.", attribute=True)
BROKER_ACCEPT_RATE = Metric("kafka.server", "socket-server-metrics", "broker-connection-accept-rate", Kind.GAUGE, (),
                            "New connections a second, without those of a listener that only brokers use.", attribute=True)
ACCEPT_RATE        = Metric("kafka.server", "socket-server-metrics", "connection-accept-rate", Kind.GAUGE, ("listener",),
                            "New connections a second.", attribute=True)
_CONNECTIONS = ("barnabas", "connections")
CONNECTIONS_REFUSED = Metric(*_CONNECTIONS, "refused", Kind.COUNTER, (), "Connections above a limit.", own=True)
ACCEPT_DELAYS      = Metric(*_CONNECTIONS, "accept-delay-ms", Kind.COUNTER, (),
                            "Time for which listeners accepted no connections, since they were made too fast.", own=True)
ADDRESSES_THROTTLED = Metric(*_CONNECTIONS, "address-throttled", Kind.COUNTER, (),
                            "Connections that were closed because their address makes too many.", own=True)

PRODUCE_RATE       = _quota("Produce", "byte-rate", "Bytes of produce requests a second that count for a quota.")
PRODUCE_THROTTLE   = _quota("Produce", "throttle-time", "Mean throttle time of late, in milliseconds.")
FETCH_RATE         = _quota("Fetch", "byte-rate", "Bytes of responses to consumers a second that count for a quota.")
FETCH_THROTTLE     = _quota("Fetch", "throttle-time", "Mean throttle time of late, in milliseconds.")
REQUEST_TIME       = _quota("Request", "request-time", "Percent of the event loop's time that count for a quota.")
REQUEST_THROTTLE   = _quota("Request", "throttle-time", "Mean throttle time of late, in milliseconds.")
MUTATION_RATE      = _quota("ControllerMutation", "mutation-rate", "Partitions created and deleted a second.")
MUTATION_TOKENS    = _quota("ControllerMutation", "tokens", "Partitions that may be created or deleted at once.")
MUTATION_THROTTLE  = _quota("ControllerMutation", "throttle-time", "Mean throttle time of late, in milliseconds.")
THROTTLE_TIME      = _summary(*_REQUEST, "ThrottleTimeMs", "request", doc="Throttle times of the requests that had one.")
# fmt: on

METRICS: tuple[Metric, ...] = tuple(value for value in list(vars().values()) if isinstance(value, Metric))
