"""Executes reassignments: from a request, or from /admin/reassign_partitions to the last node.

Rules: `controller.reassignment_rules` decides the steps; this module writes and sends them. The latest request wins, by either
way. A partition is removed from /admin/reassign_partitions when it has the requested replicas, or when that is impossible; the
node is removed with the last one. The deletion of a topic ends its reassignments.
Source: Kafka KafkaController (processApiPartitionReassignment, processZkPartitionReassignment,
maybeTriggerPartitionReassignment, removePartitionFromReassigningPartitions).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from controller import reassignment_rules, replica_state_machine
from controller.controller_context import ReplicaPhase
from controller.controller_term import Term
from controller.elections.leader_election_rules import ElectionReason
from controller.reassignment_rules import (
    AssumeAssignment,
    BringReplicasOnline,
    ElectFirstLeader,
    ElectLeader,
    Finish,
    NotifyReplicas,
    StartReplicas,
    Step,
    StopReplicas,
    WriteAssignment,
)
from metadata.admin.topic_requests import Outcome, not_stored
from metadata.store import znodes
from metadata.store.port import BadVersionError, Delete, FinalError, NoNodeError, SetData, StoreError
from metadata.store.znodes import ReplicaAssignment
from protocol.errors import ErrorCode, KafkaError
from protocol.topic_partition import TopicPartition
from runtime.error_texts import reason_of

logger = logging.getLogger(__name__)


# --- requests ---


async def alter(term: Term, wanted: Mapping[TopicPartition, Sequence[int] | None]) -> dict[TopicPartition, Outcome]:
    """AlterPartitionReassignments: set the target replicas of each partition; None cancels its reassignment."""
    outcomes: dict[TopicPartition, Outcome] = {}
    changes: dict[TopicPartition, ReplicaAssignment] = {}
    for key, target in wanted.items():
        try:
            changes[key] = _change(term, key, target)
        except KafkaError as error:
            outcomes[key] = Outcome(error.code, error.message)
        await term.yield_if_due()
    await _remove_requests(term, lambda key, _: key in changes)
    failures = await _reassign(term, changes)
    for key in changes:
        outcomes[key] = _outcome_of(failures[key]) if key in failures else Outcome()
    return {key: outcomes[key] for key in wanted}


def _outcome_of(failure: StoreError) -> Outcome:
    if isinstance(failure, NoNodeError):
        return Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
    return not_stored(failure)


def _change(term: Term, key: TopicPartition, target: Sequence[int] | None) -> ReplicaAssignment:
    """Return the assignment during the requested change. Raises KafkaError."""
    context = term.context
    current = context.assignment(key)
    if target is None:
        if not current.is_being_reassigned:
            raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        target = current.origin
    else:
        reassignment_rules.check_target(target)
    wanted = reassignment_rules.reassign_to(current, target)
    reassignment_rules.check_alive(wanted, [each for each in context.live_brokers if context.is_live(each)])
    return _possible(term, key, wanted)


def _possible(term: Term, key: TopicPartition, wanted: ReplicaAssignment) -> ReplicaAssignment:
    """Return `wanted` if it is valid. Raises KafkaError."""
    context = term.context
    if not context.assignment(key).replicas or context.is_being_deleted(key[0]):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
    reassignment_rules.check_keeps_records(*key, wanted, context.leadership.find(key))
    return wanted


async def ongoing(term: Term, wanted: Iterable[TopicPartition] | None) -> dict[TopicPartition, ReplicaAssignment]:
    """ListPartitionReassignments: return the ongoing ones of `wanted`, or all. For a topic that is being deleted, those of
    its node."""
    context = term.context
    if wanted is None:
        deleted = [key for name in context.topics_to_delete for key in context.partitions_of(name)]
        wanted = [*context.reassigning, *deleted]
    found: dict[TopicPartition, ReplicaAssignment] = {}
    for key in wanted:
        assignment = context.assignment(key)
        if assignment.is_being_reassigned:
            found[key] = assignment
        await term.yield_if_due()
    return found


async def on_requests_changed(term: Term) -> set[TopicPartition]:
    """Handle a written or removed /admin/reassign_partitions, and watch it again. Returns the partitions whose
    reassignment was started."""
    if await term.session.exists(znodes.REASSIGNMENTS, term.watch) is None:
        return set()
    try:
        data, _ = await term.session.get(znodes.REASSIGNMENTS)
        requested = znodes.decode_reassignments(data)
    except NoNodeError:
        return set()  # its watch notifies of that
    except ValueError as error:
        logger.warning("requested reassignments unreadable, removed: error=%s", error)
        requested = {}
    changes: dict[TopicPartition, ReplicaAssignment] = {}
    refused: set[TopicPartition] = set()
    for key, target in requested.items():
        current = term.context.assignment(key)
        if key in term.context.reassigning and current.target == target:
            continue
        try:
            reassignment_rules.check_target(target)
            changes[key] = _possible(term, key, reassignment_rules.reassign_to(current, target))
        except KafkaError as error:
            logger.warning(
                "reassignment refused: topic=%s partition=%d target_replicas=%s reason=%s", *key, target, error
            )
            refused.add(key)
    refused.update(await _reassign(term, changes))
    if refused or not requested:
        await _remove_requests(term, lambda key, _: key in refused)
    return changes.keys() - refused


async def _remove_requests(term: Term, is_done: Callable[[TopicPartition, tuple[int, ...]], bool]) -> None:
    """Remove partitions from /admin/reassign_partitions, and the node with the last of them."""
    while True:
        try:
            data, stat = await term.session.get(znodes.REASSIGNMENTS)
        except NoNodeError:
            return
        try:
            requested = znodes.decode_reassignments(data)
        except ValueError:
            requested = {}
        left = {key: target for key, target in requested.items() if not is_done(key, target)}
        if left == requested and requested:
            return
        change = (
            SetData(znodes.REASSIGNMENTS, znodes.encode_reassignments(left), stat.version)
            if left
            else Delete(znodes.REASSIGNMENTS, stat.version)
        )
        [outcome] = await term.write_many([[change]])
        if isinstance(outcome, BadVersionError | NoNodeError):
            continue
        if isinstance(outcome, StoreError):
            logger.warning("requested reassignments not removed from their node: error=%s", reason_of(outcome))
        elif not left:
            await term.session.exists(znodes.REASSIGNMENTS, term.watch)
        return


# --- steps ---


async def _reassign(term: Term, wanted: Mapping[TopicPartition, ReplicaAssignment]) -> dict[TopicPartition, StoreError]:
    """Start reassignments; return the partitions that could not be written, with the error. A topic's node is written once:
    it contains all partitions, and a write for each would take quadratic time."""
    context = term.context
    before = {key: context.assignment(key) for key in wanted}
    changed: dict[str, dict[int, ReplicaAssignment]] = {}
    for key, assignment in wanted.items():
        logger.info(
            "reassignment started: topic=%s partition=%d replicas=%s target_replicas=%s",
            *key,
            before[key].replicas,
            assignment.target,
        )
        context.reassigning[key] = None
        if assignment != before[key]:
            changed.setdefault(key[0], {})[key[1]] = assignment
        await term.yield_if_due()
    failures: dict[TopicPartition, StoreError] = {}
    for name, assignments in changed.items():
        failure = await _write(term, name, assignments)
        if failure is not None:
            failures.update(((name, partition), failure) for partition in assignments)
    for key, assignment in wanted.items():
        if key not in failures:
            steps = reassignment_rules.plan_change(before[key], assignment)
            await _carry_out(term, key, [each for each in steps if not isinstance(each, WriteAssignment)])
            await proceed(term, key)
    return failures


async def _write(term: Term, name: str, assignments: Mapping[int, ReplicaAssignment]) -> StoreError | None:
    """Write assignments to the topic's node; return the error if it cannot be written. If the node was removed, the
    reassignments end; otherwise the previous one continues."""
    try:
        await term.write_assignments(name, assignments)
    except (NoNodeError, FinalError) as error:
        logger.warning(
            "assignments not written: topic=%s partitions=%s error=%s", name, list(assignments)[:10], reason_of(error)
        )
        for partition in assignments:
            key = (name, partition)
            if isinstance(error, NoNodeError) or not term.context.assignment(key).is_being_reassigned:
                term.context.reassigning.pop(key, None)
        return error
    return None


async def proceed(term: Term, key: TopicPartition) -> None:
    """Execute the next phase; it is called again for every reassignment when its replicas are in sync."""
    context = term.context
    states = await term.read_states([key])
    context.leadership.update(states)
    steps = reassignment_rules.plan_next(
        context.assignment(key), states.get(key), partial(context.is_replica_online, topic_partition=key)
    )
    if not await _carry_out(term, key, steps):
        return
    if key not in states and key in context.leadership and key in context.reassigning:
        await proceed(term, key)  # it has its first leader now


async def complete_where_in_sync(term: Term, keys: Iterable[TopicPartition]) -> None:
    """Complete the reassignments whose target is in sync, after ISRs have grown."""
    for key in keys:
        if key in term.context.reassigning:
            state = term.context.leadership.find(key)
            if reassignment_rules.is_complete(term.context.assignment(key), state):
                await proceed(term, key)


def find_unfinished(term: Term) -> None:
    """Find ongoing reassignments in the topics' nodes, after the election; topics that are being deleted must be known."""
    context = term.context
    context.reassigning.update(
        (key, None)
        for key in context.all_partitions()
        if not context.is_being_deleted(key[0])
        and (
            (assignment := context.assignment(key)).is_being_reassigned
            or reassignment_rules.strays(assignment, context.leadership.find(key))
        )
    )


