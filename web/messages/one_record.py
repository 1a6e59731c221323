"""One record of a partition, whole.

Errors: HttpProblem 404 that says why there is none at an offset; KafkaError, OSError.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from web.errors import HttpProblem
from web.messages import internal_topics
from web.messages.decoding import decoded_by_schema
from web.messages.progress import PartitionRange, Progress
from web.messages.shown import Decoded, forms

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from runtime.clock import Clock
    from web.messages.matching import Match, Matching
    from web.messages.reading import RangeReading
    from web.messages.starts import Bounds
    from web.schemas.registry import SchemaRegistry

MAX_MS: Final = 30_000
_POLL_MS: Final = 250


@dataclass(frozen=True, slots=True)
class OneRecord:
    matching: Matching
    reading: RangeReading
    clock: Clock

    async def read(self, found: Bounds, partition: int, offset: int) -> Match:
        """Return the record at an offset."""
        place = f"{self.matching.topic}-{partition}"
        if partition in found.failed:
            raise HttpProblem(503, f"{place} cannot be read: {found.failed[partition]}", code="LEADER_NOT_AVAILABLE")
        first, end = found.first[partition], found.end[partition]
        if offset < first:
            raise _missing(f"the record at offset {offset} of {place} was deleted: the partition begins at {first}")
        if offset >= end:
            raise _missing(f"there is no record at offset {offset} of {place} yet: the partition ends at {end}")
        progress = Progress([PartitionRange(partition, offset, offset + 1)], self.clock.monotonic_ms())
        self.reading.begin(progress)
        async with self.reading:
            match = await self._first(progress)
        if match is None:
            note = progress.ranges[partition].note
            raise _missing(
                note
                or f"there is no record at offset {offset} of {place}: it was compacted, or the offset is the marker of a "
                "transaction"
            )
        return match

    async def _first(self, progress: Progress) -> Match | None:
        while not progress.is_done:
            for fetched in await self.reading.poll(_POLL_MS):
                async for match in self.matching.matches(fetched, progress.ranges[fetched.partition]):
                    if match is not None:
                        return match
            if self.clock.monotonic_ms() - progress.started_ms > MAX_MS:
                raise HttpProblem(504, f"no answer within {MAX_MS // 1000} s", code="REQUEST_TIMED_OUT")
        return None


async def details_of(
    match: Match, matching: Matching, schemas: SchemaRegistry | None, partition: int, threads: Executor
) -> dict[str, Any]:
    """Return a record in JSON with every form of its key and value."""
    record, topic = match.record, matching.topic
    by_schema = [
        None if each is None else await decoded_by_schema(each, schemas) for each in (record.key, record.value)
    ]
    internal: list[Decoded | None] = [None, None]
    if internal_topics.is_internal(topic):
        internal = [
            internal_topics.decode_key(topic, record.key),
            internal_topics.decode_value(topic, record.key, record.value),
        ]

    def made() -> dict[str, Any]:
        return {
            **matching.shown(partition, match),
            "key_forms": forms(record.key, by_schema[0], internal[0]),
            "value_forms": forms(record.value, by_schema[1], internal[1]),
        }

    return await asyncio.get_running_loop().run_in_executor(threads, made)


def _missing(text: str) -> HttpProblem:
    return HttpProblem(404, text, code="MESSAGE_NOT_FOUND")
