"""The metrics of a broker's event loop, of what it does, and of its disks.

The event loop is one thread, which accepts, reads, handles and writes: it stands for Kafka's network processors and
request handlers at once. It is idle while it uses no processor.
Source: Kafka SocketServer, KafkaRequestHandlerPool, LinuxIoMetricsCollector.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker.observability import metric_table as table
from runtime.monitoring.metric import Sample, histogram_samples

if TYPE_CHECKING:
    from broker.server import Broker
    from runtime.disk.filesystem import FileSystem
    from runtime.loop_times import LoopTimes

PROCESSOR = "0"  # the only one
STARTING, RUNNING = 1, 3
_STATES = {"not started": 0, "loading logs": 2, "stopping": 7}
"""Kafka's numbers for phases of the broker that are neither."""


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
