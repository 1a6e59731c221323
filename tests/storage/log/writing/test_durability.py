"""What is on the disk, and when: flushes, rolls, clean stops; what a start makes again; files that idle logs give back."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from config.broker import BrokerSettings
from runtime.disk.os_filesystem import OsFileSystem
from storage.directories import online_directory
from storage.log.loading import LoadedLog, LoadRequest, load_log
from storage.log.partition_log import AppendOrigin, PartitionLog
from storage.log.producers.producer_state import ProducerStates
from storage.log.removal.log_truncation import truncate_to
from storage.log.unused_file import close_unused_file
from tests.storage.directories.test_log_manager import TOPIC_ID, broker
from tests.storage.logs import NOW_MS, Outcome, World, all_values, append, batch, config, open_log, until, world
from tests.storage.machine import FOLDER, Machine, on_a_machine
from tests.storage.segments.test_segment_scan import log_files, records, reopened, written

SUFFIXES = (".log", ".index", ".timeindex")


def durable(machine: Machine) -> dict[str, int]:
    """Size of each file of the log that a loss of power is sure to leave."""
    return {
        path.removeprefix(f"{FOLDER}/"): len(content)
        for path, content in machine.storage.contents(durable=True)
        if path.startswith(FOLDER)
    }


def test_a_flush_puts_the_files_and_their_names_on_the_disk() -> None:
    async def program(machine: Machine) -> None:
        log = await machine.start()
        for value in "abc":
            await append(log, value)
        assert not durable(machine), "written, and not flushed"
        await log.flush()
        assert log.offsets.recovery_point == 3
        files = durable(machine)
        assert files[f"{0:020d}.log"] == log.size_bytes
        assert {f"{0:020d}{suffix}" for suffix in SUFFIXES} <= files.keys()
        await log.close()

    on_a_machine(1, program)


@pytest.mark.parametrize("flush_messages", [1, 2])
def test_what_is_found_after_a_crash_is_on_the_disk_where_appends_are_flushed(flush_messages: int) -> None:
    """An acknowledgement may rest on a record that the process before had written and not flushed yet."""

    async def program(machine: Machine) -> None:
        log = await machine.start()
        await append(log, "a")
        machine.storage.crash_process()
        machine.config = config(segment_bytes=900, flush_messages=flush_messages)
        log = await machine.start(0)
        assert log.log_end_offset == 1
        assert (durable(machine).get(f"{0:020d}.log", 0) == log.size_bytes) is (flush_messages == 1)

    on_a_machine(1, program)


@pytest.mark.parametrize("seed", range(5))
def test_a_finished_segment_is_flushed_with_its_indexes_and_the_snapshot_at_its_end(seed: int) -> None:
    async def program(machine: Machine) -> None:
        log = await machine.start()
        at = 0
        while len(log.segments) < 4:
            await append(log, f"{at:0100}", producer_id=5, producer_epoch=1, base_sequence=at)
            at += 1
        base_offsets = [segment.base_offset for segment in log.segments]
        await asyncio.sleep(1)  # of virtual time
        assert log.offsets.recovery_point == base_offsets[-1]
        files = durable(machine)
        for base_offset, end_offset in pairwise(base_offsets):
            for suffix in SUFFIXES:
                path = f"{FOLDER}/{base_offset:020d}{suffix}"
                assert files[f"{base_offset:020d}{suffix}"] == len(machine.storage.names.files[path].content)
            assert files[f"{end_offset:020d}.snapshot"] > 14
        await log.close()

    on_a_machine(seed, program)


@pytest.mark.parametrize("checkpointed", [0, 1, 2, 3])
def test_the_recovery_point_goes_on_behind_what_a_start_has_recovered(tmp_path: Path, checkpointed: int) -> None:
    """Segments that were finished before the kill are rolled by nobody: the next roll flushes them as well."""

    async def run() -> None:
        settings = config(segment_bytes=300)
        async with world(str(tmp_path)) as place:
            log = await open_log(place, str(tmp_path), settings)
            for number in range(8):
                await append(log, f"v{number}")
            await log.close(flush=False)
            killed_at = log.segments.active.base_offset
            assert killed_at > checkpointed
        async with world(str(tmp_path)) as place:
            log = await open_log(place, str(tmp_path), settings, recovery_point=checkpointed)
            for number in range(100):
                await append(log, f"v{number}")
            await until(lambda: log.offsets.recovery_point == log.segments.active.base_offset)
            assert log.offsets.recovery_point > killed_at
            await log.close()

    asyncio.run(run())


def snapshots(directory: Path) -> dict[int, int]:
    """The last sequence of the producer in each snapshot, by the snapshot's offset."""
    found = {}
    for path in log_files(directory, ".snapshot"):
        (producer,) = ProducerStates.from_snapshot(path.read_bytes()).describe()
        found[int(path.stem)] = producer.last_sequence
    return found


