"""Error codes of REST v2, and which of them an error of the cluster is.

Rules: the first three digits are the HTTP status, but for 40001, which is a 422. What may pass is 50003, anything else that
brokers refuse for no fault of the request 50002.
Source: Confluent REST Proxy API reference; Errors, KafkaExceptionMapper.
"""

from __future__ import annotations

from typing import Final

from client.errors import LoginRefused
from protocol.errors import ErrorCode, KafkaError
from web.errors import HttpProblem

CONSTRAINT: Final = 40001
BAD_REQUEST: Final = 40002
AUTHENTICATION: Final = 40101
AUTHORIZATION: Final = 40301
TOPIC_NOT_FOUND: Final = 40401
PARTITION_NOT_FOUND: Final = 40402
INSTANCE_NOT_FOUND: Final = 40403
FORMAT_MISMATCH: Final = 40601
INSTANCE_EXISTS: Final = 40902
ILLEGAL_STATE: Final = 40903
CONVERSION: Final = 42203
INVALID_CONFIG: Final = 42204
KAFKA: Final = 50002
RETRIABLE: Final = 50003
NO_ROOM: Final = 50301


def topic_not_found() -> HttpProblem:
    return HttpProblem(404, "Topic not found.", number=TOPIC_NOT_FOUND)


def partition_not_found() -> HttpProblem:
    return HttpProblem(404, "Partition not found.", number=PARTITION_NOT_FOUND)


def illegal_state(reason: str) -> HttpProblem:
    return HttpProblem(409, f"Illegal state: {reason}", number=ILLEGAL_STATE)


def number_of_record(error: KafkaError | OSError | LoginRefused) -> int:
    """Return the code of an error that one record of several has."""
    if isinstance(error, LoginRefused):
        return AUTHENTICATION
    if isinstance(error, OSError) or error.code.retriable:
        return RETRIABLE
    status = HttpProblem.of(error).status
    return {401: AUTHENTICATION, 403: AUTHORIZATION}.get(status, KAFKA)


def problem_of(error: KafkaError | OSError | LoginRefused) -> HttpProblem:
    """Return what an error of the cluster is to who has asked."""
    if isinstance(error, LoginRefused):
        return HttpProblem(401, str(error), number=AUTHENTICATION)
    if isinstance(error, KafkaError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return topic_not_found()
    found = HttpProblem.of(error)
    number = number_of_record(error)
    if number == KAFKA and found.status < 500:
        number = BAD_REQUEST
    prefix = {RETRIABLE: "Retriable Kafka error: ", KAFKA: "Kafka error: "}.get(number, "")
    return HttpProblem(number // 100, prefix + found.message, number=number)
