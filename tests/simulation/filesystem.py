"""The disk door, part one, in memory: files that forget what was not fsynced when the power goes.

`SimStorage` is a machine's disk and outlives the processes on it; `boot` gives a process its `FileSystem`.
- A process crash keeps the page cache: everything written stays, open files and locks are gone.
- A power crash keeps what was synced. Of a file's later writes each page is kept or lost at random, its size falls
  anywhere between the synced and the written one; of later creations, renames and removals a random beginning is kept,
  in order, on each of `mounts` by itself. `File.sync` makes content durable, `sync_directory` the names in it.
Faults: a capacity (a write that exceeds it is cut short and raises ENOSPC), EIO by path, cold and short hot reads, and
the end of the process in the middle of its n-th call (`strike_after`).
`watch` is told before each change, so that a copy of the disk at that moment (`fork`) can crash elsewhere.
"""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NoReturn

from runtime.disk.filesystem import Buffer, File, FileLock, FileStat
from tests.simulation.clock import SimClock
from tests.simulation.loop import SimLoop
from tests.simulation.process import Killed

PAGE_BYTES = 4096
UNLIMITED_BYTES = 1 << 40  # what a disk without a set capacity says it has


# The same few hundred paths come again and again.
_parent = lru_cache(maxsize=4096)(posixpath.dirname)


@lru_cache(maxsize=4096)
def _absolute(path: str) -> str:
    return posixpath.normpath(posixpath.join("/", path))


@dataclass(slots=True, eq=False)
class Inode:
    content: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    dirty: set[int] = field(default_factory=set)  # pages
    mtime_ms: int = 0


@dataclass(slots=True)
class Names:
    """The tree: files by path, and the directories."""

    files: dict[str, Inode] = field(default_factory=dict)
    directories: set[str] = field(default_factory=lambda: {"/"})

    def copy(self) -> Names:
        return Names(dict(self.files), set(self.directories))

    def apply(self, change: Change) -> None:
        kind, path, target, inode = change.kind, change.path, change.target, change.inode
        if kind == "create":
            assert inode is not None
            self.files[path] = inode
        elif kind == "unlink":
            self.files.pop(path, None)
        elif kind == "mkdir":
            self.directories.add(path)
        elif kind == "rmdir":
            self.directories.discard(path)
        elif path in self.files:
            self.files[target] = self.files.pop(path)
        elif path in self.directories:
            self._rename_directory(path, target)

    def _rename_directory(self, source: str, target: str) -> None:
        prefix = source + "/"
        for path in [path for path in self.files if path.startswith(prefix)]:
            self.files[target + path[len(source) :]] = self.files.pop(path)
        for path in [path for path in self.directories if path == source or path.startswith(prefix)]:
            self.directories.discard(path)
            self.directories.add(target + path[len(source) :])

    def drop_files_in(self, directory: str) -> None:
        self.files = {path: inode for path, inode in self.files.items() if _parent(path) != directory}

    def drop_orphans(self) -> None:
        """What stands in a directory that was lost is lost too."""
        self.directories = {path for path in self.directories if self._is_reachable(path)}
        self.files = {path: inode for path, inode in self.files.items() if _parent(path) in self.directories}

    def _is_reachable(self, path: str) -> bool:
        while path not in ("/", ""):
            if path not in self.directories:
                return False
            path = _parent(path)
        return True


@dataclass(frozen=True, slots=True)
class Change:
    """One change of names that the directory's fsync has not made durable yet."""

    kind: str  # create, unlink, mkdir, rmdir, rename
    path: str
    target: str = ""
    inode: Inode | None = None

    def touches(self, directory: str) -> bool:
        return _parent(self.path) == directory or (bool(self.target) and _parent(self.target) == directory)

    def moved(self, source: str, target: str) -> Change:
        """The same change, after its directory has got another name."""

        def path_of(path: str) -> str:
            return target + path[len(source) :] if path.startswith(source + "/") else path

        return replace(self, path=path_of(self.path), target=path_of(self.target))


