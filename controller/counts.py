"""The values of the controller's gauges. Pure: counted at each scrape.

Source: Kafka KafkaController.updateMetrics, ControllerContext (offlinePartitionCount, preferredReplicaImbalanceCount).
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.controller_context import ControllerContext, ReplicaPhase
from controller.elections import balance


@dataclass(frozen=True, slots=True)
class ControllerCounts:
    """The values; all 0 on a broker that is not the controller."""

    active_brokers: int = 0
    topics: int = 0
    partitions: int = 0
    offline_partitions: int = 0
    preferred_replica_imbalance: int = 0
    topics_to_delete: int = 0
    replicas_to_delete: int = 0
    topics_ineligible_to_delete: int = 0
    replicas_ineligible_to_delete: int = 0


def count(context: ControllerContext) -> ControllerCounts:
    deleting = context.topics_to_delete
    phases = [
        (name, context.replica_phase(replica))
        for name in deleting
        for replica in context.replicas_of(context.partitions_of(name))
    ]
    ineligible = [name for name, phase in phases if phase is ReplicaPhase.DELETION_INELIGIBLE]
    return ControllerCounts(
        active_brokers=len(context.live_brokers),
        topics=len(context.topics),
        partitions=len(context.leadership),
        offline_partitions=sum(
            not context.is_replica_online(state.leader, key)
            for key, state in context.leadership.pairs()
            if key[0] not in deleting
        ),
        preferred_replica_imbalance=sum(len(keys) for keys, _ in balance.misplaced_leaders(context).values()),
        topics_to_delete=len(deleting),
        replicas_to_delete=sum(phase is not ReplicaPhase.DELETION_SUCCESSFUL for _, phase in phases),
        topics_ineligible_to_delete=len(set(ineligible)),
        replicas_ineligible_to_delete=len(ineligible),
    )
