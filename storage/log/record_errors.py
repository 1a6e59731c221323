"""The errors of single records in a refused batch, as the producer receives them (KIP-467). Pure.

Rules: pure. Invariants: all errors are counted, and only as many are described as fit into a response.
Source: Kafka LogValidator.processRecordErrors, RecordValidationException.
"""

from __future__ import annotations

from protocol.errors import ErrorCode, KafkaError

MAX_RECORD_ERRORS = 1_000
"""So many records of a batch are named. All of half a million, in a batch of 356 KB, would take 350 MB and an answer of 41."""
_SHOWN_RECORD_ERRORS = 3


class RecordsRejected(KafkaError):
    """Raised when single records are the reason: (index in the batch, message) of the first `MAX_RECORD_ERRORS`."""

    def __init__(
        self, code: ErrorCode, message: str, record_errors: list[tuple[int, str]], keyless_count: int = 0
    ) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors
        self.keyless_count = keyless_count
        """How many have no key, in a topic that is compacted."""


class RecordsTooLarge(KafkaError):
    """Raised for a batch of `size_bytes`, more than the topic takes."""

    def __init__(self, code: ErrorCode, message: str | None = None, size_bytes: int = 0) -> None:
        super().__init__(code, message)
        self.size_bytes = size_bytes


class RecordErrors:
    """Collects the errors of single records: counts all, and describes the first ones."""

    __slots__ = ("_named", "code", "count", "keyless_count")

    def __init__(self) -> None:
        self.code = ErrorCode.INVALID_RECORD
        self.count = self.keyless_count = 0
        self._named: list[tuple[int, str]] = []

    def add(self, index: int, message: str, *values: object) -> None:
        """Count an error; `message` has places for the values."""
        self.count += 1
        if self.count <= MAX_RECORD_ERRORS:
            self._named.append((index, message.format(*values)))

    def rejection(self) -> RecordsRejected:
        if self.code is ErrorCode.INVALID_TIMESTAMP:
            reason = "One or more records have been rejected due to invalid timestamp"
        else:
            shown = ", ".join(
                f"RecordError(batchIndex={index}, message='{message}')"
                for index, message in self._named[:_SHOWN_RECORD_ERRORS]
            )
            reason = (
                f"One or more records have been rejected due to {self.count} record errors in total, and only showing the "
                f"first three errors at most: [{shown}]"
            )
        return RecordsRejected(self.code, reason, self._named, self.keyless_count)
