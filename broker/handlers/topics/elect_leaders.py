"""ElectLeaders (key 43): the preferred leader, or any leader with a loss of records, is elected for some partitions or all.

Behaviour: without a list every partition is checked, and those that have the right leader already are omitted from the
response. It is sent when this broker's metadata has the new leaders, or with REQUEST_TIMED_OUT. An unknown type of
election is INVALID_REQUEST. Only the controller elects.
Versions: v0 has only preferred elections, and no error of the whole request.
Source: KIP-183, KIP-460; Kafka KafkaApis.handleElectLeaders.
"""

from __future__ import annotations

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from broker.network.responses.error_responses import ErrorForm
from broker.observability.audited_request import audit
from controller.elections.leader_election_rules import ElectionReason
from metadata.admin.topic_requests import Outcome
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from protocol.topic_partition import TopicPartition
from security.access import Operation, on_cluster

_REASONS = {0: ElectionReason.PREFERRED, 1: ElectionReason.UNCLEAN}


@handles(
    ElectLeadersRequest,
    on_cluster(Operation.ALTER, denial=None),
    errors=ErrorForm({"replica_election_results": "topic_partitions"}),
    audit=audit(
        Operation.ALTER, "PARTITION", "topic_partitions.partitions", "replica_election_results.partition_result"
    ),
)
async def elect_leaders(request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
    reason = _REASONS.get(request.election_type)
    if reason is None:
        return ElectLeadersResponse(
            throttle_time_ms=0, error_code=ErrorCode.INVALID_REQUEST, replica_election_results=[]
        )
    services = context.services
    wanted: list[TopicPartition]
    if request.topic_partitions is None:
        wanted = [(name, index) for name, topic in services.metadata.image.topics.items() for index in topic.partitions]
    else:
        wanted = [(topic.topic, index) for topic in request.topic_partitions for index in topic.partitions]
    try:
        outcomes = await services.controller.elect_leaders(wanted, reason, request.timeout_ms)
    except KafkaError as error:
        outcomes = {each: Outcome(error.code) for each in wanted}
    if request.topic_partitions is None:
        outcomes = {key: each for key, each in outcomes.items() if each.code is not ErrorCode.ELECTION_NOT_NEEDED}
    async with services.serial_queue.begin(len(outcomes)) as slices:
        topics: dict[str, list[PartitionResult]] = {}
        async for name, index in slices.over(dict.fromkeys(wanted)):
            outcome = outcomes.get((name, index))
            if outcome is not None:
                row = PartitionResult(partition_id=index, error_code=outcome.code, error_message=outcome.message)
                topics.setdefault(name, []).append(row)
    return ElectLeadersResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        replica_election_results=[
            ReplicaElectionResult(topic=name, partition_result=rows) for name, rows in topics.items()
        ],
    )
