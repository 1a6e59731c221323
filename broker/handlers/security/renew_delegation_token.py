"""RenewDelegationToken (key 39): move the end of a token, by its owner or a renewer.

Behaviour: the token is named by its HMAC. A negative period asks for delegation.token.expiry.time.ms; nothing moves the end
beyond the token's maximum time.
Source: KIP-48; Kafka KafkaApis.handleRenewTokenRequest, DelegationTokenManagerZk.renewToken.
"""

from __future__ import annotations

from broker.handlers.security.token_requests import moved_end
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from broker.observability.audited_request import as_a_whole, audit
from protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from security.access import NOTHING, Operation


@handles(RenewDelegationTokenRequest, NOTHING, audit=audit(Operation.ALTER, "DELEGATION_TOKEN", "", as_a_whole))
async def renew_delegation_token(
    request: RenewDelegationTokenRequest, context: RequestContext
) -> RenewDelegationTokenResponse:
    code, expires_ms = await moved_end(
        context, lambda tokens: tokens.renew(bytes(request.hmac), context.principal, request.renew_period_ms)
    )
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=expires_ms, throttle_time_ms=0)
