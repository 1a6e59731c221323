"""Segments whose offsets are too far apart for an index, as old cleaners left them: read, recovered, cleaned, split."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from pathlib import Path

import pytest

from protocol.records.compression import Compression
from protocol.records.legacy import encode_message_set
from protocol.records.record import Record
from runtime.disk.os_filesystem import OsFileSystem
from storage.log.loading import LoadRequest, load_log
from storage.segments.index import OffsetIndex, TimeIndex
from storage.segments.segment import MAX_RELATIVE_OFFSET
from storage.segments.segment_copy import CleanedSegment
from storage.segments.segment_files import create_files
from storage.segments.segment_split import split_segment
from storage.segments.segment_swap import swap_files
from storage.segments.txn_index import AbortedTxn, decode_transactions, encode_transactions
from tests.doubles.file_system import Call, ControlledFileSystem, no_space
from tests.simulation.filesystem import SimFileSystem
from tests.storage.cleaner.cleaning import batch_of, batches_in, cleanery, left_in
from tests.storage.logs import NOW_MS, all_values, append, open_log, world
from tests.storage.machine import FOLDER, SMALL_SEGMENTS, Machine, on_a_machine

FAR = MAX_RELATIVE_OFFSET + 1
OFFSETS = (0, 1, 5, FAR - 1, FAR, FAR + 7, 2 * FAR + 3, 2 * FAR + 4)
# The first batch of a part is the first that does not fit behind the one before.
PARTS = {0: (0, 1, 5, FAR - 1), FAR: (FAR, FAR + 7), 2 * FAR + 3: (2 * FAR + 3, 2 * FAR + 4)}


def batch_at(offset: int) -> bytes:
    return bytes(batch_of((f"k{offset}", f"v{offset}"), base_offset=offset, partition_leader_epoch=0))


def write_overflowing(folder: Path, *, base_offset: int = 0, offsets: tuple[int, ...] = OFFSETS) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    content = b"".join(map(batch_at, offsets))
    (folder / f"{base_offset:020d}.log").write_bytes(content)


def parts_in(folder: Path) -> dict[int, tuple[int, ...]]:
    """The offsets of batches by the base offset of their segment."""
    found: dict[int, tuple[int, ...]] = {}
    for path in sorted(folder.glob("*.log")):
        alone = folder / "alone"
        alone.mkdir()
        (alone / path.name).write_bytes(path.read_bytes())
        found[int(path.stem)] = tuple(header.base_offset for header, _ in batches_in(alone))
        (alone / path.name).unlink()
        alone.rmdir()
    return found


def values(offsets: tuple[int, ...] = OFFSETS) -> list[tuple[int, str]]:
    return [(offset, f"v{offset}") for offset in offsets]


async def test_recovery_splits_a_segment_and_loses_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    write_overflowing(folder)
    async with world(str(tmp_path)) as doors:
        log = await open_log(doors, str(tmp_path), SMALL_SEGMENTS, is_clean=False, recovery_point=0)
        assert log.log_end_offset == OFFSETS[-1] + 1
        assert parts_in(folder) == PARTS
        assert await all_values(log) == values()
        found = await log.reading.offset_for_timestamp(NOW_MS)
        assert found is not None and found.offset == 0
        assert log.epochs.end_offset_for(0) == (0, OFFSETS[-1] + 1)
        await append(log, "more")
        assert (await all_values(log))[-1] == (OFFSETS[-1] + 1, "more")
        await log.close()
    assert not [path.name for path in folder.iterdir() if path.name.endswith((".cleaned", ".swap", ".deleted"))]


async def test_what_lies_behind_a_tear_is_cut_off_before_a_segment_is_split(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    write_overflowing(folder)
    (segment,) = folder.glob("*.log")
    segment.write_bytes(segment.read_bytes()[:-5])
    async with world(str(tmp_path)) as doors:
        log = await open_log(doors, str(tmp_path), SMALL_SEGMENTS, is_clean=False)
        assert await all_values(log) == values(OFFSETS[:-1])
        assert parts_in(folder) == {**PARTS, 2 * FAR + 3: (2 * FAR + 3,)}
        await log.close()


async def test_a_far_offset_without_a_sound_checksum_is_no_reason_to_split(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    write_overflowing(folder, offsets=(0, 1, FAR))
    (segment,) = folder.glob("*.log")
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    segment.write_bytes(content)
    async with world(str(tmp_path)) as doors:
        log = await open_log(doors, str(tmp_path), SMALL_SEGMENTS, is_clean=False)
        assert await all_values(log) == values((0, 1))
        assert parts_in(folder) == {0: (0, 1)}
        await log.close()


@pytest.mark.parametrize("has_indexes", [True, False])
async def test_after_a_clean_stop_it_is_read_as_it_is(tmp_path: Path, has_indexes: bool) -> None:
    """As Apache Kafka does, nothing is walked then. What is appended begins the next segment."""
    folder = tmp_path / "t-0"
    write_overflowing(folder)
    if has_indexes:
        for suffix in (".index", ".timeindex"):
            (folder / f"{0:020d}{suffix}").write_bytes(b"")
    async with world(str(tmp_path)) as doors:
        log = await open_log(doors, str(tmp_path), SMALL_SEGMENTS, is_clean=True, recovery_point=OFFSETS[-1] + 1)
        assert await all_values(log) == values()
        for at, offset in enumerate(OFFSETS):
            content = await log.reading.read_cold(
                offset, limit_offset=log.log_end_offset, max_bytes=1, at_least_one=True
            )
            assert bytes(content)[:8] == offset.to_bytes(8, "big"), at
        await append(log, "more")
        assert len(log.segments) == 2
        assert await all_values(log) == [*values(), (OFFSETS[-1] + 1, "more")]
        await log.close()
        again = await open_log(doors, str(tmp_path), SMALL_SEGMENTS, is_clean=False)
        assert await all_values(again) == [*values(), (OFFSETS[-1] + 1, "more")]
        assert list(parts_in(folder)) == [*PARTS, OFFSETS[-1] + 1]
        await again.close()


def test_message_sets_of_before_batches_are_split_at_their_first_offset(tmp_path: Path) -> None:
    """The header of a compressed one tells its last offset."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    sets = [
        encode_message_set(
            [Record(at, NOW_MS, b"k", b"v") for at in range(start, start + 4)], 1, compression=Compression.GZIP
        )
        for start in (0, FAR - 2, 2 * FAR)
    ]
    (folder / f"{0:020d}.log").write_bytes(b"".join(sets))
    request = LoadRequest(str(folder), is_clean=False, index_interval_bytes=4096, now_ms=NOW_MS)
    loaded = load_log(OsFileSystem(), request)
    assert [segment.base_offset for segment in loaded.segments] == [0, FAR - 2, 2 * FAR]
    assert loaded.log_end_offset == 2 * FAR + 4
    assert [offset for offset, _, _ in left_in(folder)] == [
        at for start in (0, FAR - 2, 2 * FAR) for at in range(start, start + 4)
    ]


