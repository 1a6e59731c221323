"""Where the row with an id is: a hash table of references in four bytes each. No IO.

Rules: the table holds references alone; the id of a reference is what `ids_of` says, NO_ID when it means nothing any more. So a
row can go without the table being told: its reference is dropped when its part of the table is made again. Parts are small, so
that no call works long: a part that is full is divided in two. Whoever chooses ids cannot make searches slow, for where an id
is looked for depends on a random number of the process.
Source: extendible hashing (Fagin and others, 1979); open addressing with linear probing; multiplicative hashing with a random
factor (Dietzfelbinger and others, 1997).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable

from relay.waiting.entries import NO_ID

_LEAST_SLOTS = 8
_MOST_SLOTS = 8192
# Enough parts for 300 million references. Ids that are all of one part, as someone may choose them, make it grow instead.
_MOST_DEPTH = 16
# How full a part becomes: each another share, lest all are made again at the same time as the table grows.
_LEAST_FULL, _MOST_FULL = 0.45, 0.7
_SPREAD = 0x9E37
# How much of that is in use at most when a part was made again.
_REFILLED = 0.8
# The slot is in high bits of 64 of the product with the factor: they depend on all lower bits.
_SLOT_SHIFT = 44


class _Part:
    """The references of all ids that end with `depth` given bits."""

    __slots__ = ("depth", "ending", "full", "limit", "slots", "used")

    def __init__(self, depth: int, ending: int, slots: array[int]) -> None:
        self.depth = depth
        self.ending = ending
        share = (ending * _SPREAD & 0xFFFF) / 0xFFFF
        self.full = _LEAST_FULL + share * (_MOST_FULL - _LEAST_FULL)
        self.slots = slots
        self.used = 0
        self.limit = int(len(slots) * self.full)
        """How many references it has when it is full."""


def _empty(count: int, typecode: str = "I") -> array[int]:
    return array(typecode, bytes(count * array(typecode).itemsize))


class IdTable:
    """References, greater than 0, by the ids of what they mean."""

    def __init__(self, ids_of: Callable[[Iterable[int]], list[int]], factor: int) -> None:
        """`factor`: a random odd number of 64 bits."""
        self._ids_of = ids_of
        self._factor = factor
        self._parts = [_Part(0, 0, _empty(_LEAST_SLOTS))]

    def add(self, ids: Iterable[int], first_reference: int) -> None:
        """Add one reference for each of `ids`, counted up from the first; none for NO_ID. By now `ids_of` must know them."""
        parts = self._parts
        ending_mask = len(parts) - 1
        factor = self._factor
        for reference, id_hash in enumerate(ids, first_reference):
            if id_hash == NO_ID:
                continue
            part = parts[id_hash & ending_mask]
            slots = part.slots
            mask = len(slots) - 1
            at = id_hash * factor >> _SLOT_SHIFT & mask
            while slots[at]:
                at = (at + 1) & mask
            try:
                slots[at] = reference
            except OverflowError:  # of four bytes
                part.slots = array("Q", slots)
                part.slots[at] = reference
            part.used += 1
            if part.used > part.limit:
                self._make_again(part)
                parts = self._parts
                ending_mask = len(parts) - 1

    def find(self, id_hash: int) -> int | None:
        """Return a reference that means this id; None when there is none, as for NO_ID."""
        if id_hash == NO_ID:
            return None
        ids_of = self._ids_of
        slots = self._parts[id_hash & (len(self._parts) - 1)].slots
        mask = len(slots) - 1
        at = id_hash * self._factor >> _SLOT_SHIFT & mask
        while reference := slots[at]:
            if ids_of((reference,))[0] == id_hash:
                return reference
            at = (at + 1) & mask
        return None

    def _make_again(self, part: _Part) -> None:
        """Leave out what means nothing any more, and make room, in two parts when one would be too large."""
        ending_mask = (1 << part.depth) - 1
        # A reference whose row has another id by now is that id's, too: it is kept once.
        references = {reference: None for reference in part.slots if reference}
        ids = zip(references, self._ids_of(references), strict=True)
        kept = {each: id_hash for each, id_hash in ids if id_hash and id_hash & ending_mask == part.ending}
        if len(kept) <= _MOST_SLOTS * part.full * _REFILLED or part.depth == _MOST_DEPTH:
            self._fill(part, kept)
            return
        if 1 << part.depth == len(self._parts):
            self._parts = self._parts + self._parts
        upper = _Part(part.depth + 1, part.ending | 1 << part.depth, part.slots)
        part.depth += 1
        self._parts[upper.ending :: 1 << upper.depth] = [upper] * (len(self._parts) >> upper.depth)
        bit = 1 << (part.depth - 1)
        self._fill(upper, {each: id_hash for each, id_hash in kept.items() if id_hash & bit})
        self._fill(part, {each: id_hash for each, id_hash in kept.items() if not id_hash & bit})

    def _fill(self, part: _Part, kept: dict[int, int]) -> None:
        count = _LEAST_SLOTS
        while count * part.full * _REFILLED < len(kept):
            count *= 2
        slots = _empty(count, "Q" if kept and max(kept) >> 32 else "I")
        mask = count - 1
        for reference, id_hash in kept.items():
            at = id_hash * self._factor >> _SLOT_SHIFT & mask
            while slots[at]:
                at = (at + 1) & mask
            slots[at] = reference
        part.slots = slots
        part.used = len(kept)
        part.limit = int(count * part.full)
