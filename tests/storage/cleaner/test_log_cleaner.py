"""The cleaner on real files: what stays of a log, what the files are called, and a cleaning that is disturbed."""

from __future__ import annotations

import asyncio
import errno
from mmap import mmap
from pathlib import Path

import pytest

from config.broker import BrokerSettings
from protocol.records.control import ControlType, EndTxnMarker, encode_marker
from protocol.topic_partition import TopicPartition
from storage.checkpoint import decode_offsets
from storage.cleaner.compaction import CleaningRange
from storage.log.partition_log import AppendOrigin, PartitionLog
from storage.log.removal.log_truncation import truncate_fully_and_start_at, truncate_to
from storage.log.removal.segment_retention import delete_old_segments, delete_segments_before
from storage.segments.txn_index import decode_transactions
from tests.doubles.clock import ManualClock
from tests.doubles.file_system import ControlledFileSystem, fails
from tests.storage.cleaner.cleaning import TOPIC, Cleanery, batches_in, cleanery, fill, left_in
from tests.storage.logs import NOW_MS, all_values, append_records, read, values_of

DAY_MS = 86_400_000


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".deleted")


def checkpoint(directory: Path) -> dict[TopicPartition, int]:
    return decode_offsets((directory / "cleaner-offset-checkpoint").read_bytes())


async def test_keeps_the_latest_of_every_key(tmp_path: Path) -> None:
    async with cleanery(tmp_path) as broker:
        for number in range(10):
            await broker.put(("a", f"a{number}"), ("b", f"b{number}"))
        await broker.roll()
        await broker.put(("c", "c"))
        assert await broker.clean()
        assert left_in(broker.folder) == [(18, "a", "a9"), (19, "b", "b9"), (20, "c", "c")]
        assert await all_values(broker.log) == [(18, "a9"), (19, "b9"), (20, "c")]
        assert not await broker.clean()
        assert broker.log.offsets.first_dirty_offset == 20
        assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n1\nt 0 20\n"
    async with cleanery(tmp_path) as broker:
        assert await all_values(broker.log) == [(18, "a9"), (19, "b9"), (20, "c")]
        assert broker.log.offsets.first_dirty_offset == 20


async def test_small_segments_become_one_with_whole_indexes(tmp_path: Path) -> None:
    async with cleanery(tmp_path, segment_bytes=4000, index_interval_bytes=0) as broker:
        for number in range(8):
            await broker.put((f"k{number}", "v" * 100))
            await broker.roll()
        assert len(broker.log.segments) == 9
        assert await broker.clean()
        assert names(broker.folder)[:5] == [
            "00000000000000000000.index", "00000000000000000000.log", "00000000000000000000.timeindex",
            "00000000000000000008.index", "00000000000000000008.log",
        ]  # fmt: skip
        assert [segment.base_offset for segment in broker.log.segments] == [0, 8]
        assert values_of(await read(broker.log, 5, max_bytes=200)) == [(5, "v" * 100)]
        found = await broker.log.reading.offset_for_timestamp(broker.clock.now_ms)
        assert found is not None and found.offset == 0
        index = (broker.folder / "00000000000000000000.index").read_bytes()
        assert len(index) == 7 * 8


async def test_a_log_goes_on_where_it_was_cleaned_last(tmp_path: Path) -> None:
    async with cleanery(tmp_path) as broker:
        await fill(broker, 4)
        assert await broker.clean()
        await broker.put(("a", "new"))
        await broker.roll()
        assert await broker.clean()
        assert left_in(broker.folder) == [(7, "b", "b3"), (8, "a", "new")]


async def test_a_buffer_that_is_full_ends_a_cleaning_early(tmp_path: Path) -> None:
    small = {"log.cleaner.dedupe.buffer.size": str(24 * 4), "log.cleaner.io.buffer.load.factor": "0.75"}
    async with cleanery(tmp_path, settings=small) as broker:
        await fill(broker, 2, "a", "b", "c", "d", "e")
        ends = []
        while await broker.clean():
            ends.append(broker.log.offsets.first_dirty_offset)
        assert ends == [3, 6, 9, 10]
        assert [key for _, key, _ in left_in(broker.folder)] == ["a", "b", "c", "d", "e"]


