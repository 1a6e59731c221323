"""Decides which record batches a reader of committed records skips. Pure.

A broker lists the aborted transactions that overlap what it returns: producer id and first offset. A transactional batch of a
producer is aborted from that offset on up to the producer's abort marker.

Rules: pure; batches are presented in the order of their offsets. Control batches are never records, under either isolation
level.
Source: KIP-98; Kafka CompletedFetch (containsAbortMarker, consumeAbortedTransactionsUpTo).
"""

from __future__ import annotations

from collections.abc import Iterable

from protocol.primitives import Buffer
from protocol.records.batch import BatchHeader
from protocol.records.control import ControlType, read_marker


class CommittedFilter:
    """The filter of one run of batches, such as the records of one Fetch response."""

    __slots__ = ("_aborted", "_pending")

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        """`aborted`: (first offset, producer id) of each."""
        self._pending = sorted(set(aborted), reverse=True)  # the next one last
        self._aborted: set[int] = set()

    def keeps(self, buffer: Buffer, position: int, header: BatchHeader) -> bool:
        """Whether the batch at `position` holds records of the application that were not aborted. Raises InvalidBatch."""
        if not header.is_transactional:
            return not header.is_control
        pending = self._pending
        while pending and pending[-1][0] <= header.last_offset:
            self._aborted.add(pending.pop()[1])
        if header.is_control:
            if header.producer_id in self._aborted:
                marker = read_marker(buffer, position, header)
                if marker is not None and marker.type is ControlType.ABORT:
                    self._aborted.discard(header.producer_id)
            return False
        return header.producer_id not in self._aborted
