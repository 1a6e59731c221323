"""What goes wrong, as HTTP says it: one table from Kafka's errors to statuses, and one form for each interface.

    /v3      {"error_code": 40403, "message": "..."}                     Confluent's REST v3
    /topics, /consumers, ... {"error_code": 40401, "message": "..."}     Confluent's REST v2
    /api     {"error": {"code": "...", "message": "...", "next": "..."}} the page

Rules: `next` is what helps, a command or a setting. An error that is not in the table is the server's, 500; one that may pass
is 503.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fastapi.responses import JSONResponse

from client.errors import NotAuthenticated
from protocol.errors import ErrorCode, KafkaError
from runtime.command_line.failure import Failure
from tools.failures import hint_of

if TYPE_CHECKING:
    from collections.abc import Mapping

API: Final = "/api/"
_STATUSES: Final[Mapping[ErrorCode, int]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 404,
    ErrorCode.GROUP_ID_NOT_FOUND: 404,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: 404,
    ErrorCode.RESOURCE_NOT_FOUND: 404,
    ErrorCode.TOPIC_ALREADY_EXISTS: 409,
    ErrorCode.NON_EMPTY_GROUP: 409,
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: 409,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: 403,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: 403,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: 403,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: 403,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: 403,
    ErrorCode.SASL_AUTHENTICATION_FAILED: 401,
    ErrorCode.POLICY_VIOLATION: 422,
    ErrorCode.INVALID_CONFIG: 422,
    ErrorCode.INVALID_REQUEST: 422,
    ErrorCode.INVALID_PARTITIONS: 422,
    ErrorCode.INVALID_REPLICATION_FACTOR: 422,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: 422,
    ErrorCode.INVALID_TOPIC_EXCEPTION: 422,
    ErrorCode.INVALID_RECORD: 422,
    ErrorCode.MESSAGE_TOO_LARGE: 413,
    ErrorCode.OFFSET_OUT_OF_RANGE: 422,
    ErrorCode.SECURITY_DISABLED: 422,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: 429,
    ErrorCode.REQUEST_TIMED_OUT: 504,
    ErrorCode.UNSUPPORTED_VERSION: 501,
}

_NUMBERS: Final[Mapping[int, int]] = {401: 40101, 403: 40301}


class HttpProblem(Exception):
    """An answer that is an error. `code` is a name for the page, `number` the error code of Confluent's interfaces, by default
    the status, or what they have for logins and rights. `headers` go with it."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str = "",
        number: int | None = None,
        next_step: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code or f"HTTP_{status}"
        self.number = _NUMBERS.get(status, status) if number is None else number
        self.next_step = next_step
        self.headers = dict(headers or {})

    @classmethod
    def of(cls, error: KafkaError | OSError) -> HttpProblem:
        """Return what an error of the client is to who has asked by HTTP."""
        if isinstance(error, NotAuthenticated):
            return cls(401, f"the cluster does not accept this login: {error}", code="LOGIN_REFUSED")
        if isinstance(error, OSError):
            return cls(
                503,
                f"no broker answers: {error}",
                code="UNREACHABLE",
                next_step="the page goes on when one answers; `barnabas cluster health` tells more",
            )
        code = error.code
        status = _STATUSES.get(code, 503 if code.retriable else 500)
        return cls(status, error.message or code.message, code=code.name, next_step=hint_of(code.name))

    @classmethod
    def of_tools(cls, failure: Failure) -> HttpProblem:
        """Return what `tools` refuses or cannot do, with the status of the cluster's error where one is the cause."""
        cause = failure.__cause__
        if isinstance(cause, KafkaError):
            found = cls.of(cause)
            return cls(found.status, failure.message, code=found.code)
        return cls(409, failure.message, code="REFUSED")

    def body(self, path: str) -> dict[str, Any]:
        """Return the answer in the form of the interface that `path` belongs to."""
        if path.startswith(API):
            return {"error": {"code": self.code, "message": self.message, "next": self.next_step}}
        return {"error_code": self.number, "message": self.message}

    def response(self, path: str) -> JSONResponse:
        return JSONResponse(self.body(path), self.status, headers=self.headers)
