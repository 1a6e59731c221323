"""DeleteTopics (key 20): topics are deleted, by name or by id.

Behaviour: the request is stored, and survives the end of this broker; the response is sent when this broker's metadata no
longer has the topics, or with REQUEST_TIMED_OUT. Files are removed afterwards. A topic named twice counts once. Only the
controller deletes topics.
Rights: who may not describe a topic does not learn its name from its id.
Versions: v3 has TOPIC_DELETION_DISABLED where older ones have INVALID_REQUEST; v5 messages and THROTTLING_QUOTA_EXCEEDED; v6
ids: UNKNOWN_TOPIC_ID, and INVALID_REQUEST for a row with name and id.
Source: KIP-4, KIP-322, KIP-516; Kafka KafkaApis.handleDeleteTopicsRequest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.error_responses import ErrorForm
from broker.observability.audited_request import audit
from metadata.image import ClusterImage
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from protocol.primitives import ZERO_UUID, uuid_to_text
from runtime.slices import Slices
from security.access import Operation, ResourceType, on_each

_STRICT_SINCE = 5
_HIDDEN = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _name(row: DeleteTopicState | DeletableTopicResult | str) -> str:
    if isinstance(row, str):
        return row
    return row.name if row.name is not None else uuid_to_text(row.topic_id)


@handles(
    DeleteTopicsRequest,
    (on_each(Operation.DELETE, ResourceType.TOPIC), on_each(Operation.DESCRIBE, ResourceType.TOPIC)),
    errors=ErrorForm({"responses": "topic_names topics"}),
    audit=audit(Operation.DELETE, "TOPIC", "topics topic_names", "responses", _name),
)
async def delete_topics(
    request: DeleteTopicsRequest, context: RequestContext, may_delete: Rights, may_describe: Rights
) -> DeleteTopicsResponse:
    version, services = context.api_version, context.services
    async with services.serial_queue.begin(len(request.topics) + len(request.topic_names)) as slices:
        wanted = request.topics if version >= 6 else [_by_name(name) async for name in slices.over(request.topic_names)]
        code = _refusal(wanted, context)
        if code is not ErrorCode.NONE:
            return DeleteTopicsResponse(
                responses=[
                    DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=code)
                    async for topic in slices.over(wanted)
                ]
            )
        rows = await _rows(wanted, services.metadata.image, may_delete, may_describe, slices)
    names = [row.name for row in rows if row.name is not None and row.error_code == ErrorCode.NONE]
    mutations = services.quotas.mutations(context, _STRICT_SINCE)
    outcomes = await services.topic_admin.delete(names, request.timeout_ms, mutations)
    for row in rows:
        if row.name in outcomes:
            row.error_code, row.error_message = outcomes[row.name].code, outcomes[row.name].message
    return DeleteTopicsResponse(throttle_time_ms=0 if mutations is None else mutations.throttle_time_ms, responses=rows)


def _by_name(name: str) -> DeleteTopicState:
    return DeleteTopicState(name=name, topic_id=ZERO_UUID)


def _refusal(wanted: Sequence[DeleteTopicState], context: RequestContext) -> ErrorCode:
    """Return the error of the whole request, or NONE."""
    services = context.services
    if not services.controller.is_active:
        return ErrorCode.NOT_CONTROLLER
    if not services.settings.delete_topic_enable:
        return ErrorCode.INVALID_REQUEST if context.api_version < 3 else ErrorCode.TOPIC_DELETION_DISABLED
    if any(topic.name is not None and topic.topic_id != ZERO_UUID for topic in wanted):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def _refuse(row: DeletableTopicResult, denial: KafkaError) -> None:
    row.error_code, row.error_message = denial.code, denial.own_message


async def _rows(
    wanted: Iterable[DeleteTopicState], image: ClusterImage, may_delete: Rights, may_describe: Rights, slices: Slices
) -> list[DeletableTopicResult]:
    """Return the rows of the response, with an error for topics that are unknown, or that the client may not delete. Who may
    not describe a topic does not learn its name from its id."""
    rows: list[DeletableTopicResult] = []
    refused: set[tuple[str | None, bytes]] = set()
    async for topic in slices.over(wanted):
        name = topic.name if topic.topic_id == ZERO_UUID else image.names_by_id.get(topic.topic_id)
        row = DeletableTopicResult(name=name, topic_id=topic.topic_id, error_code=ErrorCode.NONE)
        if topic.topic_id != ZERO_UUID and name is None:
            row.error_code = ErrorCode.UNKNOWN_TOPIC_ID
        elif name is None:
            _refuse(row, _HIDDEN)  # neither name nor id: Kafka's error
        elif topic.topic_id != ZERO_UUID and not may_describe(name):
            row.name = None
            _refuse(row, _HIDDEN)
        elif not may_delete(name):
            _refuse(row, may_delete.denial(name))
        elif name not in image.topics:
            row.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if row.error_code != ErrorCode.NONE:
            if (row.name, row.topic_id) in refused:
                continue  # as in Kafka: only existing topics have a second row
            refused.add((row.name, row.topic_id))
        rows.append(row)
    return rows
