"""The steps of a reassignment, decided from one state to the next. Pure.

    request --> U: replicas become target + origin; added and removed ones are stored; those of a replaced request are stopped
            --> A: while the target is not in sync: a new epoch is sent to all replicas, added ones are started; then wait
            --> B: when it is in sync: leader in the target, removed replicas leave the ISR and are deleted, target stored

Rules: the topic's node always has the ongoing reassignment (adding, removing), and the origin is removed from it last, so that
any controller can continue; every step may be repeated. A request that would remove every in-sync replica is refused: a
reassignment must not lose acknowledged records.
Source: KIP-455; Kafka KafkaController.onPartitionReassignment, ReplicaAssignment. The last rule is the KRaft controller's
(PartitionReassignmentRevert).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from metadata.store.znodes import PartitionState, ReplicaAssignment
from protocol.errors import ErrorCode, KafkaError
from runtime.scala_text import array_buffer, immutable_set


@dataclass(frozen=True, slots=True)
class WriteAssignment:
    """Write the assignment to the topic's node, then to the context."""

    assignment: ReplicaAssignment


@dataclass(frozen=True, slots=True)
class AssumeAssignment:
    """Set the assignment in the context only: the node still needs the previous one."""

    assignment: ReplicaAssignment


@dataclass(frozen=True, slots=True)
class StopReplicas:
    """Remove replicas from the ISR, stop and delete them."""

    broker_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NotifyReplicas:
    """Raise the leader epoch, and send the assignment of the context to all of its replicas."""


@dataclass(frozen=True, slots=True)
class StartReplicas:
    broker_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BringReplicasOnline:
    broker_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ElectLeader:
    """Elect a leader among the replicas in the context."""


@dataclass(frozen=True, slots=True)
class ElectFirstLeader:
    """Elect the first leader of a partition that never had one."""


@dataclass(frozen=True, slots=True)
class Finish:
    """End the reassignment, and send the metadata to all brokers."""


Step = (
    WriteAssignment
    | AssumeAssignment
    | StopReplicas
    | NotifyReplicas
    | StartReplicas
    | BringReplicasOnline
    | ElectLeader
    | ElectFirstLeader
    | Finish
)


def reassign_to(current: ReplicaAssignment, target: Sequence[int]) -> ReplicaAssignment:
    """Return the assignment during a reassignment: the target in its order, then the rest of the origin. An ongoing
    reassignment is replaced."""
    origin = current.origin
    replicas = tuple(dict.fromkeys((*target, *origin)))
    return ReplicaAssignment(
        replicas,
        adding=tuple(each for each in replicas if each not in origin),
        removing=tuple(each for each in replicas if each not in target),
    )


def check_target(target: Sequence[int]) -> None:
    """Check the form of a target. Raises KafkaError(INVALID_REPLICA_ASSIGNMENT)."""
    if not target:
        raise _invalid("Empty replica list specified in partition reassignment.")
    if len(set(target)) != len(target):
        raise _invalid(f"Duplicate replica ids in partition reassignment replica list: {array_buffer(target)}")
    if min(target) < 0:
        raise _invalid(f"Invalid broker id in replica list: {array_buffer(target)}")


def check_alive(wanted: ReplicaAssignment, live_broker_ids: Collection[int]) -> None:
    """Check that new replicas are on live brokers. Raises KafkaError(INVALID_REPLICA_ASSIGNMENT)."""
    if not set(wanted.adding) <= set(live_broker_ids):
        raise _invalid(
            f"Replica assignment has brokers that are not alive. Replica list: {array_buffer(wanted.adding)}, "
            f"live broker list: {immutable_set(sorted(live_broker_ids))}"
        )


def check_keeps_records(name: str, partition: int, wanted: ReplicaAssignment, state: PartitionState | None) -> None:
    """Check that an in-sync replica remains. Raises KafkaError(INVALID_REPLICA_ASSIGNMENT)."""
    if state is not None and not set(state.isr) & set(wanted.replicas):
        raise _invalid(
            f"Unable to revert partition assignment for {name}-{partition} because it would require an unclean "
            "leader election."
        )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def is_complete(assignment: ReplicaAssignment, state: PartitionState | None) -> bool:
    if not assignment.is_being_reassigned:
        return True
    return state is not None and set(assignment.target) <= set(state.isr)


def strays(assignment: ReplicaAssignment, state: PartitionState | None) -> tuple[int, ...]:
    """Return ISR members that are no replicas: a controller ended after it stored a request, before it stopped them."""
    return () if state is None else tuple(each for each in state.isr if each not in assignment.replicas)


def plan_change(current: ReplicaAssignment, wanted: ReplicaAssignment) -> list[Step]:
    """Return the steps of phase U."""
    if current == wanted:
        return []
    steps: list[Step] = [WriteAssignment(wanted)]
    unneeded = tuple(each for each in current.replicas if each not in wanted.replicas)
    if unneeded:
        steps.append(StopReplicas(unneeded))
    return steps


def plan_next(
    assignment: ReplicaAssignment, state: PartitionState | None, is_online: Callable[[int], bool]
) -> list[Step]:
    """Return the steps of phase A or B, as `state` requires. `state` is the state node as just read, None if there is none."""
    if state is None:
        first: list[Step] = [StartReplicas(assignment.adding), ElectFirstLeader()]
        return first if assignment.is_being_reassigned else [*first, Finish()]
    left = strays(assignment, state)
    undone: list[Step] = [StopReplicas(left)] if left else []
    if not is_complete(assignment, state):
        return [*undone, NotifyReplicas(), StartReplicas(assignment.adding)]
    completed = ReplicaAssignment(assignment.target)
    keeps_leader = state.leader in completed.replicas and is_online(state.leader)
    steps: list[Step] = [
        *undone,
        BringReplicasOnline(assignment.adding),
        AssumeAssignment(completed),
        NotifyReplicas() if keeps_leader else ElectLeader(),
    ]
    if assignment.removing:
        steps.append(StopReplicas(assignment.removing))
    if completed != assignment:
        steps.append(WriteAssignment(completed))
    return [*steps, Finish()]
