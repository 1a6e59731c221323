"""Records with any number of headers, as a few kilobytes of a compressed batch may hold millions: who has no use for headers
does not look at them, since a record is looked at in one go."""

from __future__ import annotations

import pytest

from protocol.records import record as record_module
from protocol.records.any_format import any_records_in_steps, iter_any_headers, iter_any_records
from protocol.records.batch import HEADER_BYTES, read_header
from protocol.records.compression import Compression
from protocol.records.invalid import InvalidBatch
from protocol.records.record import Record, encode_batch
from storage.conversion.down_conversion import DownConversion
from storage.log.reading.timestamp_search import Sought, first_in_batch

CODECS = [Compression.NONE, Compression.GZIP]
RECORDS, HEADERS = 3, 1000
MAX_BYTES = 1 << 20


@pytest.fixture
def fields(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where each key, value and header was read."""
    found: list[int] = []
    read_bytes = record_module._read_bytes

    def noted(block: bytes, at: int) -> tuple[bytes | None, int]:
        found.append(at)
        return read_bytes(block, at)

    monkeypatch.setattr(record_module, "_read_bytes", noted)
    return found


def batch(codec: Compression) -> bytes:
    headers: list[tuple[str, bytes | None]] = [("h", None)] * HEADERS
    return encode_batch([Record(at, 1000 + at, b"k", b"v", headers) for at in range(RECORDS)], compression=codec)


@pytest.mark.parametrize("codec", CODECS)
def test_a_search_by_time_passes_them_over(fields: list[int], codec: Compression) -> None:
    content = batch(codec)
    steps = first_in_batch(content, read_header(content), Sought(1000 + RECORDS))
    assert all(each is None for each in steps)
    assert len(fields) == 2 * RECORDS


@pytest.mark.parametrize("codec", CODECS)
def test_a_conversion_for_old_clients_passes_them_over(fields: list[int], codec: Compression) -> None:
    conversion = DownConversion(batch(codec), 1, 0)
    assert all(each is None for each in conversion.steps())
    assert len(fields) == 2 * RECORDS
    found = [
        (each.offset, each.timestamp, each.key, each.value)
        for position, header in iter_any_headers(conversion.records)
        for each in iter_any_records(conversion.records, position, header, MAX_BYTES)
    ]
    assert found == [(at, 1000 + at, b"k", b"v") for at in range(RECORDS)]


@pytest.mark.parametrize("length", [0, 5, 9, 11, 63])
def test_a_record_that_does_not_end_where_it_says_is_broken_all_the_same(length: int) -> None:
    """It is the only one, and ten bytes long without its length."""
    content = bytearray(encode_batch([Record(0, 1000, b"k", b"v", [("", None)])]))
    assert content[HEADER_BYTES:][:1] == bytes((10 * 2,)) and len(content) == HEADER_BYTES + 1 + 10
    content[HEADER_BYTES] = length * 2
    with pytest.raises(StopIteration) as end:
        next(any_records_in_steps(content, 0, read_header(content), MAX_BYTES))
    with pytest.raises(InvalidBatch):
        list(end.value.value)
