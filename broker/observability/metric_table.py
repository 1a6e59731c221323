"""The table of metrics: the supported ones of Kafka's MBeans, and ours.

A row is one MBean pattern: `kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=T`. The rule for its Prometheus
name is in `runtime.monitoring.metric`. What Apache Kafka has and this broker has not stands with its reason in
`broker.observability.not_kept`.
Rules: every metric is in this table. `own=True` marks those that Apache Kafka 3.9 does not have; 4.3 has those of
consumer groups and share groups.
"""

from __future__ import annotations

from runtime.monitoring.metric import Kind, Metric


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


def _newer_group_gauge(attribute: str, label: str, doc: str) -> Metric:
    return Metric(
        "kafka.server", "group-coordinator-metrics", attribute, Kind.GAUGE, (label,), doc, attribute=True, own=True
    )


def _listener(attribute: str, doc: str) -> Metric:
    labels = ("listener", "networkProcessor")
    return Metric("kafka.server", "socket-server-metrics", attribute, Kind.COUNTER, labels, doc, attribute=True)


def _quota(attribute: str, doc: str, *types: str) -> Metric:
    """The MBeans have no keys for a user or client id that there is none of."""
    mbeans = [
        f"kafka.server:type={resource},{keys}" for resource in types for keys in ("user", "client-id", "user,client-id")
    ]
    labels = ("resource", "user", "clientId")
    return Metric("kafka.server", "quota", attribute, Kind.GAUGE, labels, doc, attribute=True, mbeans=tuple(mbeans))


def _load_time(type: str, attribute: str, doc: str) -> Metric:  # noqa: A002  the MBean's key
    return Metric("kafka.server", type, attribute, Kind.GAUGE, (), doc, attribute=True)


def _newer_time(type: str, attribute: str, doc: str) -> Metric:  # noqa: A002  the MBean's key
    return Metric("kafka.server", type, attribute, Kind.GAUGE, (), doc, attribute=True, own=True)


# fmt: off
_TOPIC, _REQUEST = ("kafka.server", "BrokerTopicMetrics"), ("kafka.network", "RequestMetrics")
MESSAGES_IN        = _counter(*_TOPIC, "MessagesInPerSec", "topic", doc="Records appended by clients and coordinators.")
BYTES_IN           = _counter(*_TOPIC, "BytesInPerSec", "topic", doc="Bytes of these records.")
BYTES_OUT          = _counter(*_TOPIC, "BytesOutPerSec", "topic", doc="Bytes of records sent to clients.")
TOTAL_PRODUCE      = _counter(*_TOPIC, "TotalProduceRequestsPerSec", "topic", doc="Appends asked for, refused ones too.")
TOTAL_FETCH        = _counter(*_TOPIC, "TotalFetchRequestsPerSec", "topic", doc="Partitions read for clients.")
REPLICATION_IN     = _counter(*_TOPIC, "ReplicationBytesInPerSec", doc="Bytes of records copied from leaders.")
REASSIGNMENT_IN    = _counter(*_TOPIC, "ReassignmentBytesInPerSec", doc="Of those, for replicas that are being added here.")
REPLICATION_OUT    = _counter(*_TOPIC, "ReplicationBytesOutPerSec", doc="Bytes of records sent to followers.")
REASSIGNMENT_OUT   = _counter(*_TOPIC, "ReassignmentBytesOutPerSec", doc="Of those, to replicas that are being added.")
FAILED_PRODUCE     = _counter(*_TOPIC, "FailedProduceRequestsPerSec", "topic", doc="Appends that failed unexpectedly.")
PRODUCE_CONVERSIONS = _counter(*_TOPIC, "ProduceMessageConversionsPerSec", doc="Records converted for the log.")
FETCH_CONVERSIONS  = _counter(*_TOPIC, "FetchMessageConversionsPerSec", doc="Records converted for old clients.")

