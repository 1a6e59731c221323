"""Carries reassignments out: from a request or from /admin/reassign_partitions to the last node.

Rules: what to do is decided by `controller.reassignment_rules`; here it is written, told and remembered. The latest wish wins,
whoever made it. A partition leaves /admin/reassign_partitions when it has what the node wishes for it, or when that
cannot be; the node goes with the last. The deletion of a topic ends its reassignments.
Source: Kafka KafkaController (processApiPartitionReassignment, processZkPartitionReassignment,
maybeTriggerPartitionReassignment, removePartitionFromReassigningPartitions).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from controller import reassignment_rules, replica_state_machine
from controller.controller_context import ReplicaPhase
from controller.leader_election_rules import ElectionReason
from controller.reassignment_rules import (
    AssumeAssignment,
    BringReplicasOnline,
    ElectFirstLeader,
    ElectLeader,
    Finish,
    StartReplicas,
    Step,
    StopReplicas,
    TellReplicas,
    WriteAssignment,
)
from controller.term import Term
from metadata.admin.topic_admin import Outcome, not_stored
from metadata.store import znodes
from metadata.store.port import BadVersionError, Delete, FinalError, NoNodeError, SetData, StoreError
from metadata.store.znodes import ReplicaAssignment
from protocol.errors import ErrorCode, KafkaError
from protocol.topic_partition import TopicPartition
from runtime.reasons import reason_of

logger = logging.getLogger(__name__)


# --- wishes ---


async def alter(term: Term, wanted: Mapping[TopicPartition, Sequence[int] | None]) -> dict[TopicPartition, Outcome]:
    """AlterPartitionReassignments: the replicas that each partition shall have; None calls its reassignment off."""
    outcomes: dict[TopicPartition, Outcome] = {}
    changes: dict[TopicPartition, ReplicaAssignment] = {}
    for key, target in wanted.items():
        try:
            changes[key] = _change(term, key, target)
        except KafkaError as error:
            outcomes[key] = Outcome(error.code, error.message)
        await term.yield_if_due()
    await _forget_wishes(term, lambda key, _: key in changes)
    failures = await _reassign(term, changes)
    for key in changes:
        outcomes[key] = _outcome_of(failures[key]) if key in failures else Outcome()
    return {key: outcomes[key] for key in wanted}


def _outcome_of(failure: StoreError) -> Outcome:
    if isinstance(failure, NoNodeError):
        return Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
    return not_stored(failure)


def _change(term: Term, key: TopicPartition, target: Sequence[int] | None) -> ReplicaAssignment:
    """Raises KafkaError."""
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
    """`wanted` itself. Raises KafkaError."""
    context = term.context
    if not context.assignment(key).replicas or context.is_being_deleted(key[0]):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
    reassignment_rules.check_keeps_records(*key, wanted, context.leadership.find(key))
    return wanted


async def under_way(term: Term, wanted: Iterable[TopicPartition] | None) -> dict[TopicPartition, ReplicaAssignment]:
    """ListPartitionReassignments: of `wanted`, or all. The node of a topic that is being deleted goes on saying what it
    said."""
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


async def on_wishes_changed(term: Term) -> set[TopicPartition]:
    """/admin/reassign_partitions was written, or went. Leaves the watch again. Returns what was begun."""
    if await term.session.exists(znodes.REASSIGNMENTS, term.watch) is None:
        return set()
    try:
        data, _ = await term.session.get(znodes.REASSIGNMENTS)
        wishes = znodes.decode_reassignments(data)
    except NoNodeError:
        return set()  # its watch tells
    except ValueError as error:
        logger.warning("requested reassignments unreadable, removed: error=%s", error)
        wishes = {}
    changes: dict[TopicPartition, ReplicaAssignment] = {}
    refused: set[TopicPartition] = set()
    for key, target in wishes.items():
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
    if refused or not wishes:
        await _forget_wishes(term, lambda key, _: key in refused)
    return changes.keys() - refused


async def _forget_wishes(term: Term, is_forgotten: Callable[[TopicPartition, tuple[int, ...]], bool]) -> None:
    """Take partitions out of /admin/reassign_partitions, and the node away with the last of them."""
    while True:
        try:
            data, stat = await term.session.get(znodes.REASSIGNMENTS)
        except NoNodeError:
            return
        try:
            wishes = znodes.decode_reassignments(data)
        except ValueError:
            wishes = {}
        left = {key: target for key, target in wishes.items() if not is_forgotten(key, target)}
        if left == wishes and wishes:
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
    """Those whose wish could not be written, and why. A topic's node is written once: it says all of its partitions, so that
    a write for each of them would be work with the square of their number."""
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
    """What the topic's node answered when it could not be written. One that is gone takes reassignments along; one that
    takes no other wish leaves the one before it under way."""
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
    """Do what it is time for; every reassignment passes here once more when its replicas are in sync."""
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
    """In-sync sets have grown: some reassignments may have been waiting for that."""
    for key in keys:
        if key in term.context.reassigning:
            state = term.context.leadership.find(key)
            if reassignment_rules.is_complete(term.context.assignment(key), state):
                await proceed(term, key)


def find_unfinished(term: Term) -> None:
    """What a new controller finds under way, by the topics' nodes; topics that are being deleted are known."""
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
    """These topics are to go: none of their partitions moves any further."""
    ended = [key for key in term.context.reassigning if key[0] in names]
    for key in ended:
        logger.info("reassignment ended, its topic is being deleted: topic=%s partition=%d", *key)
        del term.context.reassigning[key]
    if ended:
        await _forget_wishes(term, lambda key, _: key[0] in names)


async def take_over(term: Term) -> None:
    """A new controller goes on with what it has found, and with what is wished meanwhile."""
    moving = list(term.context.reassigning)
    begun = await on_wishes_changed(term)
    for key in moving:
        if key not in begun:
            await proceed(term, key)


async def on_brokers_come(term: Term, come: set[int]) -> None:
    """Some reassignments may have been waiting for them."""
    for key in list(term.context.reassigning):
        if come.intersection(term.context.assignment(key).target):
            await proceed(term, key)


async def _carry_out(term: Term, key: TopicPartition, steps: Iterable[Step]) -> bool:
    """False when the topic's node could not be written."""
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
            case TellReplicas():
                await _tell(term, key)
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
    """Those that are elsewhere already are left there: a step may be repeated."""
    batch = term.new_batch()
    await term.move_replicas(batch, [(*key, each) for each in broker_ids], phase)
    await term.send(batch)


async def _stop(term: Term, key: TopicPartition, broker_ids: tuple[int, ...]) -> None:
    context = term.context
    for broker_id in broker_ids:  # one that a dead controller forgot is in no phase yet
        if context.replica_phase((*key, broker_id)) is ReplicaPhase.NON_EXISTENT:
            context.replica_phases[*key, broker_id] = replica_state_machine.initial_phase(context, (*key, broker_id))
    await term.take_replicas_offline([(*key, each) for each in broker_ids])
    for phase in (ReplicaPhase.DELETION_STARTED, ReplicaPhase.DELETION_SUCCESSFUL, ReplicaPhase.NON_EXISTENT):
        await _move(term, key, broker_ids, phase)


async def _tell(term: Term, key: TopicPartition) -> None:
    """New replicas as new: they may be put into any log directory that works."""
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
    await _forget_wishes(term, lambda each, target: each == key and target == replicas_now)
    logger.info("reassignment complete: topic=%s partition=%d replicas=%s", *key, replicas_now)
    await term.send_metadata(context.live_brokers, [key])
