"""What the records of a relay's log say of source partitions: what waits, and how single entries ended. Pure.

Rules: records come in the order of the log. What no relay wrote is counted and passed over: it is told, and hides nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from protocol.topic_partition import TopicPartition
from relay.waiting.index import WaitingIndex
from relay.waiting.index_records import EntryOutcome, IndexKey, IndexRecordError, IndexRecordKind, parse_done, parse_key


class Ending(NamedTuple):
    """Why an entry waits no longer, and since when, in ms since the epoch."""

    source: TopicPartition
    place: int
    id_hash: int
    outcome: EntryOutcome
    time_ms: int


@dataclass(slots=True)
class LogView:
    """`sources`: the only source partitions that are looked at; None for all. `is_wanted` says by place and hash of the id
    of which entries the ending is kept."""

    sources: Collection[TopicPartition] | None = None
    is_wanted: Callable[[int, int], bool] | None = None
    indexes: dict[TopicPartition, WaitingIndex] = field(default_factory=dict)
    endings: list[Ending] = field(default_factory=list)
    unreadable: int = 0
    end: int = 0
    """Behind the last record, where it is of one partition."""

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Take a record of the log."""
        try:
            parsed = parse_key(key or b"")
            source = parsed.topic, parsed.partition
            if self.sources is not None and source not in self.sources:
                return
            if source not in self.indexes:
                self.indexes[source] = WaitingIndex(*source)
            self.indexes[source].replay(key or b"", value)
            self._keep_endings(parsed, value)
        except IndexRecordError:
            self.unreadable += 1

    def _keep_endings(self, parsed: IndexKey, value: bytes | None) -> None:
        if self.is_wanted is None or value is None or parsed.kind is not IndexRecordKind.DONE:
            return
        done = parse_done(value)
        for place, outcome, id_hash in done.rows():
            if self.is_wanted(place, id_hash):
                self.endings.append(Ending((parsed.topic, parsed.partition), place, id_hash, outcome, done.now_ms))
