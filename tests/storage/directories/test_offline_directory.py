"""A log directory that has failed is let go of while the broker goes on: its files, its lock, the memory of its logs."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from protocol.errors import ErrorCode, KafkaError
from runtime.disk.os_disk_queue import OsDiskQueue
from runtime.disk.os_filesystem import OsFileSystem
from storage.directories.log_directory import LOCK_FILE
from storage.directories.log_manager import LogManager
from storage.log.partition_log import AppendOrigin, PartitionLog
from storage.log.removal.log_truncation import truncate_to
from tests.doubles.file_system import Call, ControlledFileSystem, Gate, Rule, gives
from tests.storage.directories.test_log_manager import TOPIC_ID, broker
from tests.storage.logs import NOW_MS, all_values, append, batch, checkpoint_all, until

SMALL_SEGMENTS = {"segment.bytes": "300"}


class WatchedFileSystem(ControlledFileSystem):
    """`misused` are files that were used after they were closed, and `late` what was changed in a directory that `released`
    names. Nothing is hot."""

    def __init__(self) -> None:
        super().__init__()
        self.misused: list[str] = []
        self.released: set[str] = set()
        self.late: list[str] = []
        self._users: Counter[object] = Counter()
        self._closed: set[object] = set()
        self.on("create replace write_bytes rename make_directory", "*", self._change)
        self.on("read_hot", "*", gives(None))
        self.on("write_at read_at read_hot truncate sync", "*", self._use)
        self.on("close", "*", self._close)

    def _change(self, call: Call) -> Any:
        path = call.arguments[0] if call.operation == "rename" else call.path
        if any(path.startswith(f"{directory}/") for directory in self.released):
            self.late.append(path)
        return call.proceed()

    def _use(self, call: Call) -> Any:
        if call.file in self._closed:
            self.misused.append(f"{call.operation} of {call.path}, which is closed")
        self._users[call.file] += 1
        try:
            return call.proceed()
        finally:
            self._users[call.file] -= 1

    def _close(self, call: Call) -> Any:
        if self._users[call.file]:
            self.misused.append(f"close of {call.path}, which is used")
        self._closed.add(call.file)
        return call.proceed()

    def hold_back(self, operation: str) -> Gate:
        """As one who has begun to use the file."""
        gate = Gate()
        self._rules.insert(0, Rule({operation}, lambda path: True, gate.before))
        gate.shut()
        return gate


def broken() -> OSError:
    return OSError(errno.EIO, "broken")


def open_files(directory: Path) -> list[str]:
    """Of this process."""
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{descriptor}")
        except FileNotFoundError:
            continue
        if path.startswith(f"{directory}/"):
            found.append(path)
    return found


def logs_in(directory: Path) -> list[str]:
    """Of those that memory holds."""
    gc.collect()
    logs = [each for each in gc.get_objects() if isinstance(each, PartitionLog)]
    return [each.directory for each in logs if each.directory.startswith(f"{directory}/")]


def is_locked(directory: Path) -> bool:
    lock = OsFileSystem().lock(str(directory / LOCK_FILE))
    if lock is None:
        return True
    lock.release()
    return False


def released(directory: Path) -> Callable[[], bool]:
    return lambda: not is_locked(directory)


async def test_a_failed_directory_is_let_go_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    filesystem = WatchedFileSystem()
    async with broker(tmp_path / "a", tmp_path / "b", filesystem=filesystem, overrides=SMALL_SEGMENTS) as here:
        logs = [await here.logs.log_for("t", partition, TOPIC_ID) for partition in range(4)]
        for log in logs:
            for number in range(12):
                await append(log, f"v{number}")
            await all_values(log)  # which opens the old segments
        await until(lambda: all(log.offsets.recovery_point >= log.segments.active.base_offset for log in logs))
        assert len(open_files(tmp_path / "a")) > 6 and is_locked(tmp_path / "a")
        assert len(logs_in(tmp_path / "a")) == 2
        here.logs.fail_directory(str(tmp_path / "a"), broken())
        await until(released(tmp_path / "a"))
        await until(lambda: not open_files(tmp_path / "a"))
        kept = logs[1]
        del log
        logs.clear()
        caplog.clear()  # what was logged are errors, which hold the frames that they came through
        for _ in range(10):
            await asyncio.sleep(0)
        assert logs_in(tmp_path / "a") == []
        assert is_locked(tmp_path / "b")
        await append(kept, "more")
        assert len(await all_values(kept)) == 13
        filesystem.released.add(str(tmp_path / "a"))
        await checkpoint_all(here.logs.upkeep)
    assert filesystem.misused == [] and filesystem.late == []
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()


async def test_a_failed_directory_is_told_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """And not once for each of its logs, which may be ten thousand."""
    async with broker(tmp_path) as here:
        logs = [await here.logs.log_for("t", partition, TOPIC_ID) for partition in range(4)]
        await append(logs[0], "a")
        here.logs.fail_directory(str(tmp_path), broken())
        for log in logs:
            assert log.failure is not None
            with pytest.raises(KafkaError, match="failed"):
                log.reading.read(0, limit_offset=1, max_bytes=100, at_least_one=True)
        assert [record.message.partition(":")[0] for record in caplog.records if record.levelname == "ERROR"] == [
            "log directory offline"
        ]


def spawn(work: Coroutine[Any, Any, object]) -> asyncio.Task[object]:
    return asyncio.get_running_loop().create_task(work)


async def write_in_thread(logs: LogManager, log: PartitionLog) -> None:
    """An append whose bytes are written by the queue's thread."""
    directory = logs._directory_holding(log.directory)
    assert directory is not None and isinstance(directory.queue, OsDiskQueue)
    directory.queue._slow_until_ns = 1 << 62
    outcome: asyncio.Future[KafkaError | None] = asyncio.get_running_loop().create_future()
    log.append(batch("c"), leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=NOW_MS, done=outcome.set_result)
    error = await outcome
    assert error is not None
    raise error


