"""The operating system's files: the real adapter of `runtime.filesystem`.

Rules: no policy, no cache, no retry except for what POSIX may do partially (short reads and writes).
`read_hot` uses preadv(2) with RWF_NOWAIT: pages in memory come at memory speed, cold ones raise EAGAIN and become None.
A file system that does not know the flag (EOPNOTSUPP) is remembered per file: every read of it is cold from then on.
Such a read would still read ahead for its file, in the caller's time: the kernel finds pages and fills requests for as
much as the device's window, 2 ms where that is 8 MiB. So a file that is read hot is not read ahead by the kernel any more,
but by the threads that read what was cold; and a long read asks for its last byte first, which costs no more than one page.
A long read of which only a part is in memory is cold as a whole: a thread reads it all, and ahead.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import struct
from collections.abc import Sequence

from runtime.filesystem import Buffer, File, FileLock, FileStat, unwritten

# The most buffers one pwritev takes (Linux: UIO_MAXIOV).
MAX_BUFFERS_PER_WRITE = 1024
# Where a kernel or a file system says that it cannot tell hot pages from cold ones.
NOWAIT_UNSUPPORTED = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})
RWF_NOWAIT: int | None = getattr(os, "RWF_NOWAIT", None)
# A read of cold bytes has so many behind them brought in too: a consumer's next read finds them hot. More of it at once is
# felt by everybody else (4 MiB: a tenth faster, p99 of others half as much again).
READ_AHEAD_BYTES = 1024 * 1024
# So much is asked for at once: a kernel may not give up the core within a call, and 2 MiB are felt by others. Each further call
# is one more time that the thread takes the interpreter's lock from the loop: 128 KiB cost a sixth of a cold read's rate.
ADVICE_BYTES = 512 * 1024
# Shorter reads look for something: what follows them may never be asked for.
MIN_READ_BYTES_FOR_AHEAD = 64 * 1024
FILE_MODE = 0o644
PRIVATE_FILE_MODE = 0o600


class OsFile:
    """One descriptor. Closed by its owner; using it afterwards raises OSError(EBADF)."""

    __slots__ = ("_descriptor", "_is_read_hot", "_knows_hot", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        # False until the first hot read, and where there are none.
        self._knows_hot = False
        self._is_read_hot = False

    def __repr__(self) -> str:
        return f"<OsFile {self.path}>"

    def write_at(self, buffers: Sequence[Buffer], position: int) -> None:
        if len(buffers) == 1:
            written = os.pwrite(self._descriptor, buffers[0], position)
            if written == len(buffers[0]):
                return
        elif len(buffers) <= MAX_BUFFERS_PER_WRITE:
            written = os.pwritev(self._descriptor, buffers, position)
            if written == sum(map(len, buffers)):
                return
        else:
            written = 0
        self._write_rest(buffers, written, position)

    def _write_rest(self, buffers: Sequence[Buffer], written: int, position: int) -> None:
        """The slow case: more buffers than one call takes, or a short write (a signal, a disk that is filling up)."""
        rest, position = unwritten(buffers, written), position + written
        while rest:
            written = os.pwritev(self._descriptor, rest[:MAX_BUFFERS_PER_WRITE], position)
            rest, position = unwritten(rest, written), position + written

    def read_at(self, length: int, position: int) -> Buffer:
        if self._is_read_hot and length >= MIN_READ_BYTES_FOR_AHEAD:
            self._read_ahead(position, length + READ_AHEAD_BYTES)
        content = os.pread(self._descriptor, length, position)
        if len(content) == length or not content:
            return content
        parts = [content]
        missing = length - len(content)
        while missing:
            position += len(parts[-1])
            part = os.pread(self._descriptor, missing, position)
            if not part:
                break
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def _read_ahead(self, position: int, length: int) -> None:
        for start in range(position, position + length, ADVICE_BYTES):
            self._advise(start, min(ADVICE_BYTES, position + length - start), os.POSIX_FADV_WILLNEED)

    def read_hot(self, length: int, position: int) -> Buffer | None:
        if not self._knows_hot and not self._begin_hot_reads():
            return None
        assert RWF_NOWAIT is not None
        is_there = 0
        try:
            if length >= MIN_READ_BYTES_FOR_AHEAD:
                is_there = os.preadv(self._descriptor, [bytearray(1)], position + length - 1, RWF_NOWAIT)
            buffer = bytearray(length)
            count = os.preadv(self._descriptor, [buffer], position, RWF_NOWAIT)
        except OSError as error:
            if error.errno in NOWAIT_UNSUPPORTED:
                self._knows_hot = False
            elif error.errno != errno.EAGAIN:
                raise
            return None
        if count == length:
            return buffer
        return None if is_there else memoryview(buffer)[:count]

    def _begin_hot_reads(self) -> bool:
        """Whether there are any. False as well where there turned out to be none."""
        if RWF_NOWAIT is None or self._is_read_hot:
            return False
        self._advise(0, 0, os.POSIX_FADV_RANDOM)
        self._is_read_hot = self._knows_hot = True
        return True

    def _advise(self, position: int, length: int, advice: int) -> None:
        with contextlib.suppress(OSError):  # what is wrong with the file, reads and writes will say
            os.posix_fadvise(self._descriptor, position, length, advice)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def truncate(self, size_bytes: int) -> None:
        os.ftruncate(self._descriptor, size_bytes)

    def sync(self) -> None:
        if self._descriptor < 0:  # of which Python makes a ValueError
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class OsFileLock:
    """An open-file-description lock: keeps out other processes (a JVM's FileLock too) and other opens of this one."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class OsFileSystem:
    """Stateless: any number may exist, on any thread."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        flags = os.O_RDWR if writable else os.O_RDONLY
        if create:
            flags |= os.O_CREAT
        return OsFile(path, os.open(path, flags | os.O_CLOEXEC, FILE_MODE))

    def read_bytes(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def write_bytes(self, path: str, content: Buffer) -> None:
        with open(path, "wb") as file:
            file.write(content)

    def replace(self, path: str, content: Buffer, *, is_private: bool = False) -> None:
        temporary = path + ".tmp"
        with open(temporary, "wb") as file:
            if is_private:  # before it has a content; what a crash left behind may have had another mode
                os.fchmod(file.fileno(), PRIVATE_FILE_MODE)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        self.sync_directory(os.path.dirname(path) or ".")

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_tree(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def list_directory(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def absolute(self, path: str) -> str:
        parts = (path if path.startswith("/") else f"{os.getcwd()}/{path}").split("/")
        return "/" + "/".join(part for part in parts if part not in ("", "."))

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def stat(self, path: str) -> FileStat:
        found = os.stat(path)
        return FileStat(size_bytes=found.st_size, mtime_ms=found.st_mtime_ns // 1_000_000)

    def set_mtime(self, path: str, mtime_ms: int) -> None:
        os.utime(path, ns=(mtime_ms * 1_000_000, mtime_ms * 1_000_000))

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def free_bytes(self, path: str) -> int:
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize

    def total_bytes(self, path: str) -> int:
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize

    def lock(self, path: str) -> FileLock | None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        whole_file = struct.pack("hhlli", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)  # struct flock
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, whole_file)
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return None
            raise
        return OsFileLock(descriptor)
