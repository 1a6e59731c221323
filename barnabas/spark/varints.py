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


def record_bounds(block: bytes | bytearray | memoryview, at: int, end: int, count: int) -> tuple[list[int], int]:
    """Where each of the `count` records that begin at `at` begins behind its length, and where the last one ends.

    The one loop over records: a record's length says where the next one begins. Raises InvalidBatch unless the last record ends
    exactly at `end`.
    """
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
    if at != end:
        raise broken(f"the records of the batch end at {at}, not at {end}")
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