FAILED_FETCH       = _counter(*_TOPIC, "FailedFetchRequestsPerSec", "topic", doc="Reads that met damage or a bug.")
BYTES_REJECTED     = _counter(*_TOPIC, "BytesRejectedPerSec", "topic", doc="Bytes of batches too large for their topic.")
INVALID_CRC        = _counter(*_TOPIC, "InvalidMessageCrcRecordsPerSec", doc="Batches whose bytes were damaged.")
INVALID_MAGIC      = _counter(*_TOPIC, "InvalidMagicNumberRecordsPerSec", doc="Batches of an unknown format.")
INVALID_SEQUENCE   = _counter(*_TOPIC, "InvalidOffsetOrSequenceRecordsPerSec", doc="Batches that contradict themselves.")
KEYLESS            = _counter(*_TOPIC, "NoKeyCompactedTopicRecordsPerSec", doc="Records without a key for compacted topics.")

REQUESTS           = _counter(*_REQUEST, "RequestsPerSec", "request", "version", doc="Requests handled.")
ERRORS             = _counter(*_REQUEST, "ErrorsPerSec", "request", "error", doc="Errors of answers, and of their parts.")
TOTAL_TIME         = _summary(*_REQUEST, "TotalTimeMs", "request", doc="Time from decoding to the answer, waiting included.")
LOCAL_TIME         = _summary(*_REQUEST, "LocalTimeMs", "request", doc="Of that, until the handler has returned.")
REMOTE_TIME        = _summary(*_REQUEST, "RemoteTimeMs", "request", doc="Of that, waiting for other brokers, clients, disks.")
REQUEST_SECONDS    = Metric("barnabas", "request", "seconds", Kind.HISTOGRAM, ("request", "phase"),
                            "Time of requests; phase is total, local or remote.", own=True)
CONVERSIONS_TIME   = _summary(*_REQUEST, "MessageConversionsTimeMs", "request", doc="Converting records; 0 for most requests.")
REQUEST_BYTES      = _summary(*_REQUEST, "RequestBytes", "request", doc="Size of requests.")

BROKER_STATE       = _gauge("kafka.server", "KafkaServer", "BrokerState", doc="1 starting, 3 running, 7 stopping.")
DISK_READ          = _gauge("kafka.server", "KafkaServer", "linux-disk-read-bytes", doc="Bytes that were read from disks.")
DISK_WRITTEN       = _gauge("kafka.server", "KafkaServer", "linux-disk-write-bytes", doc="Bytes that were written to disks.")
LOOP_IDLE          = _gauge("kafka.network", "SocketServer", "NetworkProcessorAvgIdlePercent",
                            doc="Idle part of the event loop's time, last 30 s.")
PROCESSOR_IDLE     = _gauge("kafka.network", "Processor", "IdlePercent", "networkProcessor", doc="The same.")
HANDLER_IDLE       = _counter("kafka.server", "KafkaRequestHandlerPool", "RequestHandlerAvgIdlePercent",
                              doc="Nanoseconds for which the event loop was idle.")
LOOP_DELAY         = Metric("barnabas", "event-loop", "delay-seconds", Kind.HISTOGRAM, (),
                            "How late the event loop comes to what is due, measured ten times a second.", own=True)

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
FLUSHES            = _summary("kafka.log", "LogFlushStats", "LogFlushRateAndTimeMs", doc="Flushes of logs to the disk.")
READ_BYTES         = Metric("barnabas", "log", "read-bytes-total", Kind.COUNTER, ("source",),
                            "Bytes read for fetches, from memory (the page cache) or disk.", own=True)
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
CONTROL_WAITS      = _summary(*_CONTROL_CHANNELS, "RequestRateAndQueueTimeMs", "broker-id", doc="Waits until they are sent.")
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
W_MANUAL_BALANCE   = _summary(*_WORK, "ManualLeaderBalanceRateAndTimeMs", doc="Elections that an operator asked for.")
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
GROUP_COUNT        = _newer_group_gauge("group-count", "protocol", "Groups coordinated here, by their protocol.")
CONSUMER_GROUPS    = _newer_group_gauge("consumer-group-count", "state", "Groups of the consumer protocol, by their state.")
CONSUMER_REBALANCES = Metric("kafka.server", "group-coordinator-metrics", "consumer-group-rebalance-count", Kind.COUNTER, (),
                             "Times that a group of the consumer protocol needed another assignment.", attribute=True,
                             own=True)
