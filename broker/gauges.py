"""What is read off the broker's owners when somebody scrapes: partitions, logs, groups, the controller, memory.

Rules: reads attributes only; nothing is kept up for it. Yields the samples of one metric together, in small steps, so
that the reader can let the event loop go on between them.
Source: Kafka ReplicaManager, Partition, UnifiedLog, KafkaController, GroupMetadataManager, DelayedOperationPurgatory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from broker import metric_table as table
from broker.metric_table import Metric
from broker.metrics import Sample
from coordinator.group.group import GroupState

if TYPE_CHECKING:
    from broker.budget import MemoryBudget
    from broker.services import Services
    from replication.partition import Partition

_GROUP_STATES = {
    GroupState.EMPTY: table.GROUPS_EMPTY,
    GroupState.STABLE: table.GROUPS_STABLE,
    GroupState.PREPARING_REBALANCE: table.GROUPS_PREPARING,
    GroupState.COMPLETING_REBALANCE: table.GROUPS_COMPLETING,
    GroupState.DEAD: table.GROUPS_DEAD,
}


def gauges(services: Services) -> Iterator[Sample]:
    yield from _replicas(services)
    yield from _partitions(services)
    yield from _controller(services)
    yield from _groups(services)
    yield from _waiting(services)
    yield Sample(table.OFFLINE_DIRECTORIES, (), len(services.logs.offline_directories))


def memory(budget: MemoryBudget) -> Iterator[Sample]:
    yield Sample(table.MEMORY_AVAILABLE, (), max(budget.limit_bytes - budget.used_bytes, 0))
    yield Sample(table.MEMORY_USED, (), budget.used_bytes)


def _missing_from_isr(partition: Partition) -> int:
    return len(partition.replicas) - len(partition.isr)


def _spare_isr(partition: Partition) -> int:
    """In-sync replicas above min.insync.replicas."""
    return len(partition.isr) - partition.log.config.min_insync_replicas


def _replicas(services: Services) -> Iterator[Sample]:
    led = [partition for partition in services.partitions if partition.is_leader]
    yield Sample(table.LEADER_COUNT, (), len(led))
    yield Sample(table.PARTITION_COUNT, (), len(services.partitions))
    yield Sample(table.UNDER_REPLICATED, (), sum(_missing_from_isr(partition) > 0 for partition in led))
    yield Sample(table.UNDER_MIN_ISR, (), sum(_spare_isr(partition) < 0 for partition in led))
    yield Sample(table.AT_MIN_ISR, (), sum(_spare_isr(partition) == 0 for partition in led))
    offline = sum(partition.log.failure is not None for partition in services.partitions)
    yield Sample(table.OFFLINE_REPLICAS, (), offline)


def _if_led(value: Callable[[Partition], int]) -> Callable[[Partition], int]:
    """Followers know nothing of the others and answer 0."""
    return lambda partition: value(partition) if partition.is_leader else 0


_PER_PARTITION: tuple[tuple[Metric, Callable[[Partition], int]], ...] = (
    (table.LOG_END_OFFSET, lambda partition: partition.log.log_end_offset),
    (table.LOG_START_OFFSET, lambda partition: partition.log.log_start_offset),
    (table.LOG_SEGMENTS, lambda partition: len(partition.log.segments)),
    (table.LOG_SIZE, lambda partition: partition.log.size_bytes),
    (table.P_IN_SYNC, _if_led(lambda partition: len(partition.isr))),
    (table.P_REPLICAS, _if_led(lambda partition: len(partition.replicas))),
    (table.P_LSO_LAG, lambda partition: max(partition.high_watermark - partition.last_stable_offset, 0)),
    (table.P_UNDER_REPLICATED, _if_led(lambda partition: _missing_from_isr(partition) > 0)),
    (table.P_UNDER_MIN_ISR, _if_led(lambda partition: _spare_isr(partition) < 0)),
    (table.P_AT_MIN_ISR, _if_led(lambda partition: _spare_isr(partition) == 0)),
)


def _partitions(services: Services) -> Iterator[Sample]:
    partitions = list(services.partitions)
    labels = [(partition.topic, str(partition.partition)) for partition in partitions]
    for metric, value in _PER_PARTITION:
        for partition, names in zip(partitions, labels, strict=True):
            yield Sample(metric, names, int(value(partition)))


def _controller(services: Services) -> Iterator[Sample]:
    is_active = services.controller.is_active
    image = services.metadata.image
    topics = image.topics.values() if is_active else ()
    partitions = [partition for topic in topics for partition in topic.partitions.values()]
    yield Sample(table.ACTIVE_CONTROLLER, (), int(is_active))
    yield Sample(table.ACTIVE_BROKERS, (), len(image.brokers) if is_active else 0)
    yield Sample(table.GLOBAL_TOPICS, (), len(topics))
    yield Sample(table.GLOBAL_PARTITIONS, (), len(partitions))
    offline = sum(partition.leader not in image.brokers for partition in partitions)
    yield Sample(table.OFFLINE_PARTITIONS, (), offline)


def _groups(services: Services) -> Iterator[Sample]:
    counts = services.groups.state_counts()
    yield Sample(table.GROUPS, (), sum(counts.values()))
    for state, metric in _GROUP_STATES.items():
        yield Sample(metric, (), counts[state])
    yield Sample(table.OFFSETS, (), services.groups.offsets_count())


def _waiting(services: Services) -> Iterator[Sample]:
    partitions = list(services.partitions)
    produces = sum(partition.waiting_produces_count for partition in partitions)
    fetches = sum(partition.waiting_fetches_count for partition in partitions)
    for metric in (table.DELAYED_OPERATIONS, table.PURGATORY_SIZE):
        yield Sample(metric, ("Produce",), produces)
        yield Sample(metric, ("Fetch",), fetches)
    yield Sample(table.FETCH_SESSIONS, (), len(services.fetch_sessions))
    yield Sample(table.SESSION_PARTITIONS, (), services.fetch_sessions.cached_partitions_count)
