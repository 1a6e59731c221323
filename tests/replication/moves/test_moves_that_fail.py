"""A log's exchange for its copy, in which a disk fails or has no room: the partition goes on, or says that it is offline."""

from __future__ import annotations

import asyncio
import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from protocol.errors import ErrorCode
from replication.moves.log_copy import LogCopy
from storage.directories import future_logs
from storage.log import log_replacement
from storage.log.loading import LoadedLog
from storage.log.partition_log import AppendOrigin
from tests.doubles.file_system import Call, ControlledFileSystem, error, no_space
from tests.replication.move_world import TOPIC, move_world, numbers
from tests.storage.logs import batch, until

SMALL = {"segment.bytes": "1500"}


@pytest.fixture
def a(tmp_path: Path) -> Path:
    return tmp_path / "a"


@pytest.fixture
def b(tmp_path: Path) -> Path:
    return tmp_path / "b"


@pytest.mark.parametrize("fails", ["source", "target"])
@pytest.mark.parametrize("when", ["write_bytes", "list_directory"])
async def test_a_directory_that_fails_in_the_exchange(a: Path, b: Path, fails: str, when: str) -> None:
    """For the sake of another partition: what the exchange itself does is carried out."""
    disk, loop = ControlledFileSystem(), asyncio.get_running_loop()
    async with move_world(a, b, filesystem=disk) as here:
        partition = await here.assign()
        here.produce(partition, *numbers(20))
        await partition.log.await_appends()
        source, target = str(Path(partition.log.directory).parent), here.other_than(partition)
        gone = source if fails == "source" else target
        told: list[ErrorCode] = []
        done = asyncio.Event()

        def fail() -> None:
            partition.own_waiters().when_written(here.produce(partition, "held"), told.append)
            here.logs.fail_directory(gone, OSError(errno.EIO, "another partition's"))
            here.partitions.on_directory_failed(gone)
            done.set()

        def before(call: Call) -> Any:
            if rule.is_on and (call.path.endswith("/moved") or call.path == f"{target}/{TOPIC}-0"):
                rule.is_on = False
                asyncio.run_coroutine_threadsafe(_call(fail), loop).result(10)
            return call.proceed()

        rule = disk.on(when, "*", before)
        await here.move(partition, target)
        await asyncio.wait_for(done.wait(), 10)
        await here.moved()
        await partition.log.await_appends()
        assert len(told) == 1, "who waits is told"
        if partition.log.failure is None:
            assert told == [ErrorCode.NONE]
            here.produce(partition, "on")
            assert await here.values(partition) == [*numbers(20), "held", "on"]
        else:
            assert told == [ErrorCode.KAFKA_STORAGE_ERROR]
    # What a start finds on the disks as they are: these are still locked.
    copies = [Path(shutil.copytree(each, each.with_name(f"{each.name}2"))) for each in (a, b)]
    async with move_world(*copies) as again:
        partition = await again.assign(epoch=1, is_new=False)
        await again.moved()
        assert (await again.values(partition))[:20] == numbers(20)


async def _call(work: Callable[[], None]) -> None:
    work()


def refusing(disk: ControlledFileSystem, operation: str, where: str, times: int) -> list[str]:
    """The next so many such calls find no room; what was refused."""
    refused: list[str] = []

    def refuse(call: Call) -> Any:
        if len(refused) == times:
            return call.proceed()
        refused.append(call.path)
        raise no_space(call.path)

    disk.on(operation, where, refuse)
    return refused


