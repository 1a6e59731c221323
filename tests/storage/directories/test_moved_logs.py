"""What a log manager knows of logs that were moved between its directories, and what a start makes of their traces."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from protocol.errors import KafkaError
from storage.directories.log_manager import LogManager
from storage.folder_files import format_partition_metadata
from storage.log import log_replacement
from storage.log.partition_log import AppendOrigin, PartitionLog
from storage.log.removal.log_truncation import truncate_to
from storage.log.removal.segment_retention import delete_records
from tests.doubles.file_system import PLENTY, ControlledFileSystem, notes
from tests.storage.directories.test_log_manager import broker
from tests.storage.logs import all_values, append, append_records, batch, read

TOPIC_ID, OTHER_ID = bytes(range(16)), bytes(range(1, 17))


async def moved(logs: LogManager, log: PartitionLog, target: Path) -> PartitionLog:
    """The empty log, in another directory."""
    await logs.future.future_log_for("t", 0, str(target))
    log_replacement.buffer_appends(log)
    new = await logs.future.complete_move("t", 0)
    log_replacement.hand_over(log, new)
    await log.close(flush=False)
    return new


async def test_the_only_log_of_a_topic_keeps_to_its_settings_wherever_it_goes(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    overrides = {"segment.bytes": "1000"}
    async with broker(a, b, overrides=overrides) as here:
        log = await here.logs.log_for("t", 0, TOPIC_ID)
        new = await moved(here.logs, log, b if log.directory.startswith(str(a)) else a)
        overrides["segment.bytes"] = "2000"
        here.logs.update_configs("t")
        assert new.config.segment_bytes == 2000
        await here.logs.delete("t", 0)
        assert not here.logs.logs


async def test_records_deleted_while_the_copy_takes_the_place_of_the_log_stay_deleted(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    async with broker(a, b) as here:
        log = await here.logs.log_for("t", 0, TOPIC_ID)
        for at in range(4):
            await append(log, f"v{at}", epoch=at)
        log.high_watermark = 4
        target = b if log.directory.startswith(str(a)) else a
        copy = await here.logs.future.future_log_for("t", 0, str(target))
        await append_records(copy, bytearray(await read(log, 0)), origin=AppendOrigin.REPLICA)
        log_replacement.buffer_appends(log)
        log.detach_folder()
        moving = asyncio.ensure_future(here.logs.future.complete_move("t", 0))
        await asyncio.sleep(0)
        assert delete_records(log, 3) == 3
        assert not moving.done()
        new = await moving
        log_replacement.hand_over(log, new)
        await log.close(flush=False)
        assert (new.log_start_offset, new.high_watermark, new.log_end_offset) == (3, 4, 4)
        assert await all_values(new) == [(3, "v3")]
        assert (new.epochs.epoch_of(2), new.epochs.epoch_of(3)) == (-1, 3)
    async with broker(a, b) as again:
        assert again.logs.logs["t", 0].log_start_offset == 3


async def test_the_mark_of_a_move_goes_at_the_next_start(tmp_path: Path) -> None:
    async with broker(tmp_path) as here:
        await append(await here.logs.log_for("t", 0, TOPIC_ID), "a")
    (tmp_path / "t-0" / "moved").write_bytes(b"")
    async with broker(tmp_path) as here:
        assert not (tmp_path / "t-0" / "moved").exists()


@pytest.mark.parametrize(
    ("id_of_log", "id_of_copy", "left"),
    [
        (TOPIC_ID, TOPIC_ID, ["a"]),
        (None, None, ["a"]),  # as before topics had ids
        (TOPIC_ID, OTHER_ID, None),
        (TOPIC_ID, None, []),
        (None, OTHER_ID, []),
    ],
)
async def test_a_copy_is_of_the_topic_of_the_log_or_begins_anew_or_goes(
    tmp_path: Path, id_of_log: bytes | None, id_of_copy: bytes | None, left: list[str] | None
) -> None:
    """The log is gone, with the power or with its disk, and the topic was made anew; or the power took an id alone."""
    a, b = tmp_path / "a", tmp_path / "b"
    async with broker(a, b) as here:
        log = await here.logs.log_for("t", 0, TOPIC_ID)
        await append(log, "a")
        home, other = (a, b) if log.directory.startswith(str(a)) else (b, a)
        copy = await here.logs.future.future_log_for("t", 0, str(other))
        await append_records(copy, bytearray(await read(log, 0)), origin=AppendOrigin.REPLICA)
    (folder,) = other.glob("t-0.*-future")
    for path, topic_id in ((home / "t-0", id_of_log), (folder, id_of_copy)):
        if topic_id is None:
            (path / "partition.metadata").unlink()
        else:
            (path / "partition.metadata").write_bytes(format_partition_metadata(topic_id))
    async with broker(a, b) as again:
        found = again.logs.future.future_log("t", 0)
        assert (None if found is None else [value for _, value in await all_values(found)]) == left
        assert len(list(other.glob("t-0.*-future"))) == (left is not None)
        assert found is None or found.topic_id == again.logs.logs["t", 0].topic_id


def recording() -> tuple[ControlledFileSystem, list[tuple[str, str]]]:
    filesystem, calls = ControlledFileSystem(), list[tuple[str, str]]()
    filesystem.on("unlink rename sync_directory", "*", notes(calls))
    return filesystem, calls


async def test_what_a_move_has_set_aside_is_on_the_disk_before_a_start_ends_the_move(tmp_path: Path) -> None:
    """Else it could be back under its name after a loss of power, and no start would know which log is the one."""
    a, b = tmp_path / "a", tmp_path / "b"
    async with broker(a, b, kill=True) as here:
        log = await here.logs.log_for("t", 0, TOPIC_ID)
        await append(log, "a")
    home, other = (a, b) if log.directory.startswith(str(a)) else (b, a)
    copy = other / f"t-0.{'0' * 32}-future"
    (home / "t-0").rename(copy)
    (copy / "moved").write_bytes(b"")
    filesystem, calls = recording()
    async with broker(a, b, filesystem=filesystem) as here:
        assert here.logs.logs["t", 0].directory == str(other / "t-0")
    assert ("sync_directory", str(home)) in calls[: calls.index(("rename", str(other / "t-0")))]


async def test_a_mark_that_has_gone_is_not_back_after_a_loss_of_power(tmp_path: Path) -> None:
    """Should that also undo the exchange of the next move, two folders would be marked, and no start would know which is the
    log."""
    a, b, (filesystem, calls) = tmp_path / "a", tmp_path / "b", recording()
    async with broker(a, b, filesystem=filesystem) as here:
        log = await here.logs.log_for("t", 0, TOPIC_ID)
        log = await moved(here.logs, log, b if log.directory.startswith(str(a)) else a)
    gone = ("unlink", f"{log.directory}/moved")
    for _ in range(2):
        of_log = [call for call in calls if call[1].startswith(log.directory)]
        assert of_log[of_log.index(gone) + 1] == ("sync_directory", log.directory)
        calls.clear()
        (Path(log.directory) / "moved").touch()
        async with broker(a, b, filesystem=filesystem):
            pass


@pytest.mark.parametrize("left_bytes", [0, 30, 40])
async def test_a_copy_that_there_is_no_room_for_leaves_no_folder(tmp_path: Path, left_bytes: int) -> None:
    a, b, disk = tmp_path / "a", tmp_path / "b", ControlledFileSystem()
    async with broker(a, b, filesystem=disk) as here:
        log = await here.logs.log_for("t", 0, TOPIC_ID)
        await append(log, "a")
        target = b if log.directory.startswith(str(a)) else a
        disk.left_bytes = left_bytes
        with pytest.raises(KafkaError):
            await here.logs.future.future_log_for("t", 0, str(target))
        assert not list(target.glob("t-0*"))
        assert not here.failed
        disk.left_bytes = PLENTY
        await here.logs.future.future_log_for("t", 0, str(target))
        assert len(list(target.glob("t-0*"))) == 1


async def test_gaps_that_only_the_copy_knows_of_are_known_when_it_has_taken_the_place_of_the_log(
    tmp_path: Path,
) -> None:
    """It was cut within a gap, so that the next one of its segments may begin behind it."""
    a, b = tmp_path / "a", tmp_path / "b"
    async with broker(a, b) as here:
        log = await here.logs.log_for("t", 0, TOPIC_ID)
        copy = await here.logs.future.future_log_for("t", 0, str(b if log.directory.startswith(str(a)) else a))
        for offset in (0, 20):
            for each in (log, copy):
                records = batch("v", base_offset=offset, partition_leader_epoch=0)
                await append_records(each, records, origin=AppendOrigin.REPLICA)
        await truncate_to(copy, 10)
        records = batch("v", base_offset=20, partition_leader_epoch=0)
        await append_records(copy, records, origin=AppendOrigin.REPLICA)
        log_replacement.buffer_appends(log)
        new = await here.logs.future.complete_move("t", 0)
        log_replacement.hand_over(log, new)
        await log.close(flush=False)
        assert (log.offsets.first_dirty_offset, new.offsets.first_dirty_offset) == (None, 0)
    async with broker(a, b) as again:
        assert again.logs.logs["t", 0].offsets.first_dirty_offset == 0
