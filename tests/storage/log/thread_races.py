"""One log on a slow disk, and everything that happens to a log at once: appends, cuts, retention, compaction, reads, flushes,
checkpoints, idle files, deletion. Real threads: what a seed fixes is the plan, not the order in which things happen.

    python -m tests.storage.log.thread_races --seeds 100
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from config.broker import BrokerSettings
from config.topic import LogConfig
from protocol.errors import ErrorCode, KafkaError
from protocol.records.batch import iter_headers
from protocol.records.record import iter_records
from runtime.disk.filesystem import FileSystem
from runtime.disk.os_disk_queue import OsDisk
from runtime.disk.os_filesystem import OsFileSystem
from storage.directories.log_manager import LogManager
from storage.log.partition_log import AppendOrigin, PartitionLog
from storage.log.removal.log_truncation import truncate_fully_and_start_at, truncate_to
from storage.log.removal.segment_retention import delete_old_segments, delete_records
from storage.log.unused_file import close_unused_file
from tests.doubles.clock import ManualClock
from tests.doubles.file_system import Call, ControlledFileSystem
from tests.storage.cleaner.cleaning import BY_HAND, batch_of
from tests.storage.logs import NOW_MS, all_values, checkpoint_all, read, until_closed

WORKERS = 4
STEPS = 40
LONGEST_S = 60.0  # of one history
# Files of so few old segments stay open that most reads open one.
OPEN_SEGMENTS = 8


def slow_file_system(randomness: random.Random, longest_s: float) -> ControlledFileSystem:
    """Its calls take random time in threads, so that what they do falls between each other in many ways: nothing for the thread
    that made it, which is the event loop's; most calls of the others take no longer either."""
    filesystem, loop_thread = ControlledFileSystem(), threading.get_ident()

    def delay() -> None:
        if threading.get_ident() != loop_thread and randomness.random() < 0.3:
            time.sleep(longest_s * randomness.random() ** 3)

    def before(call: Call) -> Any:
        delay()
        return call.proceed()

    def after(call: Call) -> Any:
        result = call.proceed()
        delay()  # what it has seen may have changed by now
        return result

    filesystem.on("open read_bytes write_bytes replace rename unlink list_directory stat sync_directory", "*", before)
    filesystem.on("write_at read_at size truncate sync", "*", before)
    filesystem.on("exists", "*", after)
    return filesystem


