from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runtime.disk.os_filesystem import (
    ADVICE_BYTES,
    MIN_READ_BYTES_FOR_AHEAD,
    READ_AHEAD_BYTES,
    RWF_NOWAIT,
    OsFileSystem,
)


@pytest.fixture
def fs() -> OsFileSystem:
    return OsFileSystem()


def test_writes_land_where_they_should_and_are_hot_at_once(fs: OsFileSystem, tmp_path: Path) -> None:
    file = fs.open(str(tmp_path / "log"), create=True)
    file.write_at([b"abc", memoryview(b"defg"), bytearray(b"")], 0)
    file.write_at([b"XY"], 10)
    assert file.size() == 12
    assert file.read_at(100, 0) == b"abcdefg\0\0\0XY"
    assert bytes(file.read_hot(3, 2) or b"") == b"cde"
    assert bytes(file.read_hot(50, 10) or b"") == b"XY"
    at_the_end = file.read_hot(5, 12)
    assert at_the_end is not None and len(at_the_end) == 0
    file.truncate(4)
    file.sync()
    assert file.read_at(100, 0) == b"abcd"
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.size()


def test_more_buffers_than_one_call_takes(fs: OsFileSystem, tmp_path: Path) -> None:
    file = fs.open(str(tmp_path / "log"), create=True)
    parts = [bytes([i % 251]) * (i % 3) for i in range(2500)]
    file.write_at(parts, 5)
    assert file.read_at(10_000, 5) == b"".join(parts)
    file.close()


