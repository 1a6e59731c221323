"""RenewDelegationToken (key 39): move the end of a token, by its owner or a renewer.

Behaviour: the token is named by its HMAC. A negative period asks for delegation.token.expiry.time.ms; nothing moves the end
beyond the token's maximum time.
Source: KIP-48; Kafka KafkaApis.handleRenewTokenRequest, DelegationTokenManagerZk.renewToken.
"""

from __future__ import annotations

from broker.handlers.token_requests import NO_TIMESTAMP, may_ask, store_error
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from metadata.store.port import StoreError
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from security.access import NOTHING


@handles(RenewDelegationTokenRequest, NOTHING)
async def renew_delegation_token(
    request: RenewDelegationTokenRequest, context: RequestContext
) -> RenewDelegationTokenResponse:
    tokens, code, expires_ms = context.services.delegation_tokens, ErrorCode.NONE, NO_TIMESTAMP
    if not may_ask(context):
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    elif tokens is None:
        code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    else:
        try:
            expires_ms = await tokens.renew(bytes(request.hmac), context.principal, request.renew_period_ms)
        except KafkaError as error:
            code = error.code
        except StoreError as error:
            code = store_error(error)
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=expires_ms, throttle_time_ms=0)
