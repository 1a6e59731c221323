"""The marker of a clean stop is never believed twice, however the broker ends that has taken it."""

from __future__ import annotations

from storage.directories.log_directory import LogDirectory
from tests.simulation.clock import SimClock
from tests.simulation.filesystem import SimStorage
from tests.simulation.loop import SimLoop

MARKER = ".kafka_cleanshutdown"


def test_a_marker_whose_removal_was_not_flushed_does_not_come_back_behind_a_later_start() -> None:
    """Killed between the two, started, written to; then the power goes: what was written has to be recovered."""
    for seed in range(10):
        loop = SimLoop(seed)
        loop.close()
        machine = SimStorage(loop, SimClock(loop))
        filesystem = machine.boot()
        filesystem.make_directory("/data")
        LogDirectory(filesystem, "/data").write_clean_shutdown(5)
        filesystem.sync_directory("/")
        filesystem.sync_directory("/data")
        filesystem.unlink(f"/data/{MARKER}")
        machine.crash_process()
        assert LogDirectory(machine.boot(), "/data").take_clean_shutdown() == (False, -1)
        machine.crash_power()
        assert MARKER not in machine.boot().list_directory("/data")
