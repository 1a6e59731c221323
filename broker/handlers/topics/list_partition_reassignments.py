"""ListPartitionReassignments (key 46): the ongoing reassignments.

Behaviour: null means all; named partitions without a reassignment are omitted, as are unknown ones. NOT_CONTROLLER on other
brokers than the controller.
Source: KIP-455; Kafka KafkaApis.handleListPartitionReassignmentsRequest.
"""

from __future__ import annotations

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from security.access import Operation, on_cluster


@handles(ListPartitionReassignmentsRequest, on_cluster(Operation.DESCRIBE))
async def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    services = context.services
    wanted = None
    if request.topics is not None:
        wanted = [(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    try:
        moving = await services.controller.list_reassignments(wanted)
    except KafkaError as error:
        return ListPartitionReassignmentsResponse(
            throttle_time_ms=0, error_code=error.code, error_message=error.message, topics=[]
        )
    topics: dict[str, list[OngoingPartitionReassignment]] = {}
    async with services.serial_queue.begin(len(moving)) as slices:
        async for name, index in slices.over(moving):
            assignment = moving[name, index]
            row = OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(assignment.replicas),
                adding_replicas=list(assignment.adding),
                removing_replicas=list(assignment.removing),
            )
            topics.setdefault(name, []).append(row)
    return ListPartitionReassignmentsResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        error_message="",
        topics=[OngoingTopicReassignment(name=name, partitions=rows) for name, rows in topics.items()],
    )
