"""The error of a whole request in responses that are more than a top-level error: it stands in each row of the request, or
other fields say that there is no result.

Rules: pure. One function for each message, all in one table; messages that are not in it have a top-level error and are empty
otherwise (`broker.network.error_responses`).
Source: Kafka AbstractRequest.getErrorResponse of each request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain, repeat
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    ResponseEntryData,
)
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from protocol.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from protocol.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from protocol.schema import Request, Response

ROW_TEXTS_MAX = 1000
"""Rows that have the error's text; those of a large request that follow have its code only."""
NO_ACKNOWLEDGEMENT = 0
NO_GENERATION = -1
NO_PRODUCER = -1
NO_OFFSET = -1
_BATCHED_TRANSACTIONS_SINCE = 4
_NULLABLE_PROTOCOL_SINCE = 7
_CONTROL_BY_ID_SINCE = 5
_ELECTION_ERROR_SINCE = 1
_STOPS_TOPICS_SINCE = 1
_STOPS_STATES_SINCE = 3


def _of_first_rows(message: str | None) -> Iterator[str | None]:
    return chain(repeat(message, ROW_TEXTS_MAX), repeat(None))


def produce(request: ProduceRequest, _version: int, error: ErrorCode, message: str | None) -> ProduceResponse | None:
    """None for a request without acknowledgement: its client learns of errors by the end of the connection."""
    if request.acks == NO_ACKNOWLEDGEMENT:
        return None
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                partition_responses=[
                    PartitionProduceResponse(
                        index=row.index, error_code=error, base_offset=NO_OFFSET, error_message=message
                    )
                    for row in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def offset_commit(request: OffsetCommitRequest, _version: int, error: ErrorCode, _: str | None) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=row.partition_index, error_code=error)
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def txn_offset_commit(
    request: TxnOffsetCommitRequest, _version: int, error: ErrorCode, _: str | None
) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        throttle_time_ms=0,
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=row.partition_index, error_code=error)
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, version: int, error: ErrorCode, _: str | None
) -> AddPartitionsToTxnResponse:
    if version >= _BATCHED_TRANSACTIONS_SINCE:
        return AddPartitionsToTxnResponse(throttle_time_ms=0, error_code=error, results_by_transaction=[])
    return AddPartitionsToTxnResponse(
        throttle_time_ms=0,
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)
                    for index in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ],
    )


def write_txn_markers(
    request: WriteTxnMarkersRequest, _version: int, error: ErrorCode, _: str | None
) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=error)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def init_producer_id(
    _request: InitProducerIdRequest, _version: int, error: ErrorCode, _: str | None
) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time_ms=0, error_code=error, producer_id=NO_PRODUCER, producer_epoch=NO_PRODUCER
    )


def join_group(_request: JoinGroupRequest, version: int, error: ErrorCode, _: str | None) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error,
        generation_id=NO_GENERATION,
        protocol_name=None if version >= _NULLABLE_PROTOCOL_SINCE else "",
        leader="",
        member_id="",
        members=[],
    )


def alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, _version: int, error: ErrorCode, _: str | None
) -> AlterReplicaLogDirsResponse:
    topics: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            topics.setdefault(topic.name, []).extend(
                AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error) for index in topic.partitions
            )
    return AlterReplicaLogDirsResponse(
        throttle_time_ms=0,
        results=[AlterReplicaLogDirTopicResult(topic_name=name, partitions=rows) for name, rows in topics.items()],
    )


def elect_leaders(
    request: ElectLeadersRequest, version: int, error: ErrorCode, message: str | None
) -> ElectLeadersResponse:
    texts = _of_first_rows(message)
    return ElectLeadersResponse(
        throttle_time_ms=0,
        error_code=error if version >= _ELECTION_ERROR_SINCE else ErrorCode.NONE,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=error, error_message=next(texts))
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or []
        ],
    )


