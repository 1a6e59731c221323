"""Finds one message of a source topic that waits, by its id, or by its place in the source.

Rules: an index has no ids, but hashes of them: the content decides. Nor has it the offsets in the source of what was copied:
the record in the source says when it is due, where record and rule are still there, and so which copies it may be; the others
are looked at after those.
Errors: KafkaError, OSError.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from client.letters.headers import NOTHING, read
from relay.inspection.reading import Placed, RelayInspection, source_offset
from relay.relaying.decisions import DelayLimits, Due, decide
from relay.waiting.entries import NO_ID, SOURCE, WaitingEntry, id_hash, place_of, tier_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from protocol.records.record import Record
    from protocol.topic_partition import TopicPartition
    from relay.inspection.log_view import Ending

_CONTENTS_MAX: Final = 2_000


class FoundMessage(NamedTuple):
    """`placed` is None for a message that does not wait; then `endings` is what the log says of it. `content` is None where it
    cannot be read. `log_end` is where the log of its source partition ended."""

    placed: Placed | None
    content: Record | None = None
    endings: tuple[Ending, ...] = ()
    unreadable: int = 0
    log_end: int = 0
    place: tuple[str, int, int] | None = None
    """Of the content."""
    positions: Mapping[TopicPartition, int | None] = {}
    """Of the source partitions that were looked at: up to where the log says that they were taken in."""


async def find_by_id(inspection: RelayInspection, topic: str, message_id: bytes) -> FoundMessage:
    """Return the message of a source topic with this id."""
    wanted = id_hash(message_id)
    endings: list[Ending] = []
    unreadable = 0
    positions: dict[TopicPartition, int | None] = dict.fromkeys(await inspection.partitions_of([topic]))
    async for view in inspection.views(positions.keys(), lambda _, each: each == wanted):
        endings += view.endings
        unreadable += view.unreadable
        for source, index in view.indexes.items():
            positions[source] = None if index.position is None else index.position[0]
            entry = index.find(wanted)
            if entry is None:
                continue
            placed = source, entry
            content = (await inspection.contents([placed])).get(placed)
            if content is None or read(content.headers).message_id == message_id:
                return FoundMessage(placed, content, (), unreadable, view.end, inspection.place_of(*placed))
    return FoundMessage(None, None, tuple(endings), unreadable, positions=positions)


async def find_by_place(inspection: RelayInspection, source: TopicPartition, offset: int, now_ms: int) -> FoundMessage:
    """Return the message that was written to this offset of a source partition."""
    own = WaitingEntry(0, place_of(SOURCE, offset), NO_ID)
    record = (await inspection.contents([(source, own)])).get((source, own))
    letter = NOTHING if record is None else read(record.headers)
    wanted_id = NO_ID if letter.message_id is None else id_hash(letter.message_id)
    due_ms = None if record is None else await _due_ms(inspection, source, record, now_ms)
    [view] = [
        each
        async for each in inspection.views([source], lambda place, id_: place == own.place or NO_ID != id_ == wanted_id)
    ]
    index = view.indexes.get(source)
    if index is not None:
        copies = []
        for entry in index.entries():
            if entry.place == own.place:
                return FoundMessage((source, entry), record, (), view.unreadable, view.end, (*source, offset))
            if tier_of(entry.place) != SOURCE:
                copies.append(entry)
        copies.sort(key=lambda each: each.due_ms != due_ms)
        for some in _parts(copies):
            for placed, content in (await inspection.contents((source, each) for each in some)).items():
                if content is not None and source_offset(placed[1], content) == offset:
                    place = inspection.place_of(*placed)
                    return FoundMessage(placed, content, (), view.unreadable, view.end, place)
    position = None if index is None or index.position is None else index.position[0]
    return FoundMessage(None, record, tuple(view.endings), view.unreadable, positions={source: position})


async def _due_ms(inspection: RelayInspection, source: TopicPartition, record: Record, now_ms: int) -> int | None:
    """Return when a record of a source is due; None where its rule does not say it."""
    rules = {rule.source: rule for rule in (await inspection.rules()).rules()}
    if source[0] not in rules:
        return None
    decision = decide(rules[source[0]], read(record.headers), record.timestamp, now_ms, DelayLimits())
    return decision.due_ms if isinstance(decision, Due) else None


def _parts(entries: list[WaitingEntry]) -> Iterator[list[WaitingEntry]]:
    left = iter(entries)
    while some := list(islice(left, _CONTENTS_MAX)):
        yield some
