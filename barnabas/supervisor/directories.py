"""The data directories of several brokers on one machine, and how a lone broker's become theirs.

    <dir>/.lock              held while the command runs, as by a lone broker: one of both has the directory
    <dir>/broker_0, ...      of each broker, in each of log.dirs
    <first dir>/barnabas_store

A lone broker's data moves once: what is in a directory with a `meta.properties`, which moves last, goes into `broker_0` beside
it by renames, and the file of its embedded store into `barnabas_store`, by a copy where that is on another disk. Topics,
records, ids and the cluster id stay.

Rules: blocking, before anything starts. Nothing is moved until all of it is known to be possible. Every step can be the last
one before a crash: the next start goes on from there, and finds what is left by what is not where it belongs. A folder
`broker_0` keeps lone brokers out from the first step on (`LogDirectory.lock`). Nothing is ever overwritten. The store's files
move before the store opens them, its write-ahead log among them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from barnabas.listening import names_of, processes_with
from barnabas.supervisor.layout import broker_folder
from metadata.store.store_file import FILE_NAME as STORE_FILE
from runtime.disk.filesystem import FileLock, FileSystem
from storage.directories.log_directory import (
    LOCK_FILE,
    META_PROPERTIES_FILE,
    STORE_FOLDER,
    DirectoryRefused,
    MetaProperties,
    broker_folders,
)
from storage.folder_files import parent_of

logger = logging.getLogger(__name__)

# The file itself is the last: it says that all have moved.
_STORE_FILES = tuple(STORE_FILE + suffix for suffix in ("-shm", "-wal", ""))
# Of the command, and of the file system.
_STAYS = frozenset({LOCK_FILE, STORE_FOLDER, "lost+found"})


@dataclass(frozen=True, slots=True)
class Move:
    """A rename that is left to do. `is_store`: a file of the embedded store, which may go to another disk."""

    source: str
    target: str
    is_store: bool = False


class DataDirectories:
    """The entries of `log.dirs`, which all brokers share. `has_store`: the store is here, too."""

    def __init__(self, filesystem: FileSystem, directories: Sequence[str], *, has_store: bool) -> None:
        self._filesystem = filesystem
        self._directories = [directory.rstrip("/") or "/" for directory in directories]
        self._has_store = has_store
        self._locks: list[FileLock] = []
        self._offline: OSError | None = None

    @property
    def store_folder(self) -> str:
        return f"{self._directories[0]}/{STORE_FOLDER}"

    def take(self, count: int) -> None:
        """Lock the directories, and see that `count` brokers may have them. Raises DirectoryRefused, OSError."""
        for directory in list(self._directories):
            try:
                self._take(directory, count)
            except DirectoryRefused:
                self.release()
                raise
            except OSError as error:  # each broker finds it offline, and goes on with its other folders
                if directory == self._directories[0] and self._has_store:
                    self.release()
                    raise
                self._offline = error
                self._directories.remove(directory)

    def _take(self, directory: str, count: int) -> None:
        files = self._filesystem
        if not files.exists(directory):
            files.make_directory(directory)
            files.sync_directory(parent_of(directory))
        lock = files.lock(f"{directory}/{LOCK_FILE}")
        if lock is None:
            others = names_of(processes_with(Path(directory, LOCK_FILE)))
            raise DirectoryRefused(
                f"Failed to acquire the lock {directory}/{LOCK_FILE}: {directory} is used by {others}. For other brokers name "
                "other log.dirs, each once."
            )
        self._locks.append(lock)
        there = len(broker_folders(files, directory))
        if there > count:
            raise DirectoryRefused(
                f"{directory} has the data of {there} brokers, and {count} would leave some without theirs: "
                f"barnabas start --brokers {there}, with the other options as they are."
            )

    def release(self) -> None:
        for lock in self._locks:
            lock.release()
        self._locks.clear()

    # --- a lone broker's data ---

    def first_broker(self) -> MetaProperties:
        """Return whose data the first broker's is, before or after it has moved. Raises DirectoryRefused, OSError."""
        for directory in self._directories:
            for folder in (directory, broker_folder(directory, 0)):
                path = f"{folder}/{META_PROPERTIES_FILE}"
                if self._filesystem.exists(path):
                    return MetaProperties.parse(path, self._filesystem.read_bytes(path))
        return MetaProperties()

    def moves(self) -> list[Move]:
        """Return what is left to do for the data of a lone broker, in order; nothing where there is none. Raises OSError, and
        DirectoryRefused where it cannot be done."""
        moves = [move for directory in self._directories for move in self._moves_of(directory)]
        if self._has_store and any(not move.is_store for move in moves):
            self._refuse_lost_store(moves)
        if moves and self._offline is not None:
            raise self._offline
        for move in moves:
            if self._filesystem.exists(move.target) and not self._is_copied(move):
                raise DirectoryRefused(f"{move.source} and {move.target} are both there: keep the one with the data.")
        return moves

    def _moves_of(self, directory: str) -> Iterator[Move]:
        names = self._filesystem.list_directory(directory)
        if self._has_store:
            yield from (
                Move(f"{directory}/{name}", f"{self.store_folder}/{name}", is_store=True)
                for name in _STORE_FILES
                if name in names
            )
        folders = set(broker_folders(self._filesystem, directory))
        stays = _STAYS | folders | (set(_STORE_FILES) if self._has_store else set())
        if META_PROPERTIES_FILE not in names:
            return  # no lone broker's
        for name in sorted(set(names) - stays, key=lambda name: (name == META_PROPERTIES_FILE, name)):
            yield Move(f"{directory}/{name}", f"{broker_folder(directory, 0)}/{name}")

    def _refuse_lost_store(self, moves: Sequence[Move]) -> None:
        """Refuse data whose topics are in a ZooKeeper."""
        identity = self.first_broker()
        has_file = any(move.is_store for move in moves) or self._filesystem.exists(f"{self.store_folder}/{STORE_FILE}")
        if identity.cluster_id is not None and not has_file:
            raise DirectoryRefused(
                f"{identity.path} contains the cluster id {identity.cluster_id}, but no log directory contains {STORE_FILE}: "
                "its topics are in a ZooKeeper. Name that in zookeeper.connect; for new brokers, name other log.dirs."
            )

    def _is_copied(self, move: Move) -> bool:
        """Return whether only the removal of the source is left to do."""
        read = self._filesystem.read_bytes
        return move.is_store and read(move.source) == read(move.target)

    def move(self, moves: Sequence[Move]) -> None:
        """Do it, durably. Raises OSError."""
        if not moves:
            return
        logger.info(
            "data of a lone broker moves: path=%s entries=%d", broker_folder(self._directories[0], 0), len(moves)
        )
        files = self._filesystem
        folders = [broker_folder(directory, 0) for directory in self._directories]  # from now on no lone broker starts
        for folder in (*folders, *([self.store_folder] if self._has_store else [])):
            if not files.exists(folder):
                files.make_directory(folder)
                files.sync_directory(parent_of(folder))
        for move in moves:
            if move.is_store and parent_of(move.source) != self._directories[0]:
                self._copy(move)
            else:
                files.rename(move.source, move.target)
        for folder in dict.fromkeys(parent_of(path) for move in moves for path in (move.target, move.source)):
            files.sync_directory(folder)

    def _copy(self, move: Move) -> None:
        """Move a file to a disk that may be another one: what is there under its name is the whole of it."""
        files = self._filesystem
        files.replace(move.target, files.read_bytes(move.source))
        files.sync_directory(parent_of(move.target))
        files.unlink(move.source)
