"""The vectorised decoder gives what the scalar one of `protocol` gives, for every codec and shape of record."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barnabas.spark as _spark  # noqa: F401  installs the private names
from protocol.records import control
from protocol.records.batch import crc_of
from protocol.records.compression import Compression
from protocol.records.legacy import encode_message_set
from protocol.records.record import Record, encode_batch

pytest.importorskip("pyarrow", reason="columns are Arrow's; make interop has it")
columns: Any = importlib.import_module("barnabas.spark.reading.columns")
committed: Any = importlib.import_module("barnabas._private.client.reading.committed")
InvalidBatch: Any = importlib.import_module("barnabas._private.protocol.records.invalid").InvalidBatch

NOTHING_ABORTED = ()


def rows(
    buffer: bytes,
    start: int = 0,
    end: int = 1 << 60,
    *,
    headers: bool = True,
    aborted: tuple[tuple[int, int], ...] = NOTHING_ABORTED,
    lost: Callable[[str], None] = pytest.fail,
    skip_expired_at_ms: int | None = None,
) -> list[dict[str, Any]]:
    decoder = columns.RangeDecoder(
        columns.OffsetRange("orders", 3, start, end),
        lost,
        include_headers=headers,
        skip_expired_at_ms=skip_expired_at_ms,
    )
    found: list[dict[str, Any]] = []
    for batch in decoder.decode(buffer, committed.CommittedFilter(aborted)):
        batch.validate(full=True)
        assert batch.schema == (columns.SCHEMA_WITH_HEADERS if headers else columns.SCHEMA)
        found += batch.to_pylist()
    return found


def expected(record: Record, kind: int = 0, timestamp: int | None = None) -> dict[str, Any]:
    from datetime import UTC, datetime, timedelta

    at = record.timestamp if timestamp is None else timestamp
    return {
        "key": record.key,
        "value": record.value,
        "topic": "orders",
        "partition": 3,
        "offset": record.offset,
        "timestamp": datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at),
        "timestampType": kind,
        "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
    }


some_bytes = st.one_of(st.none(), st.binary(max_size=20), st.integers(0, 400).map(lambda n: b"x" * n))
record_parts = st.tuples(
    st.integers(-1, 1 << 41),
    some_bytes,
    some_bytes,
    st.lists(st.tuples(st.text(max_size=5), some_bytes), max_size=4),
)


@settings(max_examples=150, deadline=None)
@given(
    batches=st.lists(st.lists(record_parts, min_size=1, max_size=30), min_size=1, max_size=4),
    codecs=st.lists(st.sampled_from(Compression), min_size=4, max_size=4),
    first=st.integers(0, 1 << 40),
    bounds=st.tuples(st.integers(0, 130), st.integers(0, 130)),
)
def test_all_that_was_encoded_is_decoded(
    batches: list[list[Any]], codecs: list[Compression], first: int, bounds: tuple[int, int]
) -> None:
    buffer, records, offset = b"", [], first
    for parts, codec in zip(batches, codecs, strict=False):
        some = [Record(offset + i, *part) for i, part in enumerate(parts)]
        buffer += encode_batch(some, base_offset=offset, compression=codec)
        records += some
        offset += len(some)
    assert rows(buffer) == [expected(record) for record in records]
    start, end = first + min(bounds), first + max(bounds)
    inside = [expected(record) for record in records if start <= record.offset < end]
    assert rows(buffer, start, end) == inside
    assert [row["offset"] for row in rows(buffer, start, end, headers=False)] == [row["offset"] for row in inside]


@settings(max_examples=60, deadline=None)
@given(
    runs=st.lists(
        st.tuples(st.integers(1, 90), st.sampled_from([0, 1, 40, 57, 58, 200, 8_200])), min_size=1, max_size=6
    ),
    first=st.integers(0, 1 << 40),
    codec=st.sampled_from([Compression.NONE, Compression.LZ4]),
)
def test_runs_of_records_of_one_size(runs: list[tuple[int, int]], first: int, codec: Compression) -> None:
    sizes = [size for count, size in runs for _ in range(count)]
    some = [record(first + n, bytes([n % 256]) * size, timestamp=n) for n, size in enumerate(sizes)]
    assert rows(encode_batch(some, base_offset=first, compression=codec)) == [expected(each) for each in some]


@pytest.mark.parametrize("at", [0, 50, 99])
def test_a_length_in_a_run_that_leads_beyond_the_batch(at: int) -> None:
    some = [record(n, b"value") for n in range(64)]  # offsets of one byte: records of one size
    raw = bytearray(encode_batch(some))
    size = (len(raw) - 61) // 64
    raw[61 + at * 64 // 100 * size] += 2
    raw[17:21] = crc_of(raw, 0, len(raw)).to_bytes(4, "big")
    with pytest.raises(InvalidBatch, match="broken"):
        rows(bytes(raw))


def record(offset: int, value: bytes | None = b"v", **parts: Any) -> Record:
    return Record(offset, parts.pop("timestamp", 1_000), parts.pop("key", None), value, **parts)


def test_gaps_of_compaction_stay() -> None:
    some = [record(10), record(12), record(900)]
    buffer = encode_batch(some, base_offset=10, keep_offsets=True)
    assert [row["offset"] for row in rows(buffer)] == [10, 12, 900]
    assert [row["offset"] for row in rows(buffer, 11, 900)] == [12]


def test_log_append_time_is_every_records_time() -> None:
    some = [record(0, timestamp=5), record(1, timestamp=7)]
    plain = encode_batch([record(2, timestamp=9)], base_offset=2)
    found = rows(encode_batch(some, log_append_time_ms=99) + plain)
    assert found == [
        expected(some[0], 1, 99),
        expected(some[1], 1, 99),
        expected(record(2, timestamp=9)),
    ]


def test_many_headers_in_one_record_among_others() -> None:
    some = [record(n, headers=[("one", b"1")]) for n in range(20)]
    some[3].headers = [(f"name-{n}", str(n).encode() if n % 3 else None) for n in range(500)]
    assert rows(encode_batch(some)) == [expected(each) for each in some]


def test_a_header_key_that_is_not_utf8_reads_as_in_java() -> None:
    raw = bytearray(encode_batch([record(0, headers=[("abc", b"1")])]))
    at = raw.index(b"abc")
    raw[at : at + 3] = b"a\xffc"
    raw[17:21] = crc_of(raw, 0, len(raw)).to_bytes(4, "big")
    assert rows(bytes(raw))[0]["headers"] == [{"key": "a\ufffdc", "value": b"1"}]


def test_blocks_end_where_enough_rows_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "ROWS", 5)
    buffer = b"".join(encode_batch([record(n), record(n + 1)], base_offset=n) for n in range(0, 20, 2))
    decoder = columns.RangeDecoder(columns.OffsetRange("t", 0, 1, 19), pytest.fail, include_headers=False)
    sizes = [batch.num_rows for batch in decoder.decode(buffer, committed.CommittedFilter(()))]
    assert sizes == [5, 6, 6, 1]
    assert decoder.is_complete


def test_aborted_transactions_and_markers_give_no_rows() -> None:
    def batch(offset: int, producer: int, transactional: bool = True) -> bytes:
        return encode_batch(
            [record(offset), record(offset + 1)],
            base_offset=offset,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=transactional,
        )

    def marker(offset: int, producer: int, kind: control.ControlType) -> bytes:
        return control.encode_marker(
            control.EndTxnMarker(kind, 0, 5), producer_id=producer, producer_epoch=0, base_offset=offset
        )

    abort, commit = control.ControlType.ABORT, control.ControlType.COMMIT
    buffer = (
        batch(0, 7)  # aborted
        + batch(2, 8)  # committed
        + batch(4, 7)  # aborted
        + batch(6, 7, transactional=False)
        + marker(8, 7, abort)
        + marker(9, 8, commit)
        + batch(10, 7)  # committed
        + marker(12, 7, commit)
        + batch(13, 8)  # aborted
        + marker(15, 8, abort)
    )
    aborted = ((0, 7), (13, 8))
    offsets = [row["offset"] for row in rows(buffer, aborted=aborted)]
    assert offsets == [2, 3, 6, 7, 10, 11]
    assert [row["offset"] for row in rows(buffer)] == [0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 13, 14]
    # A read that begins behind the first batches of an aborted transaction.
    assert [row["offset"] for row in rows(buffer, 5, aborted=aborted)] == [6, 7, 10, 11]


def test_a_batch_that_is_not_whole_is_left_out() -> None:
    whole, half = encode_batch([record(0)]), encode_batch([record(1)], base_offset=1)
    decoder = columns.RangeDecoder(columns.OffsetRange("t", 0, 0, 5), pytest.fail, include_headers=True)
    assert decoder.advance(whole + half[:-1]) == 1
    found = list(decoder.decode(whole + half[:-1], committed.CommittedFilter(())))
    assert sum(batch.num_rows for batch in found) == 1
    assert decoder.next_offset == 1
    assert not decoder.is_complete


LAST_MS = 9_223_372_036_854_775
"""Spark's own source fails for the next one: 2^63 microseconds are one too many."""