SHARE_GROUPS       = _newer_group_gauge("share-group-count", "state", "Share groups, by their state.")
SHARE_REBALANCES   = Metric("kafka.server", "group-coordinator-metrics", "share-group-rebalance-count", Kind.COUNTER, (),
                            "Times that a share group needed another assignment.", attribute=True, own=True)
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

_SHARES = "share-coordinator-metrics"
SHARE_WRITES       = Metric("kafka.server", _SHARES, "write-total", Kind.COUNTER, (),
                            "Changes of share partitions that were stored here.", attribute=True, own=True)
SHARE_WRITES_AVG   = _newer_time(_SHARES, "write-latency-avg", "Mean time to store a change, last 30 s, ms.")
SHARE_WRITES_MAX   = _newer_time(_SHARES, "write-latency-max", "Longest time to store a change, last 30 s, ms.")
SHARE_LOADS_AVG    = _newer_time(_SHARES, "partition-load-time-avg", "Mean load of a partition, last 30 s, ms.")
SHARE_LOADS_MAX    = _newer_time(_SHARES, "partition-load-time-max", "Longest load, last 30 s, ms.")
SHARE_COORDINATORS = Metric("kafka.server", _SHARES, "num-partitions", Kind.GAUGE, ("state",),
                            "Partitions of __share_group_state that are led here, by state.", attribute=True, own=True)
SHARE_PRUNED       = Metric("kafka.server", _SHARES, "last-pruned-offset", Kind.GAUGE, ("topic", "partition"),
                            "Offset up to which snapshots have replaced the records.", attribute=True, own=True)

_SHARING, _SHARED = ("kafka.server", "ShareGroupMetrics"), ("kafka.server", "SharePartitionMetrics")
_OF_SHARED = ("group", "topic", "partition")
SHARE_ACKNOWLEDGED = Metric(*_SHARING, "RecordAcknowledgementsPerSec", Kind.COUNTER, ("ackType",),
                            "Records that members have acknowledged, by what they say.", own=True)
SHARE_PARTITION_LOADS = Metric(*_SHARING, "PartitionLoadTimeMs", Kind.SUMMARY, (), "Loads of share partitions.", own=True)
SHARE_FETCHES_EXPIRED = Metric("kafka.server", "DelayedShareFetchMetrics", "ExpiresPerSec", Kind.COUNTER, (),
                               "Share fetches that waited in vain.", own=True)
SHARE_LOCK_TIMEOUTS = Metric(*_SHARED, "AcquisitionLockTimeoutPerSec", Kind.COUNTER, _OF_SHARED,
                             "Records that a member had for too long.", own=True)
SHARE_IN_FLIGHT    = Metric(*_SHARED, "InFlightMessageCount", Kind.GAUGE, _OF_SHARED,
                            "Records from the start offset of a share partition to the last that was acquired.", own=True)
SHARE_BATCHES      = Metric(*_SHARED, "InFlightBatchCount", Kind.GAUGE, _OF_SHARED, "Batches of these records.", own=True)
SHARE_ACQUIRED     = Metric("barnabas", "share", "acquired-records", Kind.GAUGE, _OF_SHARED,
                            "Records that members have at the moment.", own=True)
SHARE_GIVEN_UP     = Metric("barnabas", "share", "given-up-records-total", Kind.COUNTER, _OF_SHARED,
                            "Records that were delivered as often as allowed and not accepted.", own=True)
_SHARE_SESSIONS = ("kafka.server", "ShareSessionCache")
SHARE_SESSIONS     = Metric(*_SHARE_SESSIONS, "ShareSessionsCount", Kind.GAUGE, (), "Sessions of members.", own=True)
SHARE_SESSION_PARTITIONS = Metric(*_SHARE_SESSIONS, "SharePartitionsCount", Kind.GAUGE, (), "Partitions in them.", own=True)
SHARE_SESSIONS_ENDED = Metric(*_SHARE_SESSIONS, "ShareSessionEvictionsPerSec", Kind.COUNTER, (),
                              "Sessions that ended with their connections.", own=True)
TOTAL_SHARE_FETCH  = Metric(*_TOPIC, "TotalShareFetchRequestsPerSec", Kind.COUNTER, ("topic",),
                            "Partitions read for share groups.", own=True)
