from __future__ import annotations

from protocol.records.batch import BatchHeader, read_header
from protocol.records.record import Record, encode_batch
from storage.log.append_result import Extent, extent_of
from storage.segments.segment import NO_TIMESTAMP


def header(base_offset: int, *timestamps: int) -> BatchHeader:
    records = [Record(index, timestamp, None, b"x", []) for index, timestamp in enumerate(timestamps)]
    return read_header(encode_batch(records, base_offset=base_offset), 0)


def test_the_first_of_the_batches_with_the_largest_timestamp_counts() -> None:
    extent = extent_of([header(10, 5), header(11, 9, 7), header(20, 9)])
    assert extent == Extent(
        base_offset=10, next_offset=21, max_timestamp=9, offset_of_max_timestamp=12, records_count=4
    )


def test_batches_without_timestamps_end_where_they_end() -> None:
    extent = extent_of([header(3, NO_TIMESTAMP), header(4, NO_TIMESTAMP, NO_TIMESTAMP)])
    assert extent == Extent(3, 6, NO_TIMESTAMP, 5, 3)
