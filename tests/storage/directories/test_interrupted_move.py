"""Two folders of one partition, as a crash in a move leaves them: which one a start goes on with."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from storage.directories.log_directory import CLEAN_SHUTDOWN_FILE, DirectoryRefused
from storage.directories.log_manager import LogManager
from storage.log.removal.log_truncation import truncate_to
from storage.log.removal.segment_retention import delete_records
from tests.doubles.file_system import ControlledFileSystem, fails, notes
from tests.storage.directories.test_log_manager import broker
from tests.storage.logs import all_values, append

TOPIC_ID, OTHER_ID = bytes(range(16)), bytes(range(1, 17))


class Traces:
    """The directories of a broker whose log `t-0`, of three records, was about to move from `home` to `target`."""

    def __init__(self, root: Path) -> None:
        self.all = (root / "a", root / "b")
        self.home = self.target = root

    async def make(self, topic_id: bytes = TOPIC_ID) -> Traces:
        async with broker(*self.all) as here:
            log = await here.logs.log_for("t", 0, topic_id)
            for at in range(3):
                await append(log, f"v{at}", epoch=2)
        self.home, self.target = self.all if (self.all[0] / "t-0").exists() else self.all[::-1]
        shutil.copytree(self.home / "t-0", self.target / "t-0")
        for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
            shutil.copy(self.home / name, self.target / name)
        self.mark(self.target)
        return self

    def mark(self, directory: Path) -> None:
        (directory / "t-0" / "moved").touch()

    def marks(self) -> list[Path]:
        return [each for each in self.all if (each / "t-0" / "moved").exists()]

    async def lead_on(self, directory: Path, *values: str, epoch: int = 3, cut_to: int | None = None) -> None:
        """While the other directory is offline."""
        (other,) = (each for each in self.all if each != directory)
        away = other.with_name("away")
        other.rename(away)
        other.touch()
        async with broker(*self.all) as here:
            log = here.logs.logs["t", 0]
            if cut_to is not None:
                await truncate_to(log, cut_to)
            for value in values:
                await append(log, value, epoch=epoch)
        other.unlink()
        away.rename(other)

    async def check(self, logs: LogManager, directory: Path, *values: str) -> None:
        log = logs.logs["t", 0]
        assert log.directory == f"{directory}/t-0"
        assert [value for _, value in await all_values(log)] == list(values)
        (other,) = (each for each in self.all if each != directory)
        assert not (other / "t-0").exists()
        assert not self.marks()
        assert not any(key == ("t", 0) for key in logs._directories[str(other)].logs)


async def test_of_two_that_tell_the_same_the_marked_one_is_the_log(tmp_path: Path) -> None:
    traces = await Traces(tmp_path).make()
    async with broker(*traces.all) as here:
        await traces.check(here.logs, traces.target, "v0", "v1", "v2")
        await append(here.logs.logs["t", 0], "on", epoch=3)
    async with broker(*traces.all) as again:
        assert len(await all_values(again.logs.logs["t", 0])) == 4
        assert not list(traces.home.glob("t-0*"))


@pytest.mark.parametrize("leads_on", ["home", "target"])
async def test_the_one_that_led_on_while_the_other_was_offline_is_the_log(tmp_path: Path, leads_on: str) -> None:
    traces = await Traces(tmp_path).make()
    place = traces.home if leads_on == "home" else traces.target
    await traces.lead_on(place, "w0", "w1")
    assert traces.marks() == [traces.target], "who is away may hold the other"
    async with broker(*traces.all) as here:
        await traces.check(here.logs, place, "v0", "v1", "v2", "w0", "w1")


async def test_a_later_epoch_is_further_than_a_later_end(tmp_path: Path) -> None:
    """As between replicas: what lies behind the end of the later one was cut off for good."""
    traces = await Traces(tmp_path).make()
    await traces.lead_on(traces.home, "w0", cut_to=1)
    async with broker(*traces.all) as here:
        await traces.check(here.logs, traces.home, "v0", "w0")


async def test_segments_of_other_sizes_do_not_count(tmp_path: Path) -> None:
    """A copy begins its segments where it likes."""
    traces = await Traces(tmp_path).make()
    (traces.target / "t-0" / f"{3:020}.log").touch()
    await traces.lead_on(traces.home, "w0")
    async with broker(*traces.all) as here:
        await traces.check(here.logs, traces.home, "v0", "v1", "v2", "w0")


async def test_records_deleted_from_the_one_are_not_back_in_the_other(tmp_path: Path) -> None:
    traces = await Traces(tmp_path).make()
    away = traces.target.with_name("away")
    traces.target.rename(away)
    traces.target.touch()
    async with broker(*traces.all) as here:
        log = here.logs.logs["t", 0]
        log.high_watermark = 3
        delete_records(log, 2)
    traces.target.unlink()
    away.rename(traces.target)
    async with broker(*traces.all) as here:
        await traces.check(here.logs, traces.target, "v2")


@pytest.mark.parametrize("marked", [0, 2])
async def test_two_of_which_none_or_both_are_marked_are_refused(tmp_path: Path, marked: int) -> None:
    traces = await Traces(tmp_path).make()
    for each in traces.all:
        traces.mark(each) if marked else (each / "t-0" / "moved").unlink(missing_ok=True)
    with pytest.raises(DirectoryRefused, match="t-0 is in two log directories: "):
        async with broker(*traces.all):
            pass
    assert all((each / "t-0").exists() for each in traces.all)
    assert len(traces.marks()) == marked


async def test_two_of_different_topics_are_refused(tmp_path: Path) -> None:
    traces = await Traces(tmp_path).make()
    other = await Traces(tmp_path / "other").make(OTHER_ID)
    shutil.rmtree(traces.home / "t-0")
    shutil.copytree(other.home / "t-0", traces.home / "t-0")
    with pytest.raises(DirectoryRefused, match="t-0 is in two log directories: "):
        async with broker(*traces.all):
            pass


async def test_what_cannot_be_set_aside_is_told_apart_by_the_next_start_too(tmp_path: Path) -> None:
    traces = await Traces(tmp_path).make()
    filesystem = ControlledFileSystem()
    filesystem.on("rename", "*-delete", fails(errno.ENOSPC))
    async with broker(*traces.all, filesystem=filesystem) as here:
        assert here.logs.logs["t", 0].directory == f"{traces.target}/t-0"
        await append(here.logs.logs["t", 0], "on", epoch=3)
        assert not here.failed
    assert traces.marks() == [traces.target]
    async with broker(*traces.all) as here:
        await traces.check(here.logs, traces.target, "v0", "v1", "v2", "on")


async def test_a_mark_stays_until_no_loss_of_power_brings_the_other_folder_back(tmp_path: Path) -> None:
    traces = await Traces(tmp_path).make()
    (traces.home / "t-0").rename(traces.home / f"t-0.{'0' * 32}-delete")
    filesystem, calls = ControlledFileSystem(), list[tuple[str, str]]()
    filesystem.on("sync_directory unlink", "*", notes(calls))
    async with broker(*traces.all, filesystem=filesystem) as here:
        assert here.logs.logs["t", 0].directory == f"{traces.target}/t-0"
        assert not traces.marks()
    before = calls[: calls.index(("unlink", f"{traces.target}/t-0/moved"))]
    assert ("sync_directory", str(traces.home)) in before[len(before) - 2 :]


async def test_a_directory_that_fails_while_the_start_chooses_leaves_the_other_to_lead_on(tmp_path: Path) -> None:
    traces = await Traces(tmp_path).make()

    (traces.target / "recovery-point-offset-checkpoint").unlink()  # so that one is written
    (traces.target / CLEAN_SHUTDOWN_FILE).unlink()
    filesystem = ControlledFileSystem()
    filesystem.on("replace", traces.target / "recovery-point-offset-checkpoint", fails(errno.EIO))
    async with broker(*traces.all, filesystem=filesystem) as here:
        assert here.failed == [str(traces.target)]
        assert here.logs.logs["t", 0].directory == f"{traces.home}/t-0"
        assert traces.marks() == [traces.target]
        await append(here.logs.logs["t", 0], "on", epoch=3)
    async with broker(*traces.all) as here:
        await traces.check(here.logs, traces.home, "v0", "v1", "v2", "on")
