"""A search by timestamp that has to look at much: the loop runs meanwhile, every byte is read once, and nothing is opened
that only has to be passed by."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from protocol.errors import ErrorCode, KafkaError
from protocol.records.batch import patch_timestamp, read_header
from protocol.records.compression import Compression
from protocol.records.record import Record, encode_batch
from storage.log.partition_log import AppendOrigin, PartitionLog
from storage.log.reading.timestamp_search import STEP_RECORDS, Sought, TimestampOffset, first_in_batch
from storage.log.removal.log_truncation import truncate_to
from storage.log.removal.segment_retention import delete_records, delete_segments_before
from tests.doubles.clock import ManualClock
from tests.doubles.file_system import ControlledFileSystem
from tests.storage.log.reading.test_read_cost import Asked
from tests.storage.logs import NOW_MS, append, append_records, config, open_log, until, world

T = TypeVar("T")

BATCHES = 4_000
LATE_MS = NOW_MS + 3_600_000


async def with_others(search: Coroutine[Any, Any, T]) -> tuple[T, int]:
    """What it found, and how often others ran meanwhile."""
    task = asyncio.ensure_future(search)
    turns = 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    return task.result(), turns


async def fill(log: PartitionLog, batches: int = BATCHES) -> None:
    """Behind what is there: small batches of which nobody looks for any."""
    one = bytes(encode_batch([Record(0, NOW_MS, b"k", b"v" * 30, [])]))
    for _ in range(batches):
        log.append(bytearray(one), leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=NOW_MS, done=lambda error: None)
    await log.await_appends()


async def log_with_the_latest_deleted(log: PartitionLog, batches: int = BATCHES) -> None:
    """The indexes know a timestamp that no record has any more which is still in the log."""
    await append(log, "latest", timestamp=LATE_MS)
    await fill(log, batches)
    log.commit(log.log_end_offset)
    delete_records(log, 1)


async def test_others_run_while_a_segment_is_walked_to_its_end(tmp_path: Path) -> None:
    async with world(str(tmp_path), clock=ManualClock(NOW_MS, step_ms=1)) as one:
        log = await open_log(one, str(tmp_path))
        await log_with_the_latest_deleted(log)
        found, turns = await with_others(log.reading.offset_for_timestamp(LATE_MS))
        assert found is None
        assert turns > 1
        await log.close()


async def test_what_is_walked_over_is_read_once_and_not_kept(tmp_path: Path) -> None:
    asked = Asked()
    async with world(str(tmp_path), filesystem=asked) as one:
        log = await open_log(one, str(tmp_path))
        await log_with_the_latest_deleted(log)
        asked.forget()
        asked.is_cold = True
        assert await log.reading.offset_for_timestamp(LATE_MS) is None
        positions = [position for position, _ in asked.waited]
        assert len(positions) == len(set(positions))
        assert sum(length for _, length in asked.waited) < 1.05 * log.size_bytes
        await log.close()


async def test_headers_that_claim_a_timestamp_which_no_record_has_hold_nobody_up(tmp_path: Path) -> None:
    async with world(str(tmp_path), clock=ManualClock(NOW_MS, step_ms=1)) as one:
        log = await open_log(one, str(tmp_path))
        lying = bytearray(encode_batch([Record(0, NOW_MS, b"k", b"v", [])]))
        patch_timestamp(lying, 0, read_header(lying), is_log_append_time=False, max_timestamp=LATE_MS)
        for _ in range(200):
            await append_records(log, bytearray(lying))
        await append(log, "there it is", timestamp=LATE_MS + 1)
        found, turns = await with_others(log.reading.offset_for_timestamp(LATE_MS))
        assert found == TimestampOffset(LATE_MS + 1, 200, 0)
        assert turns > 200 // 5
        await log.close()


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD, Compression.GZIP])
async def test_others_run_while_a_batch_of_many_records_is_looked_through(tmp_path: Path, codec: Compression) -> None:
    count = 40 * STEP_RECORDS
    records = [Record(at, NOW_MS + at, None, b"", []) for at in range(count)]
    async with world(str(tmp_path), clock=ManualClock(NOW_MS, step_ms=1)) as one:
        log = await open_log(one, str(tmp_path))
        content = encode_batch(records, compression=codec, partition_leader_epoch=0)
        await append_records(log, bytearray(content), origin=AppendOrigin.REPLICA)
        last_ms = NOW_MS + count - 1
        found, turns = await with_others(log.reading.offset_for_timestamp(last_ms))
        assert found == TimestampOffset(last_ms, count - 1, 0)
        assert turns >= 40 // 5
        await log.close()


async def test_a_log_that_is_cut_meanwhile_is_searched_again(tmp_path: Path) -> None:
    cold = ControlledFileSystem()
    async with world(str(tmp_path), filesystem=cold) as one:
        log = await open_log(one, str(tmp_path))
        await log_with_the_latest_deleted(log, batches=1)
        await append(log, "cut", timestamp=LATE_MS)
        reads = cold.hold_reads(late=True)
        search = asyncio.ensure_future(log.reading.offset_for_timestamp(LATE_MS))
        await reads.reached()  # it has what is cut off now
        await truncate_to(log, 2)
        await append(log, "other", timestamp=LATE_MS + 5)
        reads.open()
        assert await search == TimestampOffset(LATE_MS + 5, 2, 0)
        await log.close()


async def test_a_segment_that_goes_while_it_is_walked_is_answered_as_a_read_is(tmp_path: Path) -> None:
    cold = ControlledFileSystem()
    async with world(str(tmp_path), filesystem=cold) as one:
        log = await open_log(one, str(tmp_path), config(segment_bytes=BATCHES * 100))
        await log_with_the_latest_deleted(log)
        await fill(log)
        log.commit(log.log_end_offset)
        assert len(log.segments) == 2
        # A flush that is under way keeps the segment's file open, also when the segment goes.
        await until(lambda: log.offsets.recovery_point == log.segments.active.base_offset)
        reads = cold.hold_reads(late=True)
        search = asyncio.ensure_future(log.reading.offset_for_timestamp(LATE_MS))
        await reads.reached()
        assert await delete_segments_before(log, log.segments.active.base_offset)
        reads.open()
        with pytest.raises(KafkaError) as refused:
            await search
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert await log.reading.offset_for_timestamp(LATE_MS) is None
        await log.close()


async def test_segments_that_are_passed_by_stay_closed(tmp_path: Path) -> None:
    settings = config(segment_bytes=2_000, index_interval_bytes=100)
    async with world(str(tmp_path)) as one:
        log = await open_log(one, str(tmp_path), settings)
        for number in range(100):
            await append(log, "v" * 30, timestamp=NOW_MS + number)
        end_offset = log.log_end_offset
        await log.close()
    async with world(str(tmp_path)) as one:
        log = await open_log(one, str(tmp_path), settings, is_clean=True, recovery_point=end_offset)
        segments = list(log.segments)
        assert len(segments) > 4
        wanted = segments[-2]
        found = await log.reading.offset_for_timestamp(NOW_MS + wanted.base_offset)
        assert found == TimestampOffset(NOW_MS + wanted.base_offset, wanted.base_offset, 0)
        assert [segment for segment in segments if segment.file is not None] == [wanted]
        largest = await log.reading.offset_of_max_timestamp()
        assert largest == TimestampOffset(NOW_MS + 99, 99, 0)
        assert [segment for segment in segments if segment.file is not None] == segments[-2:]
        await log.close()


def test_a_batch_is_looked_through_in_steps() -> None:
    batch = encode_batch([Record(at, NOW_MS + at, None, b"", []) for at in range(3 * STEP_RECORDS)])
    steps = first_in_batch(batch, read_header(batch), Sought(NOW_MS + 3 * STEP_RECORDS))
    assert len(list(steps)) == 3


def test_the_largest_timestamp_is_the_one_that_the_header_names() -> None:
    """As in Apache Kafka, where a producer has written another one there than its records have."""
    batch = bytearray(encode_batch([Record(at, NOW_MS + at, None, b"", []) for at in range(3)]))
    patch_timestamp(batch, 0, read_header(batch), is_log_append_time=False, max_timestamp=NOW_MS + 1)
    header = read_header(batch)
    found = found_by(first_in_batch(batch, header, Sought(NOW_MS + 1, is_largest=True)))
    assert found == TimestampOffset(NOW_MS + 1, 1, header.partition_leader_epoch)
    patch_timestamp(batch, 0, header, is_log_append_time=False, max_timestamp=NOW_MS - 1)
    assert found_by(first_in_batch(batch, header, Sought(NOW_MS - 1, is_largest=True))) is None


def found_by(steps: Generator[None, None, TimestampOffset | None]) -> TimestampOffset | None:
    while True:
        try:
            next(steps)
        except StopIteration as last:
            found: TimestampOffset | None = last.value
            return found
