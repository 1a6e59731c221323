"""The error of a fenced producer, as the client's version knows it.

Source: KIP-588; Kafka KafkaApis (each transactional API has its own first version with PRODUCER_FENCED).
"""

from __future__ import annotations

from protocol.errors import ErrorCode


def fenced_error(error: ErrorCode, api_version: int, *, since: int) -> ErrorCode:
    """`error`, or INVALID_PRODUCER_EPOCH in place of PRODUCER_FENCED for versions before `since`."""
    if error is ErrorCode.PRODUCER_FENCED and api_version < since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