def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, _version: int, error: ErrorCode, message: str | None
) -> AlterPartitionReassignmentsResponse:
    texts = _of_first_rows(message)
    return AlterPartitionReassignmentsResponse(
        throttle_time_ms=0,
        error_code=error,
        error_message=message,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=row.partition_index, error_code=error, error_message=next(texts)
                    )
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def leader_and_isr(
    request: LeaderAndIsrRequest, version: int, error: int, _: str | None = None
) -> LeaderAndIsrResponse:
    if version >= _CONTROL_BY_ID_SINCE:
        topics = [
            LeaderAndIsrTopicError(
                topic_id=topic.topic_id,
                partition_errors=[
                    LeaderAndIsrPartitionError(
                        topic_name=topic.topic_name, partition_index=state.partition_index, error_code=error
                    )
                    for state in topic.partition_states
                ],
            )
            for topic in request.topic_states
        ]
        return LeaderAndIsrResponse(error_code=error, topics=topics)
    named = [(state.topic_name, state) for state in request.ungrouped_partition_states]
    named += [(topic.topic_name, state) for topic in request.topic_states for state in topic.partition_states]
    return LeaderAndIsrResponse(
        error_code=error,
        partition_errors=[
            LeaderAndIsrPartitionError(topic_name=name, partition_index=state.partition_index, error_code=error)
            for name, state in named
        ],
    )


def stop_replica(request: StopReplicaRequest, version: int, error: ErrorCode, _: str | None) -> StopReplicaResponse:
    if version < _STOPS_TOPICS_SINCE:
        named = [(row.topic_name, row.partition_index) for row in request.ungrouped_partitions]
    elif version < _STOPS_STATES_SINCE:
        named = [(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    else:
        named = [
            (topic.topic_name, row.partition_index) for topic in request.topic_states for row in topic.partition_states
        ]
    return StopReplicaResponse(
        error_code=error,
        partition_errors=[
            StopReplicaPartitionError(topic_name=name, partition_index=index, error_code=error) for name, index in named
        ],
    )


def create_acls(request: CreateAclsRequest, _version: int, error: ErrorCode, message: str | None) -> CreateAclsResponse:
    texts = _of_first_rows(message)
    results = [AclCreationResult(error_code=error, error_message=next(texts)) for _ in request.creations]
    return CreateAclsResponse(throttle_time_ms=0, results=results)


def delete_acls(request: DeleteAclsRequest, _version: int, error: ErrorCode, message: str | None) -> DeleteAclsResponse:
    texts = _of_first_rows(message)
    results = [
        DeleteAclsFilterResult(error_code=error, error_message=next(texts), matching_acls=[]) for _ in request.filters
    ]
    return DeleteAclsResponse(throttle_time_ms=0, filter_results=results)


def describe_client_quotas(
    _request: DescribeClientQuotasRequest, _version: int, error: ErrorCode, message: str | None
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(throttle_time_ms=0, error_code=error, error_message=message, entries=None)


def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, _version: int, error: ErrorCode, message: str | None
) -> DescribeUserScramCredentialsResponse:
    """Apache Kafka does not name the users, but there is a row for each."""
    texts = _of_first_rows(message)
    return DescribeUserScramCredentialsResponse(
        throttle_time_ms=0,
        error_code=error,
        error_message=message,
        results=[
            DescribeUserScramCredentialsResult(
                user="", error_code=error, error_message=next(texts), credential_infos=[]
            )
            for _ in request.users or []
        ],
    )


def alter_client_quotas(
    request: AlterClientQuotasRequest, _version: int, error: ErrorCode, message: str | None
) -> AlterClientQuotasResponse:
    texts = _of_first_rows(message)
    return AlterClientQuotasResponse(
        throttle_time_ms=0,
        entries=[
            ResponseEntryData(
                error_code=error,
                error_message=next(texts),
                entity=[
                    EntityData(entity_type=each.entity_type, entity_name=each.entity_name) for each in entry.entity
                ],
            )
            for entry in request.entries
        ],
    )


ROWS: Mapping[type[Request], Callable[[Any, int, ErrorCode, str | None], Response | None]] = {
    ProduceRequest: produce,
    OffsetCommitRequest: offset_commit,
    TxnOffsetCommitRequest: txn_offset_commit,
    AddPartitionsToTxnRequest: add_partitions_to_txn,
    WriteTxnMarkersRequest: write_txn_markers,
    InitProducerIdRequest: init_producer_id,
    JoinGroupRequest: join_group,
    AlterReplicaLogDirsRequest: alter_replica_log_dirs,
    ElectLeadersRequest: elect_leaders,
    AlterPartitionReassignmentsRequest: alter_partition_reassignments,
    LeaderAndIsrRequest: leader_and_isr,
    StopReplicaRequest: stop_replica,
    CreateAclsRequest: create_acls,
    DeleteAclsRequest: delete_acls,
    DescribeClientQuotasRequest: describe_client_quotas,
    AlterClientQuotasRequest: alter_client_quotas,
    DescribeUserScramCredentialsRequest: describe_user_scram_credentials,
}
