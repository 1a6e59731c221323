"""CreateDelegationToken (key 38): make a token for the client itself, or for another user.

Behaviour: any broker makes tokens. For another owner the client needs CREATE_TOKENS on that user. Renewers are users. The
errors are checked in Kafka's order: whether the connection may ask, the owner, the renewers, whether tokens are enabled.
Versions: v3 names the owner and the requester.
Source: KIP-48, KIP-373; Kafka KafkaApis.handleCreateTokenRequest, DelegationTokenManagerZk.createToken.
"""

from __future__ import annotations

from broker.handlers.security.token_requests import NO_TIMESTAMP, VERSION_WITH_REQUESTER, may_ask, store_error
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.observability.audited_request import audit
from metadata.store.port import StoreError
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from security.access import Operation, ResourceType, on_each
from security.principal import USER_TYPE, Principal


def _owner(_request: CreateDelegationTokenRequest, response: CreateDelegationTokenResponse) -> list[tuple[str, int]]:
    return [(f"{response.principal_type}:{response.principal_name}", response.error_code)]


@handles(
    CreateDelegationTokenRequest,
    on_each(Operation.CREATE_TOKENS, ResourceType.USER),
    audit=audit(Operation.CREATE_TOKENS, "DELEGATION_TOKEN", "", _owner),
)
async def create_delegation_token(
    request: CreateDelegationTokenRequest, context: RequestContext, may_create: Rights
) -> CreateDelegationTokenResponse:
    requester = owner = context.principal
    names_requester = context.api_version >= VERSION_WITH_REQUESTER
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or "", request.owner_principal_name)
    response = CreateDelegationTokenResponse(
        error_code=ErrorCode.NONE,
        principal_type=owner.principal_type,
        principal_name=owner.name,
        token_requester_principal_type=requester.principal_type if names_requester else "",
        token_requester_principal_name=requester.name if names_requester else "",
        issue_timestamp_ms=NO_TIMESTAMP,
        expiry_timestamp_ms=NO_TIMESTAMP,
        max_timestamp_ms=NO_TIMESTAMP,
        token_id="",
        hmac=b"",
        throttle_time_ms=0,
    )
    try:
        await _create(request, context, owner, may_create, response)
    except KafkaError as error:
        response.error_code = error.code
    except StoreError as error:
        response.error_code = store_error(error)
    return response


async def _create(
    request: CreateDelegationTokenRequest,
    context: RequestContext,
    owner: Principal,
    may_create: Rights,
    response: CreateDelegationTokenResponse,
) -> None:
    """Fill `response`. Raises KafkaError, StoreError."""
    renewers = [Principal(renewer.principal_type, renewer.principal_name) for renewer in request.renewers]
    if not may_ask(context):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if owner != context.principal and not may_create(str(owner)):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    if any(renewer.principal_type != USER_TYPE for renewer in renewers):
        raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    tokens = context.services.delegation_tokens
    if tokens is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    known = await tokens.create(owner, context.principal, renewers, request.max_lifetime_ms)
    response.token_id, response.hmac = known.token.token_id, known.hmac
    response.issue_timestamp_ms = known.token.issued_ms
    response.expiry_timestamp_ms = known.token.expires_ms
    response.max_timestamp_ms = known.token.max_ms
