"""Compaction against a dictionary: whatever is appended, cleaned, crashed and restarted, no latest value is lost.

The model is the list of everything that was appended and the outcome of every transaction. After each step the log must
hold nothing that is not in the list; everything from the first dirty offset on; of each key its latest value; and, below the
first dirty offset, no superseded and no aborted record. Producers go on where they were, also when they are replayed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from config.broker import BrokerSettings
from config.topic import LogConfig
from protocol.records.batch import iter_headers
from protocol.records.compression import Compression
from protocol.records.control import ControlType, EndTxnMarker, encode_marker
from protocol.records.record import Record, encode_batch, iter_records
from storage.directories.log_manager import LogManager
from storage.log.partition_log import AppendOrigin, PartitionLog
from tests.simulation.clock import SimClock
from tests.simulation.disk import SimDisk
from tests.simulation.filesystem import SimStorage
from tests.simulation.loop import SimLoop
from tests.storage.cleaner.cleaning import BY_HAND, COMPACTED, TOPIC
from tests.storage.logs import append_records, read

T = TypeVar("T")

DIRECTORY = "/data"
RETENTION_MS = 2_000
KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"e"])
VALUES = st.one_of(st.none(), st.sampled_from([b"1", b"22", b"x" * 90]))
ROWS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=3)
PRODUCERS = st.sampled_from([7, 8])


@dataclass
class Appended:
    """A record, or a marker (`key` None), of the list."""

    offset: int
    key: bytes | None
    value: bytes | None
    transaction: tuple[int, int] | None = None
    """(producer, number of its transaction)"""
    outcome: ControlType | None = None
    """Of a marker."""


class Model:
    """What was appended, by offset, without gaps."""

    def __init__(self) -> None:
        self.rows: list[Appended] = []
        self.flushed = 0

    def cut(self, end: int) -> None:
        """A loss of power took what had not been flushed."""
        assert end >= self.flushed
        del self.rows[end:]

    def outcomes(self) -> dict[tuple[int, int], ControlType]:
        return {
            row.transaction: row.outcome for row in self.rows if row.outcome is not None and row.transaction is not None
        }

    def sequences(self) -> dict[int, int]:
        """How many records each producer has written."""
        return Counter(row.transaction[0] for row in self.rows if row.transaction is not None and row.key is not None)

    def open_transactions(self) -> dict[int, tuple[int, int]]:
        """By producer, those without marker."""
        ended = self.outcomes()
        return {
            row.transaction[0]: row.transaction for row in self.rows if row.transaction and row.transaction not in ended
        }

    def counts(self, row: Appended) -> bool:
        """Whether a record is one that a consumer of committed records gets, now or later."""
        return row.outcome is None and (
            row.transaction is None or self.outcomes().get(row.transaction) is not ControlType.ABORT
        )

    def latest(self) -> dict[bytes, Appended]:
        ended = self.outcomes()
        return {
            row.key: row
            for row in self.rows
            if row.key is not None and (row.transaction is None or ended.get(row.transaction) is ControlType.COMMIT)
        }


class CompactedLog(RuleBasedStateMachine):
    """A broker's logs with one compacted partition on a simulated machine."""

    @initialize(
        seed=st.integers(0, 1 << 32),
        segment_bytes=st.sampled_from([500, 900, 2000]),
        map_slots=st.sampled_from([3, 6, 1000]),
        io_buffer_bytes=st.sampled_from([16, 1 << 20]),
    )
    def begin(self, seed: int, segment_bytes: int, map_slots: int, io_buffer_bytes: int) -> None:
        self.loop = SimLoop(seed)
        self.runner = asyncio.Runner(loop_factory=lambda: self.loop)
        self.storage = SimStorage(self.loop, SimClock(self.loop))
        self.storage.cold_probability = self.storage.short_probability = 0.1
        self.model = Model()
        self.transactions = 0
        self.settings = BrokerSettings(
            BY_HAND
            | {
                "log.cleaner.dedupe.buffer.size": str(24 * map_slots),
                "log.cleaner.io.buffer.size": str(io_buffer_bytes),
            }
        )
        self.config = LogConfig.from_settings(
            self.settings,
            COMPACTED
            | {
                "segment.bytes": str(segment_bytes),
                "index.interval.bytes": "100",
                "delete.retention.ms": str(RETENTION_MS),
                "file.delete.delay.ms": "0",
            },
        )
        self.run(self.boot())

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(coroutine)

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            try:
                self.run(self.die(power=False))
            finally:
                self.loop.end_processes()
                self.runner.close()
            assert not self.loop.failures

    # --- life ---

    async def boot(self) -> None:
        filesystem, self.disk = self.storage.boot(), SimDisk(self.loop)
        filesystem.make_directory(DIRECTORY)
        filesystem.sync_directory("/")
        self.logs = LogManager(
            settings=self.settings,
            directories=[DIRECTORY],
            config_of=lambda _: self.config,
            filesystem=filesystem,
            disk=self.disk,
            clock=SimClock(self.loop),
            randomness=self.loop.random,
            on_directory_failed=lambda path, error: None,
        )
        self.logs.lock()
        await self.logs.load()
        self.logs.start()
        self.log: PartitionLog = await self.logs.log_for(*TOPIC)
        self.log.high_watermark = self.log.log_end_offset
        await self.log.flush()
        self.model.cut(self.log.log_end_offset)
        assert len(self.model.rows) == self.log.log_end_offset
        leftovers = [
            name for name in filesystem.list_directory(self.log.directory) if name.endswith((".cleaned", ".swap"))
        ]
        assert not leftovers

    @rule()
    def stop_cleanly(self) -> None:
        self.run(self.logs.close())
        self.model.flushed = len(self.model.rows)
        self.run(self.boot())

    @rule(power=st.booleans())
    def crash(self, power: bool) -> None:
        self.run(self.die(power=power))
        self.run(self.boot())

    async def die(self, *, power: bool) -> None:
        if power:
            self.model.flushed = max(self.model.flushed, self.log.offsets.recovery_point)
        self.disk.crash()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0.1)
        if power:
            self.storage.crash_power()

    # --- appending ---

    @rule(rows=ROWS, codec=st.sampled_from([Compression.NONE, Compression.GZIP]))
    def put(self, rows: list[tuple[bytes, bytes | None]], codec: Compression) -> None:
        self.append(rows, None, compression=codec)

    @rule(rows=ROWS, producer=PRODUCERS)
    def put_in_transaction(self, rows: list[tuple[bytes, bytes | None]], producer: int) -> None:
        transaction = self.model.open_transactions().get(producer)
        if transaction is None:
            self.transactions += 1
            transaction = (producer, self.transactions)
        sequence = self.model.sequences().get(producer, 0)
        self.append(
            rows, transaction, producer_id=producer, producer_epoch=0, base_sequence=sequence, is_transactional=True
        )

    def append(
        self, rows: list[tuple[bytes, bytes | None]], transaction: tuple[int, int] | None, **options: Any
    ) -> None:
        now_ms = self.loop_ms()
        records = [Record(at, now_ms, key, value, []) for at, (key, value) in enumerate(rows)]
        self.run(self.write(bytearray(encode_batch(records, **options)), AppendOrigin.CLIENT))
        for key, value in rows:
            self.model.rows.append(Appended(len(self.model.rows), key, value, transaction))

    @rule(producer=PRODUCERS, outcome=st.sampled_from(list(ControlType)))
    def end_transaction(self, producer: int, outcome: ControlType) -> None:
        transaction = self.model.open_transactions().get(producer)
        if transaction is not None:
            marker = EndTxnMarker(outcome, 0, self.loop_ms())
            content = encode_marker(marker, producer_id=producer, producer_epoch=0)
            self.run(self.write(bytearray(content), AppendOrigin.COORDINATOR))
            self.model.rows.append(Appended(len(self.model.rows), None, None, transaction, outcome))

    async def write(self, content: bytearray, origin: AppendOrigin) -> None:
        await append_records(self.log, content, origin=origin, now_ms=self.loop_ms())
        self.log.high_watermark = self.log.log_end_offset
        # A loss of power must find but one segment that is not on the disk: of two it may keep the later one alone, and a
        # compacted log has gaps anyway.
        while self.log.offsets.recovery_point < self.log.segments.active.base_offset:  # noqa: ASYNC110  virtual time
            await asyncio.sleep(0.01)

    def loop_ms(self) -> int:
        return SimClock(self.loop).wall_ms()

    @rule(wait_ms=st.sampled_from([10, RETENTION_MS + 1]))
    def wait(self, wait_ms: int) -> None:
        self.run(asyncio.sleep(wait_ms / 1000))

    @rule()
    def flush(self) -> None:
        self.run(self.log.flush())

    # --- cleaning ---

    @rule()
    def clean(self) -> None:
        self.run(self.logs.cleaner.clean_dirtiest())

    @rule()
    def clean_all(self) -> None:
        async def until_nothing_is_dirty() -> None:
            while await self.logs.cleaner.clean_dirtiest():
                pass

        self.run(until_nothing_is_dirty())

    @rule(calls=st.integers(1, 60), power=st.booleans())
    @precondition(lambda self: len(self.log.segments) > 1)
    def crash_while_cleaning(self, calls: int, power: bool) -> None:
        async def clean_until_struck() -> None:
            struck: list[None] = []
            self.storage.strike_after(calls, lambda: struck.append(None))
            cleaning = asyncio.ensure_future(self.logs.cleaner.clean_dirtiest())
            while not struck and not cleaning.done():  # noqa: ASYNC110  virtual time
                await asyncio.sleep(0.0005)
            await self.die(power=power)

        self.run(clean_until_struck())
        self.run(self.boot())

    @rule(rows=ROWS)
    @precondition(lambda self: len(self.log.segments) > 1)
    def append_while_cleaning(self, rows: list[tuple[bytes, bytes | None]]) -> None:
        cleaning = self.loop.create_task(self.logs.cleaner.clean_dirtiest())
        self.append(rows, None)
        self.run(self.finish(cleaning))

    async def finish(self, cleaning: asyncio.Task[bool]) -> None:
        await cleaning
        assert not self.logs.cleaner.report.logs_set_aside

    # --- what must hold ---

    @invariant()
    def the_log_is_what_the_model_says(self) -> None:
        if hasattr(self, "runner"):
            self.run(self.check())

    async def check(self) -> None:
        model, found = self.model, await self.records()
        offsets = [record.offset for record in found]
        assert offsets == sorted(set(offsets))
        for record in found:
            row = model.rows[record.offset]
            assert (row.key, row.value) == (record.key, record.value), f"{record} was never appended"
        present = set(offsets)
        clean_below = self.log.offsets.first_dirty_offset or 0
        missing = {row.offset for row in model.rows if row.key is not None} - present
        assert all(offset < clean_below or self.is_covered(offset) for offset in missing)
        for key, row in model.latest().items():
            if row.value is not None:
                assert row.offset in present, f"the latest value of {key!r} is lost"
            else:
                older = [
                    each for each in model.rows if each.key == key and each.offset < row.offset and model.counts(each)
                ]
                is_shown = row.offset in present or not any(each.offset in present for each in older)
                assert is_shown, f"what was deleted of {key!r} is back"
        seen: dict[bytes, int] = {}
        for record in found:
            if record.offset < clean_below and record.key is not None:
                assert model.counts(model.rows[record.offset]), f"aborted record {record.offset} was not cleaned"
                assert record.key not in seen, f"{record.key!r} is there twice below {clean_below}"
                seen[record.key] = record.offset
        known = {row.producer_id: row.last_sequence for row in self.log.producers.states.describe()}
        for producer, sequence in model.sequences().items():
            assert known[producer] == sequence - 1

    def is_covered(self, offset: int) -> bool:
        """Whether a record may be gone although its cleaning was not completed: something later stands for it."""
        row = self.model.rows[offset]
        later = (each for each in self.model.rows[offset + 1 :] if each.key == row.key)
        return not self.model.counts(row) or any(map(self.model.counts, later)) or row.value is None

    async def records(self) -> list[Record]:
        """Every record that is no marker."""
        found: list[Record] = []
        offset = self.log.log_start_offset
        while offset < self.log.log_end_offset:
            content = await read(self.log, offset)
            if not content:
                break
            for position, header in iter_headers(content):
                if not header.is_control and header.records_count:
                    found += iter_records(content, position, header, 1 << 20)
                offset = header.next_offset
        return found


TestCompactedLog = pytest.mark.timeout(300)(CompactedLog.TestCase)
TestCompactedLog.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
