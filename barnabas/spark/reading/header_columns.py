"""Decodes the headers of many records into one Arrow column of lists, round by round: first headers, second headers, and so
on. Pure.

A round decodes the n-th header of all records that have one, with numpy. When few records are left, one with very many headers
perhaps, the rest is decoded one by one, which is then faster.

Rules: pure. A record without headers has null, as in Spark's Kafka source. Header keys that are not UTF-8 are read with U+FFFD,
as in Java.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barnabas.spark.reading.varints import Positions, broken, check_lengths, decode_varints
from protocol.java_text import AS_JAVA
from protocol.primitives import Buffer, DecodeError
from protocol.varint import decode_varint

_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS = pa.list_(_HEADER)
"""The type of the column."""
_FEW = 8
"""So many records are decoded one by one."""
_SMALLEST_BYTES = 2
"""Of a header: the length of its key, and of its value."""


def header_column(
    block: Buffer, data: npt.NDArray[np.uint8], at: Positions, ends: Positions, kept: Positions | None
) -> pa.ListArray:
    """The headers that begin with their count at `at`, of the records in `kept` (None: all). `ends`: where no header of each
    record may reach beyond. Raises InvalidBatch."""
    if kept is not None:
        at, ends = at[kept], ends[kept]
    counts, at = decode_varints(data, at)
    if ((counts < 0) | (counts > (ends - at) // _SMALLEST_BYTES)).any():
        raise broken("its count of headers is wrong")
    offsets = np.concatenate(([0], np.cumsum(counts)))
    spans = _Spans(int(offsets[-1]))
    active = np.flatnonzero(counts)
    number = 0
    while active.size > _FEW:
        at[active] = spans.decode(data, offsets[active] + number, at[active])
        number += 1
        active = active[counts[active] > number]
    for record in active.tolist():
        position = int(at[record])
        for header in range(int(offsets[record]) + number, int(offsets[record + 1])):
            position = spans.decode_one(block, header, position)
        at[record] = position
    if (at > ends).any():
        raise broken("its headers are longer than it")
    headers = pa.StructArray.from_arrays(spans.columns(block), fields=list(_HEADER))
    return pa.ListArray.from_arrays(
        pa.array(offsets.astype(np.int32)), headers, type=HEADERS, mask=pa.array(counts == 0)
    )


class _Spans:
    """Where the key and the value of each header are, in order of records and headers."""

    def __init__(self, count: int) -> None:
        self._spans = np.zeros((count, 4), np.int64)  # key from, to, value from, to
        self._is_null = np.zeros(count, np.bool_)  # the value

    def decode(self, data: npt.NDArray[np.uint8], headers: Positions, at: Positions) -> Positions:
        """Decode the headers numbered `headers`, at `at`. Returns the positions behind them."""
        lengths, keys = decode_varints(data, at)
        check_lengths(lengths, data)
        if (lengths < 0).any():
            raise broken("a header has no key")
        key_ends = keys + lengths
        lengths, values = decode_varints(data, key_ends)
        check_lengths(lengths, data)
        self._is_null[headers] = lengths < 0
        value_ends = values + np.maximum(lengths, 0)
        self._spans[headers] = np.stack((keys, key_ends, values, value_ends), axis=1)
        return value_ends

    def decode_one(self, block: Buffer, header: int, at: int) -> int:
        try:
            length, key = decode_varint(block, at)
            if length < 0:
                raise broken("a header has no key")
            key_end = key + length
            length, value = decode_varint(block, key_end)
        except DecodeError as error:
            raise broken(str(error)) from error
        self._is_null[header] = length < 0
        end = value + max(length, 0)
        self._spans[header] = (key, key_end, value, end)
        return end

    def columns(self, block: Buffer) -> list[pa.Array]:
        """Keys and values, with their own bytes. Spans that overlap are of a broken record, which the caller has refused."""
        if not len(self._spans):
            return [pa.array([], pa.string()), pa.array([], pa.binary())]
        offsets = np.append(self._spans.reshape(-1), len(block)).astype(np.int32)
        if (np.diff(offsets) < 0).any():
            raise broken("its headers overlap")
        pieces = pa.Array.from_buffers(
            pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(block)]
        )
        chosen = np.arange(0, len(pieces), 4, dtype=np.int32)
        keys = pieces.take(pa.array(chosen))
        values = pieces.take(pa.array(chosen + np.int32(2), mask=self._is_null))
        return [_text(keys), values]


def _text(keys: pa.BinaryArray) -> pa.StringArray:
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:  # not UTF-8, which Java reads nevertheless
        return pa.array([str(key, "utf-8", AS_JAVA) for key in keys.to_pylist()], pa.string())


def header_column_of(headers: Sequence[list[tuple[str, bytes | None]]]) -> pa.ListArray:
    """The column from headers that are objects already."""
    rows = [[{"key": key, "value": value} for key, value in each] if each else None for each in headers]
    return pa.array(rows, HEADERS)