async def test_an_exchange_that_ends_in_a_way_nobody_knows_lets_the_log_go_on(
    a: Path, b: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with move_world(a, b) as here:
        partition = await here.filled(20)
        log, step, told = partition.log, LogCopy.step, []  # type: ignore[var-annotated]

        async def fails(copy: LogCopy) -> bool:
            if log_replacement.can_begin(log) and not log.writer.pending.is_buffering:
                return await step(copy)
            partition.own_waiters().when_written(here.produce(partition, "held"), told.append)
            raise ZeroDivisionError

        monkeypatch.setattr(LogCopy, "step", fails)
        await here.move(partition, here.other_than(partition))
        await here.moved()
        assert await here.values(partition) == [*numbers(20), "held"]
        assert told == [ErrorCode.NONE]
        assert partition.log is log and log_replacement.can_begin(log)


async def test_an_exchange_that_ends_between_its_renames_gives_the_log_its_folder_back(
    a: Path, b: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load_log(*_: object) -> LoadedLog:
        raise ZeroDivisionError

    async with move_world(a, b) as here:
        partition = await here.filled(20)
        folder = Path(partition.log.directory)
        monkeypatch.setattr(future_logs, "load_log", load_log)
        await here.move(partition, here.other_than(partition))
        await here.moved()
        assert here.folders()[folder.parent.name] == [folder.name]
        here.produce(partition, "on")
        assert await here.values(partition) == [*numbers(20), "on"]


@pytest.mark.parametrize("goes_back", [True, False])
async def test_an_old_folder_whose_directory_fails_once_it_is_set_aside(a: Path, b: Path, goes_back: bool) -> None:
    """Whoever starts then, Apache Kafka too, finds all records under the log's name."""
    disk = ControlledFileSystem()
    async with move_world(a, b, filesystem=disk) as here:
        partition = await here.filled(20)
        source, target = str(Path(partition.log.directory).parent), here.other_than(partition)
        set_aside: list[str] = []

        def fail(call: Call) -> Any:
            is_rename = call.operation == "rename"
            if is_rename and call.path.startswith(source) and call.path.endswith("-delete"):
                set_aside.append(call.path)
            elif set_aside and (call.path == source or (is_rename and not goes_back)):
                raise error(errno.EIO, call.path)
            return call.proceed()

        disk.on("rename", "*", fail)
        disk.on("sync_directory", source, fail)
        await here.move(partition, target)
        await here.moved()
        assert len(set_aside) == 1
        assert here.failed == [source]
        assert here.logs.future.future_log(TOPIC, 0) is None or goes_back
        name = Path(source if goes_back else target).name
        assert here.folders()[name] == [f"{TOPIC}-0"]
    async with move_world(a, b) as again:
        partition = await again.assign(epoch=1, is_new=False)
        await again.moved()
        assert await again.values(partition) == numbers(20)


@pytest.mark.parametrize(
    ("what", "end"),
    [("write_bytes", "/moved"), ("rename", f"/{TOPIC}-0"), ("list_directory", f"/{TOPIC}-0"), ("rename", "-delete")],
)
async def test_no_room_in_the_exchange(a: Path, b: Path, what: str, end: str) -> None:
    disk = ControlledFileSystem()
    async with move_world(a, b, filesystem=disk, overrides=SMALL, limit_bytes_per_second=1) as here:
        partition = await here.assign()
        values = numbers(100)
        for at, value in enumerate(values):
            records = batch(value, producer_id=9, producer_epoch=0, base_sequence=at)
            partition.append(records, origin=AppendOrigin.CLIENT, acks=1, now_ms=1)
        await partition.log.await_appends()
        target = here.other_than(partition)
        await here.move(partition, target)
        await until(lambda: here.copied() > 10)
        await here.moves.stop(TOPIC, 0)
    # A clean stop has left a checkpoint of the copy, which it will soon have passed.
    async with move_world(a, b, filesystem=disk, overrides=SMALL) as here:
        home = next(str(each) for each in (a, b) if str(each) != target)
        place = home if end == "-delete" else target
        refused = refusing(disk, what, f"{place}*{end}", 2)
        partition = await here.assign(epoch=1, is_new=False)
        assert 0 < here.copied() < 100
        await until(lambda: len(refused) == 2)
        await until(lambda: partition.log.has_room)
        here.produce(partition, "meanwhile")
        await here.moved()
        assert not here.failed
        assert partition.log.directory == f"{target}/{TOPIC}-0"
        assert await here.values(partition) == [*values, "meanwhile"]
        again = batch("v99", producer_id=9, producer_epoch=0, base_sequence=99)
        result = partition.append(again, origin=AppendOrigin.CLIENT, acks=1, now_ms=1)
        assert (result.duplicate, result.base_offset) == (True, 99)
    async with move_world(a, b) as again_here:
        partition = await again_here.assign(epoch=2, is_new=False)
        assert await again_here.values(partition) == [*values, "meanwhile"]