def test_short_writes_are_continued(fs: OsFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwritev

    def short(descriptor: int, buffers: list[bytes], position: int) -> int:
        return real(descriptor, [bytes(memoryview(buffers[0])[:3])], position)

    monkeypatch.setattr(os, "pwritev", short)
    file = fs.open(str(tmp_path / "log"), create=True)
    file.write_at([b"0123456789", b"abcdefgh"], 2)
    assert file.read_at(100, 2) == b"0123456789abcdefgh"
    file.close()


@pytest.mark.parametrize(("error", "stays_cold"), [(errno.EAGAIN, False), (errno.EOPNOTSUPP, True)])
def test_what_is_not_in_memory_is_cold(
    fs: OsFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, stays_cold: bool
) -> None:
    file = fs.open(str(tmp_path / "log"), create=True)
    file.write_at([b"abc"], 0)

    def refuse(*_: object) -> int:
        raise OSError(error, os.strerror(error))

    with monkeypatch.context() as patch:
        patch.setattr(os, "preadv", refuse)
        assert file.read_hot(3, 0) is None
    assert (file.read_hot(3, 0) is None) == stays_cold
    file.close()


def advice_given(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """What the kernel is told from now on: (position, length, advice)."""
    given: list[tuple[int, int, int]] = []
    real = os.posix_fadvise

    def note(descriptor: int, position: int, length: int, advice: int) -> None:
        given.append((position, length, advice))
        real(descriptor, position, length, advice)

    monkeypatch.setattr(os, "posix_fadvise", note)
    return given


def assert_read_ahead(given: list[tuple[int, int, int]], position: int, length: int) -> None:
    """A read's bytes and those behind it were asked for, in pieces, one behind the other."""
    at = position
    for start, piece, advice in given:
        assert (start, advice) == (at, os.POSIX_FADV_WILLNEED)
        assert piece <= ADVICE_BYTES
        at += piece
    assert at == position + length + READ_AHEAD_BYTES


@pytest.mark.skipif(RWF_NOWAIT is None, reason="hot reads are Linux's")
def test_a_file_that_is_read_hot_is_read_ahead_by_the_readers_of_cold_bytes_alone(
    fs: OsFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = advice_given(monkeypatch)
    file = fs.open(str(tmp_path / "log"), create=True)
    content = os.urandom(3 * MIN_READ_BYTES_FOR_AHEAD)
    file.write_at([content], 0)
    assert file.read_at(len(content), 0) == content
    assert given == []  # as by recovery: the kernel sees that it goes on, and reads ahead
    for _ in range(2):
        assert file.read_hot(5, 0) == content[:5]
    assert given == [(0, 0, os.POSIX_FADV_RANDOM)]
    assert file.read_at(MIN_READ_BYTES_FOR_AHEAD - 1, 7) == content[7 : MIN_READ_BYTES_FOR_AHEAD + 6]
    assert len(given) == 1
    assert file.read_at(MIN_READ_BYTES_FOR_AHEAD, 7) == content[7 : MIN_READ_BYTES_FOR_AHEAD + 7]
    assert_read_ahead(given[1:], 7, MIN_READ_BYTES_FOR_AHEAD)
    file.close()


@pytest.mark.skipif(RWF_NOWAIT is None, reason="hot reads are Linux's")
def test_what_is_read_ahead_is_asked_for_in_pieces(
    fs: OsFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = advice_given(monkeypatch)
    file = fs.open(str(tmp_path / "log"), create=True)
    content = os.urandom(2 * ADVICE_BYTES + 5)
    file.write_at([content], 0)
    assert file.read_hot(5, 0) == content[:5]
    assert file.read_at(len(content), 0) == content
    assert_read_ahead(given[1:], 0, len(content))
    at_the_end = file.read_at(2 * ADVICE_BYTES, ADVICE_BYTES)
    assert bytes(at_the_end) == content[ADVICE_BYTES:]
    file.close()


@pytest.mark.skipif(RWF_NOWAIT is None, reason="hot reads are Linux's")
def test_a_hot_read_brings_in_no_more_than_it_was_asked_for(fs: OsFileSystem, tmp_path: Path) -> None:
    path = tmp_path / "log"
    piece_bytes, pieces = 128 * 1024, 64
    path.write_bytes(os.urandom(piece_bytes * pieces))
    file, seen = fs.open(str(path)), fs.open(str(path))
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
    far_ahead = piece_bytes * (pieces - 1)
    if seen.read_hot(1, far_ahead):
        pytest.skip("this file system keeps its pages in memory")
    for at in range(0, piece_bytes * pieces // 2, piece_bytes):
        deadline = time.monotonic() + 10
        while not file.read_hot(MIN_READ_BYTES_FOR_AHEAD - 1, at) and time.monotonic() < deadline:
            time.sleep(0.001)
    assert file.read_hot(piece_bytes, piece_bytes * (pieces // 2 + 2)) is None
    assert not seen.read_hot(1, piece_bytes * (pieces // 2 + 2))
    assert not seen.read_hot(piece_bytes, piece_bytes * (pieces // 2 + 1))
    file.close()
    seen.close()


@pytest.mark.skipif(RWF_NOWAIT is None, reason="hot reads are Linux's")
def test_a_long_read_learns_from_one_byte_that_it_is_cold(
    fs: OsFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = fs.open(str(tmp_path / "log"), create=True)
    content = os.urandom(2 * MIN_READ_BYTES_FOR_AHEAD)
    file.write_at([content], 0)
    assert file.read_hot(MIN_READ_BYTES_FOR_AHEAD, 3) == content[3 : MIN_READ_BYTES_FOR_AHEAD + 3]
    at_the_end = file.read_hot(len(content), MIN_READ_BYTES_FOR_AHEAD)
    assert at_the_end is not None
    assert bytes(at_the_end) == content[MIN_READ_BYTES_FOR_AHEAD:]
    asked: list[tuple[int, int]] = []

    def preadv(_: int, buffers: list[bytearray], position: int, __: int) -> int:
        asked.append((position, len(buffers[0])))
        raise BlockingIOError(errno.EAGAIN, "not in memory")

    monkeypatch.setattr(os, "preadv", preadv)
    assert file.read_hot(MIN_READ_BYTES_FOR_AHEAD, 3) is None
    assert asked == [(MIN_READ_BYTES_FOR_AHEAD + 2, 1)]
    file.close()


@pytest.mark.skipif(RWF_NOWAIT is None, reason="hot reads are Linux's")
def test_a_long_read_that_is_in_memory_in_part_is_cold(
    fs: OsFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = fs.open(str(tmp_path / "log"), create=True)
    content = os.urandom(MIN_READ_BYTES_FOR_AHEAD)
    file.write_at([content], 0)
    real = os.preadv

    def in_part(descriptor: int, buffers: list[bytearray], position: int, flags: int) -> int:
        return min(real(descriptor, buffers, position, flags), 4096)

    monkeypatch.setattr(os, "preadv", in_part)
    assert file.read_hot(MIN_READ_BYTES_FOR_AHEAD, 0) is None
    beginning = file.read_hot(MIN_READ_BYTES_FOR_AHEAD - 1, 0)
    assert beginning is not None
    assert bytes(beginning) == content[:4096]
    file.close()


def test_other_read_errors_are_raised(fs: OsFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = fs.open(str(tmp_path / "log"), create=True)

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "bad disk")

    monkeypatch.setattr(os, "preadv", fail)
    with pytest.raises(OSError, match="bad disk"):
        file.read_hot(3, 0)
    file.close()


def test_open_creates_only_when_asked_and_never_truncates(fs: OsFileSystem, tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    with pytest.raises(FileNotFoundError):
        fs.open(path)
    fs.write_bytes(path, b"kept")
    fs.open(path, create=True).close()
    reader = fs.open(path, writable=False)
    assert reader.read_at(10, 0) == b"kept"
    with pytest.raises(OSError, match="Bad file descriptor"):
        reader.write_at([b"x"], 0)
    reader.close()


def test_replace_leaves_no_temporary_file(fs: OsFileSystem, tmp_path: Path) -> None:
    path = str(tmp_path / "checkpoint")
    fs.replace(path, b"one")
    fs.replace(path, b"two")
    assert fs.read_bytes(path) == b"two"
    assert fs.list_directory(str(tmp_path)) == ["checkpoint"]


def test_a_private_file_is_its_owners_alone(fs: OsFileSystem, tmp_path: Path) -> None:
    path = tmp_path / "secret"
    (tmp_path / "secret.tmp").write_bytes(b"left by a crash, readable by all")
    fs.replace(str(path), b"one", is_private=True)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"one", 0o600)


def test_folders(fs: OsFileSystem, tmp_path: Path) -> None:
    folder = str(tmp_path / "a" / "b")
    fs.make_directory(folder)
    fs.make_directory(folder)
    fs.write_bytes(folder + "/z", b"1")
    fs.write_bytes(folder + "/y", b"22")
    assert fs.list_directory(folder) == ["y", "z"]
    assert fs.is_directory(folder) and not fs.is_directory(folder + "/y")
    fs.rename(folder, str(tmp_path / "c"))
    assert not fs.exists(folder)
    fs.set_mtime(str(tmp_path / "c" / "y"), 1_600_000_000_123)
    stat = fs.stat(str(tmp_path / "c" / "y"))
    assert (stat.size_bytes, stat.mtime_ms) == (2, 1_600_000_000_123)
    fs.sync_directory(str(tmp_path / "c"))
    fs.unlink(str(tmp_path / "c" / "nothing"))
    fs.remove_tree(str(tmp_path / "c"))
    fs.remove_tree(str(tmp_path / "c"))
    assert fs.free_bytes(str(tmp_path)) > 0


OTHER_PROCESS = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.exit(7)
"""


def test_the_lock_keeps_out_this_process_and_others_with_posix_locks(fs: OsFileSystem, tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    lock = fs.lock(path)
    assert lock is not None
    assert fs.lock(path) is None
    other = [sys.executable, "-c", OTHER_PROCESS, path]
    assert subprocess.run(other, check=False).returncode == 7
    lock.release()
    lock.release()
    assert subprocess.run(other, check=False).returncode == 0
    again = fs.lock(path)
    assert again is not None
    again.release()
