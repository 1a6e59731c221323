"""What a log is given by its owner: the doors of its log directory, and whom to tell when the directory fails."""

from __future__ import annotations

from asyncio import Lock
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from runtime.clock import Clock
from runtime.disk import DiskQueue, Readers
from runtime.filesystem import FileSystem
from runtime.randomness import Randomness
from runtime.tasks import TaskScope
from storage.free_space import FreeSpace
from storage.segments.open_segments import OpenSegments


def _leave_others_alone(_directory: str) -> None:
    """For a log that has its directory for itself."""


def _tell_nobody(_directory: str, _error: OSError) -> None:
    """For a log whose directory nobody watches."""


async def _keep_no_checkpoint(_directory: str) -> OSError | None:
    """For a log that nobody has to find again."""


@dataclass(frozen=True, slots=True)
class LogEnvironment:
    """One for each log directory. `queue` is the directory's, the rest the broker's."""

    filesystem: FileSystem
    queue: DiskQueue
    readers: Readers
    clock: Clock
    randomness: Randomness
    tasks: TaskScope
    open_segments: OpenSegments
    validation: str
    """How far a client's records are checked: `barnabas.produce.validation`."""
    on_failed: Callable[[str, OSError], None]
    """`on_failed(directory of the log, error)`: an IO error means that its log directory cannot be trusted any more."""
    delete_later: Callable[[list[str], int], None]
    """Remove files or folders that were set aside, after so many ms."""
    space: FreeSpace = field(default_factory=FreeSpace)
    """How much room the log directory has, and who may write."""
    on_no_room: Callable[[str, OSError], None] = _tell_nobody
    """`on_no_room(directory of the log, error)`: the disk had no room for a write; the log has halted."""
    on_less_room: Callable[[str], None] = _leave_others_alone
    """`on_less_room(directory of the log)`: after its append `space` is not open any more, or less so."""
    validating: Lock = field(default_factory=Lock)
    """Held by who has a reader validate records: one at a time, for the memory's sake and that of those who read."""
    decompressing: Lock = field(default_factory=Lock)
    """Held by who looks into a compressed batch for a timestamp: one at a time, for the memory's sake."""
    replaying: Lock = field(default_factory=Lock)
    """Held by who has readers walk a log that was cut, for its producers: one at a time in a directory."""
    checkpoint_recovery_points: Callable[[str], Awaitable[OSError | None]] = _keep_no_checkpoint
    """The recovery point of the log in this directory fell, or its first dirty offset: on the disk when this returns, or it
    answers why not."""
    path: str = ""
    """The log directory; empty for a log whose folder is anywhere."""
