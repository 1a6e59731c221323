"""ExpireDelegationToken (key 40): set the end of a token, or remove it at once, by its owner or a renewer.

Behaviour: the token is named by its HMAC. A negative period removes it, even if it has expired.
Source: KIP-48; Kafka KafkaApis.handleExpireTokenRequest, DelegationTokenManagerZk.expireToken.
"""

from __future__ import annotations

from broker.handlers.security.token_requests import moved_end
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from broker.observability.audited_request import as_a_whole, audit
from protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from security.access import NOTHING, Operation


@handles(ExpireDelegationTokenRequest, NOTHING, audit=audit(Operation.ALTER, "DELEGATION_TOKEN", "", as_a_whole))
async def expire_delegation_token(
    request: ExpireDelegationTokenRequest, context: RequestContext
) -> ExpireDelegationTokenResponse:
    code, expires_ms = await moved_end(
        context, lambda tokens: tokens.expire(bytes(request.hmac), context.principal, request.expiry_time_period_ms)
    )
    return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=expires_ms, throttle_time_ms=0)
