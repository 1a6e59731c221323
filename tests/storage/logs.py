"""What the tests of the log share: an environment on the real file system, batches, and reading everything back."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from config.broker import BrokerSettings
from config.topic import LogConfig
from protocol.errors import KafkaError
from protocol.records.batch import iter_headers
from protocol.records.record import Record, encode_batch, iter_records
from runtime.disk.disk_queue import Disk
from runtime.disk.filesystem import FileSystem
from runtime.disk.os_disk_queue import OsDisk
from runtime.disk.os_filesystem import OsFileSystem
from runtime.tasks import TaskScope
from storage.directories.log_upkeep import LogUpkeep
from storage.log import opening
from storage.log.log_environment import LogEnvironment
from storage.log.partition_log import AppendOrigin, AppendResult, PartitionLog
from storage.log.producers.transaction_verifications import VerificationGuard
from storage.segments.open_segments import OpenSegments
from storage.segments.ranges_in_flight import RangesInFlight
from tests.doubles.clock import ManualClock

NOW_MS = 1_700_000_000_000
SETTINGS = BrokerSettings({})


@dataclass
class World:
    """A log directory and the doors to it."""

    environment: LogEnvironment
    disk: Disk
    tasks: TaskScope
    clock: ManualClock
    failed: list[tuple[str, OSError]] = field(default_factory=list)
    doomed: list[str] = field(default_factory=list)


@asynccontextmanager
async def world(
    directory: str,
    *,
    filesystem: FileSystem | None = None,
    disk: Disk | None = None,
    open_limit: int = 100,
    clock: ManualClock | None = None,
) -> AsyncIterator[World]:
    disk = disk or OsDisk()
    tasks, clock = TaskScope("test logs"), clock or ManualClock(NOW_MS)
    failed: list[tuple[str, OSError]] = []
    doomed: list[str] = []
    open_segments = OpenSegments(disk.readers(), open_limit)
    environment = LogEnvironment(
        filesystem=filesystem or OsFileSystem(),
        queue=disk.queue(directory),
        readers=disk.readers(),
        clock=clock,
        randomness=random.Random(1),
        tasks=tasks,
        open_segments=open_segments,
        ranges_in_flight=RangesInFlight(open_segments),
        validation="structure",
        producers_max=100_000,
        on_failed=lambda path, error: failed.append((path, error)),
        delete_later=lambda paths, delay_ms: doomed.extend(paths),
    )
    try:
        yield World(environment, disk, tasks, clock, failed, doomed)
    finally:
        await tasks.close()
        if isinstance(disk, OsDisk):
            await until_closed(disk)
            await disk.close()


async def until_closed(disk: OsDisk) -> None:
    """The files that were let go of, too: a process that ends needs not wait for that, and one that runs thousands of
    tests does."""
    await disk.readers().run(lambda: None)


def config(**overrides: Any) -> LogConfig:
    """A topic's settings: `config(segment_bytes=1000)`."""
    return LogConfig.from_settings(SETTINGS, {name.replace("_", "."): str(value) for name, value in overrides.items()})


async def open_log(world: World, directory: str, log_config: LogConfig | None = None, **known: Any) -> PartitionLog:
    """The log t-0 in `directory`."""
    return await opening.open_log("t", 0, f"{directory}/t-0", log_config or config(), world.environment, **known)


def batch(*values: str, timestamp: int = NOW_MS, step_ms: int = 1, **options: Any) -> bytearray:
    records = [
        Record(at, timestamp + at * step_ms, f"k{at}".encode(), value.encode(), []) for at, value in enumerate(values)
    ]
    return bytearray(encode_batch(records, **options))


class Outcome:
    """A `done` that remembers."""

    def __init__(self) -> None:
        self.errors: list[KafkaError | None] = []

    def __call__(self, error: KafkaError | None) -> None:
        self.errors.append(error)

    @property
    def is_written(self) -> bool:
        return self.errors == [None]


async def append(log: PartitionLog, *values: str, epoch: int = 0, **options: Any) -> AppendResult:
    """Append one batch and wait until it is written."""
    return await append_records(log, batch(*values, **options), epoch=epoch)


async def append_records(
    log: PartitionLog,
    records: bytes | bytearray,
    *,
    epoch: int = 0,
    origin: AppendOrigin = AppendOrigin.CLIENT,
    now_ms: int = NOW_MS,
    guard: VerificationGuard | None = None,
) -> AppendResult:
    done = Outcome()
    result = log.append(records, leader_epoch=epoch, origin=origin, now_ms=now_ms, done=done, guard=guard)
    await log.await_appends()
    assert len(done.errors) == 1, "done is called exactly once"
    if done.errors[0] is not None:
        raise done.errors[0]
    return result


async def read(
    log: PartitionLog, offset: int, *, limit: int | None = None, max_bytes: int = 1 << 20, at_least_one: bool = True
) -> bytes:
    """Hot if it is, cold otherwise."""
    limit_offset = log.log_end_offset if limit is None else limit
    found = log.reading.read(offset, limit_offset=limit_offset, max_bytes=max_bytes, at_least_one=at_least_one)
    if found is None:
        found = await log.reading.read_cold(
            offset, limit_offset=limit_offset, max_bytes=max_bytes, at_least_one=at_least_one
        )
    return bytes(found)


def values_of(content: bytes) -> list[tuple[int, str]]:
    """(offset, value) of each record in the whole batches of `content`."""
    return [
        (record.offset, (record.value or b"").decode())
        for position, header in iter_headers(content)
        for record in iter_records(content, position, header, 1 << 24)
    ]


async def all_values(log: PartitionLog, *, max_bytes: int = 1 << 20) -> list[tuple[int, str]]:
    """Every record of the log, read as a consumer does."""
    found: list[tuple[int, str]] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        content = await read(log, offset, max_bytes=max_bytes)
        if not content:
            break
        records = [each for each in values_of(content) if each[0] >= offset]
        found += records
        last = max(header.last_offset for _, header in iter_headers(content))
        assert last >= offset, "a read goes on"
        offset = last + 1
    return found


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if holds():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never came to hold")


async def checkpoint_all(upkeep: LogUpkeep) -> None:
    """What is done every minute, at once."""
    await upkeep.checkpoint_recovery_points()
    await upkeep.checkpoint_log_start_offsets()
    await upkeep.checkpoint_high_watermarks()
