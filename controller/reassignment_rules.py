"""How a partition moves to other replicas: the steps of a reassignment, decided one state at a time. Pure.

    wish --> U: replicas become target + origin, what comes and goes is noted; what a replaced wish had added is stopped
         --> A: while not all of the target is in sync: new epoch, all replicas told, new ones started; then wait
         --> B: once it is: leader among the target, replicas that go are out of the ISR and deleted, target alone noted

Rules: the topic's node says at every moment what is under way (adding, removing), and the origin leaves it last, so that
any controller can go on from what it reads; every step may be repeated. A wish that would leave no in-sync replica is
refused: nothing acknowledged may be lost by a reassignment.
Source: KIP-455; Kafka KafkaController.onPartitionReassignment, ReplicaAssignment. The last rule is the KRaft controller's
(PartitionReassignmentRevert).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from metadata.store.znodes import PartitionState, ReplicaAssignment
from protocol.errors import ErrorCode, KafkaError


@dataclass(frozen=True, slots=True)
class WriteAssignment:
    """Into the topic's node, then into memory."""

    assignment: ReplicaAssignment


@dataclass(frozen=True, slots=True)
class AssumeAssignment:
    """Into memory only: the node still needs what it says."""

    assignment: ReplicaAssignment


@dataclass(frozen=True, slots=True)
class StopReplicas:
    """Out of the ISR, stopped, deleted, forgotten."""

    broker_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TellReplicas:
    """A new leader epoch, and the replicas as they are in memory told to all of them."""


@dataclass(frozen=True, slots=True)
class StartReplicas:
    broker_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BringReplicasOnline:
    broker_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ElectLeader:
    """Among the replicas as they are in memory."""


@dataclass(frozen=True, slots=True)
class ElectFirstLeader:
    """The partition never had one; with the new replicas it may."""


@dataclass(frozen=True, slots=True)
class Finish:
    """Nothing is under way any more; everybody is told."""


Step = (
    WriteAssignment
    | AssumeAssignment
    | StopReplicas
    | TellReplicas
    | StartReplicas
    | BringReplicasOnline
    | ElectLeader
    | ElectFirstLeader
    | Finish
)


def reassign_to(current: ReplicaAssignment, target: Sequence[int]) -> ReplicaAssignment:
    """The target first, in its order; then what is left of the origin. A reassignment under way is replaced."""
    origin = current.origin
    replicas = tuple(dict.fromkeys((*target, *origin)))
    return ReplicaAssignment(
        replicas,
        adding=tuple(each for each in replicas if each not in origin),
        removing=tuple(each for each in replicas if each not in target),
    )


def check_target(target: Sequence[int]) -> None:
    """Raises KafkaError(INVALID_REPLICA_ASSIGNMENT)."""
    if not target:
        raise _invalid("Empty replica list specified in partition reassignment.")
    if len(set(target)) != len(target):
        raise _invalid(f"Duplicate replica ids in partition reassignment replica list: {list(target)}")
    if min(target) < 0:
        raise _invalid(f"Invalid broker id in replica list: {list(target)}")


def check_alive(wanted: ReplicaAssignment, live_broker_ids: Collection[int]) -> None:
    """New replicas must be on brokers that are there. Raises KafkaError(INVALID_REPLICA_ASSIGNMENT)."""
    if not set(wanted.adding) <= set(live_broker_ids):
        raise _invalid(
            f"Replica assignment has brokers that are not alive. Replica list: {list(wanted.adding)}, "
            f"live broker list: {sorted(live_broker_ids)}"
        )


def check_keeps_records(name: str, partition: int, wanted: ReplicaAssignment, state: PartitionState | None) -> None:
    """Of the in-sync replicas one must stay. Raises KafkaError(INVALID_REPLICA_ASSIGNMENT)."""
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
    """In-sync replicas that are none: a controller died between noting a new wish and stopping what it made needless."""
    return () if state is None else tuple(each for each in state.isr if each not in assignment.replicas)


def plan_change(current: ReplicaAssignment, wanted: ReplicaAssignment) -> list[Step]:
    """Phase U."""
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
    """Phase A or B, whichever it is time for. `state` is the state node as just read, None if there is none."""
    if state is None:
        first: list[Step] = [StartReplicas(assignment.adding), ElectFirstLeader()]
        return first if assignment.is_being_reassigned else [*first, Finish()]
    left = strays(assignment, state)
    undone: list[Step] = [StopReplicas(left)] if left else []
    if not is_complete(assignment, state):
        return [*undone, TellReplicas(), StartReplicas(assignment.adding)]
    completed = ReplicaAssignment(assignment.target)
    keeps_leader = state.leader in completed.replicas and is_online(state.leader)
    steps: list[Step] = [
        *undone,
        BringReplicasOnline(assignment.adding),
        AssumeAssignment(completed),
        TellReplicas() if keeps_leader else ElectLeader(),
    ]
    if assignment.removing:
        steps.append(StopReplicas(assignment.removing))
    if completed != assignment:
        steps.append(WriteAssignment(completed))
    return [*steps, Finish()]
