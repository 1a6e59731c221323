"""Shared by the handlers of delegation tokens: who may ask, and what a store's failure is answered.

Rules: tokens are secrets, and a token makes no other one. A connection may ask when its client has authenticated, by SASL or by
a certificate, but not with a token.
Source: Kafka KafkaApis.allowTokenRequests; KIP-48.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from metadata.store.port import ConnectionLossError, SessionExpiredError, StoreError
from protocol.errors import ErrorCode, KafkaError
from security.principal import ANONYMOUS

if TYPE_CHECKING:
    from broker.cluster.logins.delegation_tokens import DelegationTokens
    from broker.network.request_context import RequestContext

logger = logging.getLogger(__name__)

NO_TIMESTAMP = -1
VERSION_WITH_REQUESTER = 3
"""Of CreateDelegationToken and DescribeDelegationToken: from it on, responses name who asked for a token."""


def may_ask(context: RequestContext) -> bool:
    """Return whether requests about tokens are allowed on this connection."""
    connection = context.connection
    if connection.is_token_authenticated or connection.security_protocol == "PLAINTEXT":
        return False
    return connection.security_protocol != "SSL" or context.principal != ANONYMOUS


async def moved_end(
    context: RequestContext, move: Callable[[DelegationTokens], Awaitable[int]]
) -> tuple[ErrorCode, int]:
    """Renew or expire a token, and return the error and the token's new end in wall-clock milliseconds, which is NO_TIMESTAMP
    with an error."""
    tokens = context.services.delegation_tokens
    if not may_ask(context):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TIMESTAMP
    if tokens is None:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, NO_TIMESTAMP
    try:
        return ErrorCode.NONE, await move(tokens)
    except KafkaError as error:
        return error.code, NO_TIMESTAMP
    except StoreError as error:
        return store_error(error), NO_TIMESTAMP


def store_error(error: StoreError) -> ErrorCode:
    """Return the error of a request when the store did not respond, so that its outcome is unknown, or refused."""
    if isinstance(error, ConnectionLossError | SessionExpiredError):
        return ErrorCode.REQUEST_TIMED_OUT
    logger.warning("delegation token refused by the store: path=%s error=%s", error.path, type(error).__name__)
    return ErrorCode.UNKNOWN_SERVER_ERROR
