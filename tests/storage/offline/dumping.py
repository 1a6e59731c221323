"""What the tests of `dump-log` share: files that are made here, and what is printed of them."""

from __future__ import annotations

from pathlib import Path

from protocol.records.record import Record
from runtime.disk.os_filesystem import OsFileSystem
from storage.offline.dump import Dump, DumpOptions

FILESYSTEM = OsFileSystem()


def dumped(*paths: Path | str, **options: object) -> tuple[list[str], list[str], int]:
    """(what is printed, the complaints, how much was wrong)."""
    lines: list[str] = []
    complaints: list[str] = []
    dump = Dump(FILESYSTEM, DumpOptions(**options), lines.append, complaints.append)  # type: ignore[arg-type]
    for path in paths:
        dump.path(str(path))
    return lines, complaints, dump.finish()


def batches(folder: Path, *contents: bytes, name: str = "00000000000000000000.log") -> Path:
    path = folder / name
    path.write_bytes(b"".join(contents))
    return path


def records(*values: bytes | None, offset: int = 0) -> list[Record]:
    return [Record(offset + at, 1000 + at, b"k", value, [("h", None)]) for at, value in enumerate(values)]
