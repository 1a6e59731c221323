"""How fast partitions grow, and how far groups are behind: what two looks at the same numbers say. Pure.

Rules: each partition is compared with the time when it was seen before, so that one that was not reached for a while does not
seem to receive everything at once. A number that has become smaller begins anew: a topic was created again, or a log lost its
oldest segments. A sum is of what is known, and unknown (None) when nothing is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from client.admin.share_groups import ShareOffset
from protocol.topic_partition import TopicPartition


class Growth:
    """The last numbers of partitions: ends of logs, sizes of logs."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[int, tuple[int, int]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._seen.values()))

    def observed(self, topic: str, numbers: Mapping[int, int], now_ms: int) -> float | None:
        """Return the growth of a topic a second, from the numbers of its partitions."""
        seen = self._seen.setdefault(topic, {})
        total: float | None = None
        for partition, number in numbers.items():
            before = seen.get(partition)
            if before is not None and number >= before[0] and now_ms > before[1]:
                total = (total or 0.0) + (number - before[0]) * 1000 / (now_ms - before[1])
            seen[partition] = number, now_ms
        return total

    def retain(self, topics: Collection[str]) -> None:
        """Forget topics that are not among these."""
        for topic in self._seen.keys() - set(topics):
            del self._seen[topic]


def lag_by_topic(commits: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> dict[str, int]:
    """Return how far a group is behind. A commit behind the end of its log is no lag, and subtracted from no sum."""
    lags: dict[str, int] = {}
    for key, offset in commits.items():
        end = ends.get(key)
        if end is not None:
            lags[key[0]] = lags.get(key[0], 0) + max(end - offset, 0)
    return lags


def told_lag_by_topic(offsets: Mapping[TopicPartition, ShareOffset]) -> dict[str, int]:
    """Return what a share group is not done with, of the partitions of which it is told."""
    lags: dict[str, int] = {}
    for (topic, _), each in offsets.items():
        if each.lag is not None:
            lags[topic] = lags.get(topic, 0) + max(each.lag, 0)
    return lags
