"""The counters of share groups, of this broker's handlers and share partitions.

Rules: counters of one share partition are its own and go with it (`broker.observability.gauges`). Labels are types of
acknowledgements; what members say is counted when it is taken, whether or not it can be stored then.
Source: Kafka ShareGroupMetrics, DelayedShareFetchMetrics (KIP-1103).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from broker.observability import metric_table as table
from protocol.share_states import AcknowledgeType
from runtime.distribution import Distribution
from runtime.monitoring.metric import Sample, summary_samples

if TYPE_CHECKING:
    from replication.sharing.acknowledgements import AckBatch

NS_PER_MS = 1_000_000
_COUNTED = (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT, AcknowledgeType.RENEW)


class ShareMetrics:
    """Implements `replication.sharing.dependencies.SharingMetrics`."""

    def __init__(self) -> None:
        self._loads = Distribution()
        self._acknowledged: Counter[int] = Counter()
        self._expired_fetches = 0

    def share_loaded(self, duration_ms: int) -> None:
        self._loads.add(duration_ms * NS_PER_MS)

    def fetch_expired(self) -> None:
        """Count a fetch that has waited in vain."""
        self._expired_fetches += 1

    def acknowledged(self, batches: Iterable[AckBatch]) -> None:
        """Count the records of which a member says something; of a batch with one type for all, each has it."""
        for batch in batches:
            if len(batch.types) == 1:
                self._acknowledged[batch.types[0]] += batch.last - batch.first + 1
            else:
                self._acknowledged.update(batch.types)

    def samples(self, now_ms: int) -> Iterator[Sample]:
        for kind in _COUNTED:
            yield Sample(table.SHARE_ACKNOWLEDGED, (kind.name.capitalize(),), self._acknowledged[kind])
        yield from summary_samples(table.SHARE_PARTITION_LOADS, [((), self._loads)], now_ms)
        yield Sample(table.SHARE_FETCHES_EXPIRED, (), self._expired_fetches)
