"""Reads partitions of a topic up to offsets that were their ends when the reading began, or on and on.

Rules: never silently short: a partition that cannot be read raises its error, and the reading is finished only when every
partition has been read to its end. Markers of transactions and what was compacted away have offsets and no records: the
client says when it has come to the end of a partition (`enable.partition.eof`). Partitions that are done
are not fetched any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaException, TopicPartition

from tools.cluster import Cluster
from tools.failures import Failure
from tools.group_lag import Key, offsets_of

POLL_S = 0.2
BATCH = 1_000
_END_OF_PARTITION = "_PARTITION_EOF"
SETTINGS: Mapping[str, Any] = MappingProxyType(
    {
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 100,
    }
)


@dataclass(slots=True)
class ReadPlan:
    """Where each partition starts, and where it ends; a plan without ends has no end. An empty plan has nothing to read."""

    starts: dict[int, int]
    ends: dict[int, int] = field(default_factory=dict)

    @property
    def is_bounded(self) -> bool:
        return bool(self.ends)

    def bound(self, cluster: Cluster, topic: str, *, is_committed_only: bool) -> None:
        """End at what is there now. Partitions that have nothing between start and end leave the plan. Raises Failure."""
        keys: list[Key] = [(topic, index) for index in self.starts]
        first = known_offsets(offsets_of(cluster, keys, "earliest"))
        ends = known_offsets(offsets_of(cluster, keys, "latest", is_committed_only=is_committed_only))
        self.starts = {
            index: start if start != OFFSET_BEGINNING else first[index]
            for index, start in self.starts.items()
            if start != OFFSET_END and ends[index] > max(start, first[index])
        }
        self.ends = {index: ends[index] for index in self.starts}


def known_offsets(offsets: dict[Key, int | None]) -> dict[int, int]:
    """Raises Failure for a partition whose leader does not answer."""
    known = {}
    for (topic, index), offset in offsets.items():
        if offset is None:
            raise Failure(f"partition {topic}-{index} does not answer; `barnabas cluster health` tells more")
        known[index] = offset
    return known


class Reading:
    """One run over a plan, or over what a group assigns to the consumer (no plan)."""

    def __init__(self, consumer: Consumer, topic: str, plan: ReadPlan | None = None) -> None:
        """The consumer is made with `SETTINGS`."""
        self._consumer = consumer
        self._topic = topic
        self._is_bounded = plan is not None and (plan.is_bounded or not plan.starts)
        self._ends = dict(plan.ends) if plan is not None else {}
        if plan is not None and plan.starts:
            consumer.assign([TopicPartition(topic, index, offset) for index, offset in plan.starts.items()])

    @property
    def is_finished(self) -> bool:
        return self._is_bounded and not self._ends

    def poll(self, most: int = BATCH) -> list[Any]:
        """Return the next records, none when none came for a moment. Raises KafkaException."""
        messages = self._consumer.consume(most, POLL_S)
        wanted = []
        for message in messages:
            end = self._ends.get(message.partition())
            if message.error() is not None:
                if message.error().name() != _END_OF_PARTITION:
                    raise KafkaException(message.error())
                if end is not None and message.offset() >= end:
                    self._drop(message.partition())
                continue
            if end is None:
                if not self._is_bounded:
                    wanted.append(message)
                continue
            if message.offset() < end:
                wanted.append(message)
            if message.offset() + 1 >= end:
                self._drop(message.partition())
        return wanted

    def positions(self) -> dict[int, int]:
        """Return the next offset of each partition that is not done."""
        asked = [TopicPartition(self._topic, index) for index in self._ends]
        return {each.partition: each.offset for each in self._consumer.position(asked) if each.offset >= 0}

    def _drop(self, partition: int) -> None:
        del self._ends[partition]
        self._consumer.incremental_unassign([TopicPartition(self._topic, partition)])
