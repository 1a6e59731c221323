"""The disk interface, part one: files and folders as blocking calls.

Rules: every call may block, so once a broker serves, callers run them inside a `disk.DiskQueue` or `disk.Readers` job.
Two calls may run on the event loop: `File.write_at` (page cache; DiskQueue says when) and `File.read_hot`, which
never waits for a disk. Errors are `OSError` as the operating system raises them.
Invariant: nothing outside `runtime/` opens a file.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

Buffer = bytes | bytearray | memoryview


def unwritten(chunks: Sequence[Buffer], written: int) -> list[Buffer]:
    """Return `chunks` without their first `written` bytes. The result does not begin with an empty chunk."""
    whole = 0
    while whole < len(chunks) and written >= len(chunks[whole]):
        written -= len(chunks[whole])
        whole += 1
    rest = list(chunks[whole:])
    if written:
        rest[0] = memoryview(rest[0])[written:]
    return rest


@dataclass(frozen=True, slots=True)
class FileStat:
    size_bytes: int
    mtime_ms: int


class File(Protocol):
    """An open file. Positions are bytes from its start. Not safe for two writers."""

    path: str

    def write_at(self, buffers: Sequence[Buffer], position: int) -> None:
        """Write all of `buffers` at `position`, or raise OSError; a torn tail may then be on disk."""

    def read_at(self, length: int, position: int) -> Buffer:
        """Read up to `length` bytes into a buffer that the caller owns; fewer only at the end of the file. May block."""

    def read_hot(self, length: int, position: int) -> Buffer | None:
        """Return the bytes that are in the page cache, without waiting for a disk: at least one unless at the end of the file
        (then an empty buffer); None when the pages are cold or the file system cannot tell. The caller owns the buffer."""

    def send_to(self, descriptor: int, length: int, position: int) -> int:
        """Give a non-blocking socket up to `length` bytes, without copying them into the process; returns how many it accepted:
        at least one unless `position` is at the end of the file. May wait for the disk. Raises BlockingIOError."""

    def identity(self) -> Hashable:
        """Return what all open files have in common that are the same file, whatever its name is. Never waits for a disk."""

    def size(self) -> int: ...

    def truncate(self, size_bytes: int) -> None: ...

    def sync(self) -> None:
        """Call fdatasync: content and length are on the disk when it returns."""

    def close(self) -> None: ...


class FileLock(Protocol):
    def release(self) -> None: ...


class FileSystem(Protocol):
    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        """Open for reading and writing; `create` makes the file when missing and never truncates one."""

    def read_bytes(self, path: str) -> bytes: ...

    def write_bytes(self, path: str, content: Buffer) -> None:
        """Create or truncate, write, close. Not atomic, not durable."""

    def replace(self, path: str, content: Buffer, *, is_private: bool = False) -> None:
        """Replace a file atomically and durably: temporary file, fsync, rename over `path`, fsync of the folder. A private file
        is readable only by its owner."""

    def rename(self, source: str, target: str) -> None: ...

    def unlink(self, path: str) -> None:
        """Delete a file; a missing one is no error."""

    def remove_tree(self, path: str) -> None:
        """Delete a folder and its contents; a missing one is no error."""

    def make_directory(self, path: str) -> None:
        """Create a folder and its parents; an existing one is no error."""

    def list_directory(self, path: str) -> list[str]:
        """Return the names in a folder, sorted."""

    def absolute(self, path: str) -> str:
        """Return the absolute path without empty parts. Links and `..` stay, because resolving them needs the disk."""

    def is_directory(self, path: str) -> bool: ...

    def exists(self, path: str) -> bool: ...

    def stat(self, path: str) -> FileStat: ...

    def set_mtime(self, path: str, mtime_ms: int) -> None: ...

    def sync_directory(self, path: str) -> None: ...

    def free_bytes(self, path: str) -> int: ...

    def total_bytes(self, path: str) -> int:
        """Return the size of the file system that contains `path`."""

    def lock(self, path: str) -> FileLock | None:
        """Take an exclusive advisory lock that ends with the process; None when another process has it."""
