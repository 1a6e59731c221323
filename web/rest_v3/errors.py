"""What goes wrong, with the error codes of REST v3: three digits of the status, two of the kind of error.

Rules: one table. What may pass is 50003, what does not 50002. A request that is not of the published form is 400.
Source: the REST Proxy's mapping of Kafka's errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from client.errors import LoginRefused, NotAuthenticated
from protocol.errors import ErrorCode, KafkaError
from web.errors import HttpProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from fastapi import Request, Response

BAD_REQUEST: Final = 400
INVALID: Final = 40002
NOT_AUTHENTICATED: Final = 40101
NOT_AUTHORIZED: Final = 40301
UNKNOWN_PARTITION: Final = 40403
EMPTY_PAYLOAD: Final = 42206
THROTTLED: Final = 42901
FAILED: Final = 50002
MAY_PASS: Final = 50003
NO_BROKER: Final = 50302

_E = ErrorCode
_NUMBERS: Final[Mapping[ErrorCode, tuple[int, int]]] = {
    **dict.fromkeys(
        (
            _E.INVALID_CONFIG, _E.INVALID_PARTITIONS, _E.INVALID_REPLICATION_FACTOR, _E.INVALID_REPLICA_ASSIGNMENT,
            _E.INVALID_REQUEST, _E.INVALID_TOPIC_EXCEPTION, _E.INVALID_RECORD, _E.INVALID_TIMESTAMP,
            _E.INVALID_PRINCIPAL_TYPE, _E.POLICY_VIOLATION, _E.SECURITY_DISABLED, _E.TOPIC_ALREADY_EXISTS,
            _E.TOPIC_DELETION_DISABLED, _E.UNSUPPORTED_VERSION,
        ),
        (400, INVALID),
    ),
    **dict.fromkeys(
        (
            _E.CLUSTER_AUTHORIZATION_FAILED, _E.DELEGATION_TOKEN_AUTHORIZATION_FAILED, _E.GROUP_AUTHORIZATION_FAILED,
            _E.TOPIC_AUTHORIZATION_FAILED, _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        (403, NOT_AUTHORIZED),
    ),
    _E.SASL_AUTHENTICATION_FAILED: (401, NOT_AUTHENTICATED),
    _E.UNKNOWN_TOPIC_OR_PARTITION: (404, UNKNOWN_PARTITION),
    _E.GROUP_ID_NOT_FOUND: (404, 404),
    _E.MESSAGE_TOO_LARGE: (413, 413),
    _E.RECORD_LIST_TOO_LARGE: (413, 413),
    _E.THROTTLING_QUOTA_EXCEEDED: (429, THROTTLED),
    _E.BROKER_NOT_AVAILABLE: (503, NO_BROKER),
}  # fmt: skip


def problem_of(error: Exception) -> HttpProblem:
    """Return an error of the client, or of a request's form, as REST v3 tells it. Any other is raised again."""
    if isinstance(error, HttpProblem):
        return error
    if isinstance(error, KafkaError):
        status, number = _NUMBERS.get(error.code, (500, MAY_PASS if error.code.retriable else FAILED))
        return HttpProblem(status, error.message or error.code.message, code=error.code.name, number=number)
    if isinstance(error, (LoginRefused, NotAuthenticated)):
        return HttpProblem(401, f"the cluster does not accept this login: {error}")
    if isinstance(error, OSError):
        return HttpProblem(503, f"no broker answers: {error}", number=MAY_PASS)
    if isinstance(error, RequestValidationError):
        return _invalid(error)
    raise error


def _invalid(error: RequestValidationError) -> HttpProblem:
    rows: list[dict[str, Any]] = list(error.errors())
    texts = [f"{'.'.join(str(part) for part in each['loc'][1:]) or 'body'}: {each['msg']}" for each in rows]
    status = 404 if any(each["loc"][0] == "path" for each in rows) else BAD_REQUEST
    return HttpProblem(status, "; ".join(texts))


class V3Route(APIRoute):
    """An endpoint whose errors have the codes of REST v3."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handler(request)
            except (KafkaError, LoginRefused, OSError, RequestValidationError) as error:
                raise problem_of(error) from error

        return handled
