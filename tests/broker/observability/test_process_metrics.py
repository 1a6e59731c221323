"""The metrics of a broker's event loop and disks."""

from __future__ import annotations

from typing import cast

import pytest

from broker.observability.process_metrics import broker_state, disk_samples, loop_samples
from runtime.disk.filesystem import FileSystem
from runtime.disk.os_filesystem import OsFileSystem
from runtime.loop_times import LoopTimes

FILES = cast(FileSystem, OsFileSystem())


@pytest.mark.parametrize(
    ("phase", "state"),
    [("not started", 0), ("registering", 1), ("loading logs", 2), ("creating topics", 1), ("stopping", 7)],
)
def test_states_of_a_broker(phase: str, state: int) -> None:
    assert broker_state(phase, is_ready=False) == state
    assert broker_state("serving", is_ready=True) == 3


def test_the_event_loop_stands_for_processors_and_handlers() -> None:
    times = LoopTimes()
    times.begin(0, 0)
    times.beat(20_000_000, 4_000_000_000, 1_000_000_000)
    found = {
        (one.metric.name + one.suffix, *filter(None, (*one.labels, one.bound))): one.value
        for one in loop_samples(times)
    }
    assert found[("NetworkProcessorAvgIdlePercent",)] == found["IdlePercent", "0"] == 0.75
    assert found[("RequestHandlerAvgIdlePercent",)] == 3_000_000_000
    assert found["delay-seconds_bucket", "0.01"] == 0
    assert found["delay-seconds_bucket", "0.025"] == found[("delay-seconds_count",)] == 1


def test_without_figures_of_disks_there_are_none() -> None:
    class Nothing:
        def read_bytes(self, path: str) -> bytes:
            raise PermissionError(path)

    assert list(disk_samples(cast(FileSystem, Nothing()))) == []
    for sample in disk_samples(FILES):
        assert sample.value >= 0