class SimStorage:
    """One machine's disk."""

    def __init__(self, loop: SimLoop, clock: SimClock, capacity_bytes: int | None = None) -> None:
        self.loop = loop
        self.clock = clock
        self.capacity_bytes = capacity_bytes
        self.cold_probability = 0.0
        self.short_probability = 0.0
        self.mounts: tuple[str, ...] = ("/",)  # each a disk; all of them have the one capacity
        self.names = Names()
        self._durable_names = Names()
        self._changes: list[Change] = []
        self._process: SimFileSystem | None = None
        self._failing: dict[str, int] = {}  # path prefix -> errno
        self._strike: Callable[[], None] | None = None
        self._calls_to_strike = 0
        self.watch: Callable[[str, str], None] | None = None

    def fork(self) -> SimStorage:
        """The same disk in the same state, page cache included."""
        copies: dict[int, Inode] = {}

        def copy_of(inode: Inode) -> Inode:
            if id(inode) not in copies:
                copies[id(inode)] = Inode(bytearray(inode.content), inode.durable, set(inode.dirty), inode.mtime_ms)
            return copies[id(inode)]

        def copy_names(names: Names) -> Names:
            return Names({path: copy_of(inode) for path, inode in names.files.items()}, set(names.directories))

        other = SimStorage(self.loop, self.clock, self.capacity_bytes)
        other.mounts = self.mounts
        other.cold_probability, other.short_probability = self.cold_probability, self.short_probability
        other.names, other._durable_names = copy_names(self.names), copy_names(self._durable_names)
        other._changes = [
            change if change.inode is None else replace(change, inode=copy_of(change.inode)) for change in self._changes
        ]
        return other

    @property
    def used_bytes(self) -> int:
        return sum(len(inode.content) for inode in self.names.files.values())

    def excess_bytes(self, grows_bytes: int) -> int:
        """How many of so many more bytes the disk cannot hold."""
        if self.capacity_bytes is None or not grows_bytes:
            return 0
        return min(max(self.used_bytes + grows_bytes - self.capacity_bytes, 0), grows_bytes)

    @property
    def free_bytes(self) -> int:
        return max(self.total_bytes - self.used_bytes, 0)

    @property
    def total_bytes(self) -> int:
        return UNLIMITED_BYTES if self.capacity_bytes is None else self.capacity_bytes

    def contents(self, *, durable: bool) -> list[tuple[str, bytes]]:
        """Every file, as it is or as a loss of power is sure to leave it."""
        names = self._durable_names if durable else self.names
        return [
            (path, inode.durable if durable else bytes(inode.content)) for path, inode in sorted(names.files.items())
        ]

    def boot(self) -> SimFileSystem:
        """The file system of a new process on this machine; the one before must have crashed or closed."""
        self.crash_process()
        self._process = SimFileSystem(self)
        return self._process

    def fail(self, path_prefix: str, error: int = errno.EIO) -> None:
        """Every call on paths below raises `error` until `repair`."""
        self._failing[path_prefix] = error

    def repair(self) -> None:
        self._failing.clear()

    def strike_after(self, calls: int, strike: Callable[[], None]) -> None:
        """`strike` ends the process in the middle of its call number `calls` from now; a write is then torn."""
        self._calls_to_strike, self._strike = calls, strike

    def is_striking(self) -> bool:
        """Whether this call is the one. To be asked once a call."""
        if self._strike is None:
            return False
        self._calls_to_strike -= 1
        return self._calls_to_strike <= 0

    def strike(self) -> NoReturn:
        strike, self._strike = self._strike, None
        assert strike is not None
        strike()
        raise Killed("killed in a call to the file system")

    def check(self, path: str) -> None:
        for prefix, error in self._failing.items():
            if path.startswith(prefix):
                raise OSError(error, os.strerror(error), path)

    def crash_process(self) -> None:
        if self._process is not None:
            self._process.is_alive = False
            self._process = None
        self._strike = None

    def crash_power(self) -> None:
        self.crash_process()
        rng = self.loop.random
        names = self._durable_names.copy()
        kept = 0
        for mount in self.mounts:
            changes = [change for change in self._changes if change.path.startswith(mount)]
            count = rng.randint(0, len(changes))
            for change in changes[:count]:
                names.apply(change)
            kept += count
        names.drop_orphans()
        for path in sorted(names.files):
            self._lose_unsynced(names.files[path])
        self.loop.note(f"power crash: {kept} of {len(self._changes)} changes of names kept")
        self.names, self._durable_names, self._changes = names, names.copy(), []

    def _lose_unsynced(self, inode: Inode) -> None:
        rng = self.loop.random
        written, synced = bytes(inode.content), inode.durable
        shortest, longest = sorted((len(written), len(synced)))
        size = rng.choice((shortest, longest, rng.randint(shortest, longest)))
        content = bytearray(max(size, len(synced)))
        content[: len(synced)] = synced
        mode = rng.choice(("none", "all", "some"))
        for page in sorted(inode.dirty):
            if mode == "all" or (mode == "some" and rng.random() < 0.5):
                start = page * PAGE_BYTES
                part = written[start : start + PAGE_BYTES]
                content[start : start + len(part)] = part
        del content[size:]
        inode.content = content
        inode.durable = bytes(content)
        inode.dirty.clear()

    # --- for the process ---

    def tell(self, kind: str, path: str) -> None:
        """A change of this kind is about to happen."""
        if self.watch is not None:
            self.watch(kind, path)

    def change(self, change: Change) -> None:
        self.tell(change.kind, change.path)
        self.names.apply(change)
        self._changes.append(change)

    def sync_names(self, directory: str) -> None:
        """The names in `directory`, and the directory itself, survive from now on."""
        self.tell("sync names", directory)
        rest = []
        # With a new directory goes what had its name before.
        ancestors = {
            change.path
            for change in self._changes
            if change.kind == "mkdir" and (directory == change.path or directory.startswith(change.path + "/"))
        }
        for change in self._changes:
            if change.touches(directory) or change.path in ancestors:
                if change.kind == "rename" and change.path in self._durable_names.directories:
                    rest = [each.moved(change.path, change.target) for each in rest]
                elif change.kind == "rmdir":  # with all that was in it
                    rest = [each for each in rest if not each.path.startswith(change.path + "/")]
                    self._durable_names.drop_files_in(change.path)
                self._durable_names.apply(change)
            else:
                rest.append(change)
        self._changes = rest

    def sync_inode(self, inode: Inode, path: str) -> None:
        self.tell("sync", path)
        inode.durable = bytes(inode.content)
        inode.dirty.clear()


