"""The log against a list: random operations, stops, kills and losses of power on a simulated disk."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from config.topic import LogConfig
from storage.log.partition_log import AppendOrigin, PartitionLog
from storage.log.removal.log_truncation import truncate_to
from storage.log.removal.segment_retention import delete_old_segments, delete_records, delete_segments_before
from storage.log.unused_file import close_unused_file
from storage.segments.segment_files import SNAPSHOT_SUFFIX
from tests.simulation.clock import SimClock
from tests.simulation.disk import SimDisk
from tests.simulation.filesystem import SimStorage
from tests.simulation.loop import SimLoop, simulate
from tests.storage.logs import NOW_MS, Outcome, World, all_values, batch, config, open_log, read, values_of, world

PRODUCER_ID = 77


@dataclass
class Model:
    """What the log must hold. `records` lists the value of every offset from 0 on."""

    records: list[str] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    start: int = 0
    flushed: int = 0
    epoch: int = 0

    @property
    def end(self) -> int:
        return len(self.records)

    def cut(self, end: int) -> None:
        del self.records[end:], self.epochs[end:]
        self.flushed = min(self.flushed, end)

    def expected(self) -> list[tuple[int, str]]:
        return list(enumerate(self.records))[self.start :]


class Run:
    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.random = loop.random
        self.storage = SimStorage(loop, SimClock(loop))
        self.storage.cold_probability = self.storage.short_probability = 0.1
        self.model = Model()
        self.settings = {
            "segment_bytes": self.random.choice((400, 1200, 100_000)),
            "index_interval_bytes": self.random.choice((1, 200, 4096)),
            "flush_messages": self.random.choice((1, 9, 1 << 40)),
        }
        self.config: LogConfig = config(**self.settings)
        self.is_clean = False
        self.recovery_point = 0

    async def live(self) -> None:
        """One process: open, check, work, and stop one way or another."""
        filesystem, disk = self.storage.boot(), SimDisk(self.loop)
        filesystem.make_directory("/data")
        filesystem.sync_directory("/")
        async with world("/data", filesystem=filesystem, disk=disk, open_limit=3) as doors:
            log = await open_log(
                doors,
                "/data",
                self.config,
                is_clean=self.is_clean,
                recovery_point=self.recovery_point,
                log_start_offset=self.model.start,
            )
            await self.check(log)
            for _ in range(self.random.randint(0, 12)):
                await self.step(log, doors)
            self.recovery_point = log.offsets.recovery_point
            assert self.model.flushed <= self.recovery_point <= log.log_end_offset
            await self.stop(log, disk)

    async def stop(self, log: PartitionLog, disk: SimDisk) -> None:
        how = self.random.choice(("clean", "clean", "kill", "power"))
        self.is_clean = how == "clean"
        if how == "clean":
            await log.close()
            self.recovery_point = log.log_end_offset
            self.model.flushed = self.model.end
            how = self.random.choice(("kill", "power"))  # after it was closed neither may lose anything
        disk.crash()
        if how == "kill":
            self.storage.crash_process()
        else:
            self.storage.crash_power()

    async def check(self, log: PartitionLog) -> None:
        """The log is a prefix with everything flushed; from here on the model is that prefix."""
        model = self.model
        if log.log_end_offset < model.end:
            assert log.log_end_offset >= model.flushed
            model.cut(log.log_end_offset)
        assert log.log_end_offset == model.end
        assert log.log_start_offset == model.start
        await self.check_records(log)

    async def check_records(self, log: PartitionLog) -> None:
        model = self.model
        assert await all_values(log, max_bytes=self.random.choice((1, 150, 1 << 20))) == model.expected()
        assert log.size_bytes == sum(segment.end_bytes for segment in log.segments)
        if model.start < model.end:
            offset = self.random.randrange(model.start, model.end)
            assert values_of(await read(log, offset, max_bytes=1))[-1][0] >= offset
            assert log.epochs.epoch_of(offset) == model.epochs[offset]
            found = await log.reading.offset_for_timestamp(NOW_MS + offset)
            assert found is not None and found.offset == offset
            state = next((each for each in log.producers.states.describe() if each.producer_id == PRODUCER_ID), None)
            assert state is not None and state.last_sequence == model.end - 1

    async def step(self, log: PartitionLog, doors: World) -> None:
        model, random = self.model, self.random
        match random.choice(
            (
                "append",
                "append",
                "append",
                "flush",
                "truncate",
                "delete",
                "segments",
                "retention",
                "rest",
                "epoch",
                "check",
            )
        ):
            case "append":
                for _ in range(random.randint(1, 5)):
                    self.append(log)
                if random.random() < 0.7:
                    await log.await_appends()
            case "flush":
                await log.flush()
                model.flushed = model.end
            case "truncate" if model.end > model.start:
                await log.await_appends()
                end = random.randint(model.start, model.end)
                if end > model.start:  # at the end of a batch, as followers do
                    await truncate_to(log, end)
                    model.cut(end)
                    await self.check_records(log)
            case "delete":
                await log.flush()  # a start offset that outlives the records before it is another test's
                model.flushed = model.end
                log.high_watermark = model.end
                model.start = random.randint(model.start, model.end)
                delete_records(log, model.start)
            case "segments":
                await log.await_appends()
                await delete_segments_before(log, model.start)
            case "retention":
                await log.flush()
                model.flushed = model.end
                log.high_watermark = model.end
                log.configure(config(**self.settings, retention_bytes=random.choice((-1, 2000, 500, 0))))
                await delete_old_segments(log)
                kept_bytes = log.size_bytes - log.segments.first.written_bytes
                # One goes when a snapshot tells of its producers: the next segment has none that had to be opened first.
                is_known = all(
                    each.path(SNAPSHOT_SUFFIX) in self.storage.names.files for each in list(log.segments)[1:2]
                )
                assert not 0 <= log.config.retention_bytes <= kept_bytes or not log.size_bytes or not is_known
                model.start = log.log_start_offset
            case "rest":
                await close_unused_file(log)
            case "epoch":
                await log.await_appends()
                model.epoch += 1
                log.epochs.assign(model.epoch, model.end)
            case _:
                await log.await_appends()
                await self.check_records(log)
        if random.random() < 0.1:
            await doors.environment.queue.drain()

    def append(self, log: PartitionLog) -> None:
        model = self.model
        value = f"{model.end}:{'x' * self.random.randrange(0, 150)}"
        records = batch(
            value,
            timestamp=NOW_MS + model.end,
            producer_id=PRODUCER_ID,
            producer_epoch=0,
            base_sequence=model.end,
        )
        result = log.append(
            records, leader_epoch=model.epoch, origin=AppendOrigin.CLIENT, now_ms=NOW_MS, done=Outcome()
        )
        assert result.base_offset == model.end
        model.records.append(value)
        model.epochs.append(model.epoch)


def play(seed: int) -> None:
    async def program(loop: SimLoop) -> None:
        run = Run(loop)
        for _ in range(6):
            await run.live()

    simulate(seed, program)


@pytest.mark.parametrize("seed", range(60))
def test_the_log_is_the_list(seed: int) -> None:
    play(seed)
