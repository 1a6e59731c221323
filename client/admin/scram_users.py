"""Users with SCRAM credentials: list, create or change, delete. Pure.

Rules: users are changed by the controller. A password goes no further than its salted hash, which is all that brokers are sent.
Source: KIP-554.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from client.admin.steps import Place, Rows, Steps, ask, at, rows_of
from protocol.errors import KafkaError
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from security.sasl.scram import MECHANISMS_BY_CODE, ScramMechanism


def list_all() -> Steps[dict[str, dict[str, int]]]:
    """Return the iterations by mechanism of each user. Raises KafkaError."""
    response = yield from ask(DescribeUserScramCredentialsRequest(users=None))
    return {
        result.user: {
            MECHANISMS_BY_CODE[info.mechanism].name: info.iterations
            for info in result.credential_infos
            if info.mechanism in MECHANISMS_BY_CODE
        }
        for result in response.results
        if not result.error_code
    }


def set_credential(
    name: str, mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int
) -> Steps[None]:
    """Create a user, or change its password. Raises KafkaError."""
    row = ScramCredentialUpsertion(
        name=name, mechanism=mechanism.code, iterations=iterations, salt=salt, salted_password=salted_password
    )
    yield from _alter(name, AlterUserScramCredentialsRequest(deletions=[], upsertions=[row]))


def delete(name: str, mechanisms: Collection[ScramMechanism]) -> Steps[None]:
    """Delete the credentials of a user for these mechanisms. Raises KafkaError."""
    rows = [ScramCredentialDeletion(name=name, mechanism=mechanism.code) for mechanism in mechanisms]
    yield from _alter(name, AlterUserScramCredentialsRequest(deletions=rows, upsertions=[]))


def _alter(name: str, request: AlterUserScramCredentialsRequest) -> Steps[None]:
    def read(response: Any) -> Rows[str, None]:
        return ((row.user, row.error_code, row.error_message, None) for row in response.results)

    error = (yield from rows_of([name], at(Place.CONTROLLER), lambda _: request, read))[name]
    if isinstance(error, KafkaError):
        raise error
