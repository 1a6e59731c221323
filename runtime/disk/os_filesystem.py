"""The operating system's files: the real adapter of `runtime.disk.filesystem`.

Rules: no policy, no cache, no retry except for partial operations that POSIX allows (short reads and writes).
`read_hot` uses preadv(2) with RWF_NOWAIT: pages in memory are read at memory speed, cold ones raise EAGAIN and become None.
A file system that does not support the flag (EOPNOTSUPP) is remembered per file: every further read of it is cold.
Such a read would still start the kernel's read-ahead, in the caller's time: the kernel allocates pages and fills requests
for the device's window, 2 ms where that is 8 MiB. So the kernel's read-ahead is off for a file that is read hot, and the
threads that do its cold reads read ahead; and a long read first reads its last byte, which costs at most one page.
A long read of which only a part is in memory is cold as a whole: a thread reads all of it, and ahead.
What sendfile(2) cannot send is copied.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import struct
from collections.abc import Hashable, Sequence

from runtime.disk.filesystem import Buffer, File, FileLock, FileStat, unwritten

# The maximum number of buffers of one pwritev (Linux: UIO_MAXIOV).
MAX_BUFFERS_PER_WRITE = 1024
# The errors of a kernel or a file system that does not support RWF_NOWAIT.
NOWAIT_UNSUPPORTED = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})
# The errors of sendfile(2) for a file that only read(2) can read.
SENDFILE_UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
# The bytes of such a file that are copied at a time.
COPIED_BYTES = 128 * 1024
RWF_NOWAIT: int | None = getattr(os, "RWF_NOWAIT", None)
# The bytes that a cold read reads ahead, so that a consumer's next read is hot. More at a time slows other requests (4 MiB: a
# tenth faster, p99 of others half as much again).
READ_AHEAD_BYTES = 1024 * 1024
# The bytes of one call for read-ahead: a kernel may not yield the core within a call, and 2 MiB slow other requests. In each
# further call the thread takes the interpreter's lock from the loop once more: 128 KiB cost a sixth of a cold read's rate.
ADVICE_BYTES = 512 * 1024
# Shorter reads are searches: the bytes that follow may never be read.
MIN_READ_BYTES_FOR_AHEAD = 64 * 1024
FILE_MODE = 0o644
PRIVATE_FILE_MODE = 0o600


class OsFile:
    """An open file with one descriptor. Its owner closes it; using it afterwards raises OSError(EBADF)."""

    __slots__ = ("_descriptor", "_is_read_hot", "_knows_hot", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        # False until the first hot read, and where hot reads are not supported.
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
        """Write the remaining bytes: more buffers than one call accepts, or a short write (a signal, a disk almost full)."""
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
        """Prepare the file for hot reads; return False where they are not supported, or failed before."""
        if RWF_NOWAIT is None or self._is_read_hot:
            return False
        self._advise(0, 0, os.POSIX_FADV_RANDOM)
        self._is_read_hot = self._knows_hot = True
        return True

    def _advise(self, position: int, length: int, advice: int) -> None:
        with contextlib.suppress(OSError):  # reads and writes will report an error of the file
            os.posix_fadvise(self._descriptor, position, length, advice)

    def send_to(self, descriptor: int, length: int, position: int) -> int:
        try:
            return os.sendfile(descriptor, self._descriptor, position, length)
        except OSError as error:
            if error.errno not in SENDFILE_UNSUPPORTED:
                raise
        content = os.pread(self._descriptor, min(length, COPIED_BYTES), position)
        return os.write(descriptor, content) if content else 0

    def identity(self) -> Hashable:
        found = os.fstat(self._descriptor)
        return found.st_dev, found.st_ino

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def truncate(self, size_bytes: int) -> None:
        os.ftruncate(self._descriptor, size_bytes)

    def sync(self) -> None:
        if self._descriptor < 0:  # for which Python raises a ValueError
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class OsFileLock:
    """An open-file-description lock: excludes other processes (also a JVM's FileLock) and other opens in this one."""

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
            if is_private:  # before it has content; a file left by a crash may have another mode
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
