"""Decodes the varints and the lengths inside many records of a block in one pass, with numpy. Pure.

Positions are int64 arrays of places in a block of plain records. What an array of positions says of a record is decoded for all
records with a handful of numpy calls, however many there are.

Rules: pure. Raises InvalidBatch for a varint that is too long or goes beyond the block; that fields stay inside their record is
checked by the caller.
Source: org.apache.kafka.common.utils.ByteUtils; the scalar forms are in `protocol.varint`.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from protocol.errors import ErrorCode
from protocol.records.invalid import InvalidBatch

Positions: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]

_MOST_BYTES = 10  # of a varint of 64 bits
_FEWEST_EQUAL = 32
"""So many records of one length are found at once."""


def broken(problem: str) -> InvalidBatch:
    return InvalidBatch(ErrorCode.INVALID_RECORD, f"A record is broken: {problem}")


def decode_varints(data: Bytes, at: Positions) -> tuple[Positions, Positions]:
    """The zigzag varints of up to 64 bits that begin at `at`: (values, positions behind them). Raises InvalidBatch."""
    try:
        byte = data[at]
        values = (byte & 0x7F).astype(np.uint64)
        behind = at + 1
        more = np.flatnonzero(byte & 0x80)
        shift = 7
        while more.size:
            if shift == 7 * _MOST_BYTES:
                raise broken("a varint has more than 10 bytes")
            byte = data[behind[more]]
            values[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            behind[more] += 1
            more = more[(byte & 0x80) != 0]
            shift += 7
    except IndexError:
        raise broken("it ends inside a varint") from None
    one = np.uint64(1)
    return (values >> one).view(np.int64) ^ -((values & one).view(np.int64)), behind


def check_lengths(lengths: Positions, data: Bytes) -> None:
    """Raises InvalidBatch for a length that no field in `data` has: sums of positions and lengths cannot overflow then."""
    if (lengths > data.size).any():
        raise broken("a field is longer than the batch")


def record_bounds(block: bytes | bytearray | memoryview, at: int, end: int, count: int) -> Positions:
    """Where each of the `count` records that begin at `at` begins behind its length.

    A record's length says where the next one begins. Records of one length behind each other are found at once, as producers of
    records of a fixed size write them; all others by a loop. Raises InvalidBatch unless the last record ends exactly at `end`.
    """
    data = np.frombuffer(block, np.uint8)
    found: list[Positions] = []
    one_by_one = _FEWEST_EQUAL
    while count:
        run, at = _equal_records(data, at, end, count)
        if run is not None:
            found.append(run)
            count -= len(run)
            one_by_one = _FEWEST_EQUAL
            continue
        starts, at = _walk(block, at, min(count, one_by_one))
        found.append(np.array(starts, np.int64))
        count -= len(starts)
        one_by_one *= 8  # where records differ, looking for equal ones would cost more than it saves
    if at != end:
        raise broken(f"the records of the batch end at {at}, not at {end}")
    return found[0] if len(found) == 1 else np.concatenate(found)


def _equal_records(data: Bytes, at: int, end: int, count: int) -> tuple[Positions | None, int]:
    """The records from `at` on that have the length of the first one, and the position behind them; None and `at` when they are
    fewer than _FEWEST_EQUAL."""
    if count < _FEWEST_EQUAL or at + 2 > end:
        return None, at
    first, second = int(data[at]), int(data[at + 1])
    if first < 0x80:
        prefix, length = 1, first >> 1
    elif second < 0x80:
        prefix, length = 2, (first & 0x7F | second << 7) >> 1
    else:
        return None, at
    step = prefix + length
    most = min(count, (end - at) // step)
    if most < _FEWEST_EQUAL:
        return None, at
    behind = at + most * step
    differs = data[at:behind:step] != first
    if prefix == 2:
        differs |= data[at + 1 : behind : step] != second
    equal = int(differs.argmax()) or most  # the first one does not differ
    if equal < _FEWEST_EQUAL:
        return None, at
    behind = at + equal * step
    return np.arange(at + prefix, behind + prefix, step, dtype=np.int64), behind


def _walk(block: bytes | bytearray | memoryview, at: int, count: int) -> tuple[list[int], int]:
    """Where `count` records from `at` on begin behind their lengths, and the position behind them. Raises InvalidBatch."""
    starts: list[int] = []
    append = starts.append
    try:
        for _ in range(count):
            first = block[at]
            if first < 0x80:
                at += 1
                append(at)
                at += first >> 1
            else:
                second = block[at + 1]
                if second < 0x80:
                    at += 2
                    append(at)
                    at += (first & 0x7F | second << 7) >> 1
                else:
                    length, at = _long_length(block, at)
                    append(at)
                    at += length
    except IndexError:
        raise broken("its length goes beyond the batch") from None
    return starts, at


def _long_length(block: bytes | bytearray | memoryview, at: int) -> tuple[int, int]:
    """A length of three bytes or more, and the position behind it; the sign bit is dropped, as the caller checks the end."""
    value = shift = 0
    while True:
        byte = block[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value >> 1, at
        shift += 7
        if shift > 28:
            raise broken("a record's length has more than 5 bytes")