def overflow(folder: Path) -> int:
    """Put an overflowing segment, all of it flushed and replicated, in the place of a stopped log's files; where it ends."""
    for path in folder.glob("0*"):
        path.unlink()
    write_overflowing(folder)
    end = OFFSETS[-1] + 1
    (folder / f"{end:020d}.log").write_bytes(b"")
    for checkpoint in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (folder.parent / checkpoint).write_text(f"0\n1\nt 0 {end}\n")
    return end


async def test_the_cleaner_splits_what_it_cannot_copy_and_cleans_it_the_next_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with cleanery(tmp_path) as first:
        await first.put(("k0", "old"))
        await first.roll()
    end = overflow(tmp_path / "t-0")
    async with cleanery(tmp_path) as here:
        here.log.high_watermark = end
        await here.put(("k1", "new"), ("k5", "new"))
        await here.roll()
        with caplog.at_level(logging.WARNING):
            assert not await here.clean()
        assert "segment split" in caplog.text
        assert parts_in(here.folder) == {**PARTS, end: (end,), end + 2: ()}
        assert await all_values(here.log) == [*values(), (end, "new"), (end + 1, "new")]
        assert await here.clean()
        kept = [offset for offset in OFFSETS if offset not in (1, 5)]
        assert [offset for offset, _, _ in left_in(here.folder)] == [*kept, end, end + 1]
        assert not here.failed
        assert not list(here.folder.glob("*.cleaned"))


