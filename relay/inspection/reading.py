"""Reads what waits in a relay: its log, and the contents of entries at their places.

Rules: one partition of the log after the other, so that only what it holds is in memory. Contents are read as far as the time
allows; what is not there any more, and what could not be read, is told apart.
Errors: KafkaError, OSError.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from typing import TYPE_CHECKING, Final

from client.event_loop.place_reader import PlaceReader
from client.event_loop.whole_log import read_whole
from client.letters.headers import read
from protocol.errors import ErrorCode, KafkaError
from protocol.topic_partition import TopicPartition
from relay.inspection.log_view import Ending, LogView
from relay.names import RelayNames, log_partition
from relay.rules.table import RuleTable
from relay.waiting.entries import SOURCE, WaitingEntry, offset_of, tier_of

if TYPE_CHECKING:
    from client.event_loop.cluster_client import AsyncClusterClient
    from client.reading.positions import ReadRecord
    from protocol.records.record import Record
    from runtime.randomness import Randomness

READ_BYTES: Final = 16 << 20
READS_MAX: Final = 60
"""Of about a second each: then what is missing counts as unreadable."""
POLL_S: Final = 0.1

Placed = tuple[TopicPartition, WaitingEntry]
"""An entry with its source partition."""


class RelayInspection:
    """Of the relay with these names. `cluster` stays the caller's, who closes it."""

    def __init__(self, cluster: AsyncClusterClient, randomness: Randomness, names: RelayNames) -> None:
        self._cluster = cluster
        self._randomness = randomness
        self._names = names
        self.log_partitions = 0

    async def begin(self) -> None:
        """Find the log. Raises KafkaError when the relay has none, OSError."""
        topics = await self._cluster.topics([self._names.log])
        if self._names.log not in topics:
            reason = f"there is no topic {self._names.log}: the relay {self._names.name} has not run yet"
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason)
        self.log_partitions = len(topics[self._names.log].partitions)

    async def rules(self) -> RuleTable:
        """Return the rules as they are written. Raises KafkaError, OSError."""
        table = RuleTable(self._names)

        def take(records: list[ReadRecord]) -> None:
            for each in records:
                table.replay(each.record.key, each.record.value)

        await read_whole(self._cluster, self._randomness, {(self._names.rules, 0): None}, take)
        table.judge(dict.fromkeys(table.rules()))
        return table

    async def partitions_of(self, topics: Collection[str]) -> list[TopicPartition]:
        """Return the partitions of source topics. Raises KafkaError for one that is missing, OSError."""
        found = await self._cluster.topics(topics)
        for name in topics:
            if name not in found:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
        return [(name, index) for name in topics for index in sorted(found[name].partitions)]

    async def partitions_there(self, topics: Collection[str]) -> list[TopicPartition]:
        """Return the partitions of those topics that exist. Raises KafkaError, OSError."""
        found = await self._cluster.topics(topics) if topics else {}
        return [(name, index) for name in sorted(found) for index in sorted(found[name].partitions)]

    async def views(
        self, sources: Collection[TopicPartition] | None, is_wanted: Callable[[int, int], bool] | None = None
    ) -> AsyncIterator[LogView]:
        """Yield a view of each partition of the log that has something of these source partitions, None for all."""
        wanted = list(range(self.log_partitions))
        if sources is not None:
            wanted = sorted({log_partition(source, self.log_partitions) for source in sources})
        for partition in wanted:
            view = LogView(sources, is_wanted)
            view.end = (await self.read_log({partition: None}, view))[partition]
            yield view

    async def read_log(self, starts: dict[int, int | None], view: LogView) -> dict[int, int]:
        """Let a view follow partitions of the log from these offsets on; return where they end."""

        def take(records: list[ReadRecord]) -> None:
            for each in records:
                view.replay(each.record.key, each.record.value)

        keys = {(self._names.log, partition): start for partition, start in starts.items()}
        return {key[1]: end for key, end in (await read_whole(self._cluster, self._randomness, keys, take)).items()}

    def place_of(self, source: TopicPartition, entry: WaitingEntry) -> tuple[str, int, int]:
        """Return topic, partition and offset of the content of an entry."""
        tier, offset = tier_of(entry.place), offset_of(entry.place)
        if tier == SOURCE:
            return *source, offset
        return self._names.buckets[tier - 1], log_partition(source, self.log_partitions), offset

    async def contents(self, entries: Iterable[Placed]) -> dict[Placed, Record | None]:
        """Return the contents of entries, None for what is not there any more; what could not be read is missing."""
        by_place = {self.place_of(*each): each for each in entries}
        there = await self._cluster.topics({topic for topic, _, _ in by_place})
        found: dict[Placed, Record | None] = {
            placed: None
            for (topic, partition, _), placed in by_place.items()
            if topic not in there or partition not in there[topic].partitions
        }
        reader = PlaceReader(self._cluster, self._randomness)
        try:
            for _ in range(READS_MAX):
                left: dict[TopicPartition, list[int]] = {}
                for topic, partition, offset in sorted(by_place.keys()):
                    if by_place[topic, partition, offset] not in found:
                        left.setdefault((topic, partition), []).append(offset)
                if not left:
                    break
                read_now = await reader.read(left, READ_BYTES)
                found |= {by_place[place]: record for place, record in read_now.items() if place in by_place}
        finally:
            await reader.close()
        return found

    async def ending(self, source: TopicPartition, place: int, start: int, until_s: float) -> Ending | None:
        """Wait until an entry ends, by what the log has from `start` on; None when the time of the loop is over before."""
        partition = log_partition(source, self.log_partitions)
        view = LogView([source], lambda each, _: each == place)
        loop = asyncio.get_running_loop()
        while True:
            start = (await self.read_log({partition: start}, view))[partition]
            if view.endings:
                return view.endings[-1]
            if loop.time() >= until_s:
                return None
            await asyncio.sleep(POLL_S)


def source_offset(entry: WaitingEntry, content: Record | None) -> int | None:
    """Return the offset in the source of the record that waits as this entry; None for a copy that cannot be read."""
    if tier_of(entry.place) == SOURCE:
        return offset_of(entry.place)
    return None if content is None else read(content.headers).source_offset