def test_there_is_a_snapshot_for_each_segment_and_one_for_the_clean_stop(tmp_path: Path) -> None:
    written(tmp_path, 30)
    base_offsets = [int(path.stem) for path in log_files(tmp_path)]
    assert len(base_offsets) > 3
    assert snapshots(tmp_path) == {offset: offset - 1 for offset in [*base_offsets[1:], 30]}


@pytest.mark.parametrize("stop", ["clean", "kill"])
def test_missing_snapshots_are_made_again(tmp_path: Path, stop: str) -> None:
    """From the newest one that is left, by replay of what follows it."""
    written(tmp_path, 30, stop=stop)
    base_offsets = [int(path.stem) for path in log_files(tmp_path)]
    for path in log_files(tmp_path, ".snapshot"):
        if int(path.stem) != base_offsets[1]:
            path.unlink()

    async def check(log: PartitionLog) -> None:
        (producer,) = log.producers.states.describe()
        assert producer.last_sequence == 29
        assert snapshots(tmp_path) == {offset: offset - 1 for offset in base_offsets[1:]}

    reopened(tmp_path, check, is_clean=stop == "clean", recovery_point=30 if stop == "clean" else base_offsets[1])
    assert snapshots(tmp_path)[30] == 29, "the one for the clean stop"


# --- many logs ---