class SimFile:
    def __init__(self, system: SimFileSystem, path: str, inode: Inode, *, writable: bool) -> None:
        self.path = path
        self._system = system
        self._storage = system.storage
        self._inode = inode
        self._writable = writable
        self._is_open = True

    def _check(self) -> None:
        self._check_open()
        if self._storage.is_striking():
            self._storage.strike()

    def _check_open(self) -> None:
        if not self._is_open or not self._system.is_alive:
            raise OSError(errno.EBADF, "file is closed", self.path)
        self._storage.check(self.path)

    def write_at(self, buffers: Sequence[Buffer], position: int) -> None:
        self._check_open()
        if not self._writable:
            raise OSError(errno.EBADF, "not open for writing", self.path)
        data = b"".join(buffers)
        is_striking = self._storage.is_striking()
        if is_striking:
            data = data[: self._storage.loop.random.randint(0, len(data))]
        self._storage.tell("write", self.path)
        if self._storage.watch is not None and len(data) > 1:
            self._write(data[: self._storage.loop.random.randrange(1, len(data))], position)
            self._storage.tell("rest of a write", self.path)
        self._write(data, position)
        if is_striking:
            self._storage.strike()

    def _write(self, data: bytes, position: int) -> None:
        content = self._inode.content
        grows = max(position + len(data) - len(content), 0)
        fits = len(data) - self._storage.excess_bytes(grows)
        if len(content) < position:
            content.extend(bytes(position - len(content)))
        content[position : position + fits] = data[:fits]
        if fits:
            self._inode.dirty.update(range(position // PAGE_BYTES, (position + fits - 1) // PAGE_BYTES + 1))
        self._inode.mtime_ms = self._storage.clock.wall_ms()
        if fits < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)

    def read_at(self, length: int, position: int) -> bytes:
        self._check()
        return bytes(self._inode.content[position : position + length])

    def read_hot(self, length: int, position: int) -> Buffer | None:
        self._check()
        rng = self._storage.loop.random
        if self._storage.cold_probability and rng.random() < self._storage.cold_probability:
            return None
        data = self._inode.content[position : position + length]
        if len(data) > 1 and self._storage.short_probability and rng.random() < self._storage.short_probability:
            del data[rng.randint(1, len(data)) :]
        return data

    def send_to(self, descriptor: int, length: int, position: int) -> int:
        raise OSError(errno.ENOTSOCK, "simulated connections read what they send", self.path)

    def identity(self) -> Hashable:
        return id(self._inode)

    def pages(self, length: int, position: int) -> bytes:
        """What a socket finds that sends these bytes now. A range keeps its file open, as long as its process lives."""
        assert self._is_open or not self._system.is_alive, f"{self.path} was closed while it was sent"
        return bytes(self._inode.content[position : position + length])

    def size(self) -> int:
        self._check()
        return len(self._inode.content)

    def truncate(self, size_bytes: int) -> None:
        self._check()
        self._storage.tell("truncate", self.path)
        content = self._inode.content
        if size_bytes < len(content):
            del content[size_bytes:]
            self._inode.dirty.add(size_bytes // PAGE_BYTES)
        else:
            content.extend(bytes(size_bytes - len(content)))
        self._inode.mtime_ms = self._storage.clock.wall_ms()

    def sync(self) -> None:
        self._check()
        self._storage.sync_inode(self._inode, self.path)

    def close(self) -> None:
        self._is_open = False


class SimFileLock:
    def __init__(self, system: SimFileSystem, path: str) -> None:
        self._system = system
        self._path = path

    def release(self) -> None:
        self._system.locked.discard(self._path)


class SimFileSystem:
    """The `FileSystem` port of one process. Paths are absolute, or taken from the root."""

    def __init__(self, storage: SimStorage) -> None:
        self.storage = storage
        self.is_alive = True
        self.locked: set[str] = set()

    def _path(self, path: str) -> str:
        if not self.is_alive:
            raise OSError(errno.EBADF, "the process has crashed", path)
        path = _absolute(path)
        self.storage.check(path)
        if self.storage.is_striking():
            self.storage.strike()
        return path

    def _inode(self, path: str) -> Inode:
        inode = self.storage.names.files.get(path)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return inode

    def _create(self, path: str) -> Inode:
        if _parent(path) not in self.storage.names.directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        inode = Inode(mtime_ms=self.storage.clock.wall_ms())
        self.storage.change(Change("create", path, inode=inode))
        return inode

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        path = self._path(path)
        if create and path not in self.storage.names.files:
            self._create(path)
        return SimFile(self, path, self._inode(path), writable=writable)

    def read_bytes(self, path: str) -> bytes:
        return bytes(self._inode(self._path(path)).content)

    def write_bytes(self, path: str, content: Buffer) -> None:
        file = self.open(path, create=True)
        file.truncate(0)
        file.write_at([content], 0)
        file.close()

    def replace(self, path: str, content: Buffer, *, is_private: bool = False) -> None:
        path = self._path(path)
        temporary = path + ".tmp"
        self.write_bytes(temporary, content)
        self.storage.sync_inode(self._inode(temporary), temporary)
        self.rename(temporary, path)
        self.sync_directory(_parent(path))

    def rename(self, source: str, target: str) -> None:
        source, target = self._path(source), self._path(target)
        names = self.storage.names
        if source not in names.files and source not in names.directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        if _parent(target) not in names.directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), target)
        if source in names.directories and self.list_directory_if_any(target):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), target)
        self.storage.change(Change("rename", source, target))

    def unlink(self, path: str) -> None:
        path = self._path(path)
        if path in self.storage.names.files:
            self.storage.change(Change("unlink", path))

    def remove_tree(self, path: str) -> None:
        path = self._path(path)
        names = self.storage.names
        for file in sorted(one for one in names.files if one.startswith(path + "/")):
            self.storage.change(Change("unlink", file))
        inside = sorted(one for one in names.directories if one == path or one.startswith(path + "/"))
        for directory in reversed(inside):
            self.storage.change(Change("rmdir", directory))

    def make_directory(self, path: str) -> None:
        path = self._path(path)
        missing = []
        while path not in self.storage.names.directories:
            if path in self.storage.names.files:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            missing.append(path)
            path = _parent(path)
        for directory in reversed(missing):
            self.storage.change(Change("mkdir", directory))

    def list_directory(self, path: str) -> list[str]:
        path = self._path(path)
        if path not in self.storage.names.directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self.list_directory_if_any(path)

    def list_directory_if_any(self, path: str) -> list[str]:
        names = self.storage.names
        everything = [*names.files, *names.directories]
        return sorted(posixpath.basename(one) for one in everything if _parent(one) == path and one != "/")

    def is_directory(self, path: str) -> bool:
        return self._path(path) in self.storage.names.directories

    def exists(self, path: str) -> bool:
        path = self._path(path)
        return path in self.storage.names.files or path in self.storage.names.directories

    def stat(self, path: str) -> FileStat:
        inode = self._inode(self._path(path))
        return FileStat(len(inode.content), inode.mtime_ms)

    def set_mtime(self, path: str, mtime_ms: int) -> None:
        self._inode(self._path(path)).mtime_ms = mtime_ms

    def sync_directory(self, path: str) -> None:
        path = self._path(path)
        if path not in self.storage.names.directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self.storage.sync_names(path)

    def absolute(self, path: str) -> str:
        return "/" + "/".join(part for part in path.split("/") if part)

    def free_bytes(self, path: str) -> int:
        self._path(path)
        return self.storage.free_bytes

    def total_bytes(self, path: str) -> int:
        self._path(path)
        return self.storage.total_bytes

    def lock(self, path: str) -> FileLock | None:
        path = self._path(path)
        if path in self.locked:
            return None
        if path not in self.storage.names.files:
            self._create(path)
        self.locked.add(path)
        return SimFileLock(self, path)
