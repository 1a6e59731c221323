"""EndTxn (key 26): a producer commits or aborts its transaction.

Behaviour: the response is sent when the outcome is stored; the markers are written afterwards, and a next transaction that
begins before that gets CONCURRENT_TRANSACTIONS.
Versions: v2 may return PRODUCER_FENCED, older ones INVALID_PRODUCER_EPOCH instead; from v5 on the end raises the epoch, and the
response has the producer's id and epoch for its next transaction.
Source: KIP-98, KIP-890; Kafka KafkaApis.handleEndTxnRequest.
"""

from __future__ import annotations

from broker.handlers.transactions.fenced_producer import fenced_error
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.transaction_version import END_SINCE, version_since
from security.access import Operation, ResourceType, on_named

_FENCED_SINCE = 2


@handles(EndTxnRequest, on_named(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id"))
async def end_txn(request: EndTxnRequest, context: RequestContext) -> EndTxnResponse:
    response = await context.services.transactions.end_transaction(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        is_commit=request.committed,
        client_version=version_since(END_SINCE, context.api_version),
    )
    error = fenced_error(response.error_code, context.api_version, since=_FENCED_SINCE)
    return EndTxnResponse(
        throttle_time_ms=0,
        error_code=error,
        producer_id=response.producer_id,
        producer_epoch=response.producer_epoch,
    )
