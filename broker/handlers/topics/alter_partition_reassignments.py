"""AlterPartitionReassignments (key 45): partitions move to other replicas, or such moves are cancelled.

Behaviour: partitions are independent of each other; the response is sent when the reassignment is stored, before it is
complete. Null replicas cancel a reassignment (NO_REASSIGNMENT_IN_PROGRESS if there is none). Of a partition that is named
twice, the last row counts. NOT_CONTROLLER on other brokers.
Source: KIP-455; Kafka KafkaApis.handleAlterPartitionReassignmentsRequest, KafkaController.alterPartitionReassignments.
"""

from __future__ import annotations

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from broker.network.responses.error_responses import ErrorForm
from broker.observability.audited_request import audit
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from protocol.topic_partition import TopicPartition
from security.access import Operation, on_cluster


@handles(
    AlterPartitionReassignmentsRequest,
    on_cluster(Operation.ALTER),
    errors=ErrorForm({"responses": "topics"}),
    audit=audit(Operation.ALTER, "PARTITION", "topics.partitions", "responses.partitions"),
)
async def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    services = context.services
    wanted: dict[TopicPartition, tuple[int, ...] | None] = {}
    async with services.serial_queue.begin(sum(len(topic.partitions) for topic in request.topics)) as slices:
        async for topic in slices.over(request.topics):
            async for row in slices.over(topic.partitions):
                wanted[topic.name, row.partition_index] = None if row.replicas is None else tuple(row.replicas)
    try:
        outcomes = await services.controller.alter_reassignments(wanted)
    except KafkaError as error:  # of the controller, which decides about all of them: there are no rows
        return AlterPartitionReassignmentsResponse(
            throttle_time_ms=0, error_code=error.code, error_message=error.message, responses=[]
        )
    topics: dict[str, list[ReassignablePartitionResponse]] = {}
    async with services.serial_queue.begin(len(wanted)) as slices:
        async for name, index in slices.over(wanted):
            outcome = outcomes[name, index]
            answer = ReassignablePartitionResponse(
                partition_index=index, error_code=outcome.code, error_message=outcome.message
            )
            topics.setdefault(name, []).append(answer)
    return AlterPartitionReassignmentsResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        error_message="",
        responses=[ReassignableTopicResponse(name=name, partitions=rows) for name, rows in topics.items()],
    )
