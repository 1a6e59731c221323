"""What a log is given by its owner: the doors of its log directory, and whom to tell when the directory fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from runtime.clock import Clock
from runtime.disk import DiskQueue, Readers
from runtime.filesystem import FileSystem
from runtime.randomness import Randomness
from runtime.tasks import TaskScope
from storage.open_segments import OpenSegments


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
    delete_later: Callable[[list[str]], None]
    """Remove files or folders that were set aside, after `file.delete.delay.ms`."""
