"""A disk that runs full under a log: nothing torn, nothing acknowledged lost, and it goes on when there is room."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import random
import shutil
from pathlib import Path

import pytest

from protocol.errors import ErrorCode, KafkaError
from storage.free_space import MiB, NoRoom, Room
from storage.log.partition_log import AppendOrigin, PartitionLog
from storage.log.removal.log_truncation import resume, truncate_to
from storage.log.removal.segment_retention import delete_records
from tests.doubles.file_system import INPUT_OUTPUT, PLENTY, ControlledFileSystem, fails
from tests.storage.directories.test_log_manager import TOPIC_ID, Broker, broker
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
    world,
)

FLOOR = 256 * MiB


async def fill(log: PartitionLog, disk: ControlledFileSystem, left_bytes: int) -> list[str]:
    """Append until the disk refuses; what was taken."""
    disk.left_bytes = left_bytes
    taken: list[str] = []
    while True:
        value = f"v{log.log_end_offset}"
        try:
            await append(log, value)
        except NoRoom:
            return taken
        taken.append(value)


async def reopened(place: World, disk: ControlledFileSystem, folder: Path, log: PartitionLog) -> list[str]:
    """What a start after kill -9 finds: on a copy, after starts that had no room at all."""
    kept, copy = disk.left_bytes, folder / f"copy-{random.getrandbits(32)}"
    shutil.copytree(folder / "t-0", copy / "t-0")
    for left_bytes in (0, 5, 50):
        disk.left_bytes = left_bytes
        with contextlib.suppress(OSError):
            await (await open_log(place, str(copy), log.config, recovery_point=0)).close(flush=False)
    disk.left_bytes = PLENTY
    again = await open_log(place, str(copy), log.config, recovery_point=0)
    found = [value for _, value in await all_values(again)]
    await again.close(flush=False)
    disk.left_bytes = kept
    return found


@pytest.mark.parametrize("left_bytes", [0, 1, 61, 500, 1037])
async def test_a_refused_write_halts_the_log_and_leaves_nothing(tmp_path: Path, left_bytes: int) -> None:
    disk = ControlledFileSystem()
    async with world(str(tmp_path), filesystem=disk) as place:
        log = await open_log(place, str(tmp_path))
        await append(log, "first")
        taken = ["first", *await fill(log, disk, left_bytes)]
        assert log.is_halted
        assert not place.failed, "the directory stays online"
        assert [value for _, value in await all_values(log)] == taken, "reads go on"
        assert log.offsets.next_offset == log.log_end_offset == len(taken)
        with pytest.raises(NoRoom):
            await append(log, "more")
        assert await reopened(place, disk, tmp_path, log) == taken, "a torn tail is cut off at the next start"
        disk.left_bytes = PLENTY
        await resume(log)
        assert not log.is_halted
        await append(log, "after")
        assert [value for _, value in await all_values(log)] == [*taken, "after"]
        await log.close()
        assert await reopened(place, disk, tmp_path, log) == [*taken, "after"]


async def test_writes_that_are_queued_behind_a_refused_one_are_refused(tmp_path: Path) -> None:
    """A smaller one might fit, and leave a hole before it."""
    disk = ControlledFileSystem()
    async with world(str(tmp_path), filesystem=disk) as place:
        log = await open_log(place, str(tmp_path))
        await append(log, "first")
        disk.left_bytes = 1000
        busy = place.environment.queue.run(lambda: None)
        outcomes = [Outcome() for _ in range(6)]
        for at, done in enumerate(outcomes):
            records = batch("x" * (900 if at == 2 else 50))
            log.append(records, leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=NOW_MS, done=done)
        await busy
        await log.await_appends()
        assert [done.is_written for done in outcomes] == [True, True, False, False, False, False]
        assert all(len(done.errors) == 1 for done in outcomes)
        assert log.log_end_offset == 3
        disk.left_bytes = PLENTY
        await resume(log)
        await append(log, "after")
        assert [offset for offset, _ in await all_values(log)] == [0, 1, 2, 3]


async def test_no_room_for_the_next_segment(tmp_path: Path) -> None:
    """The roll writes indexes and a snapshot first: the segment that was to end goes on."""
    disk = ControlledFileSystem()
    async with world(str(tmp_path), filesystem=disk) as place:
        log = await open_log(place, str(tmp_path), config(segment_bytes=2000, index_interval_bytes=1))
        taken = []
        for at in range(20):
            await append(log, f"v{at}", producer_id=1, producer_epoch=0, base_sequence=at)
            taken.append(f"v{at}")
        while log.segments.active.end_bytes < 1900:
            at = log.log_end_offset
            await append(log, f"v{at}", producer_id=1, producer_epoch=0, base_sequence=at)
            taken.append(f"v{at}")
        disk.left_bytes = 3
        with pytest.raises(NoRoom):
            await append(log, "no", producer_id=1, producer_epoch=0, base_sequence=len(taken))
        await log.await_appends()
        assert log.is_halted
        assert await reopened(place, disk, tmp_path, log) == taken
        await resume(log)
        assert log.is_halted, "there is no room still"
        disk.left_bytes = PLENTY
        await resume(log)
        assert not log.is_halted
        result = await append(log, "yes", producer_id=1, producer_epoch=0, base_sequence=len(taken))
        assert (result.base_offset, result.duplicate) == (len(taken), False), "the refused batch left no sequence"
        assert [value for _, value in await all_values(log)] == [*taken, "yes"]
        await log.close()
        assert await reopened(place, disk, tmp_path, log) == [*taken, "yes"]


async def test_below_the_floor_only_the_brokers_own_records_are_taken(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as place:
        log = await open_log(place, str(tmp_path))
        space = place.environment.space
        space.floor_bytes = FLOOR

        def measure(free_bytes: int) -> None:
            space.on_measured(free_bytes, 0)
            log.on_room_changed()

        async def taken(origin: AppendOrigin) -> bool:
            done = Outcome()
            try:
                log.append(batch("v"), leader_epoch=0, origin=origin, now_ms=NOW_MS, done=done)
            except NoRoom:
                return False
            await log.await_appends()
            return done.is_written

        measure(FLOOR)
        assert await taken(AppendOrigin.CLIENT)
        measure(FLOOR - 1)
        assert space.room is Room.RESERVE
        assert not await taken(AppendOrigin.CLIENT)
        assert await taken(AppendOrigin.COORDINATOR)
        measure(FLOOR // 4 - 1)
        assert not await taken(AppendOrigin.COORDINATOR)
        assert len(await all_values(log)) == 2
        log.high_watermark = 1
        assert delete_records(log, 1) == 1, "deletions make room"
        await log.flush()
        measure(FLOOR * 2)
        assert await taken(AppendOrigin.CLIENT)
        assert not place.failed


async def test_whoever_fills_the_disk_between_two_looks_is_stopped(tmp_path: Path) -> None:
    """Nothing here gives a look its turn: no statvfs happens while the appends run."""
    disk = ControlledFileSystem()
    async with broker(tmp_path, filesystem=disk) as here:
        log, other = [await here.logs.log_for("orders", partition) for partition in range(2)]
        await append(log, "opens its file")
        floor_bytes, plenty_bytes = 1 << 20, 3 << 20
        space = log.environment.space
        space.floor_bytes = floor_bytes
        space.on_measured(plenty_bytes, 0)
        records, taken_bytes = bytes(batch("x" * 40_000)), 0
        while log.has_room:
            log.append(bytearray(records), leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=NOW_MS, done=Outcome())
            taken_bytes += len(records)
        assert plenty_bytes - floor_bytes // 4 > taken_bytes > plenty_bytes - floor_bytes - 2 * len(records)
        assert space.room is Room.RESERVE
        assert not other.has_room, "it is told as well"
        assert list(here.logs.space.full_since_ms.values()) == [here.clock.wall_ms()]
        disk.free = PLENTY
        await goes_on(here, other)
        assert here.logs.space.full_since_ms == {}
        await append(log, "after")


async def goes_on(here: Broker, log: PartitionLog) -> None:
    """What looks again does so in the background as well: whoever comes second need not have done it."""
    here.clock.now_ms += 60_000
    for _ in range(1_000):
        await here.logs.space.look()
        if log.has_room:
            return
        await asyncio.sleep(0.005)


async def test_a_directory_without_room_stays_online(tmp_path: Path) -> None:
    """Checkpoints and new logs are refused, and done again later."""
    disk = ControlledFileSystem()
    async with broker(tmp_path, filesystem=disk) as here:
        log = await here.logs.log_for("orders", 0)
        await append(log, "a")
        disk.left_bytes = 0
        log.high_watermark = 1
        await here.logs.upkeep.checkpoint_high_watermarks()
        assert not here.failed
        with pytest.raises(NoRoom):
            await append(log, "b")
        checkpoint = tmp_path / "replication-offset-checkpoint"
        assert not checkpoint.exists() or "orders 0 1" not in checkpoint.read_text()
        disk.left_bytes = PLENTY
        await goes_on(here, log)
        await append(log, "b")
        await here.logs.upkeep.checkpoint_high_watermarks()
        assert "orders 0 1" in checkpoint.read_text()
        assert await all_values(log) == [(0, "a"), (1, "b")]
        assert here.logs.online_directories == [str(tmp_path)]


@pytest.mark.parametrize("left_bytes", [0, 30, 40])
async def test_a_log_that_there_is_no_room_for_leaves_no_folder(tmp_path: Path, left_bytes: int) -> None:
    """It is made in another directory afterwards: a start that found it in both would be refused."""
    a, b, disk = tmp_path / "a", tmp_path / "b", ControlledFileSystem()
    disk.free = PLENTY  # says the other directory
    async with broker(a, b, filesystem=disk) as here:
        await here.logs.log_for("one", 0, TOPIC_ID)
        disk.left_bytes = left_bytes
        with pytest.raises(NoRoom):
            await here.logs.log_for("t", 0, TOPIC_ID)
        assert not (a / "t-0").exists()
        assert not (b / "t-0").exists()
        assert not here.failed
        disk.left_bytes = PLENTY
        disk.full = {str(b)}
        log = await here.logs.log_for("t", 0, TOPIC_ID)
        assert log.directory == str(a / "t-0"), "there is no room in the other one"
        disk.full = set()
        await goes_on(here, log)
        await append(log, "a")
    async with broker(a, b, filesystem=disk) as again:
        assert await all_values(again.logs.logs["t", 0]) == [(0, "a")]


async def test_a_log_is_made_where_there_is_room(tmp_path: Path) -> None:
    disk = ControlledFileSystem()
    disk.free = PLENTY
    async with broker(tmp_path / "a", tmp_path / "b", filesystem=disk) as here:

        async def made(*topics: str) -> list[str]:
            return [Path((await here.logs.log_for(each, 0)).directory).parent.name for each in topics]

        assert await made("one", "two") == ["a", "b"]
        here.logs.logs["one", 0].environment.space.on_refused(here.clock.now_ms)
        assert await made("three", "four") == ["b", "b"]
        here.logs.logs["two", 0].environment.space.on_refused(here.clock.now_ms)
        assert await made("five") == ["a"], "as there is no better place"
        here.clock.now_ms += 10_000
        await here.logs.space.look()
        assert await made("six") == ["a"]


async def test_a_log_that_a_directory_has_no_room_for_is_made_in_another(tmp_path: Path) -> None:
    """Nobody knew that it was full; also when the log was wanted there."""
    a, b, disk = tmp_path / "a", tmp_path / "b", ControlledFileSystem()
    disk.free = PLENTY
    async with broker(a, b, filesystem=disk) as here:
        disk.full = {str(a)}
        here.logs.future.prefer("wanted", 0, str(a))
        for topic in ("any", "wanted"):
            log = await here.logs.log_for(topic, 0, TOPIC_ID)
            assert log.directory == str(b / f"{topic}-0")
            assert not (a / f"{topic}-0").exists()
        assert not here.failed
        assert [each.reserved for each in here.logs._directories.values()] == [0, 0]
        disk.full = set()


async def test_a_log_that_no_directory_has_room_for_can_be_asked_for_again_when_one_has(tmp_path: Path) -> None:
    a, b, disk = tmp_path / "a", tmp_path / "b", ControlledFileSystem()
    disk.free = PLENTY
    async with broker(a, b, filesystem=disk) as here:
        disk.full = {str(a), str(b)}
        here.logs.future.prefer("t", 0, str(b))
        with pytest.raises(NoRoom):
            await here.logs.log_for("t", 0, TOPIC_ID)
        await here.logs.space.look()
        assert here.room_again_ms == []
        disk.full = set()
        here.clock.now_ms += 60_000
        await here.logs.space.look()
        assert set(here.room_again_ms) == {here.clock.now_ms}
        log = await here.logs.log_for("t", 0, TOPIC_ID)
        assert log.directory == str(b / "t-0"), "where it was wanted"


async def test_a_disk_that_is_broken_is_no_full_one(tmp_path: Path) -> None:
    disk = ControlledFileSystem()
    async with broker(tmp_path / "a", tmp_path / "b", filesystem=disk) as here:
        for name in (f"{0:020d}.log", "partition.metadata"):
            disk.on(INPUT_OUTPUT, tmp_path / "a" / "t-0" / name, fails(errno.EIO))
        with pytest.raises(KafkaError) as raised:
            await here.logs.log_for("t", 0, TOPIC_ID)
        assert not isinstance(raised.value, NoRoom)
        assert here.failed == [str(tmp_path / "a")]


def test_one_line_for_a_directory_and_its_logs_go_on_together(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        disk = ControlledFileSystem()
        async with broker(tmp_path, filesystem=disk) as here:
            logs = [await here.logs.log_for("orders", partition) for partition in range(5)]
            for log in logs:
                await append(log, "a")
            disk.left_bytes = 10
            for log in logs:
                with pytest.raises(NoRoom):
                    await append(log, "b")
            disk.left_bytes = PLENTY
            for log in logs:
                await goes_on(here, log)
                await append(log, "b")
                assert await all_values(log) == [(0, "a"), (1, "b")]

    with caplog.at_level("INFO"):
        asyncio.run(run())
    said = [record.message for record in caplog.records if record.name == "storage.directories.space_watch"]
    assert sum("disk is full" in line for line in said) == 1
    assert sum("disk has space again" in line for line in said) == 1


async def test_an_io_error_of_one_file_takes_its_directory_alone(tmp_path: Path) -> None:
    disk = ControlledFileSystem()
    async with broker(tmp_path / "a", tmp_path / "b", filesystem=disk) as here:
        logs = [await here.logs.log_for("orders", partition) for partition in range(4)]
        for log in logs:
            await append(log, "a")
        disk.on(INPUT_OUTPUT, f"{logs[0].directory}/00000000000000000000.log", fails(errno.EIO))
        with pytest.raises(KafkaError) as refused:
            await append(logs[0], "b")
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        gone = str(Path(logs[0].directory).parent)
        assert here.failed == [gone]
        assert here.logs.offline_directories == [gone]
        for log in logs[1:]:
            if log.directory.startswith(f"{gone}/"):
                assert log.failure is not None
            else:
                await append(log, "b")
        described = {each.path: each for each in await here.logs.describe()}
        assert described[gone].error is ErrorCode.KAFKA_STORAGE_ERROR
        assert described[gone].logs == []
        with pytest.raises(KafkaError):
            await here.logs.log_for("orders", 0, is_new=False)


async def test_a_file_that_cannot_be_read_says_so_to_whoever_reads(tmp_path: Path) -> None:
    """How much there is to read is asked by fetches that wait, where nobody would hear of an error."""
    disk = ControlledFileSystem()
    async with world(str(tmp_path), filesystem=disk) as place:
        log = await open_log(place, str(tmp_path))
        for value in "abcdefgh":
            await append(log, value)
        broken = disk.on(INPUT_OUTPUT, f"{log.directory}/00000000000000000000.log", fails(errno.EIO))
        assert log.reading.bytes_between(3, 8) == log.size_bytes
        with pytest.raises(KafkaError) as refused:
            await read(log, 3)
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        broken.is_on = False
        assert 0 < log.reading.bytes_between(3, 8) < log.size_bytes
        await log.close()


CHECKPOINTS = ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"]


@pytest.mark.parametrize("refused", CHECKPOINTS)
async def test_a_stop_without_room_for_its_checkpoints_is_no_clean_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, refused: str
) -> None:
    """There is some again for the marker, which is written next: who believed it would take the recovery point of before
    for the log's end. The other directory has stopped cleanly."""
    disk = ControlledFileSystem()
    folders = [tmp_path / "a", tmp_path / "b"]
    async with broker(*folders, filesystem=disk) as here:
        logs = [await here.logs.log_for("orders", partition, TOPIC_ID) for partition in range(2)]
        for log in logs:
            await append(log, "a", "b", "c")
            await log.flush()
        await here.logs.upkeep.checkpoint_recovery_points()
        for log in logs:
            await append(log, *"defgh")
            log.high_watermark = 8
        delete_records(logs[0], 1)
        full = Path(logs[0].directory).parent
        rule = disk.on("replace", full / refused, fails(errno.ENOSPC))
    assert rule.calls == 1
    assert [folder for folder in folders if (folder / ".kafka_cleanshutdown").exists()] == [
        folder for folder in folders if folder != full
    ]
    lines = [record.getMessage() for record in caplog.records if "not closed cleanly" in record.getMessage()]
    assert len(lines) == 1, lines
    assert refused in lines[0]
    async with broker(*folders) as again:
        assert not again.logs.was_clean
        log = again.logs.logs["orders", 0]
        assert (log.log_end_offset, [value for _, value in await all_values(log)][-7:]) == (8, list("bcdefgh"))
        assert (await append(log, "new")).base_offset == 8
    assert all((folder / ".kafka_cleanshutdown").exists() for folder in folders)


