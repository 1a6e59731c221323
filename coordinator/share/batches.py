"""Batches of offsets with one delivery state and count, and how new ones change those that are stored. Pure.

Rules: batches are disjoint and ordered after a merge. Where two overlap, the one with the higher delivery count counts, and of
two with the same count the one with the higher state: a state only goes up (available, acknowledged, archived), and a record
that is available again has been delivered once more. Nothing is kept below the start offset.
Neighbours of one kind are joined where they stand beside each other in the order of the merge; two of them that only become
neighbours of one kind by it stay apart until the next merge, as in Apache Kafka, whose snapshots have the same bytes. Such are
*loose*. A merge into many batches looks at those that a change touches, and at loose ones; `merged` looks at all, and both give
the same.
Source: Kafka PersisterStateBatchCombiner, PersisterStateBatch.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias

from protocol.share_states import NO_START_OFFSET

FEW_BATCHES: Final = 4
"""Up to here it is faster to look at all of them."""


class KeptBatch(NamedTuple):
    """Offsets `first_offset` to `last_offset`, both included. The order of the fields is that in which batches are merged."""

    first_offset: int
    last_offset: int
    delivery_count: int
    delivery_state: int
    """As it came: a broker may store a state that this one does not know."""


def kept_of(rows: Iterable[tuple[int, int, int, int]]) -> tuple[KeptBatch, ...]:
    """Return the batches of rows from a request or a record, in the order of the fields. One that ends before it begins has no
    offsets: Apache Kafka takes it, and drops it with the next merge."""
    return tuple([KeptBatch(*row) for row in rows if row[0] <= row[1]])


Loose: TypeAlias = tuple[int, ...] | None
"""The first offsets of batches that are of one kind with the neighbour before them. None: the batches overlap, or are not in
order, as no merge leaves them."""
_FIRST_OFFSET, _LAST_OFFSET = attrgetter("first_offset"), attrgetter("last_offset")


def loose_of(batches: Sequence[KeptBatch]) -> Loose:
    loose: list[int] = []
    last_offset, kind = -2, None
    for batch in batches:
        if batch.first_offset <= last_offset:
            return None
        if batch.first_offset == last_offset + 1 and batch[2:] == kind:
            loose.append(batch.first_offset)
        last_offset, kind = batch.last_offset, batch[2:]
    return tuple(loose)


def spliced(
    so_far: tuple[KeptBatch, ...], loose: Loose, changes: Sequence[KeptBatch], start_offset: int = NO_START_OFFSET
) -> tuple[tuple[KeptBatch, ...], Loose]:
    """Return what `merged` returns, and which of that are loose. `loose` are those of `so_far`."""
    if loose is None or len(so_far) <= FEW_BATCHES:
        whole = merged(so_far, changes, start_offset)
        return whole, loose_of(whole)
    begin = bisect_left(so_far, start_offset, key=_LAST_OFFSET)
    kept: list[KeptBatch] = []
    found: list[int] = []
    position = begin
    for group in _touching(so_far, begin, sorted(_from(start_offset, list(changes))), loose):
        kept += so_far[position : group.begin]
        region = merged(so_far[group.begin : group.end], group.changes, start_offset)
        found += loose_of(region) or ()
        kept += region
        position = group.end
    kept += so_far[position:]
    if kept and kept[0].first_offset < start_offset:
        kept[0] = kept[0]._replace(first_offset=start_offset)
    return tuple(kept), tuple(found)


class _Group(NamedTuple):
    """Changes that go into `so_far[begin:end]` and touch no other batch, nor what other changes make."""

    begin: int
    end: int
    changes: list[KeptBatch]


def _touching(
    so_far: tuple[KeptBatch, ...], begin: int, changes: Sequence[KeptBatch], loose: tuple[int, ...]
) -> list[_Group]:
    """Return the groups in order. A loose batch and the one before it are a group without changes."""
    first_kept = so_far[begin].first_offset if begin < len(so_far) else None
    spans: list[tuple[int, int, KeptBatch | None]] = [
        (offset - 1, offset, None) for offset in loose if first_kept is not None and offset > first_kept
    ]
    spans += [(change.first_offset, change.last_offset, change) for change in changes]
    spans.sort(key=lambda span: span[0])
    groups: list[_Group] = []
    reach = -2
    for first, last, change in spans:
        group_changes = [] if change is None else [change]
        end = bisect_right(so_far, last + 1, lo=begin, key=_FIRST_OFFSET)
        if groups and first <= reach + 1:
            known = groups[-1]
            groups[-1] = _Group(known.begin, max(known.end, end), known.changes + group_changes)
        else:
            groups.append(_Group(bisect_left(so_far, first - 1, lo=begin, key=_LAST_OFFSET), end, group_changes))
        touched = so_far[groups[-1].end - 1].last_offset if groups[-1].end > groups[-1].begin else -2
        reach = max(reach, last, touched)
    return groups


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
