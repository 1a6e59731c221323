"""The worlds of transactions: those of one broker and of a cluster, with their own topics, and `__transaction_state`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from coordinator.runtime.partitioner import partition_for
from protocol.topic_partition import TopicPartition
from tests.simulation.broker_world import BrokerWorld
from tests.simulation.cluster.plan import ClusterPlan
from tests.simulation.cluster.world import ClusterWorld
from tests.simulation.loop import SimLoop
from tests.simulation.transactions.plan import (
    STATE_PARTITIONS,
    STATE_TOPIC,
    levels_of,
    plan_one_broker,
    plan_transaction_cluster,
    plan_transaction_topics,
)


class TransactionBrokerWorld(BrokerWorld):
    def __init__(self, loop: SimLoop) -> None:
        topics, settings = plan_transaction_topics(loop.random), plan_one_broker(loop.random)
        super().__init__(loop, topics, {**settings, **levels_of(loop.seed)})


class TransactionClusterWorld(ClusterWorld):
    def __init__(self, loop: SimLoop, plan: ClusterPlan | None = None) -> None:
        """`plan` is the seed's unless given."""
        plan = plan or plan_transaction_cluster(loop.random)
        super().__init__(loop, replace(plan, settings={**plan.settings, **levels_of(loop.seed)}))

    def is_transaction_coordinator(self, broker_id: int, transactional_id: str) -> bool:
        return self.is_leader(broker_id, (STATE_TOPIC, partition_for(transactional_id, STATE_PARTITIONS)))

    def internal_keys(self) -> Iterable[TopicPartition]:
        yield from super().internal_keys()
        yield from ((STATE_TOPIC, partition) for partition in range(STATE_PARTITIONS))
