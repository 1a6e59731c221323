"""Control requests in older versions, and their responses in the newest one. Pure.

    newest form --in_version--> one or two requests of that version --> responses --newest_response--> newest form

Rules: fields that a version does not have are omitted: topic ids, broker epochs, added and removed replicas, recovery states.
Below StopReplica 3 one flag says for the whole request whether replicas are deleted, so that one request may become two.
Source: Kafka LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest (their builders) and
ControllerBrokerRequestBatch.sendStopReplicaRequests.
"""

from __future__ import annotations

from collections.abc import Sequence

from config.inter_broker_version import InterBrokerVersion
from controller.requests.request_batch import ControlRequest
from protocol.errors import ErrorCode
from protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    LeaderAndIsrTopicState,
)
from protocol.messages.stop_replica import (
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicV1,
)
from protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from protocol.primitives import ZERO_UUID

PLAINTEXT = 0

# The first version in which ...
LEADER_AND_ISR_GROUPED = 2
LEADER_AND_ISR_TOPIC_IDS = 5
LEADER_AND_ISR_RECOVERY = 6
UPDATE_METADATA_ENDPOINTS = 1
UPDATE_METADATA_GROUPED = 5
STOP_REPLICA_GROUPED = 1
STOP_REPLICA_DELETION_EACH = 3


def request_version(version: InterBrokerVersion, request: ControlRequest) -> int:
    match request:
        case LeaderAndIsrRequest():
            return version.leader_and_isr
        case UpdateMetadataRequest():
            return version.update_metadata
        case StopReplicaRequest():
            return version.stop_replica


def leader_and_isr(request: LeaderAndIsrRequest, version: int) -> LeaderAndIsrRequest:
    if version >= LEADER_AND_ISR_RECOVERY:
        return request
    topics = [
        LeaderAndIsrTopicState(
            topic_name=topic.topic_name,
            topic_id=topic.topic_id,
            partition_states=[_without_recovery(topic.topic_name, state) for state in topic.partition_states],
        )
        for topic in request.topic_states
    ]
    is_grouped = version >= LEADER_AND_ISR_GROUPED
    return LeaderAndIsrRequest(
        controller_id=request.controller_id,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        topic_states=topics if is_grouped else [],
        ungrouped_partition_states=[] if is_grouped else [each for topic in topics for each in topic.partition_states],
        live_leaders=request.live_leaders,
    )


def _without_recovery(topic: str, state: LeaderAndIsrPartitionState) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        topic_name=topic,
        partition_index=state.partition_index,
        controller_epoch=state.controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        partition_epoch=state.partition_epoch,
        replicas=state.replicas,
        adding_replicas=state.adding_replicas,
        removing_replicas=state.removing_replicas,
        is_new=state.is_new,
    )


def newest_leader_and_isr_response(
    request: LeaderAndIsrRequest, response: LeaderAndIsrResponse, version: int
) -> LeaderAndIsrResponse:
    """Convert rows by topic name to rows by topic id, with the ids of `request` (in the newest form)."""
    if version >= LEADER_AND_ISR_TOPIC_IDS:
        return response
    ids = {topic.topic_name: topic.topic_id for topic in request.topic_states if topic.topic_id != ZERO_UUID}
    by_id: dict[bytes, list[LeaderAndIsrPartitionError]] = {}
    by_name: list[LeaderAndIsrPartitionError] = []
    for row in response.partition_errors:
        if row.topic_name in ids:
            by_id.setdefault(ids[row.topic_name], []).append(row)
        else:
            by_name.append(row)
    topics = [LeaderAndIsrTopicError(topic_id=topic_id, partition_errors=rows) for topic_id, rows in by_id.items()]
    return LeaderAndIsrResponse(error_code=response.error_code, topics=topics, partition_errors=by_name)


def update_metadata(request: UpdateMetadataRequest, version: int) -> UpdateMetadataRequest:
    if version >= UPDATE_METADATA_GROUPED:
        return request
    live_brokers = request.live_brokers
    if version < UPDATE_METADATA_ENDPOINTS:
        live_brokers = [_plaintext_only(broker) for broker in live_brokers]
    return UpdateMetadataRequest(
        controller_id=request.controller_id,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        ungrouped_partition_states=[
            _with_topic(topic, state) for topic in request.topic_states for state in topic.partition_states
        ],
        live_brokers=live_brokers,
    )


def _plaintext_only(broker: UpdateMetadataBroker) -> UpdateMetadataBroker:
    for endpoint in broker.endpoints:
        if endpoint.security_protocol == PLAINTEXT:
            return UpdateMetadataBroker(id=broker.id, v0_host=endpoint.host, v0_port=endpoint.port)
    return UpdateMetadataBroker(id=broker.id)


def _with_topic(topic: UpdateMetadataTopicState, state: UpdateMetadataPartitionState) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        topic_name=topic.topic_name,
        partition_index=state.partition_index,
        controller_epoch=state.controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        zk_version=state.zk_version,
        replicas=state.replicas,
        offline_replicas=state.offline_replicas,
    )


def stop_replica(request: StopReplicaRequest, version: int) -> list[StopReplicaRequest]:
    """Convert to one or two requests, in the order of sending: with deletion first."""
    if version >= STOP_REPLICA_DELETION_EACH:
        return [request]
    requests = []
    for delete in (True, False):
        indexes = {
            topic.topic_name: [
                state.partition_index for state in topic.partition_states if state.delete_partition is delete
            ]
            for topic in request.topic_states
        }
        named = {name: rows for name, rows in indexes.items() if rows}
        if not named:
            continue
        is_grouped = version >= STOP_REPLICA_GROUPED
        requests.append(
            StopReplicaRequest(
                controller_id=request.controller_id,
                controller_epoch=request.controller_epoch,
                broker_epoch=request.broker_epoch,
                delete_partitions=delete,
                topics=[StopReplicaTopicV1(name=name, partition_indexes=rows) for name, rows in named.items()]
                if is_grouped
                else [],
                ungrouped_partitions=[]
                if is_grouped
                else [
                    StopReplicaPartitionV0(topic_name=name, partition_index=index)
                    for name, rows in named.items()
                    for index in rows
                ],
            )
        )
    return requests


def joined_stop_replica_response(responses: Sequence[StopReplicaResponse]) -> StopReplicaResponse:
    code = next((each.error_code for each in responses if each.error_code), int(ErrorCode.NONE))
    rows = [row for each in responses for row in each.partition_errors]
    return StopReplicaResponse(error_code=code, partition_errors=rows)
