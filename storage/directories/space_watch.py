"""Measures how much room the log directories have, and tells their logs when it is too little or enough again.

    free bytes, now and then  -->  FreeSpace (pure)  --room has changed-->  every log of the directory
                                                     --room again------->  halted logs go on, logs that there was no
                                                                           room for are made (`on_room_again`)

Rules: a look is one statvfs in a reader thread, once a second where there is plenty and more often near the floor; in
between logs count what they append, each time it has an entry in the index. A change is one line of the log for a directory,
however many logs it has.
Source: none in Apache Kafka.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping

from config.broker import BrokerSettings
from config.disk_floor import default_floor_bytes
from runtime.clock import Clock
from runtime.disk.disk_queue import Readers
from storage.directories.online_directory import OnlineDirectory
from storage.free_space import SHORTEST_LOOK_MS, FreeSpace, Room
from storage.log.removal.log_truncation import resume

logger = logging.getLogger(__name__)


class SpaceWatch:
    """`directories` is the log manager's own, which changes."""

    def __init__(
        self,
        *,
        settings: BrokerSettings,
        directories: Mapping[str, OnlineDirectory],
        readers: Readers,
        clock: Clock,
        on_failed: Callable[[str, OSError], None],
        on_room_again: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._directories = directories
        self._readers = readers
        self._clock = clock
        self._on_failed = on_failed
        self._on_room_again = on_room_again
        # Directories that have refused a write: they may have logs that halted, or were not made.
        self._refusing: set[str] = set()
        self.full_since_ms: dict[str, int] = {}
        """When directories began to refuse records, in milliseconds since 1970; those that do not are not in it."""

    async def run(self) -> None:
        while True:
            await self.look()
            next_look_ms = min((each.environment.space.next_look_ms for each in self._each()), default=SHORTEST_LOOK_MS)
            await asyncio.sleep(next_look_ms / 1000)

    def _each(self) -> Iterable[OnlineDirectory]:
        return list(self._directories.values())

    def by_directory(self) -> Iterator[tuple[str, FreeSpace]]:
        """What was measured last, of each directory that was measured yet."""
        for directory in self._each():
            space = directory.environment.space
            if space.free_bytes is not None:
                yield directory.path, space

    async def look(self) -> None:
        """Measure every directory, and tell whom it concerns."""
        for directory in self._each():
            try:
                await self._look(directory)
            except OSError as error:
                self._on_failed(directory.path, error)

    async def _look(self, directory: OnlineDirectory) -> None:
        space, files = directory.environment.space, directory.files
        floor_bytes = self._settings.barnabas_disk_free_min_bytes
        if floor_bytes is None:
            total_bytes = await self._readers.run(files.total_bytes)
            floor_bytes = default_floor_bytes(self._settings.log_segment_bytes, total_bytes)
        space.floor_bytes = floor_bytes
        free_bytes = await self._readers.run(files.free_bytes)
        if space.on_measured(free_bytes, self._clock.monotonic_ms()):
            self._tell(directory)
        if space.room is not Room.NONE and directory.path in self._refusing:
            for log in directory.halted_logs():
                await resume(log)
            if not directory.halted_logs():
                self._refusing.discard(directory.path)
                self._on_room_again()

    def on_no_room(self, directory: OnlineDirectory, error: OSError) -> None:
        """The disk has refused a write."""
        self._refusing.add(directory.path)
        if directory.environment.space.on_refused(self._clock.monotonic_ms()):
            logger.debug("write refused: directory=%s error=%s", directory.path, error)
            self._tell(directory)

    def on_less_room(self, directory: OnlineDirectory) -> None:
        """What was appended since the last look has taken the room."""
        self._tell(directory)

    def _tell(self, directory: OnlineDirectory) -> None:
        space = directory.environment.space
        values = directory.path, space.free_bytes, space.floor_bytes
        if space.room is Room.OPEN:
            self.full_since_ms.pop(directory.path, None)
        else:
            self.full_since_ms.setdefault(directory.path, self._clock.wall_ms())
        match space.room:
            case Room.OPEN:
                logger.info(
                    "disk has space again, records are accepted: directory=%s free_bytes=%s floor_bytes=%d", *values
                )
            case Room.RESERVE:
                logger.error(
                    "disk is almost full, records are refused until there is space again: "
                    "directory=%s free_bytes=%s floor_bytes=%d",
                    *values,
                )
            case Room.NONE:
                logger.error(
                    "disk is full, nothing is appended until there is space again: "
                    "directory=%s free_bytes=%s floor_bytes=%d",
                    *values,
                )
        for log in directory.all_logs():
            log.on_room_changed()
