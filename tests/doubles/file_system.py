"""The real file system, on which a test says what becomes of which operation: it fails, waits, is noted, or has another result.

Rules: a rule concerns operations of files or of the file system, by their names in `runtime/disk/filesystem.py`, on paths that
match a pattern. Its action gets the call, and what it returns is the result; later rules are asked first. `create` and
`open_to_read` are kinds of `open`. Room is limited by `left_bytes`, as a real disk does it: a write beyond it is cut short.
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from runtime.disk.filesystem import Buffer, File
from runtime.disk.os_filesystem import OsFileSystem

PLENTY = 1 << 40
INPUT_OUTPUT = "open read_bytes write_bytes replace read_at read_hot write_at sync"
"""What a broken file fails."""


@dataclass
class Call:
    """`path` is the target of a rename; `file` is the open file that is asked. `proceed` does what was asked for."""

    operation: str
    path: str
    arguments: tuple[Any, ...]
    file: object
    proceed: Callable[[], Any]


Action = Callable[[Call], Any]


@dataclass
class Rule:
    """Holds while `is_on`."""

    operations: set[str]
    matches: Callable[[str], bool]
    action: Action
    is_on: bool = True
    calls: int = 0
    """How often it was asked."""


def error(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)


def no_space(path: str) -> OSError:
    return error(errno.ENOSPC, path)


def fails(code: int) -> Action:
    """The operation is not done and fails with this errno."""

    def fail(call: Call) -> Any:
        raise error(code, call.path)

    return fail


def gives(result: Any) -> Action:
    """The operation is not done and returns this."""
    return lambda call: result


def notes(calls: list[tuple[str, str]]) -> Action:
    """Operation and path are added to the list when the operation has been done."""

    def note(call: Call) -> Any:
        result = call.proceed()
        calls.append((call.operation, call.path))
        return result

    return note


class Gate:
    """Whoever comes to it, in a thread, waits until it is opened. It is shut once."""

    def __init__(self) -> None:
        self.is_shut = False
        self._reached, self._opened = threading.Event(), threading.Event()

    def shut(self) -> None:
        self._reached.clear()
        self._opened.clear()
        self.is_shut = True

    def open(self) -> None:
        self._opened.set()

    def pass_through(self) -> None:
        if self.is_shut:
            self.is_shut = False
            self._reached.set()
            assert self._opened.wait(30)

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._reached.wait, 30)

    def before(self, call: Call) -> Any:
        """The action of an operation that waits and is done then."""
        self.pass_through()
        return call.proceed()

    def after(self, call: Call) -> Any:
        """The action of an operation whose result comes late."""
        result = call.proceed()
        self.pass_through()
        return result


class ControlledFileSystem(OsFileSystem):
    """`left_bytes` may be written; growing a file takes of it. Nothing grows in the folders of `full`. `free_bytes` tells
    what is left, or `free`."""

    def __init__(self, left_bytes: int = PLENTY) -> None:
        self.left_bytes = left_bytes
        self.free: int | None = None
        self.full: set[str] = set()
        self._rules: list[Rule] = []

    def on(self, operations: str, where: str | Path, action: Action) -> Rule:
        """`operations` are names with blanks between them, `where` a pattern of paths."""
        rule = Rule(set(operations.split()), partial(_matches, str(where)), action)
        self._rules.append(rule)
        return rule

    def shut_on(self, operations: str, where: str | Path, *, late: bool = False) -> Gate:
        """A gate, shut, before the next such operation, or behind it when it is `late`."""
        gate = Gate()
        self.on(operations, where, gate.after if late else gate.before)
        gate.shut()
        return gate

    def hold_reads(self, *, late: bool = False) -> Gate:
        """The same for the next cold read of a `.log`; until then nothing of it is hot."""
        gate = self.shut_on("read_at", "*.log", late=late)
        self.on("read_hot", "*.log", lambda call: None if gate.is_shut else call.proceed())
        return gate

    def call(
        self, operation: str, path: str, do: Callable[[], Any], *arguments: Any, kind: str = "", file: object = None
    ) -> Any:
        rules = list(self._rules)

        def proceed() -> Any:
            while rules:
                rule = rules.pop()
                if rule.is_on and {operation, kind} & rule.operations and rule.matches(path):
                    rule.calls += 1
                    return rule.action(Call(operation, path, arguments, file, proceed))
            return do()

        return proceed()

    def take(self, path: str, wanted: int) -> int:
        """How much of this the disk has room for."""
        granted = 0 if any(path.startswith(f"{folder}/") for folder in self.full) else min(wanted, self.left_bytes)
        self.left_bytes -= granted
        return granted

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        kind = "create" if create else "" if writable else "open_to_read"
        opened = partial(super().open, path, create=create, writable=writable)
        return _ControlledFile(self.call("open", path, opened, kind=kind), self)

    def write_bytes(self, path: str, content: Buffer) -> None:
        def write() -> None:
            granted = self.take(path, len(content))
            OsFileSystem.write_bytes(self, path, memoryview(content)[:granted])
            if granted < len(content):
                raise no_space(path)

        self.call("write_bytes", path, write, content)

    def replace(self, path: str, content: Buffer, *, is_private: bool = False) -> None:
        def replace() -> None:
            if self.take(path, len(content)) < len(content):
                raise no_space(path)
            OsFileSystem.replace(self, path, content, is_private=is_private)

        self.call("replace", path, replace, content)

    def rename(self, source: str, target: str) -> None:
        self.call("rename", target, partial(super().rename, source, target), source)

    def free_bytes(self, path: str) -> int:
        known = self.free
        left: int = self.call("free_bytes", path, lambda: min(self.left_bytes, OsFileSystem.free_bytes(self, path)))
        return left if known is None else known


def _matches(pattern: str, path: str) -> bool:
    return path == pattern or fnmatchcase(path, pattern)


def _controlled(name: str) -> Callable[..., Any]:
    original = getattr(OsFileSystem, name)

    def operation(self: ControlledFileSystem, path: str, *arguments: Any) -> Any:
        return self.call(name, path, partial(original, self, path, *arguments), *arguments)

    return operation


for _name in (
    "read_bytes",
    "unlink",
    "remove_tree",
    "make_directory",
    "list_directory",
    "exists",
    "stat",
    "sync_directory",
):
    setattr(ControlledFileSystem, _name, _controlled(_name))


class _ControlledFile:
    """An open file of it."""

    def __init__(self, file: File, disk: ControlledFileSystem) -> None:
        self.path = file.path
        self._file = file
        self._disk = disk

    def _call(self, operation: str, *arguments: Any) -> Any:
        proceed = partial(getattr(self._file, operation), *arguments)
        return self._disk.call(operation, self.path, proceed, *arguments, file=self)

    def write_at(self, buffers: Sequence[Buffer], position: int) -> None:
        def write() -> None:
            content = b"".join(bytes(buffer) for buffer in buffers)
            grows = max(position + len(content) - self._file.size(), 0)
            granted = self._disk.take(self.path, grows)
            self._file.write_at([content[: len(content) - grows + granted]], position)
            if granted < grows:
                raise no_space(self.path)

        self._disk.call("write_at", self.path, write, buffers, position, file=self)

    def read_at(self, length: int, position: int) -> Buffer:
        found: Buffer = self._call("read_at", length, position)
        return found

    def read_hot(self, length: int, position: int) -> Buffer | None:
        found: Buffer | None = self._call("read_hot", length, position)
        return found

    def size(self) -> int:
        found: int = self._call("size")
        return found

    def truncate(self, size_bytes: int) -> None:
        self._call("truncate", size_bytes)

    def sync(self) -> None:
        self._call("sync")

    def close(self) -> None:
        self._call("close")

    def send_to(self, descriptor: int, length: int, position: int) -> int:
        return self._file.send_to(descriptor, length, position)

    def identity(self) -> Hashable:
        return self._file.identity()
