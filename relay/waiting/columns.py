"""Columns of numbers in four bytes each where they are near enough to each other, in eight otherwise. No IO.

A due column is a least number and the distances from it. A place column has a least offset for each tier; a code is the tier
in the three highest of 32 bits, and the distance from that tier's least offset in the others. Codes have the order of their
places. In a wide column the code is the place.

Bytes, all little-endian:
    due column      width u8 (4 or 8), least i64, then the distances
    place column    tiers u8 (a bit for each, 0 for wide), a least offset u64 for each of them, then the codes (u32, wide: u64)
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from operator import gt

from relay.waiting.entries import TIERS, offset_of, place_of, tier_of

_WIDTH_AND_LEAST = struct.Struct("<Bq")
_LEAST_OFFSET = struct.Struct("<Q")
_NARROW = "I"
_WIDE = "Q"
_NARROW_END = 1 << 32
_TIER_SHIFT = 29
_DISTANCE_MASK = (1 << _TIER_SHIFT) - 1
_TIERS_END = 1 << len(TIERS)
_OFFSET_BITS = 56
_OFFSETS_END = 1 << _OFFSET_BITS


class ColumnError(ValueError):
    """Bytes that are no column."""


def bytes_of(numbers: array[int]) -> bytes:
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()


def numbers_of(typecode: str, data: bytes, at: int, count: int) -> array[int]:
    """Raises: ColumnError when there are fewer."""
    numbers = array(typecode)
    part = data[at : at + count * numbers.itemsize]
    if len(part) != count * numbers.itemsize:
        raise ColumnError(f"{count} numbers need {count * numbers.itemsize} bytes, and there are {len(part)}")
    numbers.frombytes(part)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


class DueColumn:
    """Due times, in milliseconds since the epoch."""

    __slots__ = ("distances", "least")

    def __init__(self, least: int, distances: array[int]) -> None:
        self.least = least
        self.distances = distances

    @classmethod
    def of(cls, numbers: Sequence[int]) -> DueColumn:
        least = min(numbers)
        typecode = _NARROW if max(numbers) - least < _NARROW_END else _WIDE
        return cls(least, array(typecode, [number - least for number in numbers]))

    @classmethod
    def parse(cls, data: bytes, at: int, count: int) -> tuple[DueColumn, int]:
        """Return the column, and where it ends. Raises: ColumnError."""
        if len(data) < at + _WIDTH_AND_LEAST.size:
            raise ColumnError("a due column has no beginning")
        width, least = _WIDTH_AND_LEAST.unpack_from(data, at)
        if width not in (4, 8):
            raise ColumnError(f"due times of {width} bytes")
        at += _WIDTH_AND_LEAST.size
        distances = numbers_of(_NARROW if width == 4 else _WIDE, data, at, count)
        if any(map(gt, distances, distances[1:])):
            raise ColumnError("due times are not in order")
        if count and least + distances[-1] >= 1 << 63:
            raise ColumnError("a due time is beyond 64 bits")
        return cls(least, distances), at + count * width

    def __len__(self) -> int:
        return len(self.distances)

    def __getitem__(self, row: int) -> int:
        return self.least + self.distances[row]

    def __iter__(self) -> Iterator[int]:
        least = self.least
        return (least + distance for distance in self.distances)

    def to_bytes(self) -> bytes:
        return _WIDTH_AND_LEAST.pack(self.distances.itemsize, self.least) + bytes_of(self.distances)


class PlaceColumn:
    """Places (`relay.waiting.entries`)."""

    __slots__ = ("_firsts", "codes")

    def __init__(self, firsts: tuple[int, ...] | None, codes: array[int]) -> None:
        """`firsts`: the place of the least offset of each tier, -1 for a tier that is not there; None when wide."""
        self._firsts = firsts
        self.codes = codes

    @classmethod
    def of(cls, places: Sequence[int]) -> PlaceColumn:
        firsts = [-1] * len(TIERS)
        lasts = [-1] * len(TIERS)
        for place in places:
            tier = tier_of(place)
            if firsts[tier] < 0 or place < firsts[tier]:
                firsts[tier] = place
            lasts[tier] = max(lasts[tier], place)
        if any(last - first > _DISTANCE_MASK for first, last in zip(firsts, lasts, strict=True)):
            return cls(None, array(_WIDE, places))
        subtracted = [first - (tier << _TIER_SHIFT) for tier, first in enumerate(firsts)]
        return cls(tuple(firsts), array(_NARROW, [place - subtracted[tier_of(place)] for place in places]))

    @classmethod
    def parse(cls, data: bytes, at: int, count: int) -> tuple[PlaceColumn, int]:
        """Return the column, and where it ends. Raises: ColumnError."""
        if len(data) <= at:
            raise ColumnError("a place column has no beginning")
        tiers = data[at]
        at += 1
        if tiers >= _TIERS_END:
            raise ColumnError(f"unknown tiers: {tiers:b}")
        if not tiers and count:
            codes = numbers_of(_WIDE, data, at, count)
            if tier_of(max(codes)) not in TIERS:
                raise ColumnError("unknown tier of a place")
            return cls(None, codes), at + count * codes.itemsize
        firsts = [-1] * len(TIERS)
        for tier in TIERS:
            if tiers >> tier & 1:
                if len(data) < at + _LEAST_OFFSET.size:
                    raise ColumnError("a least offset is missing")
                (least,) = _LEAST_OFFSET.unpack_from(data, at)
                if least >= _OFFSETS_END - _DISTANCE_MASK:
                    raise ColumnError(f"an offset beyond all: {least}")
                firsts[tier] = place_of(tier, least)
                at += _LEAST_OFFSET.size
        codes = numbers_of(_NARROW, data, at, count)
        if sum(1 << tier for tier in {code >> _TIER_SHIFT for code in codes}) != tiers:
            raise ColumnError("places are of other tiers than declared")
        return cls(tuple(firsts), codes), at + count * codes.itemsize

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, row: int) -> int:
        return self._place_of(self.codes[row])

    def _place_of(self, code: int) -> int:
        return code if self._firsts is None else self._firsts[code >> _TIER_SHIFT] + (code & _DISTANCE_MASK)

    def __iter__(self) -> Iterator[int]:
        return iter(self.decoded(self.codes))

    def decoded(self, codes: Iterable[int]) -> list[int]:
        """Return the places of codes."""
        firsts = self._firsts
        if firsts is None:
            return list(codes)
        return [firsts[code >> _TIER_SHIFT] + (code & _DISTANCE_MASK) for code in codes]

    def ranges(self) -> tuple[tuple[int, int, int], ...]:
        """Return for each tier that occurs its number, the least and the greatest place in it."""
        codes = sorted(self.codes)
        shift = _OFFSET_BITS if self._firsts is None else _TIER_SHIFT
        borders = [bisect_left(codes, tier << shift) for tier in (*TIERS, len(TIERS))]
        parts = [(tier, start, end - 1) for tier, (start, end) in enumerate(pairwise(borders)) if end > start]
        return tuple((tier, self._place_of(codes[first]), self._place_of(codes[last])) for tier, first, last in parts)

    def drop_first(self, count: int) -> None:
        self.codes = self.codes[count:]

    def code_of(self, place: int) -> int:
        """Return the code that `place` has in this column; -1 when it can have none."""
        if self._firsts is None:
            return place
        tier = tier_of(place)
        first = self._firsts[tier]
        distance = place - first
        return tier << _TIER_SHIFT | distance if first >= 0 and 0 <= distance <= _DISTANCE_MASK else -1

    def to_bytes(self) -> bytes:
        if self._firsts is None:
            return b"\0" + bytes_of(self.codes)
        tiers = [tier for tier in TIERS if self._firsts[tier] >= 0]
        leasts = [_LEAST_OFFSET.pack(offset_of(self._firsts[tier])) for tier in tiers]
        return bytes([sum(1 << tier for tier in tiers)]) + b"".join(leasts) + bytes_of(self.codes)
