"""What a relay says of stored records: that they wait where they are, or as the copies that it made of them; or how they ended.

Rules: only the partitions of the log are read that belong to the sources of these records. A record in a source that was copied
has no state: the copy has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from relay.waiting.entries import HOUR, SOURCE, place_of
from relay.waiting.index_records import EntryOutcome
from tools.trace.tree import WAITS, RelayState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from protocol.topic_partition import TopicPartition
    from relay.inspection.reading import RelayInspection
    from relay.names import RelayNames
    from tools.trace.stored import Place, StoredRecord

OUTCOMES: Final = {
    EntryOutcome.DELIVERED: "delivered",
    EntryOutcome.CANCELLED: "cancelled",
    EntryOutcome.REPLACED: "replaced",
    EntryOutcome.EXPIRED: "expired",
    EntryOutcome.DEAD_LETTERED: "put to the dead letters",
    EntryOutcome.GONE: "lost",
}


async def states_of(
    inspection: RelayInspection, names: RelayNames, records: Mapping[Place, StoredRecord]
) -> dict[Place, RelayState]:
    """Return what is known of records by their places. Raises KafkaError, OSError."""
    sources = {rule.source for rule in (await inspection.rules()).rules()}
    wanted: dict[tuple[TopicPartition, int], Place] = {}
    for place, record in records.items():
        if record.topic in sources:
            wanted[record.key_of_partition, place_of(SOURCE, record.offset)] = place
        elif record.topic in names.buckets and record.source is not None:
            tier = HOUR + names.buckets.index(record.topic)
            wanted[record.source[:2], place_of(tier, record.offset)] = place
    found: dict[Place, RelayState] = {}
    if not wanted:
        return found
    places = {place for _, place in wanted}
    async for view in inspection.views({source for source, _ in wanted}, lambda place, _: place in places):
        for ending in view.endings:
            if (ending.source, ending.place) in wanted:
                found[wanted[ending.source, ending.place]] = RelayState(OUTCOMES[ending.outcome], ending.time_ms)
        for (source, own), where in wanted.items():
            index = view.indexes.get(source)
            entry = None if index is None else index.at(own)
            if entry is not None:
                found[where] = RelayState(WAITS, entry.due_ms)
    return found