TOTAL_SHARE_ACKNOWLEDGE = Metric(*_TOPIC, "TotalShareAcknowledgementRequestsPerSec", Kind.COUNTER, ("topic",),
                                 "Acknowledgements of single partitions.", own=True)

_PURGATORY, _SESSIONS = ("kafka.server", "DelayedOperationPurgatory"), ("kafka.server", "FetchSessionCache")
DELAYED_OPERATIONS = _gauge(*_PURGATORY, "NumDelayedOperations", "delayedOperation", doc="Requests that wait.")
PURGATORY_SIZE     = _gauge(*_PURGATORY, "PurgatorySize", "delayedOperation", doc="Places in which requests wait.")
FETCHES_EXPIRED    = _counter("kafka.server", "DelayedFetchMetrics", "ExpiresPerSec", "fetcherType",
                              doc="Fetches that waited in vain for the bytes that they asked for.")
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

STORE_AUTHENTICATIONS = _counter(*_STORE, "ZooKeeperSaslAuthenticationsPerSec", doc="Logins to ZooKeeper with SASL.")
STORE_FAILURES     = _counter(*_STORE, "ZooKeeperAuthFailuresPerSec", doc="Those that failed.")
STORE_LATENCY      = _summary("kafka.server", "ZooKeeperClientMetrics", "ZooKeeperRequestLatencyMs", doc="Its answers.")

_AUTHORIZER = ("kafka.server", "authorizer-metrics")  # the names of a quorum's brokers: those of ZooKeeper mode have none
ACLS               = Metric(*_AUTHORIZER, "acls-total-count", Kind.GAUGE, (), "ACLs in force.", attribute=True, own=True)
AUTHORIZATIONS     = Metric(*_AUTHORIZER, "authorization-request-total", Kind.COUNTER, (), "Decisions of the authorizer.",
                            attribute=True, own=True)
ALLOWED            = Metric(*_AUTHORIZER, "authorization-allowed-total", Kind.COUNTER, (), "Decisions that were yes.",
                            attribute=True, own=True)
DENIED             = Metric(*_AUTHORIZER, "authorization-denied-total", Kind.COUNTER, (), "Decisions that were no.",
                            attribute=True, own=True)
AUTHORIZATION_RATE = Metric(*_AUTHORIZER, "authorization-request-rate-per-minute", Kind.GAUGE, (),
                            "Decisions a minute, between scrapes.", attribute=True, own=True)
ALLOWED_RATE       = Metric(*_AUTHORIZER, "authorization-allowed-rate-per-minute", Kind.GAUGE, (),
                            "Those that were yes.", attribute=True, own=True)
DENIED_RATE        = Metric(*_AUTHORIZER, "authorization-denied-rate-per-minute", Kind.GAUGE, (),
                            "Those that were no.", attribute=True, own=True)
AUDIT_DROPPED      = Metric("barnabas", "audit", "dropped-lines-total", Kind.COUNTER, (),
                            "Lines of the audit log that were not written.", own=True)

_CLIENT_METRICS = ("kafka.server", "client-metrics")  # of 4.3, for all clients together
CLIENT_INSTANCES   = Metric(*_CLIENT_METRICS, "instance-count", Kind.GAUGE, (), "Clients that ask what they are to push.",
                            attribute=True, own=True)
CLIENT_THROTTLES   = Metric(*_CLIENT_METRICS, "throttle-count", Kind.COUNTER, (), "Their requests that came too early.",
                            attribute=True, own=True)
CLIENT_UNKNOWN_SUBSCRIPTIONS = Metric(*_CLIENT_METRICS, "unknown-subscription-request-count", Kind.COUNTER, (),
                            "Pushes that were for other subscriptions than the client has now.", attribute=True, own=True)
_PUSHED = ("barnabas", "client-metrics")
CLIENT_SUBSCRIPTIONS = _own_gauge(*_PUSHED, "subscriptions", doc="Subscriptions of client metrics.")
CLIENT_PUSHES      = Metric(*_PUSHED, "pushes-total", Kind.COUNTER, ("outcome",), "Pushes, taken or refused.", own=True)
CLIENT_SERIES      = _own_gauge(*_PUSHED, "series", doc="Series at /metrics/clients.")
CLIENT_SERIES_CLIENTS = _own_gauge(*_PUSHED, "clients", doc="Clients that they are of.")
CLIENT_SERIES_BYTES = _own_gauge(*_PUSHED, "memory-bytes", doc="Memory that they take, about.")
CLIENT_LEFT_OUT    = Metric(*_PUSHED, "left-out-total", Kind.COUNTER, ("reason",),
                            "Pushed data points that are not kept: beyond a limit, or not asked for.", own=True)

