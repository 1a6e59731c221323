"""ExpireDelegationToken (key 40): set the end of a token, or remove it at once, by its owner or a renewer.

Behaviour: the token is named by its HMAC. A negative period removes it, even if it has expired.
Source: KIP-48; Kafka KafkaApis.handleExpireTokenRequest, DelegationTokenManagerZk.expireToken.
"""

from __future__ import annotations

from broker.handlers.token_requests import NO_TIMESTAMP, may_ask, store_error
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from metadata.store.port import StoreError
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from security.access import NOTHING


@handles(ExpireDelegationTokenRequest, NOTHING)
async def expire_delegation_token(
    request: ExpireDelegationTokenRequest, context: RequestContext
) -> ExpireDelegationTokenResponse:
    tokens, code, expires_ms = context.services.delegation_tokens, ErrorCode.NONE, NO_TIMESTAMP
    if not may_ask(context):
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    elif tokens is None:
        code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    else:
        try:
            expires_ms = await tokens.expire(bytes(request.hmac), context.principal, request.expiry_time_period_ms)
        except KafkaError as error:
            code = error.code
        except StoreError as error:
            code = store_error(error)
    return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=expires_ms, throttle_time_ms=0)
