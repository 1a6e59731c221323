"""What readers of committed records must be told of a log: the transaction index and the last stable offset have to say
what the records and markers of the log say.

Rules: pure. What is wrong is answered as text, None when nothing is.
Source: KIP-98; Kafka's consumer, which skips what an aborted transaction of the same producer covers.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.simulation.storage.model import Found, History, Kind, Written, aborted_offsets, transactions


def misjudged(history: History, found: Found) -> str | None:
    """`history` is what the log was found to hold a beginning of."""
    if any(record.is_lost for record in history):
        return None  # a marker may be among them
    there = [record for record in history if record.offset < found.end]
    return _index_differs(there, found) or _stable_offset_differs(there, found)


def _index_differs(there: Sequence[Written], found: Found) -> str | None:
    aborted = aborted_offsets(there)
    for record in found.records:
        if record.kind is Kind.TRANSACTIONAL:
            is_covered = any(
                each.producer_id == record.producer and each.first_offset <= record.offset <= each.last_offset
                for each in found.aborted
            )
            if is_covered != (record.offset in aborted):
                return f"has {record} {'aborted' if is_covered else 'not aborted'} in its index {found.aborted}"
    markers = {(record.producer, record.offset) for record in there if record.kind is Kind.ABORT}
    for each in found.aborted:
        if (each.producer_id, each.last_offset) not in markers:
            return f"has {each} in its index, and no such marker"
    return None


def _stable_offset_differs(there: Sequence[Written], found: Found) -> str | None:
    first = min((records[0].offset for is_aborted, records in transactions(there) if is_aborted is None), default=None)
    if first is None and found.first_unstable is not None:
        return f"has an open transaction at {found.first_unstable}, and none was begun"
    # What has begun before the log's start may be forgotten with it.
    if first is not None and first >= found.start and found.first_unstable != first:
        return f"has its earliest open transaction at {found.first_unstable}, not {first}"
    return None
