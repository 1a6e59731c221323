"""Who may do what with the cluster and its brokers: what only brokers ask each other, and what administrators ask."""

from __future__ import annotations

from typing import Any

from protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from protocol.messages.alter_partition import AlterPartitionRequest
from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.controlled_shutdown import ControlledShutdownRequest
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from protocol.messages.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest, LeaderAndIsrTopicState
from protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from protocol.messages.update_metadata import UpdateMetadataRequest
from security.access import Operation
from tests.differential.cases.inter_broker import wish, wishing
from tests.differential.play import Run
from tests.differential.secured import check, on_cluster, on_topic

_BROKERS = {
    "may act as the cluster": on_cluster(Operation.CLUSTER_ACTION),
    "may alter the cluster": on_cluster(Operation.ALTER),
    "may create and describe": on_cluster(Operation.CREATE, Operation.DESCRIBE),
}
OLD_CONTROLLER: dict[str, Any] = {"controller_id": 0, "controller_epoch": 0, "broker_epoch": -1}
"""What even a broker believes no more, so that the requests that are allowed change nothing."""

# -- what brokers ask each other


def _leading(run: Run, _: Any) -> LeaderAndIsrRequest:
    state = LeaderAndIsrPartitionState(
        topic_name=run.name("t"), partition_index=0, controller_epoch=0, leader=0, leader_epoch=0, isr=[0],
        partition_epoch=0, replicas=[0], leader_recovery_state=0,
    )  # fmt: skip
    return LeaderAndIsrRequest(
        ungrouped_partition_states=[state],
        topic_states=[LeaderAndIsrTopicState(topic_name=run.name("t"), partition_states=[state])],
        live_leaders=[],
        **OLD_CONTROLLER,
    )


check(LeaderAndIsrRequest, _leading, _BROKERS, prepare=lambda run: run.topic())


def _stopping(run: Run, _: Any) -> StopReplicaRequest:
    state = StopReplicaPartitionState(partition_index=0, leader_epoch=0, delete_partition=True)
    return StopReplicaRequest(
        ungrouped_partitions=[StopReplicaPartitionV0(topic_name=run.name("t"), partition_index=0)],
        topics=[StopReplicaTopicV1(name=run.name("t"), partition_indexes=[0])],
        topic_states=[StopReplicaTopicState(topic_name=run.name("t"), partition_states=[state])],
        **OLD_CONTROLLER,
    )


check(StopReplicaRequest, _stopping, _BROKERS, prepare=lambda run: run.topic())
check(UpdateMetadataRequest, lambda run, _: UpdateMetadataRequest(live_brokers=[], **OLD_CONTROLLER), _BROKERS)
check(
    ControlledShutdownRequest,
    lambda run, _: ControlledShutdownRequest(broker_id=0 if run.version > 1 else 9, broker_epoch=1),
    _BROKERS,
)
check(AllocateProducerIdsRequest, lambda run, _: AllocateProducerIdsRequest(broker_id=9, broker_epoch=1), _BROKERS)
check(
    AlterPartitionRequest,
    lambda run, _: wishing(run, run.name("t"), wish(0, leader_epoch=9)),
    _BROKERS,
    prepare=lambda run: run.topic(),
)

# -- what administrators ask

check(
    DescribeClusterRequest,
    lambda run, _: DescribeClusterRequest(include_cluster_authorized_operations=True),
    {
        "may describe": on_cluster(Operation.DESCRIBE),
        "may alter": on_cluster(Operation.ALTER),
        "may create": on_cluster(Operation.CREATE),
        "may alter settings and act": on_cluster(Operation.ALTER_CONFIGS, Operation.CLUSTER_ACTION, Operation.DESCRIBE),
        "may write idempotently": on_cluster(Operation.IDEMPOTENT_WRITE),
    },
)
check(
    DescribeClusterRequest,
    lambda run, _: DescribeClusterRequest(include_cluster_authorized_operations=False),
    {"may describe": on_cluster(Operation.DESCRIBE)},
    about="who may see brokers",
)


def _own_keys(_: Run) -> Any:
    def pick(answer: ApiVersionsResponse) -> None:
        answer.api_keys = [row for row in answer.api_keys if row.api_key == 0]

    return pick


check(
    ApiVersionsRequest,
    lambda run, _: ApiVersionsRequest(client_software_name="test", client_software_version="1"),
    {"may describe the cluster": on_cluster(Operation.DESCRIBE)},
    pick=_own_keys,
)
check(
    UpdateFeaturesRequest,
    lambda run, _: UpdateFeaturesRequest(
        feature_updates=[FeatureUpdateKey(feature="metadata.version", max_version_level=9)]
    ),
    {
        "may alter the cluster": on_cluster(Operation.ALTER),
        "may act as the cluster": on_cluster(Operation.CLUSTER_ACTION),
        "may alter settings": on_cluster(Operation.ALTER_CONFIGS),
    },
)


def _own_log(run: Run) -> Any:
    def pick(answer: Any) -> None:
        for result in answer.results:
            result.topics = [topic for topic in result.topics if topic.name.startswith(run.prefix)]

    return pick


check(
    DescribeLogDirsRequest,
    lambda run, _: DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=run.name("t"), partitions=[0])]),
    {
        "may describe the cluster": on_cluster(Operation.DESCRIBE),
        "may alter the cluster": on_cluster(Operation.ALTER),
        "may describe the topic": on_topic(Operation.DESCRIBE),
        "may create topics": on_cluster(Operation.CREATE),
    },
    prepare=lambda run: run.topic(),
    pick=_own_log,
)
check(
    AlterReplicaLogDirsRequest,
    lambda run, _: AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(path="/nowhere", topics=[AlterReplicaLogDirTopic(name=run.name("t"), partitions=[0, 5])])
        ]
    ),
    {
        "may alter the cluster": on_cluster(Operation.ALTER),
        "may describe the cluster": on_cluster(Operation.DESCRIBE),
        "may alter the topic": on_topic(Operation.ALTER),
    },
    prepare=lambda run: run.topic(),
)