async def end(term: Term, names: Collection[str]) -> None:
    """End the reassignments of topics that are being deleted."""
    ended = [key for key in term.context.reassigning if key[0] in names]
    for key in ended:
        logger.info("reassignment ended, its topic is being deleted: topic=%s partition=%d", *key)
        del term.context.reassigning[key]
    if ended:
        await _remove_requests(term, lambda key, _: key[0] in names)


async def take_over(term: Term) -> None:
    """Continue the reassignments that were found, and start those that were requested meanwhile."""
    moving = list(term.context.reassigning)
    begun = await on_requests_changed(term)
    for key in moving:
        if key not in begun:
            await proceed(term, key)


async def on_brokers_added(term: Term, come: set[int]) -> None:
    """Continue reassignments that waited for these brokers."""
    for key in list(term.context.reassigning):
        if come.intersection(term.context.assignment(key).target):
            await proceed(term, key)


async def _carry_out(term: Term, key: TopicPartition, steps: Iterable[Step]) -> bool:
    """Execute steps; returns False if the topic's node could not be written."""
    context = term.context
    name, partition = key
    for step in steps:
        match step:
            case WriteAssignment(assignment):
                if await _write(term, name, {partition: assignment}) is not None:
                    return False
            case AssumeAssignment(assignment):
                context.set_assignment(key, assignment)
            case StopReplicas(broker_ids):
                await _stop(term, key, broker_ids)
            case NotifyReplicas():
                await _notify(term, key)
            case StartReplicas(broker_ids):
                await _move(term, key, broker_ids, ReplicaPhase.NEW)
            case BringReplicasOnline(broker_ids):
                await _move(term, key, broker_ids, ReplicaPhase.ONLINE)
            case ElectLeader():
                await term.elect([key], ElectionReason.REASSIGNMENT)
            case ElectFirstLeader():
                await term.bring_online([key])
            case Finish():
                await _finish(term, key)
    return True


