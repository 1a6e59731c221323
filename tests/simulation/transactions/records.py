"""What a consumer makes of the bytes of a fetch: records, markers, and which of them read_committed returns. Pure.

Source: KIP-98; Kafka's consumer (CompletedFetch): a producer's records are aborted from the first offset that the response
names for it up to its next abort marker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from protocol.messages.fetch import AbortedTransaction
from protocol.records.batch import read_header
from protocol.records.control import ControlType, read_marker
from protocol.records.record import Record, iter_records
from tests.simulation.disk_survey import sound_batches

_MAX_DECOMPRESSED_BYTES = 1 << 24


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """`marker` is set for the end of a transaction, and `value` for everything else."""

    offset: int
    producer_id: int
    value: str = ""
    marker: ControlType | None = None
    producer_epoch: int = 0
    record: Record | None = None
    """Whole, unless it is a marker."""


def read_records(content: bytes) -> tuple[list[ReadRecord], int]:
    """All records and markers of the whole batches, and the offset behind the last batch; -1 without a batch."""
    found: list[ReadRecord] = []
    next_offset = -1
    for batch in sound_batches(content):
        header = read_header(batch.content, 0)
        next_offset = batch.next_offset
        if header.is_control:
            marker = read_marker(batch.content, 0, header)
            found.append(
                ReadRecord(
                    batch.base_offset,
                    header.producer_id,
                    marker=None if marker is None else marker.type,
                    producer_epoch=header.producer_epoch,
                )
            )
            continue
        found += [
            ReadRecord(
                record.offset,
                header.producer_id,
                (record.value or b"").decode("utf-8", "replace"),
                producer_epoch=header.producer_epoch,
                record=record,
            )
            for record in iter_records(batch.content, 0, header, _MAX_DECOMPRESSED_BYTES)
        ]
    return found, next_offset


def committed_records(records: Iterable[ReadRecord], aborted: Iterable[AbortedTransaction]) -> list[ReadRecord]:
    """What is returned of `records` to a reader of committed records that was given `aborted`."""
    waiting = deque(sorted(aborted, key=lambda each: each.first_offset))
    skipped: set[int] = set()
    found: list[ReadRecord] = []
    for record in records:
        while waiting and waiting[0].first_offset <= record.offset:
            skipped.add(waiting.popleft().producer_id)
        if record.marker is ControlType.ABORT:
            skipped.discard(record.producer_id)
        elif record.marker is None and record.producer_id not in skipped:
            found.append(record)
    return found
