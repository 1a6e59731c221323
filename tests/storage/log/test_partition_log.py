"""The log in use: appending, reading, rolling, cutting."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from protocol.errors import ErrorCode, KafkaError
from protocol.records.batch import read_header
from storage.log import opening
from storage.log.partition_log import AppendOrigin, PartitionLog
from storage.log.removal.log_truncation import truncate_fully_and_start_at, truncate_to
from storage.log.removal.segment_retention import delete_records, delete_segments_before, raise_log_start_offset
from tests.async_tests import played_by
from tests.storage.logs import (
    NOW_MS,
    Outcome,
    World,
    all_values,
    append,
    append_records,
    batch,
    config,
    open_log,
    read,
    values_of,
    world,
)

Body = Callable[[World, PartitionLog], Awaitable[None]]


def with_log(directory: Path, body: Body, open_limit: int = 100, **settings: Any) -> None:
    async def run() -> None:
        async with world(str(directory), open_limit=open_limit) as doors:
            log = await open_log(doors, str(directory), config(**settings))
            await body(doors, log)
            await log.close()

    asyncio.run(run())


@played_by(with_log, "tmp_path", gives=2)
async def test_appended_records_are_read_with_their_offsets(place: World, log: PartitionLog) -> None:
    first = await append(log, "a", "b")
    assert (first.base_offset, first.last_offset, first.records_count) == (0, 1, 2)
    second = await append(log, "c", epoch=3)
    assert (second.base_offset, second.last_offset) == (2, 2)
    assert log.log_end_offset == log.offsets.next_offset == 3
    assert await all_values(log) == [(0, "a"), (1, "b"), (2, "c")]
    assert read_header(await read(log, 2)).partition_leader_epoch == 3


@played_by(with_log, "tmp_path", gives=2)
async def test_done_comes_when_the_bytes_are_written_and_not_before(doors: World, log: PartitionLog) -> None:
    await append(log, "a")
    slow = doors.environment.queue.run(lambda: None)  # keeps the queue busy, so the writes wait behind it
    first, second = Outcome(), Outcome()
    for done in (first, second):
        log.append(batch("x"), leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=NOW_MS, done=done)
    assert (log.offsets.next_offset, log.log_end_offset) == (3, 1)
    assert first.errors == second.errors == []
    await slow
    await log.await_appends()
    assert first.is_written and second.is_written
    assert log.log_end_offset == 3


@played_by(with_log, "tmp_path", gives=2)
async def test_a_fetch_in_the_middle_of_a_batch_answers_the_batch(place: World, log: PartitionLog) -> None:
    await append(log, "a", "b", "c")
    await append(log, "d", "e")
    assert values_of(await read(log, 1))[0] == (0, "a")
    assert values_of(await read(log, 4)) == [(3, "d"), (4, "e")]


@played_by(with_log, "tmp_path", gives=2)
async def test_nothing_at_or_above_the_limit_is_read(place: World, log: PartitionLog) -> None:
    for value in "abcdef":
        await append(log, value, value)
    for limit in range(0, 13, 2):
        content = await read(log, 0, limit=limit)
        assert [offset for offset, _ in values_of(content)] == list(range(limit))
    # A limit inside a batch hides the whole batch.
    assert len(values_of(await read(log, 0, limit=3))) == 2
    assert await read(log, 4, limit=4) == b""


@played_by(with_log, "tmp_path", gives=2)
async def test_max_bytes_cuts_but_the_first_batch_comes_whole_when_asked_for(place: World, log: PartitionLog) -> None:
    await append(log, "x" * 1000)
    await append(log, "y" * 1000)
    whole = await read(log, 0)
    for max_bytes in (0, 1, 12, 61, 500):
        assert len(await read(log, 0, max_bytes=max_bytes)) == len(whole) // 2
        assert await read(log, 0, max_bytes=max_bytes, at_least_one=False) == b""
    assert await read(log, 0, max_bytes=len(whole) - 1) == whole[:-1]
    assert await read(log, 0, max_bytes=len(whole) // 2, at_least_one=False) == whole[: len(whole) // 2]


@played_by(with_log, "tmp_path", gives=2)
async def test_offsets_outside_of_the_log_are_out_of_range(place: World, log: PartitionLog) -> None:
    await append(log, "a", "b", "c", "d")
    log.high_watermark = 4
    delete_records(log, 2)
    for offset in (0, 1, 5):
        with pytest.raises(KafkaError) as refused:
            log.reading.read(offset, limit_offset=9, max_bytes=100, at_least_one=True)
        assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert await read(log, 4) == b""
    with pytest.raises(KafkaError, match="high watermark"):
        delete_records(log, 5)


@played_by(with_log, "tmp_path", gives=2, segment_bytes=900)
async def test_segments_roll_by_size_and_are_read_through(place: World, log: PartitionLog, tmp_path: Path) -> None:
    expected = []
    for at in range(60):
        await append(log, f"{at:0100}")
        expected.append((at, f"{at:0100}"))
    assert len(log.segments) == 12
    assert await all_values(log) == expected
    assert await all_values(log, max_bytes=1) == expected
    names = sorted(os.listdir(tmp_path / "t-0"))
    for segment in log.segments:
        for suffix in ("log", "index", "timeindex"):
            assert f"{segment.base_offset:020d}.{suffix}" in names
        assert segment.base_offset == 0 or f"{segment.base_offset:020d}.snapshot" in names


@played_by(with_log, "tmp_path", gives=2, open_limit=3, segment_bytes=900)
async def test_old_segments_are_closed_when_too_many_are_open(doors: World, log: PartitionLog) -> None:
    for at in range(60):
        await append(log, f"{at:0100}")
    for _ in range(2):
        assert len(await all_values(log)) == 60
        assert sum(segment.file is not None for segment in log.segments) <= 3 + 1
    assert len(doors.environment.open_segments) <= 3


@played_by(with_log, "tmp_path", gives=2, segment_ms=1000)
async def test_segments_roll_by_the_age_of_their_records(place: World, log: PartitionLog) -> None:
    await append(log, "a", timestamp=NOW_MS)
    await append(log, "b", timestamp=NOW_MS + 1000)
    assert len(log.segments) == 1
    await append(log, "c", timestamp=NOW_MS + 1001)
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    # Records without a timestamp: the wall clock counts, from when the segment was made.
    await append_records(log, batch("d", timestamp=-1), now_ms=NOW_MS + 900)
    assert len(log.segments) == 2
    await append_records(log, batch("e", timestamp=-1), now_ms=NOW_MS + 2000)
    assert len(log.segments) == 3


async def test_jitter_lets_segments_roll_earlier_and_not_all_at_once(tmp_path: Path) -> None:
    ages: set[int] = set()
    async with world(str(tmp_path)) as doors:
        for partition in range(20):
            log = await opening.open_log(
                "t", partition, f"{tmp_path}/t-{partition}", config(segment_ms=1000, segment_jitter_ms=500),
                doors.environment,
            )  # fmt: skip
            age_ms = 0
            while len(log.segments) == 1:
                age_ms += 10
                await append(log, "a", timestamp=NOW_MS + age_ms)
            ages.add(age_ms)
            await log.close()
    assert len(ages) > 5 and all(500 < age <= 1020 for age in ages)


@played_by(with_log, "tmp_path", gives=2, segment_index_bytes=48, index_interval_bytes=1)
async def test_a_full_index_rolls(place: World, log: PartitionLog) -> None:
    for at in range(10):
        await append(log, "x", timestamp=NOW_MS + at)
    assert len(log.segments) > 1
    assert len(await all_values(log)) == 10


@pytest.mark.parametrize("index_bytes", [4, 12, 23])
@played_by(
    lambda tmp_path, index_bytes, program: with_log(
        tmp_path, program, segment_index_bytes=index_bytes, index_interval_bytes=0
    ),
    "tmp_path",
    "index_bytes",
    gives=2,
)
async def test_indexes_without_room_give_each_batch_a_segment_and_lose_none(place: World, log: PartitionLog) -> None:
    for value in "abc":
        await append(log, value)
    assert await all_values(log) == [(0, "a"), (1, "b"), (2, "c")]
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2]


@played_by(with_log, "tmp_path", gives=2, segment_bytes=900)
async def test_appends_queue_in_order_behind_a_roll(place: World, log: PartitionLog) -> None:
    outcomes = [Outcome() for _ in range(40)]
    for at, done in enumerate(outcomes):
        log.append(batch(f"{at:0100}"), leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=NOW_MS, done=done)
    assert log.offsets.next_offset == 40
    await log.await_appends()
    assert all(done.is_written for done in outcomes)
    assert [value for _, value in await all_values(log)] == [f"{at:0100}" for at in range(40)]
    await log.flush()
    assert log.offsets.recovery_point == 40


@played_by(with_log, "tmp_path", gives=2, index_interval_bytes=1)
async def test_a_large_index_moves_to_its_file_and_still_answers(place: World, log: PartitionLog) -> None:
    for at in range(1400):
        log.append(
            batch(f"{at}", timestamp=NOW_MS + at),
            leader_epoch=0,
            origin=AppendOrigin.CLIENT,
            now_ms=NOW_MS,
            done=Outcome(),
        )
        if at % 100 == 0:
            await log.await_appends()
    await log.await_appends()
    segment = log.segments.active
    assert segment.offset_index.file_entries == segment.time_index.file_entries == 512
    for offset in (0, 3, 511, 512, 700, 1399):
        assert values_of(await read(log, offset, max_bytes=1)) == [(offset, f"{offset}")]
    for offset in (5, 600, 1399):
        found = await log.reading.offset_for_timestamp(NOW_MS + offset)
        assert found is not None and found.offset == offset
    assert len(await all_values(log, max_bytes=2000)) == 1400


@played_by(with_log, "tmp_path", gives=2, segment_bytes=900)
async def test_bytes_between_counts_whole_batches(place: World, log: PartitionLog) -> None:
    for value in "abcdefghijkl":
        await append(log, value * 100)
    size = len(await read(log, 11))
    assert len(log.segments) > 1
    for start in range(13):
        for limit in range(start, 13):
            assert log.reading.bytes_between(start, limit) == size * (limit - start)
    assert log.reading.bytes_between(5, 3) == 0
    assert log.size_bytes == 12 * size


@played_by(
    lambda tmp_path, program: with_log(tmp_path, program, segment_bytes=900, index_interval_bytes=1),
    "tmp_path",
    gives=2,
)
async def test_records_are_found_by_timestamp(place: World, log: PartitionLog) -> None:
    stamps = [100, 105, 101, 103, 110, 108, 112, 90]
    for stamp in stamps:
        await append(log, "x" * 100, "y" * 100, timestamp=stamp * 10, step_ms=1)
    for wanted in range(880, 1130):
        expected = next(
            (2 * at + step, stamp * 10 + step)
            for at, stamp in [*enumerate(stamps), (99, 999)]
            for step in (0, 1)
            if stamp * 10 + step >= wanted
        )
        found = await log.reading.offset_for_timestamp(wanted)
        assert (None if expected[0] > 100 else expected) == (None if found is None else (found.offset, found.timestamp))
    latest = await log.reading.offset_of_max_timestamp()
    assert latest is not None
    assert (latest.offset, latest.timestamp, latest.leader_epoch) == (13, 1121, 0)
    log.high_watermark = 16
    delete_records(log, 3)
    found = await log.reading.offset_for_timestamp(0)
    assert found is not None and found.offset == 3


@played_by(with_log, "tmp_path", gives=2, segment_bytes=600)
async def test_the_largest_timestamp_is_looked_for_in_all_that_the_files_hold(place: World, log: PartitionLog) -> None:
    """As Apache Kafka does, also where DeleteRecords has deleted it."""
    for stamp in (-1, 100, 300, -1, 200, 300, 250):
        await append(log, "x" * 200, timestamp=stamp)
    assert len(log.segments) > 2
    log.high_watermark = log.log_end_offset
    for start in range(log.log_end_offset + 1):
        raise_log_start_offset(log, start)
        latest = await log.reading.offset_of_max_timestamp()
        assert latest is not None and (latest.offset, latest.timestamp) == (2, 300)


@played_by(with_log, "tmp_path", gives=2, segment_bytes=600)
async def test_the_largest_timestamp_of_records_without_any_is_the_first_records(
    place: World, log: PartitionLog
) -> None:
    for _at in range(6):
        await append(log, "x" * 200, timestamp=-1)
    assert len(log.segments) > 1
    latest = await log.reading.offset_of_max_timestamp()
    assert latest is not None and (latest.offset, latest.timestamp, latest.leader_epoch) == (0, -1, 0)


@played_by(with_log, "tmp_path", gives=2)
async def test_an_empty_log_has_no_timestamps(place: World, log: PartitionLog) -> None:
    assert await log.reading.offset_for_timestamp(0) is None
    assert await log.reading.offset_of_max_timestamp() is None
    assert await read(log, 0) == b""
    assert log.reading.bytes_between(0, 0) == 0


@played_by(
    lambda tmp_path, program: with_log(tmp_path, program, message_timestamp_type="LogAppendTime"), "tmp_path", gives=2
)
async def test_a_topic_may_stamp_records_itself(place: World, log: PartitionLog) -> None:
    result = await append_records(log, batch("a", "b", timestamp=5), now_ms=777)
    assert result.log_append_time_ms == 777
    found = await log.reading.offset_for_timestamp(6)
    assert found is not None and (found.offset, found.timestamp) == (0, 777)


@played_by(with_log, "tmp_path", gives=2)
async def test_a_retried_batch_is_answered_with_its_first_offsets(doors: World, log: PartitionLog) -> None:
    producer = {"producer_id": 9, "producer_epoch": 0}
    await append(log, "a", "b", base_sequence=0, **producer)
    await append(log, "other")
    again = await append(log, "a", "b", base_sequence=0, **producer)
    assert again.duplicate and (again.base_offset, again.last_offset) == (0, 1)
    assert log.log_end_offset == 3
    with pytest.raises(KafkaError) as refused:
        await append(log, "gap", base_sequence=7, **producer)
    assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    # The retry of a batch that is still on its way is answered when that is written.
    slow = doors.environment.queue.run(lambda: None)
    first, second = Outcome(), Outcome()
    for done in (first, second):
        log.append(
            batch("c", base_sequence=2, **producer),
            leader_epoch=0,
            origin=AppendOrigin.CLIENT,
            now_ms=NOW_MS,
            done=done,
        )
    assert second.errors == []
    await slow
    await log.await_appends()
    assert first.is_written and second.is_written and log.log_end_offset == 4


@played_by(with_log, "tmp_path", gives=2, max_message_bytes=2000)
async def test_a_refused_append_changes_nothing(place: World, log: PartitionLog) -> None:
    await append(log, "a")
    broken = batch("b")
    broken[-1] ^= 0xFF
    for records, code in ((broken, ErrorCode.CORRUPT_MESSAGE), (batch("x" * 3000), ErrorCode.MESSAGE_TOO_LARGE)):
        with pytest.raises(KafkaError) as refused:
            await append_records(log, records)
        assert refused.value.code == code
    assert log.offsets.next_offset == log.log_end_offset == 1
    assert await all_values(log) == [(0, "a")]


@played_by(with_log, "tmp_path", gives=2)
async def test_copied_batches_keep_offsets_and_epochs(place: World, log: PartitionLog) -> None:
    copied = batch("a", "b", base_offset=10, partition_leader_epoch=4) + batch(
        "c", base_offset=15, partition_leader_epoch=6
    )
    result = await append_records(log, copied, origin=AppendOrigin.REPLICA)
    assert (result.base_offset, result.last_offset) == (10, 15)
    assert await all_values(log) == [(10, "a"), (11, "b"), (15, "c")]
    assert log.epochs.end_offset_for(4) == (4, 15)
    assert log.epochs.end_offset_for(6) == (6, 16)
    assert log.epochs.latest_epoch == 6
    with pytest.raises(KafkaError, match="ends at 16"):
        await append_records(log, batch("d", base_offset=12), origin=AppendOrigin.REPLICA)


@pytest.mark.parametrize("settings", [{}, {"segment_bytes": 900}, {"index_interval_bytes": 1}])
@played_by(lambda folder, settings, program: with_log(folder, program, **settings), "tmp_path", "settings", gives=2)
async def test_truncation_leaves_the_records_below(place: World, log: PartitionLog) -> None:
    for at in range(30):
        await append(
            log, f"{at:0100}", epoch=at // 10, timestamp=NOW_MS + at, producer_id=5, producer_epoch=0, base_sequence=at
        )
    log.high_watermark = 25
    for end in (30, 24, 23, 11, 10, 3):
        await truncate_to(log, end)
        assert log.log_end_offset == log.offsets.next_offset == end
        assert log.high_watermark == min(25, end)
        assert [offset for offset, _ in await all_values(log)] == list(range(end))
        assert log.epochs.latest_epoch == (end - 1) // 10
        found = await log.reading.offset_of_max_timestamp()
        assert found is not None and found.offset == end - 1
    # Producers were cut as well: the next sequence is that of the end.
    await append(log, "again", producer_id=5, producer_epoch=0, base_sequence=3)
    assert (await all_values(log))[-1] == (3, "again")


@played_by(with_log, "tmp_path", gives=2)
async def test_truncation_below_the_start_begins_anew(place: World, log: PartitionLog, tmp_path: Path) -> None:
    await append_records(log, batch("a", base_offset=10), origin=AppendOrigin.REPLICA)
    await truncate_fully_and_start_at(log, 5)
    assert (log.log_start_offset, log.log_end_offset, log.epochs.latest_epoch) == (5, 5, -1)
    await append(log, "b")
    assert await all_values(log) == [(5, "b")]
    assert sorted(name for name in os.listdir(tmp_path / "t-0") if name.endswith(".log")) == [f"{5:020d}.log"]
    await truncate_to(log, 2)
    assert log.log_end_offset == 2


@played_by(with_log, "tmp_path", gives=2, segment_bytes=900)
async def test_old_segments_are_set_aside(doors: World, log: PartitionLog, tmp_path: Path) -> None:
    for at in range(30):
        await append(log, f"{at:0100}")
    base_offsets = [segment.base_offset for segment in log.segments]
    assert await delete_segments_before(log, base_offsets[2] + 1) == 2
    assert log.log_start_offset == base_offsets[2]
    assert [offset for offset, _ in await all_values(log)] == list(range(base_offsets[2], 30))
    assert sorted(doors.doomed) == sorted(map(str, (tmp_path / "t-0").glob("*.deleted")))
    assert await delete_segments_before(log, 1000) == len(base_offsets) - 3
    assert len(log.segments) == 1


@played_by(with_log, "tmp_path", gives=2, flush_messages=1)
async def test_flush_messages_holds_done_back_until_the_flush(place: World, log: PartitionLog) -> None:
    for value in "abc":
        await append(log, value)
        assert log.offsets.recovery_point == log.log_end_offset


@played_by(with_log, "tmp_path", gives=2)
async def test_leader_epochs_answer_where_they_end(place: World, log: PartitionLog, tmp_path: Path) -> None:
    log.epochs.assign(0, 0)
    await append(log, "a", "b", epoch=0)
    log.epochs.assign(3, 2)
    await append(log, "c", epoch=3)
    assert log.epochs.end_offset_for(0) == (0, 2)
    assert log.epochs.end_offset_for(2) == (0, 2)
    assert log.epochs.end_offset_for(3) == (3, 3)
    assert log.epochs.end_offset_for(4) == (-1, -1)
    assert log.epochs.has_unsaved
    log.epochs.save()
    await log.await_queued_files()
    assert (tmp_path / "t-0" / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n3 2\n"
    log.high_watermark = 3
    delete_records(log, 3)
    await log.flush()
    assert not log.epochs.has_unsaved
    assert (tmp_path / "t-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n3 3\n"


@played_by(with_log, "tmp_path", gives=2)
async def test_an_epoch_with_records_is_unsaved_though_a_later_one_has_none(
    place: World, log: PartitionLog, tmp_path: Path
) -> None:
    log.epochs.assign(0, 0)
    assert not log.epochs.has_unsaved
    await append(log, "a", "b", epoch=0)
    log.epochs.assign(3, 2)
    assert log.epochs.has_unsaved
    log.epochs.save()
    await log.await_queued_files()
    assert (tmp_path / "t-0" / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n3 2\n"
    log.epochs.assign(4, 2)
    assert not log.epochs.has_unsaved


async def test_a_failed_write_fails_everything_behind_it_and_the_log(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as doors:
        log = await open_log(doors, str(tmp_path))
        await append(log, "a")
        file = log.segments.active.file
        assert file is not None
        slow = doors.environment.queue.run(file.close)  # the writes behind it meet a closed file
        outcomes = [Outcome() for _ in range(3)]
        for done in outcomes:
            log.append(batch("x"), leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=NOW_MS, done=done)
        await slow
        await log.await_appends()
        for done in outcomes:
            assert [error and error.code for error in done.errors] == [ErrorCode.KAFKA_STORAGE_ERROR]
        assert log.offsets.next_offset == log.log_end_offset == 1
        assert len(doors.failed) == 1 and doors.failed[0][0] == log.directory
        with pytest.raises(KafkaError) as refused:
            await append(log, "y")
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        with pytest.raises(KafkaError):
            log.reading.read(0, limit_offset=1, max_bytes=10, at_least_one=True)
