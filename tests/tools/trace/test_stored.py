"""Records as they are stored: none that is wanted is passed over, and what becomes of their transactions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from protocol.messages.list_offsets import ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse
from protocol.records.any_format import iter_any_headers
from protocol.records.compression import Compression
from protocol.records.control import ControlType, EndTxnMarker, encode_marker
from protocol.records.legacy import encode_message
from protocol.records.record import Record, encode_batch
from tests.client.admin.scripted import ScriptedShell
from tools.records.record_filter import RecordFilter
from tools.trace.fates import decide_fates
from tools.trace.stored import Fate, PartitionScan, StoredRecord

KEY = ("t", 0)
BYTES = st.one_of(st.none(), st.binary(max_size=2), st.sampled_from([b"ab", b"aab", b"\x00\x00"]))
HEADERS = st.lists(st.tuples(st.sampled_from("hg"), BYTES), max_size=2)
RECORDS = st.lists(st.builds(Record, st.just(0), st.integers(0, 9), BYTES, BYTES, HEADERS), min_size=1, max_size=8)
WANTED = st.builds(
    RecordFilter,
    key=BYTES,
    headers=st.lists(st.tuples(st.just("h"), st.binary(max_size=2)), max_size=1).map(tuple),
    since_ms=st.one_of(st.none(), st.integers(0, 9)),
)
ANY = RecordFilter(key=b"k")


def scanned(buffer: bytes, wanted: RecordFilter = ANY, start: int = 0) -> tuple[PartitionScan, list[StoredRecord]]:
    found: list[StoredRecord] = []
    scan = PartitionScan(KEY, wanted, 99, found.append)
    scan.take(buffer, list(iter_any_headers(buffer)), start)
    return scan, found


def batch(offset: int, *, is_transactional: bool = True) -> bytes:
    return encode_batch([Record(offset, 5, b"k", b"v")], base_offset=offset, producer_id=7, producer_epoch=0,
                        base_sequence=3, is_transactional=is_transactional)  # fmt: skip


def marker(offset: int, *, is_commit: bool, producer_id: int = 7, epoch: int = 0) -> bytes:
    made = EndTxnMarker(ControlType.COMMIT if is_commit else ControlType.ABORT, 0, 99)
    return encode_marker(made, producer_id=producer_id, producer_epoch=epoch, base_offset=offset)


@given(RECORDS, WANTED, st.sampled_from([Compression.NONE, Compression.LZ4]))
def test_nothing_that_is_wanted_is_passed_over(records: list[Record], wanted: RecordFilter, codec: Compression) -> None:
    expected = [
        number
        for number, record in enumerate(records)
        if wanted.key in (None, record.key)
        and all(header in record.headers for header in wanted.headers)
        and record.timestamp >= (wanted.since_ms or 0)
    ]
    scan, found = scanned(encode_batch(records, compression=codec), wanted)
    assert [each.offset for each in found] == expected
    assert (scan.records, scan.unreadable) == (len(records), [])


def test_records_of_old_formats_are_read_and_those_before_the_start_are_not() -> None:
    buffer = encode_message(1, 0, 1, b"k", b"v") + batch(1) + batch(2, is_transactional=False)
    assert [each.offset for each in scanned(buffer)[1]] == [0, 1, 2]
    _, [found] = scanned(buffer, start=2)
    assert (found.offset, found.producer_id, found.sequence, found.fate) == (2, 7, 3, Fate.NONE)


def test_an_unreadable_batch_is_noted_and_the_next_one_looked_through() -> None:
    broken = bytearray(batch(0))
    broken[61] = 0xFF  # the length of its record
    scan, found = scanned(bytes(broken) + batch(1))
    assert (scan.unreadable, [each.offset for each in found]) == ([0], [1])


@pytest.mark.parametrize(
    ("content", "aborted", "stable", "fate", "end"),
    [
        (batch(0) + marker(1, is_commit=True, producer_id=8) + marker(2, is_commit=True), [], 9, Fate.COMMITTED, 2),
        (batch(0) + marker(2, is_commit=False, epoch=1), [(8, 0), (7, 0)], 9, Fate.ABORTED, 2),
        (batch(0) + marker(2, is_commit=False), [(7, 1)], 9, Fate.COMMITTED, None),  # its own was compacted away
        (batch(0) + marker(2, is_commit=True, epoch=3), [], 9, Fate.COMMITTED, None),
        (batch(0), [], 0, Fate.OPEN, None),
        (batch(0) + marker(2, is_commit=False), [], 0, Fate.ABORTED, 2),  # behind another that is open
        (batch(0) + marker(2, is_commit=False, epoch=3), [], 0, Fate.OPEN, None),
    ],
)
def test_the_leader_decides_and_a_marker_counts_if_it_may_be_the_one(
    content: bytes, aborted: list[tuple[int, int]], stable: int, fate: Fate, end: int | None
) -> None:
    _, [record] = scanned(content)
    row = PartitionData(
        partition_index=0,
        error_code=0,
        high_watermark=9,
        last_stable_offset=stable,
        aborted_transactions=[AbortedTransaction(producer_id=each, first_offset=first) for each, first in aborted],
        records=b"",
    )
    asked: list[Any] = []

    def answer(_place: Any, request: Any) -> Any:
        if not isinstance(request, FetchRequest):
            end = ListOffsetsPartitionResponse(partition_index=0, error_code=0, offset=stable)
            return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[end])])
        asked.append((request.isolation_level, request.topics[0].partitions[0].fetch_offset))
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[row])])

    ScriptedShell(answer).run(decide_fates([record]))
    assert (record.fate, None if record.marker is None else record.marker.offset) == (fate, end)
    assert (asked, record.is_hidden) == ([(1, 0)], stable == 0)
