"""The table of error codes."""

from __future__ import annotations

from protocol.errors import ErrorCode, KafkaError


def test_every_code_of_kafka_3_9() -> None:
    assert sorted(ErrorCode) == list(range(-1, 128))
    assert ErrorCode(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert int(ErrorCode.NONE) == 0 and not ErrorCode.NONE.retriable


def test_what_clients_may_retry() -> None:
    for name in ("NOT_CONTROLLER", "CORRUPT_MESSAGE", "COORDINATOR_LOAD_IN_PROGRESS", "UNKNOWN_TOPIC_ID"):
        assert ErrorCode[name].retriable
    for name in ("UNKNOWN_SERVER_ERROR", "INVALID_REQUEST", "UNKNOWN_MEMBER_ID", "OFFSET_OUT_OF_RANGE"):
        assert not ErrorCode[name].retriable
    assert sum(code.retriable for code in ErrorCode) == 31


def test_every_message_is_a_sentence_of_its_own() -> None:
    messages = [code.message for code in ErrorCode]
    assert len(set(messages)) == len(messages)
    assert all(message.endswith(".") and message[0].isupper() for message in messages)


def test_kafka_error() -> None:
    error = KafkaError(ErrorCode.INVALID_CONFIG)
    assert error.code is ErrorCode.INVALID_CONFIG and error.message == ErrorCode.INVALID_CONFIG.message
    assert KafkaError(ErrorCode.INVALID_CONFIG, "").message == ""
    assert str(KafkaError(ErrorCode.INVALID_CONFIG, "no such thing")) == "INVALID_CONFIG: no such thing"
