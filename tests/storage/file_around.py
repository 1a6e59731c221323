"""A file that hands everything on to another one: what a test does otherwise, it overrides."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from runtime.disk.filesystem import Buffer, File


class FileAround:
    def __init__(self, file: File) -> None:
        self.path = file.path
        self._file = file

    def write_at(self, buffers: Sequence[Buffer], position: int) -> None:
        self._file.write_at(buffers, position)

    def read_at(self, length: int, position: int) -> Buffer:
        return self._file.read_at(length, position)

    def read_hot(self, length: int, position: int) -> Buffer | None:
        return self._file.read_hot(length, position)

    def send_to(self, descriptor: int, length: int, position: int) -> int:
        return self._file.send_to(descriptor, length, position)

    def identity(self) -> Hashable:
        return self._file.identity()

    def size(self) -> int:
        return self._file.size()

    def truncate(self, size_bytes: int) -> None:
        self._file.truncate(size_bytes)

    def sync(self) -> None:
        self._file.sync()

    def close(self) -> None:
        self._file.close()
