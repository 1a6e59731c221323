"""The rules of leader election. Pure: one function a reason.

Rules: a leader is an assigned replica that is online; it comes from the ISR, so that no acknowledged record is lost,
unless an unclean election is allowed and no ISR member is online. Every change of leader or ISR raises the leader epoch
by one.
Source: Kafka Election, PartitionLeaderElectionAlgorithms.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from metadata.store.znodes import RECOVERING, PartitionState

NO_LEADER = -1
INITIAL_LEADER_EPOCH = 0

IsOnline = Callable[[int], bool]


class ElectionReason(Enum):
    """OFFLINE: the partition has no leader. UNCLEAN: the same, and a user accepts losses. CONTROLLED_SHUTDOWN: the
    leader is about to stop. REASSIGNMENT: the leader is not among the target replicas."""

    OFFLINE = "offline"
    UNCLEAN = "unclean"
    PREFERRED = "preferred"
    REASSIGNMENT = "reassignment"
    CONTROLLED_SHUTDOWN = "controlled-shutdown"


@dataclass(frozen=True, slots=True)
class Elected:
    leader: int
    isr: tuple[int, ...]
    is_unclean: bool = False


def elect_first(replicas: Sequence[int], is_online: IsOnline) -> Elected | None:
    """Return the first leader and ISR of a partition: the first online replica, and all online ones."""
    online = tuple(each for each in replicas if is_online(each))
    return Elected(online[0], online) if online else None


def elect_offline(
    replicas: Sequence[int], isr: Sequence[int], is_online: IsOnline, *, is_unclean_allowed: bool
) -> Elected | None:
    leader = next((each for each in replicas if is_online(each) and each in isr), None)
    if leader is not None:
        return Elected(leader, tuple(each for each in isr if is_online(each)))
    if is_unclean_allowed:
        leader = next((each for each in replicas if is_online(each)), None)
        if leader is not None:
            return Elected(leader, (leader,), is_unclean=True)
    return None


def elect_preferred(replicas: Sequence[int], isr: Sequence[int], is_online: IsOnline) -> Elected | None:
    """Return the first replica of the assignment, if it is online and in sync."""
    if replicas and is_online(replicas[0]) and replicas[0] in isr:
        return Elected(replicas[0], tuple(isr))
    return None


def elect_for_reassignment(target: Sequence[int], isr: Sequence[int], is_online: IsOnline) -> Elected | None:
    leader = next((each for each in target if is_online(each) and each in isr), None)
    return None if leader is None else Elected(leader, tuple(isr))


def elect_for_shutdown(
    replicas: Sequence[int], isr: Sequence[int], is_online: IsOnline, shutting_down: set[int]
) -> Elected | None:
    """`is_online` must count the brokers that are shutting down as online: their replicas are still in sync."""
    leader = next((each for each in replicas if is_online(each) and each in isr and each not in shutting_down), None)
    return None if leader is None else Elected(leader, tuple(each for each in isr if each not in shutting_down))


def next_state(
    state: PartitionState, elected: Elected, controller_epoch: int, *, marks_recovery: bool = False
) -> PartitionState:
    """Return the state to write; its `partition_epoch` is that of the node as read. `marks_recovery` says that the brokers
    support the leader recovery state (KIP-704)."""
    is_recovering = elected.is_unclean and marks_recovery
    return replace(
        state,
        leader=elected.leader,
        isr=elected.isr,
        leader_epoch=state.leader_epoch + 1,
        controller_epoch=controller_epoch,
        leader_recovery_state=RECOVERING if is_recovering else state.leader_recovery_state,
    )


def raise_epoch(state: PartitionState, controller_epoch: int) -> PartitionState:
    """Return the same leader and ISR with a new leader epoch, so that brokers apply other changes of the partition."""
    return replace(state, leader_epoch=state.leader_epoch + 1, controller_epoch=controller_epoch)


def without_replica(
    state: PartitionState, broker_id: int, controller_epoch: int, replicas: Collection[int]
) -> PartitionState | None:
    """Return the state without `broker_id` as leader, and without it in the ISR unless no other of the partition's
    `replicas` is in sync. The leader epoch is raised even if that is all that changes. None for a broker that is neither the
    leader nor in sync."""
    if broker_id not in state.isr and broker_id != state.leader:
        return None
    leader = NO_LEADER if broker_id == state.leader else state.leader
    isr = tuple(each for each in state.isr if each != broker_id)
    if not any(each in replicas for each in isr):
        # A member that is no replica remains from a controller that ended before it was stopped: its records do not count.
        isr = (broker_id,) if broker_id in replicas and broker_id in state.isr else isr or state.isr
    return replace(
        state, leader=leader, isr=isr, leader_epoch=state.leader_epoch + 1, controller_epoch=controller_epoch
    )
