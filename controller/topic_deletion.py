"""Deleting topics: from the wish in /admin/delete_topics to the last node.

    wished --> brokers' metadata forgets it --> replicas stop --> replicas delete their files --> nodes removed

Rules: whoever can be reached deletes at once, and the topic takes no more records; a dead broker, or one that fails to
delete, keeps the topic's nodes, and so its name, until that broker comes (back) online. A reassignment ends where it is:
replicas that it was adding or removing go like the others. The wish's node goes last, so a controller that dies in the
middle leaves the work to the next. Every step may be repeated.
Source: Kafka TopicDeletionManager, TopicDeletionStateMachine.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

from controller import partition_state_machine, reassignment_execution, reassignment_rules, replica_state_machine
from controller.controller_context import PartitionPhase, Replica, ReplicaPhase
from controller.term import Term
from metadata.store import znodes
from metadata.store.port import Delete, NoNodeError, Operation, StoreError

# Nodes are removed in transactions of this many operations: an ensemble bounds the size of one.
DELETIONS_PER_TRANSACTION = 100

logger = logging.getLogger(__name__)


async def read_wishes(term: Term, *, is_enabled: bool) -> None:
    """Take up the topics whose deletion is wished; wishes for unknown topics, or any when deletion is disabled, go."""
    wished = await term.session.children(znodes.DELETE_TOPICS, term.watch)
    unknown = [name for name in wished if name not in term.context.topics]
    dropped = unknown if is_enabled else wished
    if dropped:
        logger.info("requested topic deletions dropped: topics=%s enabled=%s", dropped[:10], is_enabled)
        await _delete_all(term, [Delete(znodes.delete_topic_path(name)) for name in dropped])
    if is_enabled:
        new = [name for name in wished if name in term.context.topics and not term.context.is_being_deleted(name)]
        term.context.topics_to_delete.update(dict.fromkeys(new))
        await reassignment_execution.end(term, set(new))
        for name in new:
            _include_strays(term, name)


def _include_strays(term: Term, name: str) -> None:
    """In-sync replicas that the topic's node does not name hold files as well."""
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
    """Do the next step for every topic that is to go: KafkaController.resumeDeletions."""
    for name in list(term.context.topics_to_delete):
        if _is_deleted_everywhere(term, name):
            await _complete(term, name)
        else:
            await _begin(term, name)


async def _begin(term: Term, name: str) -> None:
    """Ask the brokers that can be asked and have not been: some may have come (back) since others were."""
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
            await term.move_replicas(term.new_batch(), dead, phase)  # nobody is there to be told
    alive = [each for each in remaining if each not in set(dead)]
    for phase in (ReplicaPhase.OFFLINE, ReplicaPhase.DELETION_STARTED):
        batch = term.new_batch()
        movable_replicas = [each for each in alive if replica_state_machine.can_move(context, each, phase)]
        replica_state_machine.move(context, batch, movable_replicas, phase)
        await term.send(batch)


async def on_replicas_deleted(term: Term, deleted: Iterable[Replica], failed: Iterable[Replica]) -> None:
    """Brokers have answered."""
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


async def on_brokers_failed(term: Term, gone: Iterable[Replica]) -> None:
    """Replicas of topics that are to go, on brokers that died: they will be asked again when the broker is back."""
    movable = [
        each for each in gone if replica_state_machine.can_move(term.context, each, ReplicaPhase.DELETION_INELIGIBLE)
    ]
    replica_state_machine.move(term.context, term.new_batch(), movable, ReplicaPhase.DELETION_INELIGIBLE)


def _is_deleted_everywhere(term: Term, name: str) -> bool:
    return all(term.context.replica_phase(each) is ReplicaPhase.DELETION_SUCCESSFUL for each in _replicas(term, name))


async def _complete(term: Term, name: str) -> None:
    """Every file is gone: the nodes follow, the wish last."""
    try:
        children = await term.session.children(znodes.partitions_path(name))
    except NoNodeError:
        children = []
    paths = []
    for each in children:  # partitions, and whatever somebody made beside them
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
    """In order. What is gone already counts as deleted."""
    groups = [
        deletions[start : start + DELETIONS_PER_TRANSACTION]
        for start in range(0, len(deletions), DELETIONS_PER_TRANSACTION)
    ]
    for group in groups:
        [outcome] = await term.write_many([group])
        if isinstance(outcome, StoreError):  # one of them was missing: each by itself
            await term.write_many([[each] for each in group])


def _replicas(term: Term, name: str) -> list[Replica]:
    return term.context.replicas_of(term.context.partitions_of(name))
