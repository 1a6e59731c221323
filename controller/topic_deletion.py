"""The deletion of topics: from the request in /admin/delete_topics to the removal of the last node.

    requested --> removed from brokers' metadata --> replicas stop --> replicas delete their files --> nodes removed

Rules: live brokers delete immediately, and the topic accepts no more records; if a broker is dead, or fails to delete, the
topic's nodes, and so its name, remain until that broker is online again. A reassignment ends: replicas that it was adding or
removing are deleted like the others. The request's node is removed last, so that the next controller can continue. Every step
may be repeated.
Source: Kafka TopicDeletionManager, TopicDeletionStateMachine.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

from controller import partition_state_machine, reassignment_execution, reassignment_rules, replica_state_machine
from controller.controller_context import PartitionPhase, Replica, ReplicaPhase
from controller.controller_term import Term
from metadata.store import znodes
from metadata.store.port import Delete, NoNodeError, Operation, StoreError

# Nodes are removed in transactions of this many operations: an ensemble bounds the size of one.
DELETIONS_PER_TRANSACTION = 100

logger = logging.getLogger(__name__)


async def read_requested_deletions(term: Term, *, is_enabled: bool) -> None:
    """Read the requested deletions; those of unknown topics, or all if deletion is disabled, are removed."""
    requested = await term.session.children(znodes.DELETE_TOPICS, term.watch)
    unknown = [name for name in requested if name not in term.context.topics]
    dropped = unknown if is_enabled else requested
    if dropped:
        logger.info("requested topic deletions dropped: topics=%s enabled=%s", dropped[:10], is_enabled)
        await _delete_all(term, [Delete(znodes.delete_topic_path(name)) for name in dropped])
    if is_enabled:
        new = [name for name in requested if name in term.context.topics and not term.context.is_being_deleted(name)]
        term.context.topics_to_delete.update(dict.fromkeys(new))
        await reassignment_execution.end(term, set(new))
        for name in new:
            _include_strays(term, name)


def _include_strays(term: Term, name: str) -> None:
    """Delete in-sync replicas that the topic's node does not name, too: they have files."""
    context = term.context
    for key in context.partitions_of(name):
        assignment = context.assignment(key)
        left = reassignment_rules.strays(assignment, context.leadership.find(key))
        if left:
            context.set_assignment(key, replace(assignment, replicas=(*assignment.replicas, *left)))
        for replica in [(*key, each) for each in left]:
            if context.replica_phase(replica) is ReplicaPhase.NON_EXISTENT:
                context.replica_phases[replica] = replica_state_machine.initial_phase(context, replica)


async def resume(term: Term) -> None:
    """Execute the next step for every topic that is to be deleted: KafkaController.resumeDeletions."""
    for name in list(term.context.topics_to_delete):
        if _is_deleted_everywhere(term, name):
            await _complete(term, name)
        else:
            await _begin(term, name)


async def _begin(term: Term, name: str) -> None:
    """Send the deletion to live brokers that have not got it: some may have registered since the first step."""
    context = term.context
    topic_partitions = context.partitions_of(name)
    if name not in context.deletions_started:
        logger.info("topic deletion started: topic=%s partitions=%d", name, len(topic_partitions))
        context.deletions_started.add(name)
        movable = [
            each
            for each in topic_partitions
            if context.partition_phase(each) in partition_state_machine.VALID_PREVIOUS[PartitionPhase.OFFLINE]
        ]
        partition_state_machine.move(context, movable, PartitionPhase.OFFLINE)
        partition_state_machine.move(context, movable, PartitionPhase.NON_EXISTENT)
        await term.send_metadata(context.live_brokers, topic_partitions)
    asked = (ReplicaPhase.DELETION_STARTED, ReplicaPhase.DELETION_SUCCESSFUL)
    remaining = [each for each in _replicas(term, name) if context.replica_phase(each) not in asked]
    dead = [each for each in remaining if not context.is_replica_online(each[2], each[:2])]
    if dead:
        logger.info(
            "topic deletion waits for dead brokers: topic=%s brokers=%s", name, sorted({each[2] for each in dead})
        )
        for phase in (ReplicaPhase.OFFLINE, ReplicaPhase.DELETION_INELIGIBLE):
            await term.move_replicas(term.new_batch(), dead, phase)  # the batch is not sent: these brokers are dead
    alive = [each for each in remaining if each not in set(dead)]
    for phase in (ReplicaPhase.OFFLINE, ReplicaPhase.DELETION_STARTED):
        batch = term.new_batch()
        movable_replicas = [each for each in alive if replica_state_machine.can_move(context, each, phase)]
        replica_state_machine.move(context, batch, movable_replicas, phase)
        await term.send(batch)


async def on_replicas_deleted(term: Term, deleted: Iterable[Replica], failed: Iterable[Replica]) -> None:
    """Handle the responses of brokers to a deletion."""
    deleted, failed = list(deleted), list(failed)
    context = term.context
    batch = term.new_batch()
    for each, phase in [
        *((each, ReplicaPhase.DELETION_SUCCESSFUL) for each in deleted),
        *((each, ReplicaPhase.DELETION_INELIGIBLE) for each in failed),
    ]:
        if context.is_being_deleted(each[0]) and replica_state_machine.can_move(context, each, phase):
            replica_state_machine.move(context, batch, [each], phase)
    for name in dict.fromkeys(name for name, _, _ in deleted):
        if context.is_being_deleted(name) and _is_deleted_everywhere(term, name):
            await _complete(term, name)


async def on_brokers_failed(term: Term, lost: Iterable[Replica]) -> None:
    """Mark replicas of topics that are being deleted on dead brokers: these get the request again when they are back."""
    movable = [
        each for each in lost if replica_state_machine.can_move(term.context, each, ReplicaPhase.DELETION_INELIGIBLE)
    ]
    replica_state_machine.move(term.context, term.new_batch(), movable, ReplicaPhase.DELETION_INELIGIBLE)


def _is_deleted_everywhere(term: Term, name: str) -> bool:
    return all(term.context.replica_phase(each) is ReplicaPhase.DELETION_SUCCESSFUL for each in _replicas(term, name))


async def _complete(term: Term, name: str) -> None:
    """Remove the nodes of a topic without replicas, the request last."""
    try:
        children = await term.session.children(znodes.partitions_path(name))
    except NoNodeError:
        children = []
    paths = []
    for each in children:  # partitions, and any other children
        path = f"{znodes.partitions_path(name)}/{each}"
        paths += [f"{path}/state", path]
    paths += [znodes.partitions_path(name), znodes.topic_path(name), znodes.config_path("topics", name)]
    paths.append(znodes.delete_topic_path(name))
    await _delete_all(term, [Delete(path) for path in paths])
    context = term.context
    context.remove_topic(name)
    context.topics_to_delete.pop(name, None)
    context.deletions_started.discard(name)
    logger.info("topic deleted: topic=%s", name)


async def _delete_all(term: Term, deletions: list[Operation]) -> None:
    """Delete nodes in order; missing ones count as deleted."""
    groups = [
        deletions[start : start + DELETIONS_PER_TRANSACTION]
        for start in range(0, len(deletions), DELETIONS_PER_TRANSACTION)
    ]
    for group in groups:
        [outcome] = await term.write_many([group])
        if isinstance(outcome, StoreError):  # one of them was missing: delete them one by one
            await term.write_many([[each] for each in group])


def _replicas(term: Term, name: str) -> list[Replica]:
    return term.context.replicas_of(term.context.partitions_of(name))
