"""A crash in every call to the file system that a cleaning makes, of the process or of the power.

The log that is loaded then holds the latest value of every key, tells the same aborted transactions as its records do, has
no file of the cleaning left, and is cleaned to the end by the next one.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from config.broker import BrokerSettings
from config.topic import LogConfig
from protocol.records.batch import iter_headers
from protocol.records.control import ControlType, EndTxnMarker, encode_marker
from protocol.records.record import Record, encode_batch, iter_records
from runtime.disk.os_filesystem import OsFileSystem
from storage.directories.log_manager import LogManager
from storage.log.partition_log import AppendOrigin, PartitionLog
from storage.segments.interrupted_swap import finish_swap
from tests.simulation.clock import SimClock
from tests.simulation.disk import SimDisk
from tests.simulation.filesystem import SimStorage
from tests.simulation.loop import SimLoop, simulate
from tests.storage.cleaner.cleaning import BY_HAND, COMPACTED, TOPIC
from tests.storage.logs import append_records, read

SETTINGS = BrokerSettings(BY_HAND)
CONFIG = LogConfig.from_settings(SETTINGS, COMPACTED | {"segment.bytes": "400", "index.interval.bytes": "100"})
KEYS = 3
ROUNDS = 4


class Machine:
    """One disk, and the broker that runs on it."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.storage = SimStorage(loop, SimClock(loop))

    async def boot(self) -> PartitionLog:
        self.filesystem, self.disk = self.storage.boot(), SimDisk(self.loop)
        self.filesystem.make_directory("/data")
        self.filesystem.sync_directory("/")
        self.logs = LogManager(
            settings=SETTINGS,
            directories=["/data"],
            config_of=lambda _: CONFIG,
            filesystem=self.filesystem,
            disk=self.disk,
            clock=SimClock(self.loop),
            randomness=self.loop.random,
            on_directory_failed=lambda path, error: pytest.fail(f"{path}: {error}"),
        )
        self.logs.lock()
        await self.logs.load()
        self.log = await self.logs.log_for(*TOPIC)
        self.log.high_watermark = self.log.log_end_offset
        return self.log

    async def fill(self) -> None:
        """Committed values, aborted ones between them, and all of it on the disk."""
        now_ms = SimClock(self.loop).wall_ms()
        for number in range(ROUNDS):
            for key in range(KEYS):
                record = Record(0, now_ms, b"%d" % key, b"%d of %d" % (number, key))
                await append_records(self.log, bytearray(encode_batch([record])), now_ms=now_ms)
            aborted = [Record(0, now_ms, b"%d" % (number % KEYS), b"aborted")]
            batch = encode_batch(aborted, producer_id=7, producer_epoch=0, base_sequence=number, is_transactional=True)
            await append_records(self.log, bytearray(batch), now_ms=now_ms)
            marker = encode_marker(EndTxnMarker(ControlType.ABORT, 0, now_ms), producer_id=7, producer_epoch=0)
            await append_records(self.log, bytearray(marker), origin=AppendOrigin.COORDINATOR, now_ms=now_ms)
        self.log.high_watermark = self.log.log_end_offset
        await self.log.flush()
        await self.logs.upkeep.checkpoint_recovery_points()

    async def check(self) -> None:
        names = self.filesystem.list_directory(self.log.directory)
        assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]
        latest: dict[bytes | None, bytes | None] = {}
        offset = 0
        aborted = await self.log.reading.aborted_transactions(0, 1 << 40)
        while offset < self.log.log_end_offset:
            content = await read(self.log, offset)
            assert content, "the log has no hole"
            for position, header in iter_headers(content):
                offset = header.next_offset
                if header.is_control or not header.records_count:
                    continue
                if header.is_transactional:
                    assert any(each.first_offset <= header.base_offset < each.last_offset for each in aborted)
                    continue
                latest |= {each.key: each.value for each in iter_records(content, position, header, 1 << 20)}
        assert latest == {b"%d" % key: b"%d of %d" % (ROUNDS - 1, key) for key in range(KEYS)}
        (producer,) = self.log.producers.states.describe()
        assert (producer.producer_id, producer.last_sequence) == (7, ROUNDS - 1)

    async def clean(self) -> None:
        while await self.logs.cleaner.clean_dirtiest():
            pass


@pytest.mark.parametrize("power", [True, False])
def test_a_crash_in_every_call(power: bool) -> None:
    calls = 1
    while not _is_over_after(calls, power=power):
        calls += 1
    assert calls > 100


def _is_over_after(calls: int, *, power: bool) -> bool:
    """Crash in the call number `calls`; whether all is done with fewer."""
    over = False

    async def program(loop: SimLoop) -> None:
        nonlocal over
        machine = Machine(loop)
        await machine.boot()
        await machine.fill()
        struck: list[None] = []
        machine.storage.strike_after(calls, lambda: struck.append(None))
        cleaning = asyncio.ensure_future(machine.clean())
        while not struck and not cleaning.done():  # noqa: ASYNC110  virtual time
            await asyncio.sleep(0.001)
        over = not struck
        machine.disk.crash()
        cleaning.cancel()
        if power:
            machine.storage.crash_power()
        await machine.boot()
        await machine.check()
        await machine.clean()
        await machine.logs.close()
        await machine.boot()
        await machine.check()
        assert machine.log.size_bytes < 1200
        await machine.logs.close()

    simulate(calls, program)
    return over


def test_a_start_finishes_the_names_of_a_segment_whose_log_has_its_own_already(tmp_path: Path) -> None:
    base = "0" * 20
    for name in (".log", ".index.swap", ".timeindex.swap", ".txnindex.swap"):
        (tmp_path / f"{base}{name}").write_bytes(name.encode())
    names = sorted(path.name for path in tmp_path.iterdir())
    found = finish_swap(OsFileSystem(), str(tmp_path), names)
    assert found == [f"{base}{suffix}" for suffix in (".index", ".log", ".timeindex", ".txnindex")]
    assert (tmp_path / f"{base}.txnindex").read_bytes() == b".txnindex.swap"
