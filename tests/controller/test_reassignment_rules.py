"""Reassignment: Apache Kafka's published example, and what must hold whatever is wished, dies and comes back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from controller import reassignment_rules
from controller.elections.leader_election_rules import (
    NO_LEADER,
    elect_first,
    elect_for_reassignment,
    elect_offline,
    next_state,
    raise_epoch,
)
from controller.elections.leader_election_rules import without_replica as without
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
    check_target,
    is_complete,
    plan_change,
    plan_next,
    reassign_to,
)
from metadata.store.znodes import PartitionState, ReplicaAssignment
from protocol.errors import ErrorCode, KafkaError

ORIGIN = ReplicaAssignment((1, 2, 3))
MOVING = ReplicaAssignment((4, 5, 6, 1, 2, 3), adding=(4, 5, 6), removing=(1, 2, 3))


@pytest.mark.parametrize(
    ("current", "target", "wanted"),
    [
        (ORIGIN, (4, 5, 6), MOVING),
        (MOVING, (1, 2, 3), ORIGIN),
        (MOVING, (5, 1), ReplicaAssignment((5, 1, 2, 3), adding=(5,), removing=(2, 3))),
        (ORIGIN, (3, 2, 1), ReplicaAssignment((3, 2, 1))),
        (ORIGIN, (1, 2), ReplicaAssignment((1, 2, 3), removing=(3,))),
        (ORIGIN, (1, 2, 3, 4), ReplicaAssignment((1, 2, 3, 4), adding=(4,))),
        (ORIGIN, (3, 4, 2), ReplicaAssignment((3, 4, 2, 1), adding=(4,), removing=(1,))),
    ],
)
def test_what_is_noted_while_replicas_move(
    current: ReplicaAssignment, target: tuple[int, ...], wanted: ReplicaAssignment
) -> None:
    assert reassign_to(current, target) == wanted
    assert wanted.target == target
    assert wanted.origin == tuple(each for each in wanted.replicas if each in current.origin)


@pytest.mark.parametrize(("target", "words"), [((), "Empty"), ((1, 1), "Duplicate"), ((1, -1), "Invalid broker id")])
def test_targets_that_cannot_be(target: tuple[int, ...], words: str) -> None:
    with pytest.raises(KafkaError, match=words) as refused:
        check_target(target)
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_new_replicas_must_be_alive() -> None:
    reassignment_rules.check_alive(MOVING, {4, 5, 6})
    with pytest.raises(
        KafkaError, match=r"not alive. Replica list: ArrayBuffer\(4, 5, 6\), live broker list: Set\(1, 4, 5\)"
    ):
        reassignment_rules.check_alive(MOVING, {1, 4, 5})


def test_calling_off_must_leave_an_in_sync_replica() -> None:
    """Only an added replica is in sync: without it what was acknowledged is lost."""
    reassignment_rules.check_keeps_records("t", 0, ORIGIN, PartitionState(4, 9, (4, 2), 1))
    with pytest.raises(KafkaError, match="unclean leader election") as refused:
        reassignment_rules.check_keeps_records("t", 0, ORIGIN, PartitionState(4, 9, (4,), 1))
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_the_phases_of_the_published_example() -> None:
    state = PartitionState(1, 5, (1, 2, 3), 1)
    assert plan_change(ORIGIN, MOVING) == [WriteAssignment(MOVING)]
    assert plan_next(MOVING, state, lambda _: True) == [NotifyReplicas(), StartReplicas((4, 5, 6))]
    grown = replace(state, isr=(1, 2, 3, 4, 5, 6))
    done = ReplicaAssignment((4, 5, 6))
    assert plan_next(MOVING, grown, lambda _: True) == [
        BringReplicasOnline((4, 5, 6)),
        AssumeAssignment(done),
        ElectLeader(),
        StopReplicas((1, 2, 3)),
        WriteAssignment(done),
        Finish(),
    ]
    led_by_target = replace(grown, leader=5)
    assert NotifyReplicas() in plan_next(MOVING, led_by_target, lambda _: True)
    assert ElectLeader() in plan_next(MOVING, led_by_target, lambda broker_id: broker_id != 5)


def test_calling_off_stops_what_was_added() -> None:
    assert plan_change(MOVING, ORIGIN) == [WriteAssignment(ORIGIN), StopReplicas((4, 5, 6))]
    state = PartitionState(1, 5, (1, 2, 3), 1)
    assert plan_next(ORIGIN, state, lambda _: True)[-1] == Finish()
    assert plan_change(MOVING, MOVING) == []


def test_a_replica_that_a_dead_controller_forgot_to_stop_is_stopped() -> None:
    state = PartitionState(4, 5, (1, 2, 4), 1)
    assert plan_next(ORIGIN, state, lambda _: True)[0] == StopReplicas((4,))
    assert ElectLeader() in plan_next(ORIGIN, state, lambda _: True)


def test_a_partition_that_never_had_a_leader_gets_one_from_the_new_replicas() -> None:
    assert plan_next(MOVING, None, lambda _: True) == [StartReplicas((4, 5, 6)), ElectFirstLeader()]
    assert not is_complete(MOVING, None)


# --- histories ---


class Partition:
    """One partition, its nodes and its controller, whose steps may be cut off anywhere."""

    def __init__(self) -> None:
        self.node = self.memory = ReplicaAssignment((1, 2, 3))
        self.state: PartitionState | None = PartitionState(1, 0, (1, 2, 3), 1)
        self.alive = {1, 2, 3, 4, 5}
        self.wished: tuple[int, ...] = (1, 2, 3)

    def is_online(self, broker_id: int) -> bool:
        return broker_id in self.alive

    def carry_out(self, steps: list[Step], limit: int) -> bool:
        """False when the controller died before the end."""
        for number, step in enumerate(steps):
            if number == limit:
                self.memory = self.node
                return False
            self.take(step)
            self.check()
        return True

    def take(self, step: Step) -> None:
        match step:
            case WriteAssignment(assignment):
                self.node = self.memory = assignment
            case AssumeAssignment(assignment):
                self.memory = assignment
            case StopReplicas(broker_ids):
                for each in broker_ids:
                    self.leave_isr(each)
            case NotifyReplicas() if self.state is not None:
                self.state = raise_epoch(self.state, 1)
            case ElectLeader() if self.state is not None:
                elected = elect_for_reassignment(self.memory.target, self.state.isr, self.is_online)
                if elected is not None:
                    self.state = next_state(self.state, elected, 1)
            case _:
                pass

    def leave_isr(self, broker_id: int) -> None:
        assert self.state is not None
        self.state = without(self.state, broker_id, 1, self.memory.replicas) or self.state

    def check(self) -> None:
        state = self.state
        assert state is not None
        assert state.leader in (NO_LEADER, *state.isr)
        assert len(set(state.isr)) == len(state.isr) > 0
        assert set(state.isr) & set(self.node.replicas), "what was acknowledged is gone"
        assert set(self.node.adding) | set(self.node.removing) <= set(self.node.replicas)

    # What happens.

    def wish(self, target: tuple[int, ...], limit: int) -> None:
        wanted = reassign_to(self.memory, target)
        try:
            check_target(target)
            reassignment_rules.check_alive(wanted, self.alive)
            reassignment_rules.check_keeps_records("t", 0, wanted, self.state)
        except KafkaError:
            return
        self.wished = target
        if self.carry_out(plan_change(self.memory, wanted), max(limit, 1)):
            self.proceed(limit)

    def proceed(self, limit: int) -> None:
        self.carry_out(plan_next(self.memory, self.state, self.is_online), limit)

    def die(self, broker_id: int) -> None:
        if broker_id not in self.alive:
            return
        self.alive.discard(broker_id)
        assert self.state is not None
        if self.state.leader == broker_id:
            self.elect()
        self.leave_isr(broker_id)

    def come(self, broker_id: int) -> None:
        self.alive.add(broker_id)
        self.elect()

    def elect(self) -> None:
        assert self.state is not None
        if self.state.leader in self.alive:
            return
        elected = elect_offline(self.memory.replicas, self.state.isr, self.is_online, is_unclean_allowed=False)
        if elected is not None:
            self.state = next_state(self.state, elected, 1)

    def catch_up(self, broker_id: int) -> None:
        state = self.state
        assert state is not None
        can = broker_id in self.alive and state.leader in self.alive and broker_id in self.memory.replicas
        if can and broker_id not in state.isr:
            self.state = replace(state, isr=(*state.isr, broker_id))


BROKERS = st.integers(1, 5)
TARGETS = st.lists(BROKERS, min_size=1, max_size=4, unique=True).map(tuple)
LIMITS = st.integers(0, 8)
HAPPENINGS = st.lists(
    st.one_of(
        st.tuples(st.just("wish"), TARGETS, LIMITS),
        st.tuples(st.just("proceed"), LIMITS),
        st.tuples(st.just("die"), BROKERS),
        st.tuples(st.just("come"), BROKERS),
        st.tuples(st.just("catch_up"), BROKERS),
    ),
    max_size=40,
)


@settings(max_examples=300)
@given(HAPPENINGS)
@example([("wish", (1, 5), 0), ("die", 2), ("die", 3), ("catch_up", 5), ("wish", (1,), 0), ("die", 1)])
def test_reassignments_end_and_lose_nothing(happenings: list[tuple[object, ...]]) -> None:
    partition = Partition()
    for name, *values in happenings:
        getattr(partition, str(name))(*values)
        partition.check()
    for broker_id in range(1, 6):
        partition.come(broker_id)
    for _ in range(3):
        for broker_id in range(1, 6):
            partition.catch_up(broker_id)
        partition.proceed(99)
        partition.elect()
    state = partition.state
    assert state is not None
    assert partition.node == partition.memory == ReplicaAssignment(partition.wished)
    assert state.leader in partition.wished
    assert set(state.isr) == set(partition.wished)


def test_a_first_election_among_new_replicas() -> None:
    elected = elect_first(MOVING.replicas, {4}.__contains__)
    assert elected is not None
    assert elected.isr == (4,)
