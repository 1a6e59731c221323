"""When the records for a target in trouble become dead letters."""

from __future__ import annotations

import pytest

from protocol.errors import ErrorCode, KafkaError
from relay.relaying.trouble import PROBE_MS, Trouble

TIMEOUT_MS = 60_000
MISSING = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "it does not exist")


def test_a_missing_target_is_waited_for_and_then_refused_till_it_is_there() -> None:
    trouble = Trouble(0, TIMEOUT_MS)
    assert trouble.failed(MISSING, 0)
    assert not trouble.failed(MISSING, 10_000)
    assert trouble.refusal(TIMEOUT_MS - 1, is_known=False) is None
    assert trouble.refusal(TIMEOUT_MS, is_known=False) == "it does not exist"
    assert trouble.refusal(TIMEOUT_MS + PROBE_MS, is_known=False) == "it does not exist"
    assert trouble.refusal(TIMEOUT_MS + PROBE_MS, is_known=True) is None


def test_a_target_that_fails_again_when_it_is_tried_is_refused_at_once() -> None:
    trouble = Trouble(0, TIMEOUT_MS)
    forbidden = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "forbidden")
    trouble.failed(forbidden, 0)
    assert trouble.refusal(TIMEOUT_MS + PROBE_MS, is_known=True) is None
    assert not trouble.failed(forbidden, TIMEOUT_MS + PROBE_MS)
    assert trouble.refusal(TIMEOUT_MS + PROBE_MS + 1, is_known=True) == "forbidden"


@pytest.mark.parametrize(
    "code", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT]
)
def test_a_fault_of_the_cluster_is_waited_for_without_end(code: ErrorCode) -> None:
    trouble = Trouble(0, TIMEOUT_MS)
    trouble.failed(KafkaError(code), 0)
    assert trouble.refusal(10 * TIMEOUT_MS, is_known=True) is None


def test_another_error_begins_anew() -> None:
    trouble = Trouble(0, TIMEOUT_MS)
    trouble.failed(KafkaError(ErrorCode.REQUEST_TIMED_OUT), 0)
    assert trouble.failed(MISSING, TIMEOUT_MS)
    assert trouble.refusal(TIMEOUT_MS + 1, is_known=False) is None
