"""FindCoordinator (key 10): which broker coordinates a group or a transactional id; one key (before version 4) or several.

Behaviour: the internal topic is created when it is missing; until its partition has a live leader the error is
COORDINATOR_NOT_AVAILABLE, which clients retry. Of share partitions (unknown before version 6) leaders and the group coordinator
ask, and no clients; while all feature levels are 0 they have no coordinator.
Error messages are Kafka's: versions 1 to 3 have "NONE" in a successful response; from version 4 only an unknown type has a
text, everything else an empty one. A denial has one in both.
Source: Kafka KafkaApis.handleFindCoordinatorRequest, FindCoordinatorResponse; KIP-699 (several keys).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.error_responses import ErrorForm
from metadata.image import (
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    PartitionImage,
)
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from protocol.share_states import share_key, share_key_of
from security.access import CLUSTER_NAME, Operation, ResourceType, on_each

_BATCHED_SINCE = 4
_SHARE_SINCE = 6


class CoordinatorType(IntEnum):
    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


COORDINATOR_TYPES = frozenset(kind.value for kind in CoordinatorType)


class _Found(NamedTuple):
    error: ErrorCode
    node_id: int = -1
    host: str = ""
    port: int = -1
    message: str = ""
    """Of a denial."""


@handles(
    FindCoordinatorRequest,
    (
        on_each(Operation.DESCRIBE, ResourceType.GROUP),
        on_each(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
        on_each(Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    ),
    errors=ErrorForm({"coordinators": "coordinator_keys"}, node_id=-1, host="", port=-1),
)
async def find_coordinator(
    request: FindCoordinatorRequest,
    context: RequestContext,
    may_describe_group: Rights,
    may_describe_id: Rights,
    may_act: Rights,
) -> FindCoordinatorResponse:
    if _asks_of_shares(request, context) and not may_act(CLUSTER_NAME):
        raise may_act.denial(CLUSTER_NAME, may_act.denied.message)
    rights = {CoordinatorType.GROUP: may_describe_group, CoordinatorType.TRANSACTION: may_describe_id}
    if context.api_version >= _BATCHED_SINCE:
        async with context.services.serial_queue.begin(len(request.coordinator_keys)) as slices:
            return FindCoordinatorResponse(
                coordinators=[
                    _coordinator(key, request.key_type, _find(request.key_type, key, context, rights))
                    async for key in slices.over(request.coordinator_keys)
                ]
            )
    found = _find(request.key_type, request.key, context, rights)
    return FindCoordinatorResponse(
        error_code=found.error,
        error_message="NONE" if found.error is ErrorCode.NONE else found.message or found.error.message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _asks_of_shares(request: FindCoordinatorRequest, context: RequestContext) -> bool:
    has_coordinators = context.services.features.levels.any_above_zero
    return request.key_type == CoordinatorType.SHARE and context.api_version >= _SHARE_SINCE and has_coordinators


def _coordinator(key: str, key_type: int, found: _Found) -> Coordinator:
    return Coordinator(
        key=key,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
        error_code=found.error,
        error_message=found.message if key_type in COORDINATOR_TYPES else found.error.message,
    )


def _find(key_type: int, key: str, context: RequestContext, rights: Mapping[CoordinatorType, Rights]) -> _Found:
    if key_type not in COORDINATOR_TYPES or (key_type == CoordinatorType.SHARE and context.api_version < _SHARE_SINCE):
        return _Found(ErrorCode.INVALID_REQUEST)
    services = context.services
    may_describe = rights.get(CoordinatorType(key_type))
    if may_describe is not None and not may_describe(key):
        denial = may_describe.denial(key, may_describe.denied.message)
        return _Found(denial.code, message=denial.message)
    if key_type == CoordinatorType.GROUP:
        topic, index = GROUP_METADATA_TOPIC, services.groups.partition_for(key)
    elif key_type == CoordinatorType.TRANSACTION:
        topic, index = TRANSACTION_STATE_TOPIC, services.transactions.partition_for(key)
    elif not services.features.levels.any_above_zero:
        return _Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    else:
        try:
            canonical = share_key(*share_key_of(key))
        except ValueError:
            return _Found(ErrorCode.INVALID_REQUEST)
        topic, index = SHARE_GROUP_STATE_TOPIC, services.share_coordinator.partition_for(canonical)
    image = services.metadata.image
    if topic not in image.topics:
        services.internal_topics.ensure(topic)
        return _Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return _leader(None if index is None else image.partition(topic, index), context)


def _leader(partition: PartitionImage | None, context: RequestContext) -> _Found:
    if partition is None:
        return _Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    services = context.services
    image = services.metadata.image
    endpoint = services.advertised.endpoint(image, partition.leader, context.listener, context.local_address)
    if endpoint is None:
        return _Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return _Found(ErrorCode.NONE, partition.leader, endpoint.host, endpoint.port)