_SOCKETS = ("kafka.network", "SocketServer")
MEMORY_AVAILABLE   = _gauge(*_SOCKETS, "MemoryPoolAvailable", doc="Bytes free for requests.")
MEMORY_USED        = _gauge(*_SOCKETS, "MemoryPoolUsed", doc="Bytes taken by requests.")
EXPIRED_KILLED     = _gauge(*_SOCKETS, "ExpiredConnectionsKilledCount", doc="Connections closed, their sessions being over.")
LARGE_REQUESTS     = _gauge("kafka.network", "RequestChannel", "RequestQueueSize", doc="Large requests that wait for a turn.")
AUTHENTICATIONS    = _listener("successful-authentication-total", "Clients that have authenticated.")
AUTHENTICATIONS_FOR_GOOD = _listener("successful-authentication-no-reauth-total", "Those that cannot do so again.")
AUTHENTICATIONS_FAILED = _listener("failed-authentication-total", "Clients that have not.")
REAUTHENTICATIONS  = _listener("successful-reauthentication-total", "Sessions that were extended.")
REAUTHENTICATIONS_FAILED = _listener("failed-reauthentication-total", "Sessions that were to be, and were not.")
EXPIRED_CONNECTIONS = _listener("expired-connections-killed-count", "Connections closed, their sessions being over.")
REAUTHENTICATION_AVG = Metric("kafka.server", "socket-server-metrics", "reauthentication-latency-avg", Kind.GAUGE,
                              ("listener", "networkProcessor"), "Mean time, last 30 s, ms.", attribute=True)
REAUTHENTICATION_MAX = Metric("kafka.server", "socket-server-metrics", "reauthentication-latency-max", Kind.GAUGE,
                              ("listener", "networkProcessor"), "Longest time, last 30 s, ms.", attribute=True)
CONNECTIONS_BY_CLIENT = Metric("kafka.server", "socket-server-metrics", "connections", Kind.GAUGE,
                               ("clientSoftwareName", "clientSoftwareVersion", "listener", "networkProcessor",
                                "cipher", "protocol"),
                               "Open connections by client software, cipher and TLS version.", attribute=True,
                               mbeans=("kafka.server:type=socket-server-metrics,clientSoftwareName,clientSoftwareVersion,listener,"
                                       "networkProcessor",
                                       "kafka.server:type=socket-server-metrics,cipher,protocol,listener,networkProcessor"))
UNSENT_BYTES       = _own_gauge("barnabas", "connections", "unsent-bytes", doc="Bytes of responses not taken yet.")
CONNECTIONS_MADE   = _listener("connection-creation-total", "Connections that were admitted.")
CONNECTIONS_CLOSED = _listener("connection-close-total", "Those of them that are closed.")
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

_QUOTAS = ("Produce", "Fetch", "Request", "ControllerMutation")
QUOTA_BYTE_RATE    = _quota("byte-rate", "Bytes a second that count for a quota.", *_QUOTAS[:2])
QUOTA_REQUEST_TIME = _quota("request-time", "Percent of the event loop's time that count for a quota.", _QUOTAS[2])
QUOTA_MUTATION_RATE = _quota("mutation-rate", "Partitions created and deleted a second.", _QUOTAS[3])
QUOTA_TOKENS       = _quota("tokens", "Partitions that may be created or deleted at once.", _QUOTAS[3])
QUOTA_THROTTLE     = _quota("throttle-time", "Mean throttle time of late, in milliseconds.", *_QUOTAS)
THROTTLE_TIME      = _summary(*_REQUEST, "ThrottleTimeMs", "request", doc="Throttle times; 0 for most requests.")
# fmt: on

METRICS: tuple[Metric, ...] = tuple(value for value in list(vars().values()) if isinstance(value, Metric))
