"""Limits how many bytes a second of throttled replicas a broker sends as leader, or fetches as follower. Pure.

    leader.replication.throttled.rate, follower.replication.throttled.rate          bytes a second, of the broker
    leader.replication.throttled.replicas, follower.replication.throttled.replicas  which ones, of the topic:
                                                                                    "0:101,1:102" or "*"

Bytes are counted in samples of `replication.quota.window.size.seconds`, of which `replication.quota.window.num` are kept.
A throttled partition waits while the rate over all samples is above the limit; a replica that is in sync never waits,
or throttling would push it out of the ISR.

Rules: no IO; the time comes from `now_ms`, of a clock that never goes back. Two of these in a broker: as leader, as follower.
Invariant: memory is bounded by the number of samples.
Source: KIP-73; Kafka ReplicationQuotaManager, SimpleRate.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence

ALL_REPLICAS = "*"
NO_LIMIT = (1 << 63) - 1
_PAIR = re.compile(r"0*(?P<partition>[0-9]{1,10}):0*(?P<broker>[0-9]{1,10})")


class SampledRate:
    """Measures events a second over the last samples. The time counted is never less than one sample."""

    __slots__ = ("_samples", "_samples_max", "_window_ms")

    def __init__(self, window_ms: int, samples_max: int) -> None:
        assert window_ms > 0 < samples_max
        self._window_ms = window_ms
        self._samples_max = samples_max
        self._samples: deque[list[int]] = deque()  # [begin, count], oldest first

    def record(self, count: int, now_ms: int) -> None:
        samples = self._samples
        if samples and now_ms - samples[-1][0] < self._window_ms:
            samples[-1][1] += count
            return
        samples.append([now_ms, count])
        self._drop_old(now_ms)

    def per_second(self, now_ms: int) -> float:
        self._drop_old(now_ms)
        if not self._samples:
            return 0.0
        elapsed_ms = max(now_ms - self._samples[0][0], self._window_ms)
        return sum(count for _, count in self._samples) * 1000 / elapsed_ms

    def _drop_old(self, now_ms: int) -> None:
        horizon_ms = now_ms - self._window_ms * self._samples_max
        while self._samples and self._samples[0][0] <= horizon_ms:
            self._samples.popleft()


class ReplicationQuota:
    """The throttle of one direction. Fits `dependencies.ReplicaQuota`."""

    __slots__ = ("_now_ms", "_rate", "_throttled", "limit_bytes_per_second")

    def __init__(
        self,
        now_ms: Callable[[], int],
        *,
        window_ms: int,
        samples_max: int,
        limit_bytes_per_second: int = NO_LIMIT,
    ) -> None:
        self.limit_bytes_per_second = limit_bytes_per_second
        self._now_ms = now_ms
        self._rate = SampledRate(window_ms, samples_max)
        # Topics with throttled replicas here; None: all of them.
        self._throttled: dict[str, frozenset[int] | None] = {}

    @property
    def is_active(self) -> bool:
        """Whether a limit is set and a replica is throttled."""
        return bool(self._throttled) and self.limit_bytes_per_second < NO_LIMIT

    def throttle(self, topic: str, replicas: Sequence[str], broker_id: int) -> None:
        """Apply the topic's present `throttled.replicas`; those of other brokers are ignored."""
        if ALL_REPLICAS in replicas:
            self._throttled[topic] = None
            return
        partitions = frozenset(_partitions_on(broker_id, replicas))
        if partitions:
            self._throttled[topic] = partitions
        else:
            self._throttled.pop(topic, None)

    def forget(self, topic: str) -> None:
        """Drop a deleted topic."""
        self._throttled.pop(topic, None)

    def is_throttled(self, topic: str, partition: int) -> bool:
        if topic not in self._throttled:
            return False
        partitions = self._throttled[topic]
        return partitions is None or partition in partitions

    def record(self, size_bytes: int) -> None:
        """Count bytes of throttled replicas that were sent, or fetched. Those in sync count as well."""
        self._rate.record(size_bytes, self._now_ms())

    @property
    def is_exceeded(self) -> bool:
        return self.bytes_per_second > self.limit_bytes_per_second

    @property
    def bytes_per_second(self) -> float:
        return self._rate.per_second(self._now_ms())


def _partitions_on(broker_id: int, replicas: Iterable[str]) -> Iterable[int]:
    """Yield the partitions of the replicas on `broker_id`; each pair has the partition first. Valid settings may have empty
    elements, and numbers of partitions or brokers that do not exist."""
    for replica in replicas:
        pair = _PAIR.fullmatch(replica)
        if pair is not None and int(pair["broker"]) == broker_id:
            yield int(pair["partition"])