@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("ms", [LAST_MS, -LAST_MS, LAST_MS + 1, -LAST_MS - 1, 1_700_000_000_123_456_789, 1 - (1 << 63)])
def test_a_time_beyond_those_of_spark_is_reported_and_null(magic: int, ms: int) -> None:
    some = [record(7, timestamp=1), record(8, timestamp=ms), record(9, timestamp=3)]
    buffer = encode_batch(some, base_offset=7) if magic == 2 else b"".join(encode_message_set([r], 1) for r in some)
    lost: list[str] = []
    decoder = columns.RangeDecoder(columns.OffsetRange("orders", 3, 0, 10), lost.append, include_headers=False)
    found = [batch.column("timestamp") for batch in decoder.decode(buffer, committed.CommittedFilter(()))]
    times_us = [value for column in found for value in column.cast("int64").to_pylist()]
    if abs(ms) <= LAST_MS:
        assert (times_us, lost) == ([1000, ms * 1000, 3000], [])
    else:
        assert times_us == [1000, None, 3000]
        assert lost == [
            f"orders-3: the record at offset 8 has the timestamp {ms} ms, which is beyond the times that Spark can represent"
        ]


def test_a_wrong_checksum_is_an_error() -> None:
    raw = bytearray(encode_batch([record(0)]))
    raw[-1] ^= 1
    with pytest.raises(InvalidBatch, match="checksum"):
        rows(bytes(raw))


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_broken_records_give_rows_or_an_error_but_nothing_else(data: st.DataObject) -> None:
    some = [record(n, b"value" * 3, key=b"key", headers=[("h", b"1"), ("i", None)]) for n in range(12)]
    raw = bytearray(encode_batch(some))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(61, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw[17:21] = crc_of(raw, 0, len(raw)).to_bytes(4, "big")
    try:
        rows(bytes(raw))
    except (InvalidBatch, OverflowError):
        return


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_formats(magic: int, codec: Compression) -> None:
    some = [record(5, b"a", key=b"k"), record(6, None), record(7, b"c")]
    if magic == 0:
        for each in some:
            each.timestamp = -1
    old = encode_message_set(some, magic, compression=codec)
    new = record(8, b"d")
    found = rows(old + encode_batch([new], base_offset=8), 6)
    assert found == [expected(each, -1 if magic == 0 else 0) for each in some[1:]] + [expected(new)]


EXPIRY = "barnabas-expires-at"


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
@pytest.mark.parametrize("headers", [True, False])
def test_records_that_have_expired_give_no_rows(compression: Compression, headers: bool) -> None:
    given = [
        [],
        [(EXPIRY, b"99")],
        [(EXPIRY, b"100")],
        [(EXPIRY, b"101")],
        [(EXPIRY, b"soon")],
        [(EXPIRY, None)],
        [(EXPIRY, b"99"), (EXPIRY, b"101")],
        [("a", None), (EXPIRY, b"7"), ("z", b"9" * 200)],
        [("x" + EXPIRY, b"7")],
        [("x", EXPIRY.encode())],
    ]
    expired = {1, 2, 7}
    buffer = b""
    for first in range(0, 30, 10):
        records = [
            Record(at, 1_000, b"k" * at, EXPIRY.encode() if at % 2 else None, list(each))
            for at, each in enumerate(given)
        ]
        buffer += encode_batch(records, base_offset=first, compression=compression)

    def found(start: int, end: int, now_ms: int | None) -> list[int]:
        return [row["offset"] for row in rows(buffer, start, end, headers=headers, skip_expired_at_ms=now_ms)]

    for start, end in ((0, 30), (2, 28), (11, 13)):
        assert found(start, end, None) == list(range(start, end))
        assert found(start, end, 100) == [at for at in range(start, end) if at % 10 not in expired]
        assert found(start, end, 6) == list(range(start, end))


def test_a_read_of_expired_records_alone_has_no_rows_and_is_complete() -> None:
    buffer = encode_batch([Record(at, 0, None, b"v", [(EXPIRY, b"1")]) for at in range(3)])
    decoder = columns.RangeDecoder(
        columns.OffsetRange("orders", 3, 0, 3), pytest.fail, include_headers=True, skip_expired_at_ms=2
    )
    assert list(decoder.decode(buffer, committed.CommittedFilter(()))) == []
    assert decoder.is_complete