class Race:
    """`records`: (key, value) by offset, of all that were appended and not cut off."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed = seed
        self._random = rnd = random.Random(seed)
        self._folder = folder
        self.policy = rnd.choice(["compact", "delete", "compact,delete"])
        self._settings = BrokerSettings(BY_HAND)
        self._overrides = {
            "cleanup.policy": self.policy,
            "segment.bytes": str(rnd.choice([300, 700, 2000])),
            "segment.index.bytes": str(rnd.choice([64, 1 << 20])),
            "index.interval.bytes": "100",
            "min.cleanable.dirty.ratio": "0",
            "delete.retention.ms": "0",
            "retention.bytes": str(rnd.choice([-1, 2000])),
            "file.delete.delay.ms": str(rnd.choice([0, 5, 60_000])),
            "flush.messages": str(rnd.choice([3, 1 << 40, 1 << 40])),
        }
        self.clock = ManualClock(NOW_MS)
        self.records: dict[int, tuple[str, str]] = {}
        self.problems: list[str] = []
        self._doomed: PartitionLog | None = None  # the one that is deleted
        self._writing = asyncio.Lock()
        self._appended = 0
        self._disk = OsDisk()

    # --- its log ---

    async def _open(self, filesystem: FileSystem) -> None:
        self.logs = LogManager(
            settings=self._settings,
            directories=[str(self._folder)],
            config_of=lambda topic: LogConfig.from_settings(self._settings, self._overrides),
            filesystem=filesystem,
            disk=self._disk,
            clock=self.clock,
            randomness=random.Random(self.seed),
            on_directory_failed=lambda path, error: self.problems.append(f"directory failed: {error!r}"),
        )
        self.logs.lock()
        self.logs.claim(1, "c")
        await self.logs.load()
        self.logs.start()
        self.log = await self.logs.log_for("t", 0)

    async def run(self) -> None:
        """Raises AssertionError."""
        longest_s = self._random.choice([0.0006, 0.006])
        await self._open(slow_file_system(random.Random(self.seed), longest_s))
        if self._random.random() < 0.5:
            self.log.environment.open_segments._limit = OPEN_SEGMENTS
        await asyncio.gather(*(self._work(number) for number in range(WORKERS)))
        assert not self.problems, (self._overrides, self.problems)
        await self.log.await_appends()
        before, ends = await all_values(self.log), (self.log.log_start_offset, self.log.log_end_offset)
        await self.logs.close()
        await self._open(OsFileSystem())
        assert await all_values(self.log) == before
        assert (self.log.log_start_offset, self.log.log_end_offset) == ends
        self._check(dict(before))
        await self.logs.close()
        await until_closed(self._disk)
        await self._disk.close()
        assert not self.problems, self.problems

    def _check(self, left: dict[int, str]) -> None:
        there = {offset: pair for offset, pair in self.records.items() if offset >= self.log.log_start_offset}
        assert all(there[offset][1] == value for offset, value in left.items())
        must = (
            {key: offset for offset, (key, _) in sorted(there.items())}.values() if "compact" in self.policy else there
        )
        assert left.keys() >= set(must), (self._overrides, sorted(set(must) - left.keys()))
        names = [path.name for path in (self._folder / "t-0").iterdir()]
        assert not [name for name in names if name.endswith((".cleaned", ".swap"))], names

    async def _work(self, number: int) -> None:
        rnd = random.Random(self.seed * WORKERS + number)
        steps, weights = zip(*((step, weight) for step, weight in self._steps().items()), strict=True)
        for _ in range(STEPS):
            if self.problems:
                return
            [step] = rnd.choices(steps, weights)
            with self._telling():
                await step(rnd)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        log = self.log
        try:
            yield
        except KafkaError as error:
            # A cut takes what is read; a log that is deleted answers nothing more.
            is_gone = "was removed while" in str(error) or isinstance(error.__cause__, FileNotFoundError)
            is_expected = error.code is ErrorCode.OFFSET_OUT_OF_RANGE or is_gone
            if not (is_expected or log is self._doomed or log is not self.log):
                self.problems.append(traceback.format_exc())
        except Exception:  # noqa: BLE001 - told with the rest
            self.problems.append(traceback.format_exc())

    # --- what happens to it ---

    def _steps(self) -> dict[Callable[[random.Random], Awaitable[None]], int]:
        return {
            self._append: 50, self._cut: 7, self._begin_anew: 1, self._retain: 5, self._clean: 8, self._read: 14,
            self._look_up: 3, self._flush: 3, self._checkpoint: 2, self._rest: 2, self._delete: 1,
        }  # fmt: skip

    async def _append(self, rnd: random.Random) -> None:
        async with self._writing:
            log = self.log
            for _ in range(rnd.randint(1, 6)):
                self._appended += 1
                self.clock.now_ms += 1
                pair = (f"k{rnd.randint(0, 5)}", f"{self._appended}" + "x" * rnd.randint(0, 60))
                result = log.append(
                    batch_of(pair, timestamp=self.clock.now_ms), leader_epoch=self._appended // 40,
                    origin=AppendOrigin.CLIENT, now_ms=self.clock.now_ms, done=self._appended_to(log),
                )  # fmt: skip
                self.records[result.base_offset] = pair
            if rnd.random() < 0.6:
                await log.await_appends()
                log.high_watermark = log.log_end_offset

    def _appended_to(self, log: PartitionLog) -> Callable[[KafkaError | None], None]:
        def done(error: KafkaError | None) -> None:
            if error is not None and log is not self._doomed:
                self.problems.append(f"append: {error!r}")

        return done

    async def _cut(self, rnd: random.Random) -> None:
        """As a follower does, above the high watermark where the cleaner may have taken what came before."""
        async with self._writing:
            log = self.log
            lowest = log.high_watermark if "compact" in self.policy else log.log_start_offset
            offset = rnd.randint(max(lowest, log.offsets.next_offset - rnd.choice([3, 30])), log.offsets.next_offset)
            await truncate_to(log, offset)
            self.records = {at: pair for at, pair in self.records.items() if at < offset}

    async def _begin_anew(self, rnd: random.Random) -> None:
        async with self._writing:
            await truncate_fully_and_start_at(self.log, self.log.offsets.next_offset + rnd.choice([0, 5]))
            self.records = {}

    async def _delete(self, _: random.Random) -> None:
        async with self._writing:
            self._doomed = self.log
            await self.logs.delete("t", 0)
            self.log = await self.logs.log_for("t", 0)
            self.records = {}

    async def _retain(self, rnd: random.Random) -> None:
        log = self.log
        if "delete" in self.policy and log.high_watermark > log.log_start_offset:
            delete_records(log, rnd.randint(log.log_start_offset, log.high_watermark))
        # As the broker does, or so that a cleaning loses its segments, as it does where there is no room.
        await (self.logs.retention.delete_old_segments() if rnd.random() < 0.5 else delete_old_segments(log))

    async def _clean(self, _: random.Random) -> None:
        if "compact" in self.policy:
            await self.logs.cleaner.clean_dirtiest()

    async def _read(self, rnd: random.Random) -> None:
        log, truncations = self.log, self.log.offsets.truncations_count
        start, end = log.log_start_offset, log.log_end_offset
        offset = rnd.randint(start, end)
        if offset == end:
            return
        content = await read(log, offset, max_bytes=rnd.choice([100, 1000, 5000]))
        if log is not self.log or truncations != log.offsets.truncations_count:
            return
        for position, header in iter_headers(content):
            for record in iter_records(content, position, header, 1 << 24):
                found = ((record.key or b"").decode(), (record.value or b"").decode())
                if offset <= record.offset < end:
                    assert self.records.get(record.offset) == found, f"offset {record.offset} is {found}"

    async def _look_up(self, rnd: random.Random) -> None:
        await self.log.reading.offset_for_timestamp(NOW_MS + rnd.randint(0, 200))
        await self.log.reading.offset_of_max_timestamp()

    async def _flush(self, _: random.Random) -> None:
        await self.log.flush()

    async def _checkpoint(self, _: random.Random) -> None:
        await checkpoint_all(self.logs.upkeep)

    async def _rest(self, rnd: random.Random) -> None:
        await (self.logs.upkeep.close_idle_files() if rnd.random() < 0.5 else close_unused_file(self.log))


def run_history(seed: int, folder: Path) -> None:
    """Raises AssertionError, TimeoutError."""

    async def run() -> None:
        async with asyncio.timeout(LONGEST_S):
            await Race(seed, folder).run()

    asyncio.run(run())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=100)
    options = parser.parse_args()
    failures = 0
    for seed in range(options.first, options.first + options.seeds):
        with tempfile.TemporaryDirectory() as folder:
            try:
                run_history(seed, Path(folder))
            except (AssertionError, TimeoutError):
                failures += 1
                print(f"seed {seed}:\n{traceback.format_exc()}", flush=True)
    print(f"{options.seeds} seeds, {failures} failures")


if __name__ == "__main__":
    main()
