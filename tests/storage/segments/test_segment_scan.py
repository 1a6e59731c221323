"""What a start finds: after a clean stop, after a torn tail, with damaged files, after a loss of power."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protocol.errors import KafkaError
from runtime.disk.os_filesystem import OsFileSystem
from storage.log.partition_log import AppendOrigin, PartitionLog
from storage.segments.segment_scan import scan_segment
from tests.simulation.clock import SimClock
from tests.simulation.disk import SimDisk
from tests.simulation.filesystem import SimStorage
from tests.simulation.loop import SimLoop, simulate
from tests.storage.logs import NOW_MS, Outcome, all_values, append, batch, config, open_log, read, world

SETTINGS = {"segment_bytes": 900, "index_interval_bytes": 1}
PRODUCER = {"producer_id": 5, "producer_epoch": 1}


def written(directory: Path, count: int, *, stop: str = "clean", **overrides: Any) -> None:
    """Leave a log of `count` records, stopped cleanly or as by kill -9."""

    async def run() -> None:
        async with world(str(directory)) as doors:
            log = await open_log(doors, str(directory), config(**SETTINGS | overrides))
            for at in range(count):
                await append(log, f"{at:0100}", epoch=at // 10, timestamp=NOW_MS + at, base_sequence=at, **PRODUCER)
            if stop == "clean":
                await log.close()

    asyncio.run(run())


def reopened(
    directory: Path, check: Callable[[PartitionLog], Any], overrides: dict[str, Any] | None = None, **known: Any
) -> None:
    async def run() -> None:
        async with world(str(directory)) as doors:
            log = await open_log(doors, str(directory), config(**SETTINGS | (overrides or {})), **known)
            await check(log)
            await log.close()

    asyncio.run(run())


def log_files(directory: Path, suffix: str = ".log") -> list[Path]:
    return sorted((directory / "t-0").glob(f"*{suffix}"))


def records(count: int) -> list[tuple[int, str]]:
    return [(at, f"{at:0100}") for at in range(count)]


def holds(count: int) -> Callable[[PartitionLog], Any]:
    """The log has exactly the first `count` records, knows its producer and goes on."""

    async def check(log: PartitionLog) -> None:
        assert log.log_end_offset == log.offsets.next_offset == count
        assert await all_values(log) == records(count)
        for offset in range(0, count, 7):
            assert len(await read(log, offset, max_bytes=1)) > 0
            found = await log.reading.offset_for_timestamp(NOW_MS + offset)
            assert found is not None and found.offset == offset
        assert log.epochs.latest_epoch == ((count - 1) // 10 if count else -1)
        if count:
            with pytest.raises(KafkaError):
                await append(log, "gap", base_sequence=count + 5, **PRODUCER)
        result = await append(log, f"{count:0100}", epoch=9, base_sequence=count, **PRODUCER)
        assert result.base_offset == count
        assert (await all_values(log))[-1] == (count, f"{count:0100}")

    return check


def test_after_a_clean_stop_nothing_is_opened_until_it_is_touched(tmp_path: Path) -> None:
    written(tmp_path, 30)

    async def check(log: PartitionLog) -> None:
        assert all(segment.file is None for segment in log.segments)
        assert log.log_end_offset == 30
        await holds(30)(log)

    reopened(tmp_path, check, is_clean=True, recovery_point=30)


def test_a_clean_log_without_a_checkpoint_is_asked_where_it_ends(tmp_path: Path) -> None:
    written(tmp_path, 30)
    reopened(tmp_path, holds(30), is_clean=True)


def test_after_a_kill_the_log_is_whole(tmp_path: Path) -> None:
    written(tmp_path, 30, stop="kill")
    reopened(tmp_path, holds(30))

    async def check(log: PartitionLog) -> None:
        assert len(await all_values(log)) == log.log_end_offset == 31

    reopened(tmp_path, check, is_clean=True, recovery_point=31)


@pytest.mark.parametrize("cut", [1, 5, 30, 61, 100, 168])
def test_a_torn_tail_is_cut_off(tmp_path: Path, cut: int) -> None:
    written(tmp_path, 33, stop="kill")
    last = log_files(tmp_path)[-1]
    batches = os.path.getsize(last) // 179
    assert os.path.getsize(last) > cut
    os.truncate(last, os.path.getsize(last) - cut)
    lost = 33 - int(last.name[:20])
    assert batches == lost or batches >= 1
    reopened(tmp_path, holds(32))
    assert not log_files(tmp_path, ".deleted")


@pytest.mark.parametrize("garbage", [b"\x00" * 500, b"\xff" * 500, os.urandom(700), batch("foreign", base_offset=3)])
def test_garbage_behind_the_log_is_cut_off(tmp_path: Path, garbage: bytes) -> None:
    written(tmp_path, 33, stop="kill")
    with log_files(tmp_path)[-1].open("ab") as file:
        file.write(garbage)
    reopened(tmp_path, holds(33))


def test_a_flipped_bit_ends_the_log_there(tmp_path: Path) -> None:
    written(tmp_path, 33, stop="kill")
    third = log_files(tmp_path)[2]
    content = bytearray(third.read_bytes())
    content[-10] ^= 1
    third.write_bytes(content)
    end = int(log_files(tmp_path)[3].name[:20]) - 1
    reopened(tmp_path, holds(end))
    assert int(log_files(tmp_path)[-1].name[:20]) <= end


def test_only_segments_from_the_recovery_point_on_are_walked(tmp_path: Path) -> None:
    written(tmp_path, 33, stop="kill")
    first = log_files(tmp_path)[0]
    content = bytearray(first.read_bytes())
    content[-10] ^= 1
    first.write_bytes(content)

    async def check(log: PartitionLog) -> None:
        assert log.log_end_offset == 33

    reopened(tmp_path, check, recovery_point=int(log_files(tmp_path)[2].name[:20]))


@pytest.mark.parametrize("stop", ["clean", "kill"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "empty", "odd", "falling", "padded"])
def test_bad_indexes_are_made_again(tmp_path: Path, stop: str, suffix: str, damage: str) -> None:
    written(tmp_path, 33)
    for path in log_files(tmp_path, suffix):
        content = path.read_bytes()
        if damage == "missing":
            path.unlink()
        elif damage == "padded":
            path.write_bytes(content + bytes(120_000 - len(content)))
        else:
            path.write_bytes({"empty": b"", "odd": content + b"xyz", "falling": content[-24:] * 2}[damage])
    if stop == "clean":
        reopened(tmp_path, holds(33), is_clean=True, recovery_point=33)
    else:
        reopened(tmp_path, holds(33), recovery_point=20)


@pytest.mark.parametrize("stop", ["clean", "kill"])
@pytest.mark.parametrize("kept", ["all", "oldest", "damaged"])
def test_producers_are_rebuilt_from_the_newest_sound_snapshot(tmp_path: Path, stop: str, kept: str) -> None:
    written(tmp_path, 33)
    snapshots = log_files(tmp_path, ".snapshot")
    assert snapshots[-1].name == f"{33:020d}.snapshot"
    for path in snapshots[1:]:
        if kept == "oldest":
            path.unlink()
        elif kept == "damaged":
            path.write_bytes(path.read_bytes()[:-1] + b"\xee")
    reopened(tmp_path, holds(33), is_clean=stop == "clean", recovery_point=33 if stop == "clean" else 10)


def test_a_clean_folder_without_snapshots_forgets_its_producers(tmp_path: Path) -> None:
    written(tmp_path, 33)
    for path in log_files(tmp_path, ".snapshot"):
        path.unlink()

    async def check(log: PartitionLog) -> None:
        assert len(log.producers.states) == 0

    reopened(tmp_path, check, is_clean=True, recovery_point=33)


@pytest.mark.parametrize("content", [None, b"", b"0\nx\n", b"0\n1\n7 0\n9 9\n"])
def test_leader_epochs_are_read_from_the_log_when_their_file_is_bad(tmp_path: Path, content: bytes | None) -> None:
    written(tmp_path, 33)
    path = tmp_path / "t-0" / "leader-epoch-checkpoint"
    assert path.read_bytes() == b"0\n4\n0 0\n1 10\n2 20\n3 30\n"
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)

    async def check(log: PartitionLog) -> None:
        assert [log.epochs.end_offset_for(epoch) for epoch in range(4)] == [(0, 10), (1, 20), (2, 30), (3, 33)]

    reopened(tmp_path, check, is_clean=content != b"", recovery_point=33 if content != b"" else 0)


def test_leftovers_of_an_unfinished_deletion_go(tmp_path: Path) -> None:
    written(tmp_path, 33)
    folder = tmp_path / "t-0"
    for name in (f"{0:020d}.log.deleted", f"{7:020d}.log.cleaned", f"{77:020d}.index", "leader-epoch-checkpoint.tmp"):
        (folder / name).write_bytes(b"x")
    reopened(tmp_path, holds(33), is_clean=True, recovery_point=33)
    assert not [
        path
        for path in folder.iterdir()
        if path.suffix in (".deleted", ".cleaned", ".tmp") or path.name.startswith(f"{77:020d}")
    ]


@pytest.mark.parametrize("steps_done", range(4))
def test_an_interrupted_cleaning_is_finished_or_undone(tmp_path: Path, steps_done: int) -> None:
    """Two old segments are exchanged for one that holds every second record of them."""
    written(tmp_path, 33)
    folder = tmp_path / "t-0"
    first, second, third = (path.name[:20] for path in log_files(tmp_path)[:3])
    end = int(third)
    kept = list(range(0, end, 2))
    parts = [
        bytes(batch(f"{at:0100}", base_offset=at, timestamp=NOW_MS + at, partition_leader_epoch=at // 10))
        for at in kept
    ]
    suffix = ".cleaned" if steps_done == 0 else ".swap"
    for kind, content in ((".log", b"".join(parts)), (".index", b""), (".timeindex", b"")):
        (folder / f"{first}{kind}{suffix}").write_bytes(content)
        if steps_done >= 2:
            (folder / f"{second}{kind}").rename(folder / f"{second}{kind}.deleted")
        if steps_done >= 3:
            (folder / f"{first}{kind}").rename(folder / f"{first}{kind}.deleted")

    async def check(log: PartitionLog) -> None:
        expected = list(range(33)) if steps_done == 0 else [*kept, *range(end, 33)]
        assert [offset for offset, _ in await all_values(log)] == expected
        assert {path.suffix for path in folder.iterdir()} <= {
            ".log",
            ".index",
            ".timeindex",
            ".snapshot",
            ".metadata",
            "",
        }

    reopened(tmp_path, check, is_clean=True, recovery_point=33)


def test_a_log_that_ends_before_its_start_begins_again(tmp_path: Path) -> None:
    written(tmp_path, 10)

    async def check(log: PartitionLog) -> None:
        assert (log.log_start_offset, log.log_end_offset) == (50, 50)
        await append(log, "x")
        assert await all_values(log) == [(50, "x")]

    reopened(tmp_path, check, log_start_offset=50)


@given(st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_walk_over_damaged_bytes_ends_at_a_batch(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    parts = [bytes(batch(f"{at}", base_offset=at)) for at in range(6)]
    content = bytearray(b"".join(parts))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(0, len(content))) :]
    path = tmp_path_factory.mktemp("walk") / "x.log"
    path.write_bytes(content)
    file = OsFileSystem().open(str(path))
    try:
        scan = scan_segment(file, 0, interval_bytes=1, check_crc=True)
    finally:
        file.close()
        shutil.rmtree(path.parent)
    ends = [sum(map(len, parts[:at])) for at in range(7)]
    assert scan.end_position in ends
    assert scan.end_position == len(content) or scan.problem is not None


@pytest.mark.parametrize("seed", range(40))
def test_after_a_loss_of_power_everything_flushed_is_there(seed: int) -> None:
    """On a disk that forgets what was not synced: the recovered log is a prefix with all that was flushed."""

    async def program(loop: SimLoop) -> None:
        storage = SimStorage(loop, SimClock(loop))
        filesystem, disk = storage.boot(), SimDisk(loop)
        filesystem.make_directory("/data")
        appended: list[str] = []
        async with world("/data", filesystem=filesystem, disk=disk) as doors:
            log = await open_log(doors, "/data", config(segment_bytes=700, index_interval_bytes=100))
            flushed = 0
            for step in range(loop.random.randint(1, 40)):
                value = f"{step:060}"
                appended.append(value)
                log.append(
                    batch(value), leader_epoch=step // 8, origin=AppendOrigin.CLIENT, now_ms=NOW_MS, done=Outcome()
                )
                if loop.random.random() < 0.15:
                    await log.flush()
                    flushed = len(appended)
                elif loop.random.random() < 0.5:
                    await log.await_appends()
            recovery_point = log.offsets.recovery_point
            assert recovery_point >= flushed
            disk.crash()
            storage.crash_power()
        filesystem, disk = storage.boot(), SimDisk(loop)
        filesystem.make_directory("/data")
        async with world("/data", filesystem=filesystem, disk=disk) as doors:
            log = await open_log(
                doors, "/data", config(segment_bytes=700, index_interval_bytes=100), recovery_point=recovery_point
            )
            found = await all_values(log)
            assert found == list(enumerate(appended))[: len(found)]
            assert len(found) == log.log_end_offset >= flushed
            await append(log, "next")
            assert (await all_values(log))[-1] == (len(found), "next")
            await log.close()

    simulate(seed, program)


@pytest.mark.parametrize("seed", range(20))
def test_after_a_kill_everything_written_is_there(seed: int) -> None:
    async def program(loop: SimLoop) -> None:
        storage = SimStorage(loop, SimClock(loop))
        filesystem, disk = storage.boot(), SimDisk(loop)
        storage.cold_probability = storage.short_probability = 0.2
        filesystem.make_directory("/data")
        outcomes: list[Outcome] = []
        async with world("/data", filesystem=filesystem, disk=disk) as doors:
            log = await open_log(doors, "/data", config(segment_bytes=700))
            for step in range(loop.random.randint(1, 40)):
                outcomes.append(Outcome())
                log.append(
                    batch(f"{step:060}"), leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=NOW_MS, done=outcomes[-1]
                )
                if loop.random.random() < 0.2:
                    await log.await_appends()
                    assert len(await all_values(log)) == log.log_end_offset
            disk.crash()
            storage.crash_process()
        filesystem, disk = storage.boot(), SimDisk(loop)
        async with world("/data", filesystem=filesystem, disk=disk) as doors:
            log = await open_log(doors, "/data", config(segment_bytes=700))
            found = await all_values(log)
            assert found == [(at, f"{at:060}") for at in range(len(found))]
            assert len(found) >= sum(outcome.is_written for outcome in outcomes)
            await log.close()

    simulate(seed, program)
