"""InitProducerId (key 22): an id for an idempotent producer.

Behaviour: without a transactional id the answer is a fresh id at epoch 0, also to a producer that names the id and
epoch it has had (it starts anew); naming only one of the two is INVALID_REQUEST. While no block of ids can be had:
COORDINATOR_LOAD_IN_PROGRESS, and the client tries again.
Not implemented: transactions. With a transactional id the answer is COORDINATOR_NOT_AVAILABLE, after Apache Kafka's
checks, and the log names the client once.
Versions: v3 id and epoch of before (KIP-360); v4 may answer PRODUCER_FENCED.
Source: KIP-98, KIP-360; Kafka KafkaApis.handleInitProducerIdRequest, TransactionCoordinator.
"""

from __future__ import annotations

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from security.access import Operation, ResourceType, on_each, on_named

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
FIRST_EPOCH = 0


@handles(
    InitProducerIdRequest,
    (
        on_named(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id"),
        on_each(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER),
        on_each(Operation.WRITE, ResourceType.TOPIC),
    ),
)
async def init_producer_id(request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
    names_id = request.producer_id != NO_PRODUCER_ID
    names_epoch = request.producer_epoch != NO_PRODUCER_EPOCH
    if names_id != names_epoch:
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _refused(_transactional_code(request, context))
    try:
        producer_id = await context.services.producer_ids.next_id()
    except KafkaError as error:
        return _refused(error.code)
    return InitProducerIdResponse(
        throttle_time_ms=0, error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=FIRST_EPOCH
    )


def _transactional_code(request: InitProducerIdRequest, context: RequestContext) -> ErrorCode:
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    timeout_max_ms = context.services.settings.transaction_max_timeout_ms
    if not 0 < request.transaction_timeout_ms <= timeout_max_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    context.services.transaction_requests.refused("InitProducerId", context)
    return ErrorCode.COORDINATOR_NOT_AVAILABLE


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time_ms=0, error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )
