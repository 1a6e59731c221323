"""Carries reassignments out: from a request or from /admin/reassign_partitions to the last node.

Rules: what to do is decided by `controller.reassignment`; here it is written, told and remembered. The latest wish wins,
whoever made it. A partition leaves /admin/reassign_partitions when it has what the node wishes for it, or when that
cannot be; the node goes with the last.
Source: Kafka KafkaController (processApiPartitionReassignment, processZkPartitionReassignment,
maybeTriggerPartitionReassignment, removePartitionFromReassigningPartitions).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from controller import deletion, reassignment, replicas, znodes
from controller.admin import Outcome, not_stored
from controller.context import ReplicaPhase, TopicPartition
from controller.election import ElectionReason
from controller.reassignment import (
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
from controller.store import AccessDeniedError, BadVersionError, Delete, NoNodeError, RefusedError, SetData, StoreError
from controller.term import Term
from controller.znodes import ReplicaAssignment
from protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)


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
        await term.breathe()
    await _forget_wishes(term, lambda key, _: key in changes)
    for key, change in changes.items():
        failure = await _reassign(term, key, change)
        outcomes[key] = Outcome() if failure is None else _outcome_of(failure)
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
        reassignment.check_target(target)
    wanted = reassignment.reassign_to(current, target)
    reassignment.check_alive(wanted, [each for each in context.live_brokers if context.is_live(each)])
    return _possible(term, key, wanted)


def _possible(term: Term, key: TopicPartition, wanted: ReplicaAssignment) -> ReplicaAssignment:
    """`wanted` itself. Raises KafkaError."""
    context = term.context
    if not context.assignment(key).replicas or context.is_being_deleted(key[0]):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
    reassignment.check_keeps_records(*key, wanted, context.leadership.find(key))
    return wanted


async def under_way(term: Term, wanted: Iterable[TopicPartition] | None) -> dict[TopicPartition, ReplicaAssignment]:
    """ListPartitionReassignments: of `wanted`, or all."""
    found: dict[TopicPartition, ReplicaAssignment] = {}
    for key in term.context.reassigning if wanted is None else wanted:
        assignment = term.context.assignment(key)
        if assignment.is_being_reassigned:
            found[key] = assignment
        await term.breathe()
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
        log.warning("reassignments dropped, unreadable error=%s", error)
        wishes = {}
    begun: set[TopicPartition] = set()
    refused: set[TopicPartition] = set()
    for key, target in wishes.items():
        current = term.context.assignment(key)
        if key in term.context.reassigning and current.target == target:
            continue
        try:
            reassignment.check_target(target)
            change = _possible(term, key, reassignment.reassign_to(current, target))
        except KafkaError as error:
            log.warning("reassignment refused topic=%s partition=%d target=%s reason=%s", *key, target, error)
            refused.add(key)
        else:
            failure = await _reassign(term, key, change)
            (begun if failure is None else refused).add(key)
    if refused or not wishes:
        await _forget_wishes(term, lambda key, _: key in refused)
    return begun


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
            log.warning("reassignments stay in their node error=%r", outcome)
        elif not left:
            await term.session.exists(znodes.REASSIGNMENTS, term.watch)
        return


# --- steps ---


async def _reassign(term: Term, key: TopicPartition, wanted: ReplicaAssignment) -> StoreError | None:
    """None, or why the wish could not be written."""
    current = term.context.assignment(key)
    log.info("reassignment topic=%s partition=%d from=%s to=%s", *key, current.replicas, wanted.target)
    term.context.reassigning[key] = None
    failure = await _carry_out(term, key, reassignment.plan_change(current, wanted))
    if failure is None:
        await proceed(term, key)
    return failure


async def proceed(term: Term, key: TopicPartition) -> None:
    """Do what it is time for; every reassignment passes here once more when its replicas are in sync."""
    context = term.context
    states = await term.read_states([key])
    context.leadership.update(states)
    steps = reassignment.plan_next(
        context.assignment(key), states.get(key), partial(context.is_replica_online, topic_partition=key)
    )
    if await _carry_out(term, key, steps) is not None:
        return
    if key not in states and key in context.leadership and key in context.reassigning:
        await proceed(term, key)  # it has its first leader now


async def complete_where_in_sync(term: Term, keys: Iterable[TopicPartition]) -> None:
    """In-sync sets have grown: some reassignments may have been waiting for that."""
    for key in keys:
        if key in term.context.reassigning:
            state = term.context.leadership.find(key)
            if reassignment.is_complete(term.context.assignment(key), state):
                await proceed(term, key)


def find_unfinished(term: Term) -> None:
    """What a new controller finds under way, by the topics' nodes."""
    context = term.context
    context.reassigning.update(
        (key, None)
        for key in context.all_partitions()
        if (assignment := context.assignment(key)).is_being_reassigned
        or reassignment.strays(assignment, context.leadership.find(key))
    )


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


async def _carry_out(term: Term, key: TopicPartition, steps: Iterable[Step]) -> StoreError | None:
    """What the topic's node answered when it could not be written: then nothing more is done. One that is gone takes the
    reassignment along; one that takes no other wish leaves the one before it under way."""
    context = term.context
    for step in steps:
        match step:
            case WriteAssignment(assignment):
                try:
                    await term.write_assignment(key, assignment)
                except (NoNodeError, RefusedError, AccessDeniedError) as error:
                    log.warning("assignment not written topic=%s partition=%d error=%r", *key, error)
                    if isinstance(error, NoNodeError) or not context.assignment(key).is_being_reassigned:
                        context.reassigning.pop(key, None)
                    return error
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
    return None


async def _move(term: Term, key: TopicPartition, broker_ids: Iterable[int], phase: ReplicaPhase) -> None:
    """Those that are elsewhere already are left there: a step may be repeated."""
    batch = term.new_batch()
    await term.move_replicas(batch, [(*key, each) for each in broker_ids], phase)
    await term.send(batch)


async def _stop(term: Term, key: TopicPartition, broker_ids: tuple[int, ...]) -> None:
    context = term.context
    for broker_id in broker_ids:  # one that a dead controller forgot is in no phase yet
        if context.replica_phase((*key, broker_id)) is ReplicaPhase.NON_EXISTENT:
            context.replica_phases[*key, broker_id] = replicas.initial_phase(context, (*key, broker_id))
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
    log.info("reassigned topic=%s partition=%d replicas=%s", *key, replicas_now)
    await term.send_metadata(context.live_brokers, [key])
    if context.is_being_deleted(key[0]):
        await deletion.resume(term)
