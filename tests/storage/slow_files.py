"""A file system whose calls take random time in threads, so that what they do falls between each other in many ways."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence

from runtime.disk.filesystem import Buffer, File, FileStat
from runtime.disk.os_filesystem import OsFileSystem
from tests.storage.file_around import FileAround


class Delays:
    """Nothing for the thread that made it, which is the event loop's; most calls of the others take no longer either."""

    def __init__(self, randomness: random.Random, longest_s: float) -> None:
        self._random = randomness
        self._longest_s = longest_s
        self._loop_thread = threading.get_ident()

    def __call__(self) -> None:
        if threading.get_ident() != self._loop_thread and self._random.random() < 0.3:
            time.sleep(self._longest_s * self._random.random() ** 3)


class SlowFile(FileAround):
    def __init__(self, file: File, delay: Delays) -> None:
        super().__init__(file)
        self._delay = delay

    def write_at(self, buffers: Sequence[Buffer], position: int) -> None:
        self._delay()
        self._file.write_at(buffers, position)

    def read_at(self, length: int, position: int) -> Buffer:
        self._delay()
        return self._file.read_at(length, position)

    def size(self) -> int:
        self._delay()
        return self._file.size()

    def truncate(self, size_bytes: int) -> None:
        self._delay()
        self._file.truncate(size_bytes)

    def sync(self) -> None:
        self._delay()
        self._file.sync()


class SlowFileSystem(OsFileSystem):
    def __init__(self, delay: Delays) -> None:
        self._delay = delay

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        self._delay()
        return SlowFile(super().open(path, create=create, writable=writable), self._delay)

    def read_bytes(self, path: str) -> bytes:
        self._delay()
        return super().read_bytes(path)

    def write_bytes(self, path: str, content: Buffer) -> None:
        self._delay()
        super().write_bytes(path, content)

    def replace(self, path: str, content: Buffer, *, is_private: bool = False) -> None:
        self._delay()
        super().replace(path, content, is_private=is_private)

    def rename(self, source: str, target: str) -> None:
        self._delay()
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self._delay()
        super().unlink(path)

    def list_directory(self, path: str) -> list[str]:
        self._delay()
        return super().list_directory(path)

    def exists(self, path: str) -> bool:
        is_there = super().exists(path)
        self._delay()  # what it has seen may have changed by now
        return is_there

    def stat(self, path: str) -> FileStat:
        self._delay()
        return super().stat(path)

    def sync_directory(self, path: str) -> None:
        self._delay()
        super().sync_directory(path)
