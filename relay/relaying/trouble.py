"""Targets that do not take records: since when, why, and when their records become dead letters. Pure.

A target that is missing, or forbidden to the relay, is waited for `timeout_ms`; then what is due for it goes to the dead
letters, until it takes records again. One that is full, or whose replicas are not there, is waited for without end: that is a
fault of the cluster, which passes. A record that a target does not take by itself goes to the dead letters at once.

Rules: pure; one line is logged by the owner when `failed` returns true, and one when it is over.
"""

from __future__ import annotations

from typing import Final

from client.backoff import Backoff
from protocol.errors import ErrorCode, KafkaError

BACKOFF: Final = Backoff(200, 15_000)
OF_RECORDS: Final = frozenset({
    ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
})  # fmt: skip
"""What is said of single records, whatever becomes of others."""
OF_TOPICS: Final = frozenset({
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.POLICY_VIOLATION,
})  # fmt: skip
"""What does not pass unless somebody does something."""
PROBE_MS: Final = 30_000
"""How often a target is tried again whose records go to the dead letters."""


class Trouble:
    """The trouble of one target since `now_ms` of a clock that measures durations."""

    def __init__(self, now_ms: int, timeout_ms: int) -> None:
        self.error: KafkaError | None = None
        self.attempts = 0
        self._since_ms = now_ms
        self._timeout_ms = timeout_ms
        self._probed_ms = now_ms

    def failed(self, error: KafkaError, now_ms: int) -> bool:
        """The target has not taken records. Return whether that is news."""
        is_news = self.error is None or self.error.code is not error.code
        if is_news:
            self._since_ms = now_ms
        self.error = error
        self.attempts += 1
        self._probed_ms = now_ms
        return is_news

    def refusal(self, now_ms: int, *, is_known: bool) -> str | None:
        """Return why what is due goes to the dead letters now, None where the target is to be tried. `is_known`: the topic
        exists."""
        if self.error is None or self.error.code not in OF_TOPICS or now_ms - self._since_ms < self._timeout_ms:
            return None
        is_probed = is_known and now_ms - self._probed_ms >= PROBE_MS
        return None if is_probed else self.error.message
