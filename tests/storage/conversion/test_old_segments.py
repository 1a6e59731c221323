"""Segments that brokers of before record batches wrote: loaded, walked, recovered, indexed, searched, read, copied."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from protocol.records.any_format import iter_any_headers, iter_any_records
from protocol.records.compression import Compression
from protocol.records.legacy import encode_message, encode_message_set
from protocol.records.record import Record
from runtime.disk.os_filesystem import OsFileSystem
from storage.log.partition_log import AppendOrigin, PartitionLog
from storage.log.removal.log_truncation import truncate_to
from storage.segments.segment import NO_TIMESTAMP
from storage.segments.segment_scan import scan_segment
from tests.storage.logs import NOW_MS, append, append_records, batch, config, open_log, world

CODECS = (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4)
Check = Callable[[PartitionLog], Awaitable[None]]
MAX_BYTES = 1 << 22


def sample(start: int, end: int) -> list[Record]:
    return [Record(at, NOW_MS + at, b"k", b"value %d" % at) for at in range(start, end)]


def sets(magic: int, start: int, end: int, *, each: int = 5, codec: Compression = Compression.NONE) -> bytes:
    """Message sets of `each` records from `start` to `end`."""
    return b"".join(
        encode_message_set(sample(at, min(at + each, end)), magic, compression=codec) for at in range(start, end, each)
    )


def write_segment(folder: Path, base_offset: int, content: bytes) -> None:
    path = folder / "t-0"
    path.mkdir(exist_ok=True)
    (path / f"{base_offset:020d}.log").write_bytes(content)


def reopened(folder: Path, check: Check, **known: Any) -> None:
    async def run() -> None:
        async with world(str(folder)) as here:
            log = await open_log(here, str(folder), config(index_interval_bytes="200"), **known)
            await check(log)
            await log.close()

    asyncio.run(run())


async def read_from(log: PartitionLog, offset: int, max_bytes: int = 1 << 20) -> list[int]:
    """The offsets of the records at or behind `offset` that one read answers."""
    arguments: dict[str, Any] = {
        "limit_offset": log.log_end_offset, "max_bytes": max_bytes, "at_least_one": True,
    }  # fmt: skip
    chunk = log.reading.read(offset, **arguments)
    if chunk is None:
        chunk = await log.reading.read_cold(offset, **arguments)
    return [
        record.offset
        for position, header in iter_any_headers(chunk)
        for record in iter_any_records(chunk, position, header, MAX_BYTES)
        if record.offset >= offset
    ]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("is_clean", [False, True])
def test_an_old_log_is_opened_read_searched_and_goes_on(
    tmp_path: Path, magic: int, codec: Compression, is_clean: bool
) -> None:
    write_segment(tmp_path, 0, sets(magic, 0, 100, codec=codec))
    write_segment(tmp_path, 100, sets(magic, 100, 150, codec=codec))

    async def check(log: PartitionLog) -> None:
        assert log.log_end_offset == 150
        for offset in (0, 1, 37, 99, 100, 104, 149):
            assert (await read_from(log, offset))[0] == offset
            assert (await read_from(log, offset, max_bytes=1))[0] == offset
        found = await log.reading.offset_for_timestamp(NOW_MS + 42)
        latest = await log.reading.offset_of_max_timestamp()
        if magic:
            assert found is not None and (found.offset, found.timestamp, found.leader_epoch) == (42, NOW_MS + 42, -1)
            assert latest is not None and latest.offset == 149
        else:
            assert found is None and latest is None
        await append(log, "new", "er")
        assert log.log_end_offset == 152
        assert await read_from(log, 146) == [146, 147, 148, 149, 150, 151]
        assert (await read_from(log, 151)) == [151]
        assert log.epochs.latest_epoch == 0

    reopened(tmp_path, check, is_clean=is_clean)

    async def again(log: PartitionLog) -> None:
        assert log.log_end_offset == 152
        assert await read_from(log, 100) == list(range(100, 152))

    reopened(tmp_path, again, is_clean=True, recovery_point=152)
    reopened(tmp_path, again)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_torn_tail_is_cut_and_what_is_sound_stays(tmp_path: Path, magic: int) -> None:
    whole = sets(magic, 0, 20, codec=Compression.GZIP)
    for cut in (1, 11, 17, 25, 40):
        write_segment(tmp_path, 0, whole[:-cut])

        async def check(log: PartitionLog) -> None:
            assert log.log_end_offset == 15
            assert await read_from(log, 0) == list(range(15))

        reopened(tmp_path, check)


def test_a_damaged_message_ends_the_log(tmp_path: Path) -> None:
    whole = bytearray(sets(1, 0, 20))
    whole[-1] ^= 1
    write_segment(tmp_path, 0, bytes(whole))

    async def check(log: PartitionLog) -> None:
        assert log.log_end_offset == 19

    reopened(tmp_path, check)


def test_the_smallest_message_is_found_at_the_end(tmp_path: Path) -> None:
    smallest = [encode_message(0, offset, 0, None, None) for offset in range(50)]
    assert len(smallest[0]) == 26
    write_segment(tmp_path, 0, b"".join(smallest))

    async def check(log: PartitionLog) -> None:
        assert log.log_end_offset == 50
        for offset in (0, 48, 49):
            assert await read_from(log, offset) == list(range(offset, 50))
        assert await read_from(log, 49, max_bytes=3) == [49]

    reopened(tmp_path, check)


def test_indexes_of_old_segments_lead_to_the_wrapper(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    content = sets(1, 0, 200, each=10, codec=Compression.GZIP)
    path.write_bytes(content)
    file = OsFileSystem().open(str(path), writable=False)
    scan = scan_segment(file, 0, interval_bytes=100, check_crc=True)
    file.close()
    assert (scan.problem, scan.next_offset, scan.end_position) == (None, 200, len(content))
    assert (scan.max_timestamp, scan.offset_of_max_timestamp) == (NOW_MS + 199, 199)
    assert len(scan.offset_index) > 5 and len(scan.time_index) > 5
    assert scan.epochs == []
    entry = scan.offset_index.last
    assert entry is not None
    ((_, header),) = [(at, header) for at, header in iter_any_headers(content) if at == entry[1]]
    assert header.last_offset == entry[0]


def test_v0_has_no_timestamps(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(sets(0, 0, 200))
    file = OsFileSystem().open(str(path), writable=False)
    scan = scan_segment(file, 0, interval_bytes=100, check_crc=True)
    file.close()
    assert scan.max_timestamp == NO_TIMESTAMP and len(scan.time_index) == 0 and len(scan.offset_index) > 5


def test_offsets_that_fall_end_the_log(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, encode_message(1, 5, 0, None, b"a") + encode_message(1, 4, 0, None, b"b"))

    async def check(log: PartitionLog) -> None:
        assert log.log_end_offset == 6

    reopened(tmp_path, check)


def test_a_follower_copies_old_messages_as_they_are(tmp_path: Path) -> None:
    copied = sets(1, 0, 10, codec=Compression.GZIP) + sets(0, 10, 12) + bytes(batch("x", base_offset=12))

    async def check(log: PartitionLog) -> None:
        await append_records(log, bytearray(copied), origin=AppendOrigin.REPLICA)
        assert log.log_end_offset == 13
        assert await read_from(log, 0) == list(range(13))
        assert (tmp_path / "t-0" / f"{0:020d}.log").read_bytes() == copied
        damaged = bytearray(sets(1, 13, 14))
        damaged[-1] ^= 1
        with pytest.raises(Exception, match="corrupt"):
            await append_records(log, damaged, origin=AppendOrigin.REPLICA)

    reopened(tmp_path, check)


def test_a_cut_among_old_messages(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, sets(1, 0, 20, codec=Compression.SNAPPY))

    async def check(log: PartitionLog) -> None:
        await truncate_to(log, 12)
        await append(log, "next")
        assert await read_from(log, 0) == [*range(10), 12]  # a wrapper goes or stays as a whole

    reopened(tmp_path, check)
