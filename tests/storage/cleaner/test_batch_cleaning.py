"""What cleaning leaves of one batch: records, delete markers, transactions, producers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.records.batch import crc_is_valid, read_header
from protocol.records.compression import Compression
from protocol.records.control import ControlType, EndTxnMarker, encode_marker, read_marker
from protocol.records.invalid import InvalidBatch
from protocol.records.legacy import encode_message_set, iter_legacy_records, read_legacy_header
from protocol.records.record import Record, empty_batch, encode_batch, iter_records
from storage.cleaner.batch_cleaning import BatchCleaner, Cleaned, CleaningOutcome, LastRecord, read_keys
from storage.cleaner.offset_map import OffsetMap
from storage.segments.txn_index import AbortedTxn
from tests.protocol.records.batches import with_field

NOW_MS = 1_700_000_000_000
RETENTION_MS = 1000
NOBODY: Mapping[int, LastRecord] = {}


def cleaner(latest: dict[bytes, int] | None = None, covered: int = 1000, now_ms: int = NOW_MS) -> BatchCleaner:
    """One that knows these latest offsets."""
    offsets = OffsetMap(1 << 12, 0.9, 100)
    for key, offset in (latest or {}).items():
        offsets.put([key], [offset])
    offsets.latest_offset = covered
    return BatchCleaner(offsets, now_ms=now_ms, delete_retention_ms=RETENTION_MS)


def record(offset: int, key: bytes | None, value: bytes | None = b"v", timestamp: int = NOW_MS) -> Record:
    return Record(offset, timestamp + offset, key, value, [("h", b"x")])


def clean(batch: bytes, by: BatchCleaner, producers: Mapping[int, LastRecord] = NOBODY) -> Cleaned:
    cleaned = by.clean(batch, 0, read_header(batch), producers)
    if cleaned.content:
        assert crc_is_valid(cleaned.content, 0, read_header(cleaned.content))
    return cleaned


def records_of(batch: bytes) -> list[Record]:
    return list(iter_records(batch, 0, read_header(batch), 1 << 20))


RECORDS = [record(10, b"a"), record(12, b"b", timestamp=NOW_MS + 500), record(13, b"c")]


@pytest.mark.parametrize("codec", list(Compression))
def test_superseded_records_go_and_the_others_keep_offset_and_time(codec: Compression) -> None:
    batch = encode_batch(RECORDS, base_offset=10, keep_offsets=True, compression=codec, partition_leader_epoch=3)
    cleaned = clean(batch, cleaner({b"a": 20, b"b": 12, b"c": 13}))
    assert (cleaned.fate, cleaned.records_kept) == (CleaningOutcome.REBUILT, 2)
    assert records_of(cleaned.content) == RECORDS[1:]
    header = read_header(cleaned.content)
    assert (header.base_offset, header.last_offset, header.partition_leader_epoch) == (10, 13, 3)
    assert header.compression is codec
    assert header.max_timestamp == NOW_MS + 512


def test_the_largest_timestamp_is_that_of_what_stays() -> None:
    batch = encode_batch(RECORDS, base_offset=10, keep_offsets=True)
    cleaned = clean(batch, cleaner({b"b": 20}))
    assert read_header(cleaned.content).max_timestamp == NOW_MS + 13


def test_append_time_stays_what_it_was() -> None:
    batch = encode_batch(RECORDS, base_offset=10, keep_offsets=True, log_append_time_ms=NOW_MS + 77)
    cleaned = clean(batch, cleaner({b"b": 20}))
    assert {each.timestamp for each in records_of(cleaned.content)} == {NOW_MS + 77}
    assert read_header(cleaned.content).is_log_append_time


@pytest.mark.parametrize("unknown", [0x80, 0x4000, -0x8000])
def test_attributes_that_nobody_knows_go_with_the_first_record(unknown: int) -> None:
    batch = bytes(with_field(encode_batch(RECORDS, base_offset=10, keep_offsets=True), ">h", 21, unknown))
    assert clean(batch, cleaner()) == Cleaned(CleaningOutcome.COPIED, 3)
    kept = clean(batch, cleaner({b"a": 20, b"b": 12, b"c": 13})).content
    assert read_header(kept).attributes == read_header(empty_batch(read_header(batch))).attributes == 0


def test_a_batch_of_which_all_stays_is_copied() -> None:
    batch = encode_batch(RECORDS, base_offset=10, keep_offsets=True)
    assert clean(batch, cleaner()) == Cleaned(CleaningOutcome.COPIED, 3)
    assert clean(batch, cleaner({b"a": 10, b"c": 13})) == Cleaned(CleaningOutcome.COPIED, 3)


def test_a_batch_of_which_nothing_stays_is_dropped() -> None:
    batch = encode_batch(RECORDS[:1], base_offset=10, producer_id=7, producer_epoch=1, base_sequence=3)
    assert clean(batch, cleaner({b"a": 20})) == Cleaned(CleaningOutcome.DROPPED, 0)
    assert clean(batch, cleaner({b"a": 20}), {7: LastRecord(11, 1)}).fate is CleaningOutcome.DROPPED
    assert clean(batch, cleaner({b"a": 20}), {8: LastRecord(10, 1)}).fate is CleaningOutcome.DROPPED


def test_the_last_batch_of_a_producer_is_kept_without_records() -> None:
    batch = encode_batch(RECORDS[:1], base_offset=10, producer_id=7, producer_epoch=1, base_sequence=3)
    cleaned = clean(batch, cleaner({b"a": 20}), {7: LastRecord(10, 1)})
    assert cleaned.fate is CleaningOutcome.EMPTIED
    header = read_header(cleaned.content)
    assert (header.records_count, header.last_offset, header.producer_id) == (0, 10, 7)
    assert (header.producer_epoch, header.last_sequence) == (1, 3)
    assert clean(cleaned.content, cleaner(), {7: LastRecord(10, 1)}).content == cleaned.content
    assert clean(cleaned.content, cleaner(), {7: LastRecord(11, 1)}).fate is CleaningOutcome.DROPPED


def test_records_without_a_key_go() -> None:
    batch = encode_batch([record(10, None), record(11, b"b")], base_offset=10)
    assert [each.key for each in records_of(clean(batch, cleaner()).content)] == [b"b"]


def test_what_lies_behind_the_map_stays_whatever_it_is() -> None:
    batch = encode_batch([record(10, None), record(11, b"a"), record(12, b"a")], base_offset=10)
    assert clean(batch, cleaner({b"a": 9}, covered=9)) == Cleaned(CleaningOutcome.COPIED, 3)
    cleaned = clean(batch, cleaner({b"a": 10}, covered=10))
    assert [each.offset for each in records_of(cleaned.content)] == [11, 12]


# --- delete markers ---


def test_a_delete_marker_is_given_a_horizon_and_goes_when_that_has_passed() -> None:
    records = [record(10, b"a", None), record(11, b"b")]
    first = clean(encode_batch(records, base_offset=10), cleaner())
    header = read_header(first.content)
    assert first.fate is CleaningOutcome.REBUILT
    assert (header.has_delete_horizon, header.base_timestamp) == (True, NOW_MS + RETENTION_MS)
    assert records_of(first.content) == records
    assert header.max_timestamp == NOW_MS + 11

    waiting = clean(first.content, cleaner(now_ms=NOW_MS + RETENTION_MS - 1))
    assert waiting == Cleaned(CleaningOutcome.COPIED, 2)
    gone = clean(first.content, cleaner(now_ms=NOW_MS + RETENTION_MS))
    assert records_of(gone.content) == records[1:]
    assert read_header(gone.content).base_timestamp == NOW_MS + RETENTION_MS, "the batch keeps its horizon"


def test_a_superseded_delete_marker_goes_at_once() -> None:
    cleaned = clean(encode_batch([record(10, b"a", None), record(11, b"b")], base_offset=10), cleaner({b"a": 20}))
    assert [each.key for each in records_of(cleaned.content)] == [b"b"]
    assert not read_header(cleaned.content).has_delete_horizon


@given(st.lists(st.integers(-(1 << 40), 1 << 41), min_size=1, max_size=5), st.sampled_from(list(Compression)))
def test_a_horizon_changes_no_timestamp(timestamps: list[int], codec: Compression) -> None:
    records = [Record(at, timestamp, b"%d" % at, None, []) for at, timestamp in enumerate(timestamps)]
    cleaned = clean(encode_batch(records, compression=codec), cleaner())
    assert records_of(cleaned.content) == records
    assert read_header(cleaned.content).max_timestamp == max(timestamps)


# --- transactions ---


def data(offset: int, key: bytes = b"a", producer: int = 7) -> bytes:
    return encode_batch(
        [record(offset, key)], base_offset=offset, producer_id=producer, producer_epoch=0, base_sequence=offset,
        is_transactional=True,
    )  # fmt: skip


def marker(kind: ControlType, offset: int, producer: int = 7) -> bytes:
    return encode_marker(EndTxnMarker(kind, 0, NOW_MS), producer_id=producer, producer_epoch=0, base_offset=offset)


@dataclass
class Log:
    """Batches cleaned one after the other."""

    cleaner: BatchCleaner
    producers: Mapping[int, LastRecord]

    def fates(self, *batches: bytes) -> list[CleaningOutcome]:
        return [clean(batch, self.cleaner, self.producers).fate for batch in batches]


def test_committed_records_stay_and_their_marker_with_them() -> None:
    log = Log(cleaner(), NOBODY)
    assert log.fates(data(10), marker(ControlType.COMMIT, 11)) == [CleaningOutcome.COPIED, CleaningOutcome.COPIED]


def test_a_marker_stays_as_long_as_a_batch_of_its_transaction_was_there() -> None:
    log = Log(cleaner({b"a": 20}), NOBODY)
    assert log.fates(data(10), marker(ControlType.COMMIT, 11)) == [CleaningOutcome.DROPPED, CleaningOutcome.COPIED]


@pytest.mark.parametrize("kind", list(ControlType))
def test_a_marker_without_records_is_given_a_horizon_and_goes_when_that_has_passed(kind: ControlType) -> None:
    lone = marker(kind, 11)
    first = clean(lone, cleaner())
    header = read_header(first.content)
    assert (header.has_delete_horizon, header.base_timestamp) == (True, NOW_MS + RETENTION_MS)
    assert header.is_control and header.is_transactional
    assert read_marker(first.content, 0, header) == EndTxnMarker(kind, 0, NOW_MS)
    assert clean(first.content, cleaner(now_ms=NOW_MS + RETENTION_MS - 1)).fate is CleaningOutcome.COPIED
    late = cleaner(now_ms=NOW_MS + RETENTION_MS)
    assert clean(first.content, late).fate is CleaningOutcome.DROPPED
    assert clean(first.content, late, {7: LastRecord(None, 1)}).fate is CleaningOutcome.DROPPED, "of another epoch"
    emptied = clean(first.content, late, {7: LastRecord(None, 0)})
    assert emptied.fate is CleaningOutcome.EMPTIED, "nothing else knows the epoch"
    assert not read_header(emptied.content).has_delete_horizon
    assert clean(emptied.content, late, {7: LastRecord(None, 0)}).fate is CleaningOutcome.EMPTIED
    assert clean(emptied.content, late, {7: LastRecord(30, 0)}).fate is CleaningOutcome.DROPPED


def test_aborted_records_go_at_once_and_their_marker_is_remembered() -> None:
    log = Log(cleaner(), NOBODY)
    aborted = AbortedTxn(7, 10, 12, 13)
    log.cleaner.transactions.expect([aborted])
    log.cleaner.transactions.expect([aborted])
    batches = data(10), data(11, b"b", producer=8), marker(ControlType.ABORT, 12), data(13, b"c")
    assert log.fates(*batches) == [
        CleaningOutcome.DROPPED,
        CleaningOutcome.COPIED,
        CleaningOutcome.COPIED,
        CleaningOutcome.COPIED,
    ]
    assert log.cleaner.transactions.kept_aborted == [aborted]


def test_the_last_batch_of_an_aborted_transaction_may_have_to_stay() -> None:
    log = Log(cleaner(), {7: LastRecord(11, 0)})
    log.cleaner.transactions.expect([AbortedTxn(7, 10, 12, 13)])
    assert log.fates(data(10), data(11)) == [CleaningOutcome.DROPPED, CleaningOutcome.EMPTIED]


# --- anything else ---


def test_what_is_no_batch_is_refused() -> None:
    batch = bytearray(encode_batch(RECORDS, base_offset=10, keep_offsets=True))
    for at in range(61, len(batch)):
        for value in (0x01, 0x7F, 0x80, 0xFF):
            broken = bytearray(batch)
            broken[at] = value
            try:
                keys = read_keys(bytes(broken), 0, read_header(broken))
            except InvalidBatch:
                continue
            assert len(keys.ends) == 3 and keys.ends[-1] == len(batch)


@given(
    st.lists(
        st.tuples(st.integers(1, 300), st.one_of(st.none(), st.binary(max_size=200)), st.booleans()),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(list(Compression)),
)
def test_keys_are_read_as_records_are(rows: list[tuple[int, bytes | None, bool]], codec: Compression) -> None:
    records, offset = [], 0
    for step, key, has_value in rows:
        offset += step * step
        records.append(record(offset, key, b"x" * step if has_value else None))
    batch = encode_batch(records, base_offset=0, keep_offsets=True, compression=codec)
    found = read_keys(batch, 0, read_header(batch))
    assert found.keys == [each.key for each in records]
    assert found.deltas == [each.offset for each in records]
    assert found.without_value == [at for at, each in enumerate(records) if each.value is None]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_messages_of_old_formats_are_cleaned_as_well(magic: int, codec: Compression) -> None:
    rows = [Record(10, NOW_MS if magic else -1, b"a", b"1"), Record(12, NOW_MS if magic else -1, b"b", None)]
    count = 1 if codec is Compression.NONE else 2
    batch = encode_message_set(rows[2 - count :], magic, compression=codec)
    by = cleaner({b"a": 20})
    by.keeps_old_markers = True
    kept = by.clean(batch, 0, read_legacy_header(batch), NOBODY)
    if codec is Compression.NONE:
        assert kept == Cleaned(CleaningOutcome.COPIED, 1)
    else:
        header = read_legacy_header(kept.content)
        assert header.magic == magic and header.compression is codec
        assert list(iter_legacy_records(kept.content, 0, header, 1 << 20)) == rows[1:]
    by.keeps_old_markers = False
    assert by.clean(batch, 0, read_legacy_header(batch), NOBODY).fate is CleaningOutcome.DROPPED


def test_an_emptied_batch_has_no_horizon() -> None:
    batch = clean(encode_batch([record(10, b"a", None)], base_offset=10), cleaner()).content
    assert not read_header(empty_batch(read_header(batch))).has_delete_horizon
