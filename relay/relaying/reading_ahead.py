"""Reads the contents of what is due soon, shortly before it is due.

Of each source partition entries are listed once, in the order of their due times, and asked for until their contents are there.
What came later and is due earlier, or was dropped for want of room, is listed again when a lane is starved of it.

Rules: bounded by the room for contents, and by the number of places that are asked for. What is due is read even without room,
since nothing else makes room. The order of reading is that of places: each log is read forwards.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from relay.waiting.entries import SOURCE, offset_of, tier_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from client.event_loop.place_reader import PlaceReader
    from protocol.topic_partition import TopicPartition
    from relay.names import RelayNames
    from relay.relaying.contents import Contents
    from relay.relaying.source import SourcePartition
    from relay.waiting.entries import WaitingEntry
    from runtime.clock import Clock

AHEAD_MS: Final = 2_000
"""How long before it is due a record is read."""
AHEAD_ENTRIES: Final = 4_000
MISSING_MAX: Final = 4_000
"""Of a source partition: the others are read even if none of these comes."""
READ_BYTES: Final = 8 << 20
PAUSE_S: Final = 0.1


class ReadingAhead:
    """`found` is called when contents have come."""

    def __init__(
        self, places: PlaceReader, contents: Contents, names: RelayNames, clock: Clock, found: Callable[[], None]
    ) -> None:
        self._places = places
        self._contents = contents
        self._names = names
        self._clock = clock
        self._found = found
        self._is_starved = asyncio.Event()
        self._listed: dict[TopicPartition, WaitingEntry] = {}  # the last entry of each source that was listed

    def starved(self) -> None:
        """Contents are missing of what is due now."""
        self._is_starved.set()

    def drop(self, sources: Iterable[TopicPartition]) -> None:
        """Forget source partitions."""
        for source in sources:
            self._listed.pop(source, None)

    async def run(self, sources: Callable[[], Iterable[SourcePartition]]) -> None:
        """Read until cancelled."""
        while True:
            is_starved = self._is_starved.is_set()
            self._is_starved.clear()
            self._list(sources(), is_starved=is_starved)
            if await self._read():
                self._found()
                continue
            try:
                async with asyncio.timeout(PAUSE_S):
                    await self._is_starved.wait()
            except TimeoutError:
                continue

    def _list(self, sources: Iterable[SourcePartition], *, is_starved: bool) -> None:
        now_ms = self._clock.wall_ms()
        for source in sources:
            if source.is_held or not source.is_caught_up:
                continue
            if is_starved:
                self._ask(source, source.index.ahead(now_ms, AHEAD_ENTRIES))
            if self._contents.missing_count(source.key) < MISSING_MAX and self._contents.has_room_for(source.key):
                entries = source.index.ahead(now_ms + AHEAD_MS, AHEAD_ENTRIES, self._listed.get(source.key))
                if entries:
                    self._listed[source.key] = entries[-1]
                    self._ask(source, entries)

    def _ask(self, source: SourcePartition, entries: list[WaitingEntry]) -> None:
        """Ask for the contents of entries that are not there."""
        key = source.key
        for entry in entries:
            tier = tier_of(entry.place)
            partition = key if tier == SOURCE else (self._names.buckets[tier - 1], source.log_partition)
            self._contents.ask(key, entry.place, (partition, offset_of(entry.place)))

    async def _read(self) -> bool:
        """Return whether anything has come."""
        missing = self._contents.missing()
        if not missing:
            return False
        wanted: dict[TopicPartition, list[int]] = {}
        for partition, offset in sorted(missing):
            wanted.setdefault(partition, []).append(offset)
        found = await self._places.read(wanted, READ_BYTES)
        for (topic, number, offset), record in found.items():
            asked = missing.get(((topic, number), offset))
            if asked is not None:
                self._contents.found(*asked, record)
        return bool(found)
