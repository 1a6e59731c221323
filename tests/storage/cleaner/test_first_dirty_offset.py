"""Up to where a log counts as compacted: never beyond its end, or what is appended there later would count as clean.

A delete marker among such records would go, as one that every older record of its key has left before, while a value of that
key is still there.
"""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

import pytest

from protocol.errors import KafkaError
from storage.free_space import NoRoom
from storage.log.removal.log_truncation import resume, truncate_to
from tests.doubles.file_system import ControlledFileSystem, fails
from tests.storage.cleaner.cleaning import Cleanery, cleanery, left_in

CLEANER_FILE, RECOVERY_FILE = "cleaner-offset-checkpoint", "recovery-point-offset-checkpoint"
ABOVE_RETENTION_MS = 3 * 86_400_000


def first_dirty_in(directory: Path) -> str:
    """What a start would find."""
    return (directory / CLEANER_FILE).read_text()


async def compacted_up_to_40(broker: Cleanery) -> None:
    await broker.put(("K", "value"))
    for number in range(39):
        await broker.put((f"u{number}", "x"))
    await broker.roll()
    assert await broker.clean()
    assert broker.log.offsets.first_dirty_offset == 40


async def delete_and_clean(broker: Cleanery) -> None:
    """The key's latest record is a delete marker, and everything is cleaned until nobody needs that any more."""
    await broker.put(("K", None))
    for number in range(40):
        await broker.put((f"w{number}", "x"))
    await broker.roll()
    for _ in range(4):
        await broker.clean()
        broker.clock.now_ms += ABOVE_RETENTION_MS
        await broker.put(("q", "x"))
        await broker.roll()


async def test_what_comes_after_a_loss_counts_as_dirty(tmp_path: Path) -> None:
    async with cleanery(tmp_path, kill=True) as broker:
        await compacted_up_to_40(broker)
        folder = broker.folder
        await broker.logs.upkeep.checkpoint_recovery_points()
    for path in folder.iterdir():  # a file system lost the end of the log
        if path.name[:20].isdigit() and int(path.name[:20]) >= 20:
            path.unlink()
    async with cleanery(tmp_path) as broker:
        end_offset = broker.log.log_end_offset
        assert end_offset < 40
        assert broker.log.offsets.first_dirty_offset == end_offset
        assert first_dirty_in(tmp_path) == f"0\n1\nt 0 {end_offset}\n", "before anything is appended"
        await delete_and_clean(broker)
        assert not [record for record in left_in(folder) if record[1] == "K"]


async def test_what_a_checkpoint_says_of_other_logs_stays(tmp_path: Path) -> None:
    async with cleanery(tmp_path) as broker:
        await broker.put(("K", "value"))
    (tmp_path / CLEANER_FILE).write_text("0\n2\nt 0 40\nother 0 7\n")
    async with cleanery(tmp_path) as broker:
        assert broker.log.offsets.first_dirty_offset == 1
        assert sorted(first_dirty_in(tmp_path).splitlines()[2:]) == ["other 0 7", "t 0 1"]


async def test_a_cut_below_it_is_on_the_disk_before_more_is_appended(tmp_path: Path) -> None:
    """Also when the recovery point has not fallen: after a kill it may lie further back."""
    async with cleanery(tmp_path, kill=True) as broker:
        await broker.logs.upkeep.checkpoint_recovery_points()
        await compacted_up_to_40(broker)
    async with cleanery(tmp_path, kill=True) as broker:
        assert (broker.log.offsets.recovery_point, broker.log.offsets.first_dirty_offset) == (0, 40)
        await truncate_to(broker.log, 20)
        assert first_dirty_in(tmp_path) == "0\n1\nt 0 20\n"
        for number in range(25):
            await broker.put((f"w{number}", "x"))
    async with cleanery(tmp_path) as broker:
        assert broker.log.offsets.first_dirty_offset == 20


@pytest.mark.parametrize("refused", [CLEANER_FILE, RECOVERY_FILE])
async def test_a_log_takes_nothing_until_its_fall_is_on_the_disk(tmp_path: Path, refused: str) -> None:
    disk = ControlledFileSystem()
    async with cleanery(tmp_path, filesystem=disk) as broker:
        await compacted_up_to_40(broker)
        await broker.log.flush()
        await broker.logs.upkeep.checkpoint_recovery_points()
        full = disk.on("replace", tmp_path / refused, fails(errno.ENOSPC))
        with pytest.raises(NoRoom):
            await truncate_to(broker.log, 20)
        assert broker.log.is_halted
        with contextlib.suppress(KafkaError):
            await broker.put(("K", None))
        assert broker.log.log_end_offset == 20
        full.is_on = False
        await resume(broker.log)
        assert first_dirty_in(tmp_path) == "0\n1\nt 0 20\n"
        assert not broker.log.is_halted
