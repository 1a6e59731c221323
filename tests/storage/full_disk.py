"""A file system that runs full: writes beyond what is left are cut short and refused, as a real one does it."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from runtime.disk.filesystem import Buffer, File
from runtime.disk.os_filesystem import OsFileSystem
from tests.storage.file_around import FileAround

PLENTY = 1 << 40


def no_space(path: str) -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


class FullDisk(OsFileSystem):
    """`left_bytes` may be written; growing a file takes of it. `broken` paths answer EIO. With `refuses_fsync` an fsync is what
    finds that there is no room, as on a file system that allocates late."""

    def __init__(self, left_bytes: int = PLENTY) -> None:
        self.left_bytes = left_bytes
        self.free: int | None = None
        self.broken: set[str] = set()
        # Folders in which nothing grows any more.
        self.full: set[str] = set()
        # Files that are not replaced, there being no room for the new one.
        self.refused: set[str] = set()
        self.refusals = 0
        self.refuses_fsync = False

    def take(self, path: str, wanted: int) -> int:
        is_full = any(path.startswith(f"{folder}/") for folder in self.full)
        granted = 0 if is_full else min(wanted, self.left_bytes)
        self.left_bytes -= granted
        if granted < wanted:
            self.refusals += 1
        return granted

    def check(self, path: str) -> None:
        if path in self.broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        self.check(path)
        return _Bounded(super().open(path, create=create, writable=writable), self)

    def write_bytes(self, path: str, content: Buffer) -> None:
        self.check(path)
        granted = self.take(path, len(content))
        super().write_bytes(path, memoryview(content)[:granted])
        if granted < len(content):
            raise no_space(path)

    def replace(self, path: str, content: Buffer, *, is_private: bool = False) -> None:
        self.check(path)
        if path in self.refused:
            self.refusals += 1
            raise no_space(path)
        if self.take(path, len(content)) < len(content):
            raise no_space(path)
        super().replace(path, content, is_private=is_private)

    def free_bytes(self, path: str) -> int:
        if self.free is not None:
            return self.free
        return min(self.left_bytes, super().free_bytes(path))


class _Bounded(FileAround):
    """An open file of it."""

    def __init__(self, file: File, disk: FullDisk) -> None:
        super().__init__(file)
        self._disk = disk

    def write_at(self, buffers: Sequence[Buffer], position: int) -> None:
        self._disk.check(self.path)
        content = b"".join(bytes(buffer) for buffer in buffers)
        grows = max(position + len(content) - self._file.size(), 0)
        granted = self._disk.take(self.path, grows)
        whole = len(content) - grows + granted
        self._file.write_at([content[:whole]], position)
        if granted < grows:
            raise no_space(self.path)

    def read_at(self, length: int, position: int) -> bytes:
        self._disk.check(self.path)
        return self._file.read_at(length, position)

    def read_hot(self, length: int, position: int) -> Buffer | None:
        self._disk.check(self.path)
        return self._file.read_hot(length, position)

    def sync(self) -> None:
        self._disk.check(self.path)
        if self._disk.refuses_fsync:
            raise no_space(self.path)
        self._file.sync()
