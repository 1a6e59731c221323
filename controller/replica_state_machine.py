"""The replica state machine: which moves are allowed, and which requests a move sends. Pure.

    NON_EXISTENT --> NEW --> ONLINE <--> OFFLINE --> DELETION_STARTED --> DELETION_SUCCESSFUL --> NON_EXISTENT
                                            ^               |
                                            |               v
                                            +------ DELETION_INELIGIBLE

Rules: a move changes the context and adds to the batch, without waiting. Before a move to OFFLINE the replica is removed from
the ISR: `plan_offline` returns what to write, `offline_committed` adds the requests to the other replicas.
Source: Kafka ReplicaStateMachine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controller.controller_context import ControllerContext, Replica, ReplicaPhase
from controller.elections.leader_election_rules import without_replica
from controller.partition_state_machine import StateWrites
from controller.requests.request_batch import RequestBatch
from metadata.store.znodes import PartitionState
from protocol.topic_partition import TopicPartition

VALID_PREVIOUS: Mapping[ReplicaPhase, frozenset[ReplicaPhase]] = {
    ReplicaPhase.NEW: frozenset({ReplicaPhase.NON_EXISTENT}),
    ReplicaPhase.ONLINE: frozenset(
        {ReplicaPhase.NEW, ReplicaPhase.ONLINE, ReplicaPhase.OFFLINE, ReplicaPhase.DELETION_INELIGIBLE}
    ),
    ReplicaPhase.OFFLINE: frozenset(
        {ReplicaPhase.NEW, ReplicaPhase.ONLINE, ReplicaPhase.OFFLINE, ReplicaPhase.DELETION_INELIGIBLE}
    ),
    ReplicaPhase.DELETION_STARTED: frozenset({ReplicaPhase.OFFLINE}),
    ReplicaPhase.DELETION_SUCCESSFUL: frozenset({ReplicaPhase.DELETION_STARTED}),
    ReplicaPhase.DELETION_INELIGIBLE: frozenset({ReplicaPhase.OFFLINE, ReplicaPhase.DELETION_STARTED}),
    ReplicaPhase.NON_EXISTENT: frozenset({ReplicaPhase.DELETION_SUCCESSFUL}),
}


def can_move(context: ControllerContext, replica: Replica, target: ReplicaPhase) -> bool:
    return context.replica_phase(replica) in VALID_PREVIOUS[target]


def move(context: ControllerContext, batch: RequestBatch, replicas: Iterable[Replica], target: ReplicaPhase) -> None:
    for replica in replicas:
        previous = context.replica_phase(replica)
        assert previous in VALID_PREVIOUS[target], f"{replica}: {previous} cannot become {target}"
        topic, partition, broker_id = replica
        has_leader = (topic, partition) in context.leadership
        match target:
            case ReplicaPhase.NEW if has_leader:
                batch.add_leader_and_isr([broker_id], (topic, partition), is_new=True)
            case ReplicaPhase.ONLINE if has_leader and previous is not ReplicaPhase.NEW:
                batch.add_leader_and_isr([broker_id], (topic, partition), is_new=False)
            case ReplicaPhase.OFFLINE:
                batch.add_stop_replica([broker_id], (topic, partition), delete=False)
            case ReplicaPhase.DELETION_STARTED:
                batch.add_stop_replica([broker_id], (topic, partition), delete=True)
        if target is ReplicaPhase.NON_EXISTENT:
            context.forget_replica(replica)
        else:
            context.replica_phases[replica] = target


def initial_phase(context: ControllerContext, replica: Replica) -> ReplicaPhase:
    """Return the phase of a replica for a newly elected controller. A dead one may have files of a topic that is being
    deleted."""
    topic, partition, broker_id = replica
    if context.is_replica_online(broker_id, (topic, partition)):
        return ReplicaPhase.ONLINE
    return ReplicaPhase.DELETION_INELIGIBLE if context.is_being_deleted(topic) else ReplicaPhase.OFFLINE


def plan_offline(
    context: ControllerContext, broker_id: int, states: Mapping[TopicPartition, PartitionState]
) -> StateWrites:
    """Plan the states without `broker_id`; `states` are the state nodes as just read. Topics that are being deleted keep
    theirs: they are not read again."""
    plan = StateWrites()
    for topic_partition, state in states.items():
        if context.is_being_deleted(topic_partition[0]):
            continue
        if state.controller_epoch > context.epoch:
            plan.failures[topic_partition] = f"a controller of epoch {state.controller_epoch} has already decided"
            continue
        changed = without_replica(state, broker_id, context.epoch, context.assignment(topic_partition).replicas)
        if changed is not None:
            plan.writes[topic_partition] = changed
        else:
            plan.unchanged[topic_partition] = state
    return plan


def offline_committed(
    context: ControllerContext,
    batch: RequestBatch,
    broker_id: int,
    topic_partition: TopicPartition,
    state: PartitionState,
) -> None:
    """Apply a written `state` without `broker_id`: the other replicas get it."""
    context.leadership[topic_partition] = state
    if context.is_being_deleted(topic_partition[0]):
        return
    others = [each for each in context.assignment(topic_partition).replicas if each != broker_id]
    batch.add_leader_and_isr([each for each in others if context.is_live(each)], topic_partition, is_new=False)