@pytest.mark.parametrize("operation", ["read_at", "write_at", "sync", "truncate"])
async def test_no_file_is_closed_under_a_thread_that_uses_it(tmp_path: Path, operation: str) -> None:
    """Its descriptor's number could be another file's by the time the thread comes to use it."""
    filesystem = WatchedFileSystem()
    async with broker(tmp_path / "a", tmp_path / "b", filesystem=filesystem) as here:
        log = await here.logs.log_for("t", 0, TOPIC_ID)
        await append(log, "a")
        await append(log, "b")
        log.high_watermark = 1
        gate = filesystem.hold_back(operation)
        if operation == "read_at":
            work = spawn(log.reading.read_cold(0, limit_offset=2, max_bytes=1000, at_least_one=True))
        elif operation == "sync":
            work = spawn(log.flush())
        elif operation == "truncate":
            work = spawn(truncate_to(log, 1))
        else:
            work = spawn(write_in_thread(here.logs, log))
        await gate.reached()
        here.logs.fail_directory(str(tmp_path / "a"), broken())
        for _ in range(100):
            await asyncio.sleep(0)
        assert is_locked(tmp_path / "a") or operation == "read_at"
        gate.open()
        await asyncio.wait((work,))
        if operation in ("write_at", "sync"):
            assert isinstance(work.exception(), KafkaError)
        await until(released(tmp_path / "a"))
        await until(lambda: not open_files(tmp_path / "a"))
        with pytest.raises(KafkaError):
            await log.reading.read_cold(0, limit_offset=2, max_bytes=1000, at_least_one=True)
        with pytest.raises(KafkaError):
            await log.reading.offset_for_timestamp(0)
        del work
    assert filesystem.misused == []


async def test_a_log_that_is_made_while_its_directory_fails_is_none(tmp_path: Path) -> None:
    filesystem = WatchedFileSystem()
    async with broker(tmp_path / "a", tmp_path / "b", filesystem=filesystem) as here:
        gate = filesystem.hold_back("make_directory")
        making = asyncio.ensure_future(here.logs.log_for("t", 0, TOPIC_ID))
        await gate.reached()
        here.logs.fail_directory(str(tmp_path / "a"), broken())
        for _ in range(100):
            await asyncio.sleep(0)
        assert is_locked(tmp_path / "a")
        gate.open()
        with pytest.raises(KafkaError) as refused:
            await making
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert here.logs.find("t", 0) is None
        await until(released(tmp_path / "a"))
        assert (await here.logs.log_for("t", 0, TOPIC_ID)).directory == str(tmp_path / "b" / "t-0")


async def test_a_deletion_and_a_checkpoint_that_are_under_way_end_before_the_lock_is_released(tmp_path: Path) -> None:
    filesystem = WatchedFileSystem()
    async with broker(tmp_path / "a", tmp_path / "b", filesystem=filesystem) as here:
        logs = [await here.logs.log_for("t", partition, TOPIC_ID) for partition in range(4)]
        for log in logs:
            await append(log, "a")
            log.high_watermark = 1
        gate = filesystem.hold_back("replace")
        checkpoint = asyncio.ensure_future(checkpoint_all(here.logs.upkeep))
        await gate.reached()
        deletion = asyncio.ensure_future(here.logs.delete("t", 0))
        await asyncio.sleep(0)
        here.logs.fail_directory(str(tmp_path / "a"), broken())
        for _ in range(100):
            await asyncio.sleep(0)
        assert is_locked(tmp_path / "a")
        gate.open()
        await until(released(tmp_path / "a"))
        filesystem.released.add(str(tmp_path / "a"))
        await checkpoint
        await asyncio.wait((deletion,))
        deletion.exception()
    assert filesystem.late == [] and filesystem.misused == []


async def test_a_stop_waits_for_a_directory_that_is_being_let_go_of(tmp_path: Path) -> None:
    async with broker(tmp_path / "a", tmp_path / "b") as here:
        await append(await here.logs.log_for("t", 0, TOPIC_ID), "a")
        here.logs.fail_directory(str(tmp_path / "a"), broken())
    assert not is_locked(tmp_path / "a") and not is_locked(tmp_path / "b")
    assert open_files(tmp_path / "a") == []
