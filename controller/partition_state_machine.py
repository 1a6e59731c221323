"""The partition state machine: which moves are allowed, and what a move to ONLINE writes. Pure.

    NON_EXISTENT --> NEW --> ONLINE <--> OFFLINE --> NON_EXISTENT
                      \\__________________/^
    ONLINE --> ONLINE is a new election: with or without another leader.

Rules: the planner decides and changes nothing; the controller writes the plan (fenced by its epoch), and applies what was
written with `committed`. A partition without a candidate keeps its phase and is in `failures`.
Source: Kafka PartitionStateMachine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from controller.controller_context import ControllerContext, PartitionPhase
from controller.elections.leader_election_rules import (
    INITIAL_LEADER_EPOCH,
    Elected,
    ElectionReason,
    elect_first,
    elect_for_reassignment,
    elect_for_shutdown,
    elect_offline,
    elect_preferred,
    next_state,
    raise_epoch,
)
from controller.requests.request_batch import RequestBatch
from metadata.store.znodes import PartitionState, shared
from protocol.topic_partition import TopicPartition

VALID_PREVIOUS: Mapping[PartitionPhase, frozenset[PartitionPhase]] = {
    PartitionPhase.NEW: frozenset({PartitionPhase.NON_EXISTENT}),
    PartitionPhase.ONLINE: frozenset({PartitionPhase.NEW, PartitionPhase.ONLINE, PartitionPhase.OFFLINE}),
    PartitionPhase.OFFLINE: frozenset({PartitionPhase.NEW, PartitionPhase.ONLINE, PartitionPhase.OFFLINE}),
    PartitionPhase.NON_EXISTENT: frozenset({PartitionPhase.OFFLINE}),
}


@dataclass(slots=True)
class StateWrites:
    """State nodes to write, and why some partitions get none. `unclean` names those whose new leader was not in
    sync, `unchanged` those whose node already has the right state."""

    writes: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    failures: dict[TopicPartition, str] = field(default_factory=dict)
    unclean: set[TopicPartition] = field(default_factory=set)
    unchanged: dict[TopicPartition, PartitionState] = field(default_factory=dict)


def can_move(context: ControllerContext, topic_partition: TopicPartition, target: PartitionPhase) -> bool:
    return context.partition_phase(topic_partition) in VALID_PREVIOUS[target]


def move(context: ControllerContext, topic_partitions: Iterable[TopicPartition], target: PartitionPhase) -> None:
    """Apply moves that write nothing: to NEW, OFFLINE and NON_EXISTENT."""
    assert target is not PartitionPhase.ONLINE, "a partition comes online by what was written"
    for each in topic_partitions:
        assert can_move(context, each, target), f"{each}: {context.partition_phase(each)} cannot become {target}"
        if target is PartitionPhase.NON_EXISTENT:
            context.partition_phases.pop(each, None)
        else:
            context.partition_phases[each] = target


def initial_phase(context: ControllerContext, topic_partition: TopicPartition) -> PartitionPhase:
    """Return the phase of a partition for a newly elected controller."""
    state = context.leadership.find(topic_partition)
    if state is None:
        return PartitionPhase.NEW
    online = context.is_replica_online(state.leader, topic_partition)
    return PartitionPhase.ONLINE if online else PartitionPhase.OFFLINE


def plan_first_leaders(context: ControllerContext, topic_partitions: Iterable[TopicPartition]) -> StateWrites:
    """Plan NEW to ONLINE: the first leader and ISR, at epoch zero; state nodes to be created."""
    plan = StateWrites()
    for each in topic_partitions:
        replicas = context.assignment(each).replicas
        elected = elect_first(replicas, partial(context.is_replica_online, topic_partition=each))
        if elected is None:
            plan.failures[each] = f"none of its replicas {list(replicas)} is alive"
        else:
            plan.writes[each] = PartitionState(elected.leader, INITIAL_LEADER_EPOCH, elected.isr, context.epoch)
    return plan


def plan_elections(
    context: ControllerContext,
    states: Mapping[TopicPartition, PartitionState],
    reason: ElectionReason,
    is_unclean_allowed: Mapping[str, bool],
) -> StateWrites:
    """Plan OFFLINE or ONLINE to ONLINE. `states` are the state nodes as just read; `is_unclean_allowed` is by topic and
    applies to OFFLINE only."""
    plan = StateWrites()
    for topic_partition, state in states.items():
        if state.controller_epoch > context.epoch:
            plan.failures[topic_partition] = f"a controller of epoch {state.controller_epoch} has already decided"
            continue
        elected = _elect(context, topic_partition, state, reason, is_unclean_allowed)
        if elected is None:
            plan.failures[topic_partition] = (
                f"no replica can lead: assigned {list(context.assignment(topic_partition).replicas)}, "
                f"in sync {list(state.isr)}, alive {sorted(context.live_brokers)}"
            )
            continue
        marks_recovery = context.version.supports_leader_recovery
        plan.writes[topic_partition] = next_state(state, elected, context.epoch, marks_recovery=marks_recovery)
        if elected.is_unclean:
            plan.unclean.add(topic_partition)
    return plan


def _elect(
    context: ControllerContext,
    topic_partition: TopicPartition,
    state: PartitionState,
    reason: ElectionReason,
    is_unclean_allowed: Mapping[str, bool],
) -> Elected | None:
    assignment = context.assignment(topic_partition)

    def is_online(broker_id: int) -> bool:
        return context.is_replica_online(broker_id, topic_partition)

    def is_registered(broker_id: int) -> bool:
        offline = context.offline_directories.get(broker_id, ())
        return broker_id in context.live_brokers and topic_partition not in offline

    match reason:
        case ElectionReason.OFFLINE | ElectionReason.UNCLEAN:
            allowed = reason is ElectionReason.UNCLEAN or is_unclean_allowed.get(topic_partition[0], False)
            return elect_offline(assignment.replicas, state.isr, is_online, is_unclean_allowed=allowed)
        case ElectionReason.PREFERRED:
            return elect_preferred(assignment.replicas, state.isr, is_online)
        case ElectionReason.REASSIGNMENT:
            target = [each for each in assignment.replicas if each not in assignment.removing]
            return elect_for_reassignment(target, state.isr, is_online)
        case ElectionReason.CONTROLLED_SHUTDOWN:
            return elect_for_shutdown(assignment.replicas, state.isr, is_registered, context.shutting_down)


def plan_raised_epochs(context: ControllerContext, states: Mapping[TopicPartition, PartitionState]) -> StateWrites:
    """Plan the same leaders and ISRs with a new leader epoch. `states` are the state nodes as just read."""
    plan = StateWrites()
    for topic_partition, state in states.items():
        if state.controller_epoch > context.epoch:
            plan.failures[topic_partition] = f"a controller of epoch {state.controller_epoch} has already decided"
        else:
            plan.writes[topic_partition] = raise_epoch(state, context.epoch)
    return plan


def committed(
    context: ControllerContext,
    batch: RequestBatch,
    topic_partition: TopicPartition,
    state: PartitionState,
    *,
    is_new: bool = False,
    to_shutting_down: bool = False,
) -> None:
    """Apply a written `state`: the partition is online, and its replicas get it. A broker that is shutting down has stopped
    its followers and must not start them again; it gets only the partitions that it no longer leads."""
    context.leadership[topic_partition] = shared(state)
    context.partition_phases[topic_partition] = PartitionPhase.ONLINE
    replicas = context.assignment(topic_partition).replicas
    receivers = [each for each in replicas if context.is_replica_online(each, topic_partition)]
    if to_shutting_down:
        receivers += [each for each in replicas if each in context.shutting_down and each in context.live_brokers]
    batch.add_leader_and_isr(receivers, topic_partition, is_new=is_new)
