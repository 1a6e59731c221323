"""What is known of a history of the relay: what stands in the logs, what the relay's processes sent, and when. Pure.

Each value is sent once by the client that made it, so a record is known by its value, whatever the relay writes beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from protocol.records.record import Record
from protocol.topic_partition import TopicPartition

DELIVER_AT, DELAY = "barnabas-deliver-at", "barnabas-delay-ms"
ID, CANCEL, EXPIRES_AT = "barnabas-id", "barnabas-cancel", "barnabas-expires-at"
ATTEMPT, RETRIES, REASON = "barnabas-attempt", "barnabas-retries", "barnabas-reason"
SOURCE_TOPIC, SOURCE_PARTITION = "barnabas-source-topic", "barnabas-source-partition"
SOURCE_OFFSET, SOURCE_TIMESTAMP = "barnabas-source-offset", "barnabas-source-timestamp"


class Stored(NamedTuple):
    """A committed record, read when all is over."""

    topic: str
    partition: int
    record: Record

    @property
    def key(self) -> TopicPartition:
        return self.topic, self.partition

    @property
    def offset(self) -> int:
        return self.record.offset

    @property
    def value(self) -> str:
        return text_of(self.record)

    def header(self, name: str) -> str | None:
        return header_of(self.record, name)

    def __str__(self) -> str:
        return f"{self.value!r} at {self.topic}-{self.partition} {self.offset}"


def text_of(record: Record) -> str:
    return (record.value or b"").decode()


def header_of(record: Record, name: str) -> str | None:
    """The last of this name."""
    found = [value for each, value in record.headers if each == name]
    return None if not found or found[-1] is None else found[-1].decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Life:
    """One process of the relay."""

    name: str
    started_s: float


@dataclass(frozen=True, slots=True)
class Send:
    """A record on its way from a process of the relay, in a transaction that may be aborted. `wall_ms` is its machine's."""

    value: str
    topic: str
    timestamp_ms: int
    wall_ms: int
    at_s: float
    life: Life


@dataclass(slots=True)
class Known:
    """What was seen from outside while the history went on."""

    sends: dict[str, list[Send]] = field(default_factory=dict)
    taken: dict[TopicPartition, list[tuple[float, int]]] = field(default_factory=dict)
    """Of each source partition: when a position of the relay's group was committed, and which."""
    acknowledged_s: dict[TopicPartition, dict[int, float]] = field(default_factory=dict)
    """When clients were told of a record, by offset; of source topics without transactions."""

    def sent(self, send: Send) -> None:
        self.sends.setdefault(send.value, []).append(send)

    def send_of(self, stored: Stored) -> Send | None:
        """The last that may have brought it."""
        fitting = [
            each
            for each in self.sends.get(stored.value, ())
            if (each.topic, each.timestamp_ms) == (stored.topic, stored.record.timestamp)
        ]
        return max(fitting, key=lambda each: each.at_s, default=None)

    def had_taken(self, source: Stored, send: Send) -> bool:
        """Whether the process that sent something then must have known of a record of the same source partition: its
        position had been committed, or it was there before the process was."""
        for at_s, position in self.taken.get(source.key, ()):
            if at_s < send.at_s and position > source.offset:
                return True
        acknowledged_s = self.acknowledged_s.get(source.key, {}).get(source.offset)
        return acknowledged_s is not None and acknowledged_s < send.life.started_s


@dataclass(slots=True)
class Finals:
    """All committed records when all is over, in the order of their offsets in each partition."""

    sources: dict[TopicPartition, list[Stored]] = field(default_factory=dict)
    outputs: dict[TopicPartition, list[Stored]] = field(default_factory=dict)

    def by_value(self, *topics: str) -> dict[str, list[Stored]]:
        """What is in these topics of the relay's."""
        found: dict[str, list[Stored]] = {}
        for key, records in self.outputs.items():
            if key[0] in topics:
                for each in records:
                    found.setdefault(each.value, []).append(each)
        return found
