"""Batches of offsets with one delivery state and count, and how new ones change those that are stored. Pure.

Rules: batches are disjoint and ordered after a merge. Where two overlap, the one with the higher delivery count counts, and of
two with the same count the one with the higher state: a state only goes up (available, acknowledged, archived), and a record
that is available again has been delivered once more. Nothing is kept below the start offset.
Neighbours of one kind are joined where they stand beside each other in the order of the merge; two of them that only become
neighbours of one kind by it stay apart until the next merge, as in Apache Kafka, whose snapshots have the same bytes.
Source: Kafka PersisterStateBatchCombiner, PersisterStateBatch.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from typing import NamedTuple

from protocol.share_states import NO_START_OFFSET


class KeptBatch(NamedTuple):
    """Offsets `first_offset` to `last_offset`, both included. The order of the fields is that in which batches are merged."""

    first_offset: int
    last_offset: int
    delivery_count: int
    delivery_state: int
    """As it came: a broker may store a state that this one does not know."""


def merged(
    so_far: Iterable[KeptBatch], changes: Iterable[KeptBatch], start_offset: int = NO_START_OFFSET
) -> tuple[KeptBatch, ...]:
    """Return the batches that `changes` make of those that are stored, from `start_offset` on. None ends before it begins."""
    batches = _from(start_offset, [*so_far, *changes])
    if len(batches) < 2:
        return tuple(batches)
    batches.sort()
    kept: list[KeptBatch] = []
    current = batches[0]
    index = 1
    while index < len(batches):
        following = batches[index]
        is_one_kind = current[2:] == following[2:]
        if following.first_offset > current.last_offset + is_one_kind:
            kept.append(current)
            current = following
        else:
            for piece in _pieces(current, following, is_one_kind=is_one_kind):
                insort(batches, piece, lo=index + 1)
            index += 1
            current = batches[index]
        index += 1
    kept.append(current)
    return tuple(kept)


def _from(start_offset: int, batches: list[KeptBatch]) -> list[KeptBatch]:
    if start_offset == NO_START_OFFSET:
        return batches
    return [
        batch if batch.first_offset >= start_offset else batch._replace(first_offset=start_offset)
        for batch in batches
        if batch.last_offset >= start_offset
    ]


def _pieces(first: KeptBatch, second: KeptBatch, *, is_one_kind: bool) -> list[KeptBatch]:
    """Return what two batches become that overlap, or are neighbours of one kind. `first` comes first in their order."""
    if is_one_kind:
        return [first._replace(last_offset=max(first.last_offset, second.last_offset))]
    if second[2:] < first[2:]:
        if second.last_offset <= first.last_offset:
            return [first]
        return [first, second._replace(first_offset=first.last_offset + 1)]
    pieces = [second]
    if first.first_offset < second.first_offset:
        pieces.append(first._replace(last_offset=second.first_offset - 1))
    if first.last_offset > second.last_offset:
        pieces.append(first._replace(first_offset=second.last_offset + 1))
    return pieces