def checkpointed(folder: Path) -> str:
    return (folder / CHECKPOINTS[0]).read_text().splitlines()[2]


async def test_a_log_takes_nothing_until_the_fall_of_its_recovery_point_is_on_the_disk(tmp_path: Path) -> None:
    """A start after a loss of power would not look at what is appended below the checkpointed one."""
    disk = ControlledFileSystem()
    async with broker(tmp_path, filesystem=disk) as here:
        log = await here.logs.log_for("orders", 0, TOPIC_ID)
        for value in "abcdef":
            await append(log, value)
        await log.flush()
        await here.logs.upkeep.checkpoint_recovery_points()
        assert checkpointed(tmp_path) == "orders 0 6"
        full = disk.on("replace", tmp_path / CHECKPOINTS[0], fails(errno.ENOSPC))
        with pytest.raises(NoRoom):
            await truncate_to(log, 3)
        assert log.is_halted
        with pytest.raises(NoRoom):
            await append_records(log, batch("d"), origin=AppendOrigin.COORDINATOR)
        await resume(log)
        assert log.is_halted
        assert not here.failed
        assert checkpointed(tmp_path) == "orders 0 6"
        full.is_on = False
        await resume(log)
        assert not log.is_halted
        assert checkpointed(tmp_path) == "orders 0 3"
        await goes_on(here, log)
        assert (await append(log, "D")).base_offset == 3
        assert [value for _, value in await all_values(log)] == ["a", "b", "c", "D"]
    async with broker(tmp_path, filesystem=disk) as again:
        assert again.logs.was_clean
        assert again.logs.logs["orders", 0].log_end_offset == 4
