"""Since when something is wrong, as this broker has seen it: what the page /health shows. Pure.

No API of Kafka shows when a partition lost its leader or a broker went away. Every broker hears of it, so each notes the time:

    metadata image  -->  conditions that begin or end with it  -->  /health  -->  `barnabas cluster health`

Rules: a condition that held when the broker first heard of its object has `seen_first`: it may have begun earlier. Only topics
that have changed are checked. Nothing is kept of deleted topics, nor when no HTTP port asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from metadata.image import ClusterImage, PartitionImage, TopicImage

NO_LEADER = "partition_without_leader"
REPLICAS_BEHIND = "replicas_behind"
BROKER_GONE = "broker_gone"
DIRECTORY_OFFLINE = "log_directory_offline"
DISK_FULL = "disk_full"
SHARE_GAVE_UP = "share_group_gave_up_records"
SHARE_LOCKS_RAN_OUT = "share_group_locks_ran_out"
RECENT_MS = 600_000
"""For so long the last two hold: their times are those of the last event."""


@dataclass(frozen=True, slots=True)
class Began:
    """`since_ms` is milliseconds since 1970."""

    since_ms: int
    seen_first: bool


_Key = tuple[str, str]
"""Condition and name."""


class ConditionTimes:
    """The conditions of partitions and brokers; `on_image` with every image."""

    def __init__(self) -> None:
        self._topics: Mapping[str, TopicImage] = MappingProxyType({})
        self._of_topics: dict[str, dict[_Key, Began]] = {}
        self._registered: frozenset[int] = frozenset()
        self._lost: dict[int, Began] = {}

    def on_image(self, image: ClusterImage, now_ms: int) -> None:
        registered = frozenset(image.brokers)
        for broker in self._registered - registered:
            self._lost[broker] = Began(now_ms, seen_first=False)
        for broker in registered & self._lost.keys():
            del self._lost[broker]
        self._registered = registered
        before, self._topics = self._topics, image.topics
        for name in self._of_topics.keys() - image.topics.keys():
            del self._of_topics[name]
        for name, topic in image.topics.items():
            if before.get(name) is not topic:
                self._see(topic, now_ms, is_new=name not in before)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the conditions that hold. Those of brokers first."""
        for broker, began in sorted(self._lost.items()):
            yield row(BROKER_GONE, str(broker), began)
        for conditions in list(self._of_topics.values()):
            for (condition, name), began in conditions.items():
                yield row(condition, name, began)

    def _see(self, topic: TopicImage, now_ms: int, *, is_new: bool) -> None:
        known = self._of_topics.get(topic.name, {})
        now: dict[_Key, Began] = {}
        for number, partition in topic.partitions.items():
            for broker in partition.replicas:
                if broker not in self._registered and broker not in self._lost:
                    self._lost[broker] = Began(now_ms, seen_first=True)
            for condition in _conditions(partition):
                key = condition, f"{topic.name}-{number}"
                now[key] = known.get(key) or Began(now_ms, seen_first=is_new)
        if now:
            self._of_topics[topic.name] = now
        else:
            self._of_topics.pop(topic.name, None)


def row(condition: str, name: str, began: Began) -> dict[str, Any]:
    return {"condition": condition, "name": name, "since_ms": began.since_ms, "seen_first": began.seen_first}


def _conditions(partition: PartitionImage) -> Iterator[str]:
    if partition.leader < 0:
        yield NO_LEADER
    if len(partition.isr) < len(partition.replicas):
        yield REPLICAS_BEHIND