async def test_delete_markers_go_after_their_retention(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with cleanery(tmp_path, clock=clock, delete_retention_ms=DAY_MS) as broker:
        await broker.put(("a", "1"))
        await broker.put(("a", None))
        await broker.roll()
        assert await broker.clean()
        assert left_in(broker.folder) == [(1, "a", None)]
        for wait_ms, left in ((DAY_MS - 1, [(1, "a", None), (2, "b", "2")]), (1, [(2, "b", "2"), (3, "c", "3")])):
            clock.now_ms += wait_ms
            _, key, value = left[-1]
            await broker.put((key, value))
            await broker.roll()
            assert await broker.clean()
            assert left_in(broker.folder) == left


async def transact(broker: Cleanery, producer: int, key: str, outcome: ControlType) -> None:
    await broker.put(
        (key, f"{key} of {producer}"), producer_id=producer, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    marker = encode_marker(EndTxnMarker(outcome, 0, broker.clock.now_ms), producer_id=producer, producer_epoch=0)
    await append_records(broker.log, bytearray(marker), origin=AppendOrigin.COORDINATOR)
    broker.log.high_watermark = broker.log.log_end_offset


async def test_what_was_aborted_goes_and_its_index_follows(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with cleanery(tmp_path, clock=clock, segment_bytes=600) as broker:
        for producer in range(6):
            outcome = ControlType.ABORT if producer % 2 else ControlType.COMMIT
            await transact(broker, producer, f"k{producer % 3}", outcome)
        await broker.roll()
        assert len(await broker.log.reading.aborted_transactions(0, 100)) == 3
        assert await broker.clean()
        assert left_in(broker.folder) == [(0, "k0", "k0 of 0"), (4, "k2", "k2 of 2"), (8, "k1", "k1 of 4")]
        assert await broker.log.reading.aborted_transactions(0, 100) == [
            each for path in sorted(broker.folder.glob("*.txnindex")) for each in decode_transactions(path.read_bytes())
        ]
        before = broker.log.producers.states.to_snapshot()
    async with cleanery(tmp_path, clock=clock, segment_bytes=600) as broker:
        assert broker.log.producers.states.to_snapshot() == before


async def test_producers_are_known_after_all_their_records_went(tmp_path: Path) -> None:
    async with cleanery(tmp_path) as broker:
        for sequence in range(3):
            await broker.put(("a", "x"), producer_id=7, producer_epoch=2, base_sequence=sequence)
        await broker.put(("a", "last"))
        await broker.roll()
        assert await broker.clean()
        assert [(header.base_offset, header.records_count) for header, _ in batches_in(broker.folder)] == [
            (2, 0), (3, 1),
        ]  # fmt: skip
    for path in broker.folder.glob("*.snapshot"):
        path.unlink()
    (tmp_path / ".kafka_cleanshutdown").unlink()
    async with cleanery(tmp_path) as broker:
        (row,) = broker.log.producers.states.describe()
        assert (row.producer_id, row.producer_epoch, row.last_sequence) == (7, 2, 2)


async def test_what_is_not_replicated_yet_is_not_cleaned(tmp_path: Path) -> None:
    async with cleanery(tmp_path) as broker:
        await fill(broker, 3)
        broker.log.high_watermark = 2
        assert not await broker.clean()
        broker.log.high_watermark = broker.log.log_end_offset
        assert await broker.clean()


async def test_min_compaction_lag_goes_by_records_that_were_never_read(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    lag = {"min_compaction_lag_ms": 60_000}
    async with cleanery(tmp_path, clock=clock, **lag) as broker:
        await fill(broker, 3)
    async with cleanery(tmp_path, clock=clock, **lag) as broker:
        assert not await broker.clean()
        clock.now_ms += 60_001
        assert await broker.clean()


async def test_max_compaction_lag_makes_a_log_due_and_its_segments_roll(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    rules = {"max_compaction_lag_ms": 60_000, "min_cleanable_dirty_ratio": 1}
    async with cleanery(tmp_path, clock=clock, **rules) as broker:
        await broker.put(("a", "1"))
        await broker.put(("a", "2"))
        clock.now_ms += 60_010
        await broker.put(("a", "3"))
        assert [segment.base_offset for segment in broker.log.segments] == [0, 2]
    async with cleanery(tmp_path, clock=clock, **rules) as broker:
        assert await broker.clean()
        assert broker.logs.cleaner.report.max_delay_ms > 0
        assert left_in(broker.folder)[-1] == (2, "a", "3")


async def test_a_log_waits_until_enough_of_it_is_dirty(tmp_path: Path) -> None:
    async with cleanery(tmp_path, min_cleanable_dirty_ratio=0.6) as broker:
        await fill(broker, 4)
        assert await broker.clean()
        await fill(broker, 1)
        assert not await broker.clean(), "half is dirty"
        await fill(broker, 4)
        assert await broker.clean()


async def test_a_topic_that_is_not_compacted_is_left_alone(tmp_path: Path) -> None:
    async with cleanery(tmp_path, cleanup_policy="delete") as broker:
        await fill(broker, 3)
        assert not await broker.clean()


async def test_compact_and_delete_go_together(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    rules = {"cleanup_policy": "compact,delete", "retention_ms": DAY_MS, "segment_bytes": 2000}
    async with cleanery(tmp_path, clock=clock, **rules) as broker:
        await fill(broker, 3)
        assert await broker.clean()
        clock.now_ms += DAY_MS + 10
        await fill(broker, 3, "c")
        assert await delete_old_segments(broker.log)
        assert broker.log.log_start_offset == 6
        assert await broker.clean()
        assert left_in(broker.folder) == [(8, "c", "c2")]


# --- disturbed ---


async def test_a_log_that_cannot_be_cleaned_is_set_aside_and_the_others_go_on(tmp_path: Path) -> None:
    async with cleanery(tmp_path) as broker:
        await fill(broker, 3)
        first = broker.log
        path = broker.folder / "00000000000000000000.log"
        content = bytearray(path.read_bytes())
        content[70] ^= 1
        path.write_bytes(content)
        broker.log = await broker.logs.log_for("other", 0)
        await fill(broker, 3)
        while await broker.clean():
            pass
        await broker.clean()
        report = broker.logs.cleaner.report
        assert list(report.logs_set_aside) == [first]
        assert checkpoint(tmp_path) == {("other", 0): 6}
        assert path.read_bytes() == content and not list(path.parent.glob("*.cleaned"))
        assert broker.logs.cleaner.dirty_bytes(first) > 0
        assert not broker.failed and first.failure is None
        await broker.logs.delete(*TOPIC)
        await broker.clean()
        assert not report.logs_set_aside


async def test_without_room_a_cleaning_ends_and_is_tried_again(tmp_path: Path) -> None:
    filesystem = ControlledFileSystem()
    async with cleanery(tmp_path, filesystem=filesystem) as broker:
        await fill(broker, 3)
        full = filesystem.on("open", "*.cleaned", fails(errno.ENOSPC))
        assert not await broker.clean()
        full.is_on = False
        assert not broker.failed and await broker.clean()


async def test_an_io_error_takes_the_directory_offline(tmp_path: Path) -> None:
    filesystem = ControlledFileSystem()
    async with cleanery(tmp_path, filesystem=filesystem) as broker:
        await fill(broker, 3)
        filesystem.on("open", "*.cleaned", fails(errno.EIO))
        assert not await broker.clean()
        assert broker.failed == [str(tmp_path)]


async def test_without_memory_for_its_keys_a_log_waits_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The system may refuse memory (ulimit -v, strict overcommit): that is not the disk's fault."""

    def scarce(descriptor: int, length: int) -> mmap:
        if length > 1000:
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        return mmap(descriptor, length)

    async with cleanery(tmp_path) as broker:
        await fill(broker, 100)
        many = broker.log
        broker.log = await broker.logs.log_for("few", 0)
        await fill(broker, 3)
        with monkeypatch.context() as patch:
            patch.setattr("storage.cleaner.offset_map.mmap", scarce)
            patch.setattr("storage.cleaner.offset_map.EXACT_SHARE", 1 << 40)  # hashes from the first batch on
            cleaned = [await broker.clean() for _ in range(4)]
        assert cleaned == [False, True, False, False]
        assert checkpoint(tmp_path) == {("few", 0): 6}
        assert not broker.failed and many.failure is None
        assert not broker.logs.cleaner.report.logs_set_aside
        told = [record.getMessage() for record in caplog.records if "no memory for cleaning" in record.getMessage()]
        assert len(told) == 1 and "topic=t partition=0" in told[0]
        assert await broker.clean()
        assert checkpoint(tmp_path) == {("few", 0): 6, TOPIC: 200}


async def test_memory_that_ends_while_a_log_is_cleaned_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cleanery(tmp_path) as broker:
        await fill(broker, 3)
        with monkeypatch.context() as patch:
            patch.setattr("storage.cleaner.segment_cleaning.BatchCleaner.clean", out_of_memory)
            assert not await broker.clean()
        assert not broker.failed and not list(broker.folder.glob("*.cleaned"))
        assert await broker.clean()


def out_of_memory(*_: object) -> None:
    raise MemoryError


@pytest.mark.parametrize("how", ["abort", "truncate", "truncate fully", "delete", "close", "retention", "pause"])
async def test_a_cleaning_gives_up_when_its_log_changes(tmp_path: Path, how: str) -> None:
    """At whatever step that happens."""

    async def run(turns: int) -> bool:
        directory = tmp_path / f"{turns}"
        directory.mkdir()
        async with cleanery(directory, segment_bytes=200) as broker:
            await fill(broker, 4)
            log = broker.log
            cleaning = asyncio.ensure_future(broker.clean())
            for _ in range(turns):
                await asyncio.sleep(0)
            was_done = cleaning.done()
            await change(broker, how)
            await cleaning
            if how != "delete":
                assert not [name for name in names(broker.folder) if name.endswith((".cleaned", ".swap"))]
            assert not broker.failed and not broker.logs.cleaner.report.logs_set_aside
            if how == "truncate":
                assert (log.offsets.first_dirty_offset or 0) <= 3
                assert all(offset < 3 for offset, _, _ in left_in(broker.folder))
            return was_done

    turns = 1
    while not await run(turns):
        turns *= 3


async def change(broker: Cleanery, how: str) -> None:
    log = broker.log
    match how:
        case "abort":
            await broker.logs.cleaner.abort(log)
        case "truncate":
            await truncate_to(log, 3)
        case "truncate fully":
            await truncate_fully_and_start_at(log, 100)
        case "delete":
            await broker.logs.delete(*TOPIC)
        case "close":
            await broker.logs.cleaner.close()
        case "retention":
            await delete_segments_before(log, 3)
        case _:
            async with broker.logs.cleaner.paused(log):
                assert not await broker.clean()


async def test_what_went_while_other_logs_were_looked_at_is_not_cleaned(tmp_path: Path) -> None:
    hour_ms = DAY_MS // 24
    rules = {"cleanup_policy": "compact,delete", "retention_ms": hour_ms, "min_compaction_lag_ms": hour_ms // 2}
    async with cleanery(tmp_path, segment_bytes=100_000, **rules) as broker:
        chosen = broker.log
        await fill(broker, 6)
        broker.clock.now_ms += hour_ms * 2 // 3
        await fill(broker, 6)
        broker.log = other = await broker.logs.log_for("other", 0)
        await fill(broker, 6)
        look = broker.logs.cleaner._range_of

        async def look_while_they_go(log: PartitionLog, now_ms: int) -> CleaningRange | None:
            if log is other:
                broker.clock.now_ms += hour_ms // 2
                assert await delete_old_segments(chosen) == 1 < chosen.segments_count
            return await look(log, now_ms)

        broker.logs.cleaner._range_of = look_while_they_go  # type: ignore[method-assign]
        assert not await broker.clean()
        assert chosen.offsets.first_dirty_offset is None


async def test_readers_never_see_the_exchange(tmp_path: Path) -> None:
    """Whoever reads on while segments are exchanged gets the latest of every key, and no error."""
    async with cleanery(tmp_path, segment_bytes=400) as broker:
        for turn in range(6):
            await fill(broker, 12, "a", "b", "c")
            cleaning = asyncio.ensure_future(broker.clean())
            while not cleaning.done():
                rows = {value[0]: value for _, value in await all_values(broker.log, max_bytes=150)}
                assert rows == {"a": "a11", "b": "b11", "c": "c11"}, turn
                await broker.log.reading.offset_for_timestamp(broker.clock.now_ms)
                await asyncio.sleep(0)
            assert await cleaning


# --- settings ---


async def test_workers_follow_their_settings(tmp_path: Path) -> None:
    async with cleanery(tmp_path, settings={"log.cleaner.threads": "0"}) as broker:
        await fill(broker, 3)
        cleaner = broker.logs.cleaner
        cleaner.change_settings(BrokerSettings({"log.cleaner.threads": "2", "log.cleaner.backoff.ms": "5"}))
        while broker.log.offsets.first_dirty_offset != 6:  # noqa: ASYNC110  the cleaner tells nobody
            await asyncio.sleep(0.005)
        assert cleaner.dead_workers == 0
        cleaner.change_settings(BrokerSettings({"log.cleaner.threads": "0"}))
        await fill(broker, 3)
        await asyncio.sleep(0.05)
        assert broker.log.offsets.first_dirty_offset == 6


async def test_a_cleaner_that_is_switched_off_does_nothing(tmp_path: Path) -> None:
    off = {"log.cleaner.enable": "false", "log.cleaner.threads": "1", "log.cleaner.backoff.ms": "1"}
    async with cleanery(tmp_path, settings=off) as broker:
        await fill(broker, 3)
        await asyncio.sleep(0.05)
        assert broker.log.offsets.first_dirty_offset is None


async def test_the_report_has_kafkas_figures(tmp_path: Path) -> None:
    async with cleanery(tmp_path) as broker:
        await fill(broker, 5)
        assert await broker.clean()
        report = broker.logs.cleaner.report
        assert report.max_dirty_ratio == 1.0
        assert 0 < report.last_recopied < 0.5 < report.moved_bytes
        assert 0 < report.last_buffer_utilization <= 0.5
        report.saw(CleaningRange(0, 10, 1, 3, 50))
        report.end_look()
        assert (report.max_dirty_ratio, report.max_delay_ms) == (1.0, 50)
