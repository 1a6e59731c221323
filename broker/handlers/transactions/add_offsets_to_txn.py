"""AddOffsetsToTxn (key 25): the offsets of a group become part of a transaction.

Behaviour: the group's partition of `__consumer_offsets` is added, like any partition. While that topic does not exist:
COORDINATOR_NOT_AVAILABLE, and the topic is created, as the client looks up the group's coordinator only later.
Versions: v2 may return PRODUCER_FENCED, older ones INVALID_PRODUCER_EPOCH instead.
Source: KIP-98; Kafka KafkaApis.handleAddOffsetsToTxnRequest.
"""

from __future__ import annotations

from broker.handlers.transactions.fenced_producer import fenced_error
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from metadata.image import GROUP_METADATA_TOPIC
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from security.access import Operation, ResourceType, on_named

_FENCED_SINCE = 2


@handles(
    AddOffsetsToTxnRequest,
    (
        on_named(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id"),
        on_named(Operation.READ, ResourceType.GROUP, "group_id"),
    ),
)
async def add_offsets_to_txn(request: AddOffsetsToTxnRequest, context: RequestContext) -> AddOffsetsToTxnResponse:
    services = context.services
    index = services.groups.partition_for(request.group_id)
    if index is None:
        services.internal_topics.ensure(GROUP_METADATA_TOPIC)
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    else:
        response = await services.transactions.add_partitions(
            request.transactional_id, request.producer_id, request.producer_epoch, [(GROUP_METADATA_TOPIC, index)]
        )
        error = response.error_code
    error = fenced_error(error, context.api_version, since=_FENCED_SINCE)
    return AddOffsetsToTxnResponse(throttle_time_ms=0, error_code=error)