def made_and_refused(call: Call) -> None:
    """The file is there, and has no room."""
    call.proceed().close()
    raise no_space(call.path)


async def test_a_split_without_room_leaves_nothing_behind(tmp_path: Path) -> None:
    """A `.cleaned` file would tell a later start that an exchange behind it was never complete."""
    folder, filesystem = tmp_path / "t-0", ControlledFileSystem()
    async with cleanery(tmp_path) as first:
        await first.put(("k0", "old"))
    end = overflow(folder)
    async with cleanery(tmp_path, filesystem=filesystem) as here:
        await here.put(("k1", "new"))
        await here.roll()
        full = filesystem.on("create", f"*{FAR:020d}.log.cleaned", made_and_refused)
        assert not await here.clean()
        assert not list(folder.glob("*.cleaned")) and not here.failed
        full.is_on = False
        assert not await here.clean()  # which splits
        assert await here.clean()
        assert [offset for offset, _, _ in left_in(folder)] == [*(each for each in OFFSETS if each != 1), end]


def test_parts_have_their_share_of_the_transaction_index_and_the_time_of_the_file(tmp_path: Path) -> None:
    filesystem, folder = OsFileSystem(), tmp_path / "t-0"
    write_overflowing(folder)
    aborted = [AbortedTxn(7, offset - 1, offset, offset + 1) for offset in (1, FAR - 1, FAR + 7)]
    (folder / f"{0:020d}.txnindex").write_bytes(encode_transactions(aborted))
    filesystem.set_mtime(str(folder / f"{0:020d}.log"), NOW_MS)
    parts: list[CleanedSegment] = []
    assert sum(split_segment(filesystem, str(folder), 0, 4096, parts, [])) == len(b"".join(map(batch_at, OFFSETS)))
    swap_files(filesystem, str(folder), parts)
    told = {
        int(path.stem): [each.last_offset for each in decode_transactions(path.read_bytes())]
        for path in folder.glob("*.txnindex")
    }
    assert told == {0: [1, FAR - 1], FAR: [FAR + 7]}
    for base_offset in PARTS:
        assert filesystem.stat(str(folder / f"{base_offset:020d}.log")).mtime_ms == NOW_MS
        for index in (OffsetIndex(), TimeIndex()):
            index.load((folder / f"{base_offset:020d}{index.suffix}").read_bytes())


@pytest.mark.parametrize("power", [True, False])
def test_a_crash_at_any_moment_of_a_split_loses_nothing(power: bool) -> None:
    calls = 1
    while not all(_is_over_after(calls, seed, power=power) for seed in range(4 if power else 1)):
        calls += 1
    assert calls > 20


def _is_over_after(calls: int, seed: int, *, power: bool) -> bool:
    """Crash in the call number `calls` of a start that splits a segment; whether it needs no more calls than that."""
    over = False

    async def program(machine: Machine) -> None:
        nonlocal over
        machine.boot()
        filesystem = machine.filesystem
        filesystem.make_directory(FOLDER)
        filesystem.sync_directory("/logs")
        _write_far_segment(filesystem)
        machine.storage.crash_power()
        struck = False

        def strike() -> None:
            nonlocal struck
            struck = True

        request = LoadRequest(FOLDER, is_clean=False, index_interval_bytes=4096, now_ms=NOW_MS, recovery_point=0)
        environment = machine.boot()
        machine.storage.strike_after(calls, strike)
        task = asyncio.ensure_future(environment.queue.run(partial(load_log, environment.filesystem, request)))
        while not struck and not task.done():  # noqa: ASYNC110  virtual time
            await asyncio.sleep(0.01)
        over = not struck
        task.cancel()
        if power:
            machine.storage.crash_power()
        log = await machine.start(0)
        assert await all_values(log) == values()
        assert [segment.base_offset for segment in log.segments] == list(PARTS)

    on_a_machine(seed, program)
    return over


def _write_far_segment(filesystem: SimFileSystem) -> None:
    file = create_files(filesystem, FOLDER, 0)
    file.write_at([b"".join(map(batch_at, OFFSETS))], 0)
    file.sync()
    file.close()
    filesystem.sync_directory(FOLDER)
