"""What can be read of every partition once a history is over: the checkers compare it with what clients know."""

from __future__ import annotations

from dataclasses import dataclass, field

from protocol.topic_partition import TopicPartition
from tests.simulation.transactions.records import ReadRecord


@dataclass(slots=True)
class FinalLogs:
    """By partition: all records and markers; (offset, value) as read_committed returns them; the log end and the last stable
    offset."""

    records: dict[TopicPartition, list[ReadRecord]] = field(default_factory=dict)
    committed: dict[TopicPartition, list[tuple[int, str]]] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    stable_ends: dict[TopicPartition, int] = field(default_factory=dict)
    committed_values: dict[TopicPartition, set[str]] = field(default_factory=dict)

    def add(
        self,
        key: TopicPartition,
        records: list[ReadRecord],
        committed: list[tuple[int, str]],
        end: int,
        stable_end: int,
    ) -> None:
        self.records[key] = records
        self.committed[key] = committed
        self.committed_values[key] = {value for _, value in committed}
        self.ends[key] = end
        self.stable_ends[key] = stable_end
