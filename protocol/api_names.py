"""The names of Kafka's APIs by their keys, also of those that no message here is of: a newer broker lists them. Pure.

Source: ApiKeys of Apache Kafka 3.9.1 and 4.3.0.
"""

from __future__ import annotations

from typing import Final

_IN_ORDER: Final = """
Produce Fetch ListOffsets Metadata LeaderAndIsr StopReplica UpdateMetadata ControlledShutdown OffsetCommit OffsetFetch
FindCoordinator JoinGroup Heartbeat LeaveGroup SyncGroup DescribeGroups ListGroups SaslHandshake ApiVersions
CreateTopics DeleteTopics DeleteRecords InitProducerId OffsetForLeaderEpoch AddPartitionsToTxn AddOffsetsToTxn EndTxn
WriteTxnMarkers TxnOffsetCommit DescribeAcls CreateAcls DeleteAcls DescribeConfigs AlterConfigs AlterReplicaLogDirs
DescribeLogDirs SaslAuthenticate CreatePartitions CreateDelegationToken RenewDelegationToken ExpireDelegationToken
DescribeDelegationToken DeleteGroups ElectLeaders IncrementalAlterConfigs AlterPartitionReassignments
ListPartitionReassignments OffsetDelete DescribeClientQuotas AlterClientQuotas DescribeUserScramCredentials
AlterUserScramCredentials Vote BeginQuorumEpoch EndQuorumEpoch DescribeQuorum AlterPartition UpdateFeatures Envelope
FetchSnapshot DescribeCluster DescribeProducers BrokerRegistration BrokerHeartbeat UnregisterBroker
DescribeTransactions ListTransactions AllocateProducerIds ConsumerGroupHeartbeat ConsumerGroupDescribe
ControllerRegistration GetTelemetrySubscriptions PushTelemetry AssignReplicasToDirs ListConfigResources
DescribeTopicPartitions ShareGroupHeartbeat ShareGroupDescribe ShareFetch ShareAcknowledge AddRaftVoter
RemoveRaftVoter UpdateRaftVoter InitializeShareGroupState ReadShareGroupState WriteShareGroupState
DeleteShareGroupState ReadShareGroupStateSummary StreamsGroupHeartbeat StreamsGroupDescribe DescribeShareGroupOffsets
AlterShareGroupOffsets DeleteShareGroupOffsets
"""
API_NAMES: Final = dict(enumerate(_IN_ORDER.split()))
UNKNOWN: Final = "unknown"


def name_of_api(key: int) -> str:
    """Return the name of an API, UNKNOWN for a key that is newer."""
    return API_NAMES.get(key, UNKNOWN)
