"""The table of error codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.errors import ErrorCode, KafkaError
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

ERRORS = Path(__file__).parent / "recorded" / "errors-3.9.1.tsv"
NEWER_ERRORS = ERRORS.with_name("errors-4.3.0.tsv")
"""Written by `tests.protocol.record_kafka`: code, name, whether it is retriable, text."""


def rows(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text().splitlines()]


def test_every_code_is_that_of_kafka() -> None:
    """Where both releases have a code, the text is the older one's."""
    recorded, newer = rows(ERRORS), rows(NEWER_ERRORS)
    assert [row[:3] for row in newer[: len(recorded)]] == [row[:3] for row in recorded]
    recorded += newer[len(recorded) :]
    ours = [[str(int(code)), code.name, str(code.retriable).lower(), code.message] for code in ErrorCode]
    assert ours == recorded


def test_kafka_error() -> None:
    error = KafkaError(ErrorCode.INVALID_CONFIG)
    assert error.code is ErrorCode.INVALID_CONFIG and error.message == ErrorCode.INVALID_CONFIG.message
    assert error.own_message is None
    assert KafkaError(ErrorCode.INVALID_CONFIG, "").message == ""
    assert KafkaError(ErrorCode.INVALID_CONFIG, "why").own_message == "why"
    assert str(KafkaError(ErrorCode.INVALID_CONFIG, "no such thing")) == "INVALID_CONFIG: no such thing"


@pytest.mark.parametrize("character", ["x", "\u00e9", "\u20ac", "\U0001f600"])
def test_a_message_fits_into_a_response(character: str) -> None:
    """It may tell a name that a client has sent, and that is as long as a string can be."""
    message = KafkaError(
        ErrorCode.UNSUPPORTED_ASSIGNOR, f"ServerAssignor {character * 32_767} is not supported."
    ).message
    assert message.startswith(f"ServerAssignor {character}")
    answer = ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0, error_code=112, error_message=message, member_epoch=0, heartbeat_interval_ms=0
    )
    assert ConsumerGroupHeartbeatResponse.decode(answer.encode(1), 1) == answer
    assert len(message.encode()) > 32_767 - 4
