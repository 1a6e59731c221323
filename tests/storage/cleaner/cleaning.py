"""What the tests of compaction share: logs with a record a batch, a cleaner for them, and what is left in their files."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from config.broker import BrokerSettings
from config.topic import LogConfig
from protocol.records.any_format import iter_any_headers, iter_any_records
from protocol.records.batch import BatchHeader
from protocol.records.record import Record, encode_batch
from runtime.disk.filesystem import FileSystem
from runtime.disk.os_disk_queue import OsDisk
from runtime.disk.os_filesystem import OsFileSystem
from storage.directories.log_manager import LogManager
from storage.log.partition_log import PartitionLog
from tests.doubles.clock import ManualClock
from tests.storage.logs import NOW_MS, append_records

TOPIC = ("t", 0)
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "segment.bytes": "300"}
BY_HAND = {"log.cleaner.backoff.ms": str(1 << 40), "log.cleaner.threads": "0"}


@dataclass
class Cleanery:
    """A broker's logs whose cleaner runs when a test says so."""

    logs: LogManager
    log: PartitionLog
    clock: ManualClock
    failed: list[str]

    async def clean(self) -> bool:
        """Whether there was something to clean."""
        return await self.logs.cleaner.clean_dirtiest()

    async def put(self, *pairs: tuple[str | None, str | None], **options: Any) -> int:
        """Append one batch of (key, value); answers its base offset."""
        result = await append_records(self.log, batch_of(*pairs, timestamp=self.clock.now_ms, **options))
        self.log.high_watermark = self.log.log_end_offset
        return result.base_offset

    async def roll(self) -> None:
        """Begin a new segment."""
        self.log.writer.roll(self.log.offsets.next_offset, self.clock.now_ms)
        await self.log.await_appends()

    @property
    def folder(self) -> Path:
        return Path(self.log.directory)


@asynccontextmanager
async def cleanery(
    directory: Path,
    *,
    settings: dict[str, str] | None = None,
    filesystem: FileSystem | None = None,
    clock: ManualClock | None = None,
    kill: bool = False,
    **topic: Any,
) -> AsyncIterator[Cleanery]:
    """Settings of the topic by name with underscores: `segment_bytes=1000`."""
    overrides = COMPACTED | {name.replace("_", "."): str(value) for name, value in topic.items()}
    broker_settings = BrokerSettings(BY_HAND | (settings or {}))
    disk, clock, failed = OsDisk(), clock or ManualClock(NOW_MS), list[str]()
    logs = LogManager(
        settings=broker_settings,
        directories=[str(directory)],
        config_of=lambda _: LogConfig.from_settings(broker_settings, overrides),
        filesystem=filesystem or OsFileSystem(),
        disk=disk,
        clock=clock,
        randomness=random.Random(1),
        on_directory_failed=lambda path, error: failed.append(path),
    )
    try:
        logs.lock()
        logs.claim(1, "c")
        await logs.load()
        logs.start()
        log = await logs.log_for(*TOPIC)
        yield Cleanery(logs, log, clock, failed)
    finally:
        if kill:
            logs.abandon()
        else:
            await logs.close()
        await disk.close()


async def fill(broker: Cleanery, rounds: int = 10, *keys: str) -> None:
    """A closed segment, or several, in which keys repeat, and an active one without records."""
    for number in range(rounds):
        for key in keys or ("a", "b"):
            await broker.put((key, f"{key}{number}"))
    await broker.roll()


def batch_of(*pairs: tuple[str | None, str | None], timestamp: int = NOW_MS, **options: Any) -> bytearray:
    """Keys and values as text; None is null."""
    records = [
        Record(at, timestamp + at, None if key is None else key.encode(), None if value is None else value.encode(), [])
        for at, (key, value) in enumerate(pairs)
    ]
    return bytearray(encode_batch(records, **options))


def batches_in(folder: Path) -> list[tuple[BatchHeader, list[Record]]]:
    """Every batch in the `.log` files of a folder, in order."""
    found: list[tuple[BatchHeader, list[Record]]] = []
    for path in sorted(folder.glob("*.log")):
        content = path.read_bytes()
        for position, header in iter_any_headers(content):
            records = list(iter_any_records(content, position, header, 1 << 24)) if header.records_count else []
            found.append((header, records))
    return found


def left_in(folder: Path) -> list[tuple[int, str | None, str | None]]:
    """(offset, key, value) of every record that is no marker."""
    return [
        (record.offset, None if record.key is None else record.key.decode(), text(record.value))
        for header, records in batches_in(folder)
        for record in records
        if not header.is_control
    ]


def text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()
