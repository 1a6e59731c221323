"""What is read for a share fetch: whole batches, as few as are wanted, as bytes or as a range of a file."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from protocol.records.batch import iter_headers
from replication.sharing.group_partition import GroupPartition
from replication.sharing.share_read import ShareRead
from runtime.network.file_range import FileRange
from storage.log.partition_log import AppendOrigin, PartitionLog
from storage.log.reading.log_reader import RANGE_BYTES
from tests.storage.logs import NOW_MS, batch, open_log, world

LARGE = "x" * 20_000


def shared_of(log: PartitionLog, *, reads_committed: bool = False) -> GroupPartition:
    partition = SimpleNamespace(log=log)
    found = SimpleNamespace(partition=partition, limit_offset=log.high_watermark, reads_committed=reads_committed)
    return cast(GroupPartition, found)


async def filled(log: PartitionLog, *batches: bytearray) -> None:
    for each in batches:
        log.append(each, leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=NOW_MS, done=lambda _error: None)
    await log.await_appends()
    log.commit(log.log_end_offset)


def offsets(records: Any) -> list[tuple[int, int]]:
    content = records.read() if isinstance(records, FileRange) else records
    return [(header.base_offset, header.last_offset) for _, header in iter_headers(content)]


async def test_no_more_is_read_than_the_batch_with_the_last_wanted_offset_and_some(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as around:
        log = await open_log(around, str(tmp_path))
        await filled(log, *[batch("a", "b", LARGE) for _ in range(50)])
        read = ShareRead(shared_of(log), 1)
        read.read(4, RANGE_BYTES * 100, takes_ranges=False)
        assert read.batches[:2] == [(0, 2), (3, 5)]
        assert len(read) < RANGE_BYTES
        two_bytes = read.bytes_of(4)
        records = read.cut(1, 3)
        assert (offsets(records), len(records)) == ([(0, 2), (3, 5)], two_bytes)


@pytest.mark.parametrize("takes_ranges", [False, True])
async def test_a_long_read_has_the_same_batches_as_a_range_and_as_bytes(tmp_path: Path, takes_ranges: bool) -> None:
    async with world(str(tmp_path)) as around:
        log = await open_log(around, str(tmp_path))
        await filled(log, *[batch("a", LARGE) for _ in range(40)])
        read = ShareRead(shared_of(log), 0)
        read.read(60, 1 << 30, takes_ranges=takes_ranges)
        assert isinstance(read.records, FileRange) is takes_ranges
        assert read.batches[:30] == [(at, at + 1) for at in range(0, 60, 2)]
        records = read.cut(10, 50)
        assert isinstance(records, FileRange) is takes_ranges
        assert offsets(records) == [(at, at + 1) for at in range(10, 51, 2)]
        if isinstance(records, FileRange):
            records.release()


async def test_of_a_range_of_which_little_is_acquired_bytes_are_left(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as around:
        log = await open_log(around, str(tmp_path))
        await filled(log, *[batch("a", LARGE) for _ in range(40)])
        read = ShareRead(shared_of(log), 0)
        read.read(60, 1 << 30, takes_ranges=True)
        records = read.cut(4, 5)
        assert not isinstance(records, FileRange)
        assert offsets(records) == [(4, 5)]
        assert len(around.environment.ranges_in_flight) == 0


async def test_a_batch_that_begins_within_what_is_wanted_is_read_to_its_end(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as around:
        log = await open_log(around, str(tmp_path))
        await filled(log, batch("a", "b"), batch(*[LARGE] * 8), batch("z"))
        read = ShareRead(shared_of(log), 0)
        read.read(4, 1 << 30, takes_ranges=False)
        assert read.batches[:2] == [(0, 1), (2, 9)]


async def test_nothing_is_read_behind_the_limit(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as around:
        log = await open_log(around, str(tmp_path))
        await filled(log, batch("a"), batch("b"))
        shared = shared_of(log)
        cast(Any, shared).limit_offset = 1
        read = ShareRead(shared, 0)
        read.read(10, 1 << 20, takes_ranges=False)
        assert read.batches == [(0, 0)]


async def test_a_batch_that_is_too_large_is_read_only_as_the_first_of_a_fetch(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as around:
        log = await open_log(around, str(tmp_path))
        await filled(log, batch(LARGE))
        for at_least_one, expected in ((True, [(0, 0)]), (False, [])):
            read = ShareRead(shared_of(log), 0)
            read.read(1, 100, takes_ranges=False, at_least_one=at_least_one)
            assert read.batches == expected
