"""CreatePartitions (key 37): partitions are added to topics.

Behaviour: `count` is the new total; the response is sent when every partition has a leader that this broker knows, or
REQUEST_TIMED_OUT. A topic that is named twice, or being deleted, is refused. Only the controller handles it.
Versions: v2 flexible; v3 THROTTLING_QUOTA_EXCEEDED.
Source: KIP-195; Kafka KafkaApis.handleCreatePartitionsRequest.
"""

from __future__ import annotations

from collections import Counter

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.error_responses import ErrorForm
from broker.observability.audited_request import audit
from metadata.admin.topic_requests import NewPartitions, Outcome
from protocol.errors import ErrorCode
from protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from runtime.slices import Slices
from security.access import Operation, ResourceType, on_each

_STRICT_SINCE = 3
DENIAL = "The topic authorization is failed."


@handles(
    CreatePartitionsRequest,
    on_each(Operation.ALTER, ResourceType.TOPIC),
    errors=ErrorForm({"results": "topics"}),
    audit=audit(Operation.ALTER, "TOPIC", "topics", "results"),
)
async def create_partitions(
    request: CreatePartitionsRequest, context: RequestContext, may_alter: Rights
) -> CreatePartitionsResponse:
    services = context.services
    known = services.controller.context
    mutations = services.quotas.mutations(context, _STRICT_SINCE)
    outcomes: dict[str, Outcome] = {}
    wanted: list[NewPartitions] = []
    async with services.serial_queue.begin(len(request.topics)) as slices:
        names = Counter(topic.name for topic in request.topics)
        async for topic in slices.over(request.topics):
            if known is None:
                outcomes[topic.name] = Outcome(ErrorCode.NOT_CONTROLLER)
            elif names[topic.name] > 1:
                outcomes[topic.name] = Outcome(ErrorCode.INVALID_REQUEST, "Duplicate topic in request.")
            elif not may_alter(topic.name):
                denial = may_alter.denial(topic.name, DENIAL)
                outcomes[topic.name] = Outcome(denial.code, denial.message)
            elif known.is_being_deleted(topic.name):
                outcomes[topic.name] = Outcome(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion.")
            else:
                wanted.append(_new_partitions(topic))
    outcomes |= await services.topic_admin.grow(
        wanted,
        request.timeout_ms,
        validate_only=request.validate_only,
        slices=Slices(services.clock),
        permits=mutations,
    )
    async with services.serial_queue.begin(len(names)) as slices:
        rows = [_row(name, outcomes[name]) async for name in slices.over(names)]
    return CreatePartitionsResponse(
        throttle_time_ms=0 if mutations is None else mutations.throttle_time_ms, results=rows
    )


def _row(name: str, outcome: Outcome) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=outcome.code, error_message=outcome.message)


def _new_partitions(topic: CreatePartitionsTopic) -> NewPartitions:
    assignments = None if topic.assignments is None else [tuple(each.broker_ids) for each in topic.assignments]
    return NewPartitions(topic.name, topic.count, assignments)
