"""The audit log's file: whole lines in order, through rotation, full disks and a queue that is full."""

from __future__ import annotations

import asyncio
import errno
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from broker.observability import audit_file
from broker.observability.audit_file import AuditFile
from runtime.disk.os_disk_queue import OsDisk
from runtime.tasks import TaskScope
from tests.async_tests import played_by
from tests.doubles.file_system import ControlledFileSystem, fails


class World:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.filesystem = ControlledFileSystem()
        self.full = self.filesystem.on("open", "*", fails(errno.ENOSPC))
        self.full.is_on = False
        self.disk = OsDisk()
        self.tasks = TaskScope("test")
        self.queue = self.disk.queue("audit")
        self.file = AuditFile(str(path), self.filesystem, self.queue, self.tasks)

    async def written(self) -> None:
        """Return when everything that was appended before has been written."""
        while self.file._is_writing:
            await self.queue.drain()
            await asyncio.sleep(0)

    async def append(self, *numbers: int) -> None:
        for number in numbers:
            self.file.append({"n": number})
        await self.written()


def run(path: Path, program: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        world = World(path)
        try:
            await program(world)
        finally:
            await world.tasks.close()
            await world.disk.close()

    asyncio.run(main())


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def numbers(path: Path) -> list[int]:
    return [line["n"] for line in lines(path)]


def test_lines_are_appended_to_those_of_before(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_text('{"n":0}\n')

    async def program(world: World) -> None:
        await world.file.open()
        for number in range(1, 50):
            world.file.append({"n": number})
        world.file.append({"n": 50, "name": 'é"\n\ud800'})
        await world.file.close()

    run(path, program)
    assert numbers(path) == list(range(51))
    assert lines(path)[-1]["name"] == 'é"\n\\ud800' or "\\ud800" in path.read_text(encoding="utf-8")


def test_a_file_is_opened_anew_when_asked(tmp_path: Path) -> None:
    path, old = tmp_path / "audit.log", tmp_path / "audit.log.1"

    async def program(world: World) -> None:
        await world.file.open()
        path.rename(old)
        path.write_text("")  # as long as what was written: nothing
        world.file.reopen()
        await asyncio.sleep(0)
        await world.append(1)
        path.unlink()
        path.mkdir()
        world.file.reopen()  # fails, and the next line tries again
        await asyncio.sleep(0)
        await world.queue.drain()
        path.rmdir()
        await world.append(2)
        await world.file.close()

    run(path, program)
    assert numbers(path) == [2] and old.read_text() == ""


@pytest.mark.parametrize("rotation", ["rename", "remove", "truncate", "rename and create"])
def test_a_file_that_was_rotated_is_opened_anew(tmp_path: Path, rotation: str) -> None:
    path, old = tmp_path / "audit.log", tmp_path / "audit.log.1"

    async def program(world: World) -> None:
        await world.file.open()
        await world.append(1, 2)
        if rotation == "remove":
            path.unlink()
        elif rotation == "truncate":
            path.write_text("")
        else:
            path.rename(old)
        if rotation == "rename and create":
            path.write_text("")
        await world.append(3)
        await world.append(4)
        await world.file.close()

    run(path, program)
    assert numbers(path) == [3, 4]
    if old.exists():
        assert numbers(old) == [1, 2]


def test_a_full_disk_drops_lines_and_says_how_many(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "audit.log"

    async def program(world: World) -> None:
        await world.file.open()
        await world.append(1)
        path.unlink()
        world.full.is_on = True
        await world.append(2)
        await world.append(3)
        assert world.file.dropped_count == 2
        world.full.is_on = False
        await world.append(4)
        await world.append(5)
        assert world.file.dropped_count == 2
        await world.file.close()

    run(path, program)
    assert lines(path) == [{"event": "dropped", "lines": 2}, {"n": 4}, {"n": 5}]
    assert caplog.text.count("audit log not written") == 1


def test_what_waits_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_file, "LIMIT_BYTES", 80)
    path = tmp_path / "audit.log"

    async def program(world: World) -> None:
        await world.file.open()
        for number in range(20):  # nothing is written meanwhile: the loop does not run
            world.file.append({"n": number})
        await world.written()
        assert world.file.dropped_count == 10
        await world.append(99)
        await world.file.close()

    run(path, program)
    assert lines(path) == [*({"n": number} for number in range(10)), {"event": "dropped", "lines": 10}, {"n": 99}]


@played_by(lambda tmp_path, program: run(tmp_path / "missing" / "audit.log", program), "tmp_path")
async def test_a_path_that_cannot_be_opened_is_named(world: World) -> None:
    with pytest.raises(OSError, match=r"barnabas\.audit\.log=.*No such file"):
        await world.file.open()


def test_after_the_end_lines_count_as_dropped(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"

    async def program(world: World) -> None:
        await world.file.open()
        await world.append(1)
        await world.file.close()
        await world.tasks.close()
        world.file.append({"n": 2})
        assert world.file.dropped_count == 1

    run(path, program)
    assert numbers(path) == [1]
