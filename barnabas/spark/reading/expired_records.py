"""Finds the records that have expired by their header `barnabas-expires-at`. Pure.

The name of the header is searched in the bytes of many records at once; only the headers of records in which it occurs are
decoded. So records without it cost next to nothing.

Rules: pure. A header that is no time says nothing: its record is kept.
Source: `client.letters.headers`, whose meaning of the header is that of the relay.
"""

from __future__ import annotations

import re

import numpy as np

from barnabas.spark.reading.varints import Positions
from client.letters.headers import EXPIRES_AT
from client.letters.headers import read as read_letter
from protocol.primitives import Buffer
from protocol.records.record import read_headers

_NAME = re.compile(re.escape(EXPIRES_AT.encode()))


def find_expired(block: Buffer, starts: Positions, headers: Positions, ends: Positions, now_ms: int) -> Positions:
    """Return the numbers of the records that have expired at `now_ms`. Record number n begins at `starts[n]`; its headers, with
    their count, at `headers[n]`; it ends at or before `ends[n]`. Raises InvalidBatch."""
    found = [match.start() for match in _NAME.finditer(block, int(starts[0]), int(ends[-1]))]
    if not found:
        return np.zeros(0, np.int64)
    named = np.unique(np.searchsorted(starts, np.array(found, np.int64), side="right") - 1)
    spans = zip(named.tolist(), headers[named].tolist(), ends[named].tolist(), strict=True)
    return np.array(
        [number for number, at, end in spans if read_letter(read_headers(bytes(block[at:end]))).is_expired(now_ms)],
        np.int64,
    )
