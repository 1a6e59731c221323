"""The table of error codes."""

from __future__ import annotations

from pathlib import Path

from protocol.errors import ErrorCode, KafkaError

ERRORS = Path(__file__).parent / "recorded" / "errors-3.9.1.tsv"
"""Written by `tests.protocol.record_kafka`: code, name, whether it is retriable, text."""


def test_every_code_is_that_of_kafka() -> None:
    recorded = [line.split("\t") for line in ERRORS.read_text().splitlines()]
    ours = [[str(int(code)), code.name, str(code.retriable).lower(), code.message] for code in ErrorCode]
    assert ours == recorded


def test_kafka_error() -> None:
    error = KafkaError(ErrorCode.INVALID_CONFIG)
    assert error.code is ErrorCode.INVALID_CONFIG and error.message == ErrorCode.INVALID_CONFIG.message
    assert error.own_message is None
    assert KafkaError(ErrorCode.INVALID_CONFIG, "").message == ""
    assert KafkaError(ErrorCode.INVALID_CONFIG, "why").own_message == "why"
    assert str(KafkaError(ErrorCode.INVALID_CONFIG, "no such thing")) == "INVALID_CONFIG: no such thing"
