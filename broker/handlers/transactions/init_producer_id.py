"""InitProducerId (key 22): an id for an idempotent producer; id and epoch of a transactional one.

Behaviour: without a transactional id the response has a fresh id at epoch 0, even if the producer names its previous id
and epoch; naming only one of the two is INVALID_REQUEST. While no block of ids can be allocated:
COORDINATOR_LOAD_IN_PROGRESS, and the client retries. With a transactional id its coordinator decides.
Rights: without a transactional id the client must be allowed to write idempotently, or to any topic (KIP-679).
Versions: v3 previous id and epoch (KIP-360); v4 may return PRODUCER_FENCED, older ones INVALID_PRODUCER_EPOCH instead.
Source: KIP-98, KIP-360; Kafka KafkaApis.handleInitProducerIdRequest, TransactionCoordinator.
"""

from __future__ import annotations

from broker.handlers.transactions.fenced_producer import fenced_error
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.error_responses import ErrorForm
from coordinator.transaction.producer_registration import ProducerIdAndEpoch
from coordinator.transaction.transaction import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TransactionResponse
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from security.access import Operation, ResourceType, on_each, on_named

FIRST_EPOCH = 0
_FENCED_SINCE = 4


@handles(
    InitProducerIdRequest,
    (
        on_named(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id"),
        on_each(Operation.WRITE, ResourceType.TOPIC, or_on_cluster=Operation.IDEMPOTENT_WRITE),  # on any (KIP-679)
    ),
    errors=ErrorForm(producer_epoch=NO_PRODUCER_EPOCH),
    versions="0-5",
)
async def init_producer_id(
    request: InitProducerIdRequest, context: RequestContext, may_write: Rights
) -> InitProducerIdResponse:
    response = await _initialize(request, context, may_write)
    return InitProducerIdResponse(
        throttle_time_ms=0,
        error_code=fenced_error(response.error_code, context.api_version, since=_FENCED_SINCE),
        producer_id=response.producer_id,
        producer_epoch=response.producer_epoch,
    )


async def _initialize(
    request: InitProducerIdRequest, context: RequestContext, may_write: Rights
) -> TransactionResponse:
    if request.transactional_id is None and not may_write.on_any():
        return TransactionResponse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    names_id = request.producer_id != NO_PRODUCER_ID
    names_epoch = request.producer_epoch != NO_PRODUCER_EPOCH
    if names_id != names_epoch:
        return TransactionResponse(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch) if names_id else None
        return await context.services.transactions.init_producer_id(
            request.transactional_id, request.transaction_timeout_ms, expected
        )
    try:
        producer_id = await context.services.producer_ids.next_id()
    except KafkaError as error:
        return TransactionResponse(error.code)
    return TransactionResponse(ErrorCode.NONE, producer_id, FIRST_EPOCH)
