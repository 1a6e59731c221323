"""Holds the dependencies of a log, which its owner provides: IO of its log directory, and callbacks for failures."""

from __future__ import annotations

import errno
from asyncio import Lock
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from runtime.clock import Clock
from runtime.disk.disk_queue import DiskQueue, Readers
from runtime.disk.filesystem import FileSystem
from runtime.randomness import Randomness
from runtime.tasks import TaskScope
from storage.disk_use import DiskUse
from storage.free_space import FreeSpace
from storage.segments.open_segments import OpenSegments
from storage.segments.ranges_in_flight import RangesInFlight


def _ignore_less_room(_directory: str) -> None:
    """Default of `on_less_room`, for a log that has its directory for itself."""


def _ignore_no_room(_directory: str, _error: OSError) -> None:
    """Default of `on_no_room`, for a log whose directory nothing monitors."""


async def _skip_checkpoint(_directory: str) -> OSError | None:
    """Default of `checkpoint_recovery_points`, for a log without checkpoints."""


@dataclass(frozen=True, slots=True)
class LogEnvironment:
    """Dependencies of the logs in one directory. `queue` belongs to the directory, everything else to the broker."""

    filesystem: FileSystem
    queue: DiskQueue
    readers: Readers
    clock: Clock
    randomness: Randomness
    tasks: TaskScope
    open_segments: OpenSegments
    ranges_in_flight: RangesInFlight
    validation: str
    """How thoroughly a client's records are checked: `barnabas.produce.validation`."""
    producers_max: int
    """How many producers each log remembers: `barnabas.producer.ids.max`."""
    on_failed: Callable[[str, OSError], None]
    """`on_failed(directory of the log, error)`: an IO error means that its log directory cannot be trusted any more."""
    delete_later: Callable[[list[str], int], None]
    """Remove files or folders that were set aside, after a delay in ms."""
    space: FreeSpace = field(default_factory=FreeSpace)
    """The free space of the log directory, and which writers it admits."""
    on_no_room: Callable[[str, OSError], None] = _ignore_no_room
    """`on_no_room(directory of the log, error)`: the disk had no room for a write; the log has halted."""
    on_less_room: Callable[[str], None] = _ignore_less_room
    """`on_less_room(directory of the log)`: after its append `space` is not open any more, or less so."""
    validating: Lock = field(default_factory=Lock)
    """Held while a reader thread validates records: one at a time, to bound memory and to leave threads to readers."""
    decompressing: Lock = field(default_factory=Lock)
    """Held while a compressed batch is searched for a timestamp: one at a time, to bound memory."""
    replaying: Lock = field(default_factory=Lock)
    """Held while reader threads rebuild the producers of a truncated log: one at a time in a directory."""
    checkpoint_recovery_points: Callable[[str], Awaitable[OSError | None]] = _skip_checkpoint
    """The recovery point of the log in this directory fell, or its first dirty offset: on the disk when this returns, or it
    answers why not."""
    disk_use: DiskUse = field(default_factory=DiskUse)
    """What the logs of the broker do with its disks."""
    path: str = ""
    """The log directory; empty for a log whose folder is anywhere."""

    def note_read_error(self, directory: str, error: OSError) -> None:
        """A read of the log in `directory` has failed. Only an error of the disk says something of the log directory; a limit
        of open files, for example, does not."""
        if error.errno == errno.EIO:
            self.on_failed(directory, error)
