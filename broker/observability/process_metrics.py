"""The metrics of the process, with the names of Prometheus' clients, and of its event loop.

The event loop is one thread, which accepts, reads, handles and writes: it stands for Kafka's network processors and
request handlers at once. It is idle while it uses no processor.
Source: Prometheus' client libraries; Kafka SocketServer, KafkaRequestHandlerPool, LinuxIoMetricsCollector.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker.observability import metric_table as table
from broker.observability.metric import Sample
from broker.observability.request_metrics import histogram_samples

if TYPE_CHECKING:
    from broker.server import Broker
    from runtime.disk.filesystem import FileSystem
    from runtime.loop_times import LoopTimes

PROCESSOR = "0"  # the only one
STARTING, RUNNING = 1, 3
_STATES = {"not started": 0, "loading logs": 2, "stopping": 7}
"""Kafka's numbers for phases of the broker that are neither."""
_PAGE_BYTES = resource.getpagesize()
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def broker_samples(broker: Broker) -> Iterator[Sample]:
    yield Sample(table.BROKER_STATE, (), broker_state(broker.phase, is_ready=broker.is_ready))


def broker_state(phase: str, *, is_ready: bool) -> int:
    """Return Kafka's number for the state of a broker."""
    if is_ready:
        return RUNNING
    return _STATES.get(phase, STARTING)


def loop_samples(times: LoopTimes) -> Iterator[Sample]:
    yield Sample(table.LOOP_IDLE, (), times.idle_ratio())
    yield Sample(table.PROCESSOR_IDLE, (PROCESSOR,), times.idle_ratio())
    yield Sample(table.HANDLER_IDLE, (), times.idle_ns())
    yield from histogram_samples(table.LOOP_DELAY, (), times.delays)


def disk_samples(filesystem: FileSystem) -> Iterator[Sample]:
    """Yield what the process has read from disks and written to them; nothing where the kernel does not tell."""
    try:
        lines = filesystem.read_bytes("/proc/self/io").decode().splitlines()
    except OSError:
        return
    found = dict(line.split(": ") for line in lines)
    yield Sample(table.DISK_READ, (), int(found["read_bytes"]))
    yield Sample(table.DISK_WRITTEN, (), int(found["write_bytes"]))


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
