"""The offsets that Spark keeps in a stream's checkpoint, and what lies between two of them. Pure.

    {"orders": {"0": 12, "1": 9, "id": "5f3k..."}}

The form is that of Spark's Kafka source, and beside the partitions of a topic stands its id: a topic that was deleted and made
again is another one, whatever its offsets.

Rules: pure. What is gone is reported, and the caller decides whether that is an error: partitions that were read and are no
more, another topic of the same name, an end before the start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from barnabas.spark.client.option_values import Offsets
from barnabas.spark.client.ranges import OffsetRange
from protocol.primitives import ZERO_UUID, uuid_to_text

_ID = "id"


@dataclass(frozen=True, slots=True)
class StreamOffsets:
    """Offsets of partitions, and ids of topics as text; brokers before Kafka 2.8 say no ids."""

    offsets: Offsets
    ids: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for (topic, partition), offset in sorted(self.offsets.items()):
            found.setdefault(topic, {})[str(partition)] = offset
        for topic, name in self.ids.items():
            if topic in found:
                found[topic][_ID] = name
        return found

    @staticmethod
    def from_json(stored: Mapping[str, Mapping[str, Any]]) -> StreamOffsets:
        offsets = {
            (topic, int(partition)): offset
            for topic, partitions in stored.items()
            for partition, offset in partitions.items()
            if partition != _ID
        }
        ids = {topic: partitions[_ID] for topic, partitions in stored.items() if _ID in partitions}
        return StreamOffsets(offsets, ids)

    def replaced(self, later: StreamOffsets) -> list[str]:
        """The topics that were made again between these offsets and `later` ones."""
        return sorted(topic for topic, name in later.ids.items() if self.ids.get(topic, name) != name)


def id_text(topic_id: bytes) -> str | None:
    return None if topic_id == ZERO_UUID else uuid_to_text(topic_id)


def begins(start: StreamOffsets, end: StreamOffsets, lost: Callable[[str], None]) -> Offsets:
    """Where reading begins in each partition of `end` that `start` says it of; new partitions are not in the result. `lost` is
    called with a text for what was to be read and is gone."""
    replaced = set(start.replaced(end))
    for topic in sorted(replaced):
        lost(f"topic {topic} was deleted and made again")
    gone = sorted(key for key in start.offsets if key not in end.offsets)
    if gone:
        lost(f"{', '.join(f'{topic}-{partition}' for topic, partition in gone)} are no more")
    found = {}
    for key, offset in end.offsets.items():
        if key[0] in replaced or key not in start.offsets:
            continue
        if offset < start.offsets[key]:
            lost(f"{key[0]}-{key[1]} ended at offset {start.offsets[key]} before, and now at {offset}")
        found[key] = start.offsets[key]
    return found


def ranges_of(starts: Offsets, ends: Offsets) -> list[OffsetRange]:
    return [OffsetRange(*key, starts[key], end) for key, end in sorted(ends.items())]


__all__ = ["StreamOffsets", "begins", "id_text", "ranges_of"]