async def _move(term: Term, key: TopicPartition, broker_ids: Iterable[int], phase: ReplicaPhase) -> None:
    """Move replicas to a phase. Those that cannot move are not changed: a step may be repeated."""
    batch = term.new_batch()
    await term.move_replicas(batch, [(*key, each) for each in broker_ids], phase)
    await term.send(batch)


async def _stop(term: Term, key: TopicPartition, broker_ids: tuple[int, ...]) -> None:
    context = term.context
    for broker_id in broker_ids:  # a stray replica of an earlier controller has no phase yet
        if context.replica_phase((*key, broker_id)) is ReplicaPhase.NON_EXISTENT:
            context.replica_phases[*key, broker_id] = replica_state_machine.initial_phase(context, (*key, broker_id))
    await term.take_replicas_offline([(*key, each) for each in broker_ids])
    for phase in (ReplicaPhase.DELETION_STARTED, ReplicaPhase.DELETION_SUCCESSFUL, ReplicaPhase.NON_EXISTENT):
        await _move(term, key, broker_ids, phase)


async def _notify(term: Term, key: TopicPartition) -> None:
    """Send the assignment to all replicas; added ones as new, so that they may be created in any online directory."""
    if await term.raise_leader_epoch(key) is None:
        return
    assignment = term.context.assignment(key)
    batch = term.new_batch()
    batch.add_leader_and_isr(assignment.origin, key, is_new=False)
    batch.add_leader_and_isr(assignment.adding, key, is_new=True)
    await term.send(batch)


async def _finish(term: Term, key: TopicPartition) -> None:
    context = term.context
    replicas_now = context.assignment(key).replicas
    context.reassigning.pop(key, None)
    await _remove_requests(term, lambda each, target: each == key and target == replicas_now)
    logger.info("reassignment complete: topic=%s partition=%d replicas=%s", *key, replicas_now)
    await term.send_metadata(context.live_brokers, [key])
