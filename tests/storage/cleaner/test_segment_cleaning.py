"""One cleaning over files: what it leaves when records are not where their numbers say."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.records.any_format import iter_any_headers, iter_any_records
from protocol.records.record import assemble
from protocol.varint import encode_varint
from runtime.disk.os_filesystem import OsFileSystem
from storage.cleaner.segment_cleaning import CleaningRequest, LogCleaning
from storage.segments.segment_copy import CleanedSegment

NOW_MS = 1_700_000_000_000


def record(delta: int, key: bytes) -> bytes:
    body = b"\0\0" + encode_varint(delta) + encode_varint(len(key)) + key + encode_varint(1) + b"v\0"
    return encode_varint(len(body)) + body


def batch(base_offset: int, last_offset_delta: int, records: list[bytes]) -> bytes:
    nobody = (-1, -1, -1)
    return assemble(
        base_offset, 0, 0, last_offset_delta, NOW_MS, NOW_MS, nobody, len(records), b"".join(records)
    )  # fmt: skip


def left_of(
    folder: Path, content: bytes, end_offset: int, *, first_dirty_offset: int = 0
) -> list[tuple[int, bytes | None]]:
    (folder / f"{0:020d}.log").write_bytes(content)
    request = CleaningRequest(
        str(folder), [0], first_dirty_offset, end_offset, NOW_MS, 1 << 30, 10 << 20, 4096, 1000, 1 << 20, 0.9, 1 << 20
    )  # fmt: skip
    work = LogCleaning(OsFileSystem(), request)
    assert sum(work.build_map([])) == len(content)
    result: list[CleanedSegment] = []
    for group in work.groups():
        assert sum(work.clean_group(group, [], {}, 0, result)) >= len(content)
    cleaned = (folder / f"{0:020d}.log.cleaned").read_bytes()
    return [
        (each.offset, each.key)
        for at, header in iter_any_headers(cleaned)
        for each in iter_any_records(cleaned, at, header, 1 << 20)
    ]


def test_latest_records_stay(tmp_path: Path) -> None:
    content = batch(0, 2, [record(0, b"a"), record(1, b"b"), record(2, b"a")]) + batch(3, 0, [record(0, b"b")])
    assert left_of(tmp_path, content, 4) == [(2, b"a"), (3, b"b")]


def test_what_is_clean_already_is_compared_by_its_keys(tmp_path: Path) -> None:
    content = batch(0, 1, [record(0, b"a"), record(1, b"b")]) + batch(2, 1, [record(0, b"b"), record(1, b"c")])
    assert left_of(tmp_path, content, 4, first_dirty_offset=2) == [(0, b"a"), (2, b"b"), (3, b"c")]


@pytest.mark.parametrize("deltas", [(0, 0, 1), (0, 2, 1), (1, 1, 2)])
def test_records_that_are_not_at_their_numbers_are_found_by_their_keys(tmp_path: Path, deltas: tuple[int, ...]) -> None:
    """No producer writes such offset deltas, and a file may have them."""
    records = [record(delta, key) for delta, key in zip(deltas, (b"a", b"b", b"c"), strict=True)]
    content = batch(0, 2, records) + batch(3, 0, [record(0, b"d")])
    found = left_of(tmp_path, content, 4)
    assert [key for _, key in found] == [b"a", b"b", b"c", b"d"]


def test_gaps_of_an_earlier_cleaning_are_met(tmp_path: Path) -> None:
    content = batch(0, 5, [record(1, b"a"), record(4, b"b")]) + batch(6, 1, [record(0, b"a"), record(1, b"c")])
    assert left_of(tmp_path, content, 8) == [(4, b"b"), (6, b"a"), (7, b"c")]
