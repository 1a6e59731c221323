"""The metrics of a process."""

from __future__ import annotations

from typing import cast

from prometheus_client.parser import text_string_to_metric_families

from runtime.disk.filesystem import FileSystem
from runtime.disk.os_filesystem import OsFileSystem
from runtime.monitoring.process_text import process_text

FILES = cast(FileSystem, OsFileSystem())


def test_the_process() -> None:
    values = {
        sample.name: sample.value
        for family in text_string_to_metric_families(process_text(FILES))
        for sample in family.samples
    }
    assert values["process_cpu_seconds_total"] > 0
    assert 1_000_000 < values["process_resident_memory_bytes"] < values["process_virtual_memory_bytes"]
    assert 2 < values["process_open_fds"] < values["process_max_fds"]
    assert 1_500_000_000 < values["process_start_time_seconds"] < 5_000_000_000
