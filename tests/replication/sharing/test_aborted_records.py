"""Records of aborted transactions are taken out of what was acquired."""

from __future__ import annotations

import pytest

from protocol.records.batch import BatchHeader
from replication.sharing.aborted_records import aborted_ranges, without
from replication.sharing.share_partition import AcquiredRange
from storage.segments.txn_index import AbortedTxn

TRANSACTIONAL, CONTROL = 0x10, 0x20


def a_header(first: int, last: int, producer_id: int, attributes: int = TRANSACTIONAL) -> BatchHeader:
    header = BatchHeader(bytes(61))
    header.base_offset, header.last_offset_delta = first, last - first
    header.producer_id, header.attributes = producer_id, attributes
    return header


def test_batches_within_an_aborted_transaction_of_their_producer_are_aborted() -> None:
    headers = [
        a_header(0, 4, 1),
        a_header(5, 9, 2),
        a_header(10, 14, 1),
        a_header(15, 15, 1, TRANSACTIONAL | CONTROL),
        a_header(16, 20, 1),
        a_header(21, 25, 1, 0),
        a_header(26, 26, 1),
    ]
    aborted = [AbortedTxn(1, 3, 15, 16), AbortedTxn(1, 20, 30, 31), AbortedTxn(3, 0, 30, 31)]

    assert aborted_ranges(headers, aborted) == [(10, 14), (26, 26)]
    assert aborted_ranges(headers, []) == []


@pytest.mark.parametrize(
    ("ranges", "left"),
    [
        ([], [(0, 9, 1), (10, 19, 2)]),
        ([(0, 9)], [(10, 19, 2)]),
        ([(0, 19)], []),
        ([(2, 3), (5, 5)], [(0, 1, 1), (4, 4, 1), (6, 9, 1), (10, 19, 2)]),
        ([(8, 12)], [(0, 7, 1), (13, 19, 2)]),
        ([(8, 12), (19, 30)], [(0, 7, 1), (13, 18, 2)]),
    ],
)
def test_what_is_left_of_rows(ranges: list[tuple[int, int]], left: list[tuple[int, int, int]]) -> None:
    assert without([AcquiredRange(0, 9, 1), AcquiredRange(10, 19, 2)], ranges) == left