class Together:
    """`load_log` that tells how many of it ran at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self.most = 0

    def __call__(self, filesystem: OsFileSystem, request: LoadRequest) -> LoadedLog:
        with self._lock:
            self._running += 1
            self.most = max(self.most, self._running)
        time.sleep(0.001)  # as a log takes that is read from a disk
        loaded = load_log(filesystem, request)
        with self._lock:
            self._running -= 1
        return loaded


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("kill", [False, True])
def test_logs_are_loaded_by_as_many_threads_as_are_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int, kill: bool
) -> None:
    together = Together()
    monkeypatch.setattr(online_directory, "load_log", together)
    settings = BrokerSettings({"num.recovery.threads.per.data.dir": str(threads)})
    count = 200

    async def run() -> None:
        async with broker(tmp_path, kill=kill) as one:
            for partition in range(count):
                await append(await one.logs.log_for("t", partition, TOPIC_ID), f"of {partition}")
        async with broker(tmp_path, settings=settings) as two:
            assert together.most == threads
            assert len(two.logs.logs) == count
            for (_, partition), log in two.logs.logs.items():
                assert await all_values(log) == [(0, f"of {partition}")]

    asyncio.run(run())


def test_a_directory_that_fails_while_many_threads_load_it_goes_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = BrokerSettings({"num.recovery.threads.per.data.dir": "4"})

    def load(filesystem: OsFileSystem, request: LoadRequest) -> LoadedLog:
        if request.directory.endswith("-7"):
            raise OSError(5, "Input/output error")
        return load_log(filesystem, request)

    async def run() -> None:
        good, bad = tmp_path / "good", tmp_path / "bad"
        async with broker(good, bad, kill=True) as one:
            for partition in range(40):
                await append(await one.logs.log_for("t", partition, TOPIC_ID), "a")
            failing = Path(one.logs.logs["t", 7].directory).parent
        monkeypatch.setattr(online_directory, "load_log", load)
        async with broker(good, bad, settings=settings) as two:
            assert two.logs.offline_directories == [str(failing)]
            assert len(two.logs.logs) == 20

    asyncio.run(run())


# --- files of idle logs ---


def with_log(tmp_path: Path, body: Callable[[World, PartitionLog], Any], **settings: Any) -> None:
    async def run() -> None:
        async with world(str(tmp_path)) as doors:
            log = await open_log(doors, str(tmp_path), config(**settings))
            await body(doors, log)
            assert not doors.failed

    asyncio.run(run())


def test_an_idle_log_gives_its_file_back_and_goes_on_where_it_was(tmp_path: Path) -> None:
    async def body(_: World, log: PartitionLog) -> None:
        for at in range(60):
            await append(log, f"{at:0100}", timestamp=NOW_MS + at)
            if at % 7 == 0:
                await close_unused_file(log)
                assert log.segments.active.file is None
            if at % 14 == 0:
                assert await all_values(log) == records(at + 1)
        found = await log.reading.offset_for_timestamp(NOW_MS + 33)
        assert found is not None and found.offset == 33
        await close_unused_file(log)
        await log.close()

    with_log(tmp_path, body, segment_bytes=3000, index_interval_bytes=300)

    async def check(log: PartitionLog) -> None:
        assert await all_values(log) == records(60)
        assert await log.reading.offset_of_max_timestamp() is not None

    reopened(tmp_path, check, {"segment_bytes": 3000}, is_clean=True, recovery_point=60)


def test_a_log_that_rests_has_the_same_indexes_as_one_that_does_not(tmp_path: Path) -> None:
    async def fill(log: PartitionLog, *, rests: bool) -> None:
        for at in range(40):
            await append(log, f"{at:0100}", timestamp=NOW_MS + at)
            if rests and at % 9 == 0:
                await close_unused_file(log)
        await log.close()

    for name, rests in (("awake", False), ("resting", True)):
        (tmp_path / name).mkdir()
        with_log(tmp_path / name, lambda _, log, rests=rests: fill(log, rests=rests), index_interval_bytes=300)
    awake, resting = (log_files(tmp_path / name, ".index")[0].read_bytes() for name in ("awake", "resting"))
    assert awake == resting and len(awake) > 40
    for name in ("awake", "resting"):
        (time_index,) = log_files(tmp_path / name, ".timeindex")
        assert time_index.read_bytes()[-12:] == (NOW_MS + 39).to_bytes(8, "big") + (39).to_bytes(4, "big")


def test_what_is_appended_while_a_log_goes_to_rest_keeps_it_awake(tmp_path: Path) -> None:
    async def body(_: World, log: PartitionLog) -> None:
        await append(log, "a")
        resting = asyncio.ensure_future(close_unused_file(log))
        await asyncio.sleep(0)
        await append(log, "b")
        await resting
        assert log.segments.active.file is not None
        assert await all_values(log) == [(0, "a"), (1, "b")]
        await log.close()

    with_log(tmp_path, body)


def test_only_logs_that_nobody_writes_to_are_closed(tmp_path: Path) -> None:
    async def run() -> None:
        async with broker(tmp_path) as one:
            logs = [await one.logs.log_for("t", partition, TOPIC_ID) for partition in range(6)]
            for log in logs:
                await append(log, "a")
            await one.logs.upkeep.close_idle_files()
            assert all(log.segments.active.file is not None for log in logs), "somebody has written to them just now"
            await append(logs[3], "b")
            await one.logs.upkeep.close_idle_files()
            assert [log.segments.active.file is not None for log in logs] == [at == 3 for at in range(6)]
            for log in logs:
                await append(log, "c")
            assert [len(await all_values(log)) for log in logs] == [2, 2, 2, 3, 2, 2]

    asyncio.run(run())


def test_a_flush_that_waited_while_the_log_was_cut_counts_what_is_left(tmp_path: Path) -> None:
    """What is appended behind the cut is not on the disk."""

    async def run() -> None:
        async with world(str(tmp_path)) as place:
            log = await open_log(place, str(tmp_path))
            await append(log, "a")
            await append(log, "b")
            await close_unused_file(log)
            log.append(batch("c"), leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=NOW_MS, done=Outcome())
            await asyncio.gather(log.flush(), truncate_to(log, 1), log.flush())
            assert log.offsets.recovery_point <= log.log_end_offset == 1
            await log.close()

    asyncio.run(run())
