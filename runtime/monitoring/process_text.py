"""The metrics of a process, with the names of Prometheus' clients.

Source: Prometheus' client libraries.
"""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime.disk.filesystem import FileSystem

_PAGE_BYTES = resource.getpagesize()
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def process_text(filesystem: FileSystem) -> str:
    """Return the metrics of the process as text."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    virtual_pages, resident_pages = filesystem.read_bytes("/proc/self/statm").split()[:2]
    boot_s = next(
        int(line.split()[1]) for line in filesystem.read_bytes("/proc/stat").splitlines() if line.startswith(b"btime ")
    )
    # Behind the name of the program, which may contain anything: field 22 of all.
    fields = filesystem.read_bytes("/proc/self/stat").rpartition(b")")[2].split()
    started_s = boot_s + int(fields[19]) / _TICKS_PER_S
    rows = (
        ("process_cpu_seconds_total", "counter", "User and system CPU time.", f"{usage.ru_utime + usage.ru_stime:.3f}"),
        ("process_resident_memory_bytes", "gauge", "Memory in RAM.", int(resident_pages) * _PAGE_BYTES),
        ("process_virtual_memory_bytes", "gauge", "Address space.", int(virtual_pages) * _PAGE_BYTES),
        ("process_start_time_seconds", "gauge", "Start of the process, in Unix time.", f"{started_s:.2f}"),
        ("process_open_fds", "gauge", "Open file descriptors.", len(filesystem.list_directory("/proc/self/fd"))),
        ("process_max_fds", "gauge", "Limit of file descriptors.", resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
    )
    return "".join(f"# HELP {name} {doc}\n# TYPE {name} {kind}\n{name} {value}\n" for name, kind, doc, value in rows)
