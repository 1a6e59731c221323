"""AlterUserScramCredentials (key 51): SCRAM credentials of users are set or deleted.

Behaviour: the client sends a salted password, never the password; what is stored cannot be turned back into it. Each user has
one result, and is changed as a whole or not at all: a mistake in one row of a user refuses all of its rows. The user's quotas
stay as they are. NOT_CONTROLLER on other brokers.
Source: KIP-554; Kafka KafkaApis.handleAlterUserScramCredentialsRequest, ZkAdminManager.alterUserScramCredentials.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

from broker.handlers.configs.config_resources import store_refusal
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.error_responses import ErrorForm
from broker.observability.audited_request import audit
from broker.settings.scram_users import user_path
from metadata.store.port import StoreError
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from runtime.slices import Slices
from security.access import CLUSTER_NAME, Operation, ResourceType, on_each
from security.sasl.scram import MAX_ITERATIONS, MECHANISMS_BY_CODE, MIN_ITERATIONS

Row = ScramCredentialDeletion | ScramCredentialUpsertion


@handles(
    AlterUserScramCredentialsRequest,
    on_each(Operation.ALTER, ResourceType.CLUSTER),
    errors=ErrorForm({"results": "deletions upsertions"}),
    audit=audit(Operation.ALTER, "USER", "deletions upsertions", "results"),
)
async def alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, context: RequestContext, may_alter: Rights
) -> AlterUserScramCredentialsResponse:
    rows: dict[str, list[Row]] = {}
    given: list[Row] = [*request.deletions, *request.upsertions]
    for row in given:
        rows.setdefault(row.name, []).append(row)
    results: list[AlterUserScramCredentialsResult] = []
    async for name, of_user in Slices(context.services.clock).over(list(rows.items())):
        try:
            _check_may_alter(context, may_alter)
            _check(of_user)
            await _alter(name, of_user, context)
        except KafkaError as error:
            result = AlterUserScramCredentialsResult(user=name, error_code=error.code, error_message=error.own_message)
        else:
            result = AlterUserScramCredentialsResult(user=name, error_code=ErrorCode.NONE, error_message="")
        results.append(result)
    return AlterUserScramCredentialsResponse(throttle_time_ms=0, results=results)


def _check_may_alter(context: RequestContext, may_alter: Rights) -> None:
    """Raises KafkaError."""
    if not context.services.controller.is_active:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)
    if not may_alter(CLUSTER_NAME):
        raise may_alter.denial(CLUSTER_NAME)


def _check(rows: Sequence[Row]) -> None:
    """Check the rows of one user, by themselves. Raises KafkaError."""
    for row in rows:
        _check_row(row)
    if max(Counter(row.mechanism for row in rows).values()) > 1:
        raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")


def _check_row(row: Row) -> None:
    """Raises KafkaError."""
    if not row.name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if row.mechanism not in MECHANISMS_BY_CODE:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(row, ScramCredentialDeletion):
        return
    if row.iterations > MAX_ITERATIONS:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if row.iterations < MIN_ITERATIONS:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if not row.salted_password:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salted password is empty")


async def _alter(name: str, rows: Sequence[Row], context: RequestContext) -> None:
    """Raises KafkaError."""
    try:
        await context.services.dynamic_settings.alter_entity(
            user_path(name), partial(_edited, rows=rows), validate_only=False
        )
    except StoreError as error:
        raise store_refusal(error) from error


def _edited(stored: Mapping[str, str], rows: Sequence[Row]) -> Mapping[str, str]:
    """Return the settings of a user after the change. Raises KafkaError."""
    changed = dict(stored)
    for row in rows:
        mechanism = MECHANISMS_BY_CODE[row.mechanism]
        if isinstance(row, ScramCredentialUpsertion):
            changed[mechanism.name] = mechanism.credential(row.salted_password, row.salt, row.iterations).text
        elif changed.pop(mechanism.name, None) is None:
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    return changed
