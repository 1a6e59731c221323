"""DescribeDelegationToken (key 41): the tokens that a client may see, with their HMACs.

Behaviour: null owners ask for all tokens, an empty list for none; a token is of an owner who owns it or may renew it. Owners
and renewers see their tokens; others need DESCRIBE on the token, or DESCRIBE_TOKENS on the user who owns it.
Versions: v3 has the requester.
Source: KIP-48, KIP-373; Kafka KafkaApis.handleDescribeTokensRequest, DelegationTokenManager.filterToken.
"""

from __future__ import annotations

from broker.handlers.security.token_requests import VERSION_WITH_REQUESTER, may_ask
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from protocol.errors import ErrorCode
from protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from security.access import Operation, ResourceType, on_each
from security.delegation_token import DelegationToken, KnownToken, is_described
from security.principal import Principal


@handles(
    DescribeDelegationTokenRequest,
    (
        on_each(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, logs_denial=False),
        on_each(Operation.DESCRIBE_TOKENS, ResourceType.USER, logs_denial=False),
    ),
)
async def describe_delegation_token(
    request: DescribeDelegationTokenRequest,
    context: RequestContext,
    may_describe_token: Rights,
    may_describe_owner: Rights,
) -> DescribeDelegationTokenResponse:
    tokens = context.services.delegation_tokens
    if not may_ask(context):
        return _response(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, [])
    if tokens is None:
        return _response(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, [])
    owners = None
    if request.owners is not None:
        owners = {Principal(owner.principal_type, owner.principal_name) for owner in request.owners}

    def may_describe(token: DelegationToken) -> bool:
        return may_describe_token(token.token_id) or may_describe_owner(str(token.owner))

    if owners is not None and not owners:
        return _response(ErrorCode.NONE, [])
    async with context.services.serial_queue.begin(len(tokens)) as slices:
        described = [
            _row(known, names_requester=context.api_version >= VERSION_WITH_REQUESTER)
            async for known in slices.over(list(tokens.all()))
            if is_described(known.token, context.principal, owners, may_describe)
        ]
    return _response(ErrorCode.NONE, described)


def _response(code: ErrorCode, tokens: list[DescribedDelegationToken]) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=code, tokens=tokens, throttle_time_ms=0)


def _row(known: KnownToken, *, names_requester: bool) -> DescribedDelegationToken:
    token = known.token
    return DescribedDelegationToken(
        principal_type=token.owner.principal_type,
        principal_name=token.owner.name,
        token_requester_principal_type=token.requester.principal_type if names_requester else "",
        token_requester_principal_name=token.requester.name if names_requester else "",
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=known.hmac,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=renewer.principal_type, principal_name=renewer.name)
            for renewer in token.renewers
        ],
    )
