"""Tables for the pure rules: names, growth, elections, phases."""

from __future__ import annotations

import pytest

from controller import partition_state_machine, replica_state_machine
from controller.controller_context import ControllerContext, LiveBroker, PartitionPhase, ReplicaPhase
from controller.elections.leader_election_rules import (
    NO_LEADER,
    Elected,
    ElectionReason,
    elect_first,
    elect_for_reassignment,
    elect_for_shutdown,
    elect_offline,
    elect_preferred,
    without_replica,
)
from controller.requests.request_batch import METADATA_STEP, RequestBatch, Sender
from metadata.admin import topic_rules
from metadata.admin.placement import PlacementBroker
from metadata.store.znodes import BrokerRegistration, PartitionState, RegisteredEndpoint, ReplicaAssignment
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.leader_and_isr import LeaderAndIsrRequest
from protocol.messages.stop_replica import StopReplicaRequest
from protocol.messages.update_metadata import UpdateMetadataRequest

# --- names ---


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249, "...", "__consumer_offsets"])
def test_legal_names(name: str) -> None:
    topic_rules.check_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "ä", "x" * 250, "a\n", "a:b"])
def test_illegal_names(name: str) -> None:
    with pytest.raises(KafkaError, match="Topic name is invalid: ") as refused:
        topic_rules.check_name(name)
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("name", "existing", "found"),
    [
        ("a.b", ["a_b", "ab"], ["a_b"]),
        ("a_b", ["a.b"], ["a.b"]),
        ("a_b", ["a_b"], []),
        ("a-b", ["a.b", "a_b"], []),
        ("a.b_c", ["a_b.c", "a.b.c"], ["a_b.c", "a.b.c"]),
    ],
)
def test_collisions(name: str, existing: list[str], found: list[str]) -> None:
    assert topic_rules.colliding(name, existing) == found


# --- growth ---

ONE = {0: ReplicaAssignment((1, 2)), 1: ReplicaAssignment((2, 3))}
BROKERS = [PlacementBroker(each) for each in (1, 2, 3)]


@pytest.mark.parametrize(
    ("count", "assignments", "code", "words"),
    [
        (
            1,
            None,
            ErrorCode.INVALID_PARTITIONS,
            "Topic currently has 2 partitions, which is higher than the requested 1.",
        ),
        (2, None, ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partitions."),
        (3, [[1, 9]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Unknown broker"),
        (3, [[1, 2], [2, 3]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "by 1 but 2 assignments provided"),
        (3, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "by 1 but 0 assignments provided"),
        (3, [[]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "replication factor of 0"),
        (3, [[1, 1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Duplicate brokers"),
        (3, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Inconsistent replication factor"),
    ],
)
def test_growth_refused(count: int, assignments: list[list[int]] | None, code: ErrorCode, words: str) -> None:
    with pytest.raises(KafkaError, match=words) as refused:
        topic_rules.plan_growth("t", ONE, count, assignments, BROKERS, 0)
    assert refused.value.code is code


def test_growth() -> None:
    with pytest.raises(KafkaError, match="not be found any more") as caught:
        topic_rules.plan_growth("__consumer_offsets", ONE, 4, None, BROKERS, 0)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert topic_rules.plan_growth("t", ONE, 4, [[3, 1], [1, 2]], BROKERS, 0) == {2: (3, 1), 3: (1, 2)}
    grown = topic_rules.plan_growth("t", ONE, 5, None, BROKERS, 0)
    assert sorted(grown) == [2, 3, 4]
    assert {each[0] for each in grown.values()} == {1, 2, 3}
    moving = {0: ReplicaAssignment((1, 2), adding=(2,))}
    with pytest.raises(KafkaError) as refused:
        topic_rules.plan_growth("t", moving, 4, None, BROKERS, 0)
    assert refused.value.code is ErrorCode.REASSIGNMENT_IN_PROGRESS


# --- elections ---


def online(*ids: int) -> set[int]:
    return set(ids)


@pytest.mark.parametrize(
    ("replicas_", "isr", "alive", "unclean", "elected"),
    [
        ((1, 2, 3), (1, 2, 3), {2, 3}, False, Elected(2, (2, 3))),
        ((1, 2, 3), (3, 1), {2, 3}, False, Elected(3, (3,))),
        ((1, 2, 3), (1,), {2, 3}, False, None),
        ((1, 2, 3), (1,), {2, 3}, True, Elected(2, (2,), is_unclean=True)),
        ((1, 2, 3), (3,), {2, 3}, True, Elected(3, (3,))),
        ((1, 2), (1,), set(), True, None),
    ],
)
def test_offline_election(
    replicas_: tuple[int, ...], isr: tuple[int, ...], alive: set[int], unclean: bool, elected: Elected | None
) -> None:
    assert elect_offline(replicas_, isr, alive.__contains__, is_unclean_allowed=unclean) == elected


def test_other_elections() -> None:
    assert elect_first((1, 2, 3), {3, 2}.__contains__) == Elected(2, (2, 3))
    assert elect_first((1,), set().__contains__) is None
    assert elect_preferred((1, 2), (2, 1), {1, 2}.__contains__) == Elected(1, (2, 1))
    assert elect_preferred((1, 2), (2,), {1, 2}.__contains__) is None
    assert elect_preferred((1, 2), (2, 1), {2}.__contains__) is None
    assert elect_for_reassignment((4, 5), (1, 5), {1, 4, 5}.__contains__) == Elected(5, (1, 5))
    assert elect_for_shutdown((1, 2), (1, 2), {1, 2}.__contains__, {1}) == Elected(2, (2,))
    assert elect_for_shutdown((1,), (1,), {1}.__contains__, {1}) is None


def test_a_replica_leaves_the_isr() -> None:
    state = PartitionState(1, 5, (1, 2), 1, partition_epoch=9)
    assert without_replica(state, 2, 3, (1, 2)) == PartitionState(1, 6, (1,), 3, 9)
    assert without_replica(state, 1, 3, (1, 2)) == PartitionState(NO_LEADER, 6, (2,), 3, 9)
    assert without_replica(state, 3, 3, (1, 2)) is None
    last = PartitionState(1, 5, (1,), 1, 9)
    assert without_replica(last, 1, 3, (1, 2)) == PartitionState(NO_LEADER, 6, (1,), 3, 9)
    assert without_replica(PartitionState(NO_LEADER, 6, (1,), 3, 9), 1, 4, (1, 2)) == PartitionState(
        NO_LEADER, 7, (1,), 4, 9
    )


def test_the_last_in_sync_replica_stays_though_one_that_is_none_any_more_is_in_sync_too() -> None:
    state = PartitionState(1, 5, (1, 5), 1, partition_epoch=9)
    assert without_replica(state, 1, 3, (1, 2)) == PartitionState(NO_LEADER, 6, (1,), 3, 9)
    assert without_replica(state, 5, 3, (1, 2)) == PartitionState(1, 6, (1,), 3, 9)
    assert without_replica(state, 1, 3, (5, 1)) == PartitionState(NO_LEADER, 6, (5,), 3, 9)


# --- phases ---


def test_the_tables_name_every_phase_once() -> None:
    assert set(partition_state_machine.VALID_PREVIOUS) == set(PartitionPhase)
    assert set(replica_state_machine.VALID_PREVIOUS) == set(ReplicaPhase)


@pytest.mark.parametrize(
    ("previous", "target", "is_allowed"),
    [
        (PartitionPhase.NON_EXISTENT, PartitionPhase.NEW, True),
        (PartitionPhase.NON_EXISTENT, PartitionPhase.ONLINE, False),
        (PartitionPhase.NEW, PartitionPhase.ONLINE, True),
        (PartitionPhase.ONLINE, PartitionPhase.ONLINE, True),
        (PartitionPhase.ONLINE, PartitionPhase.NON_EXISTENT, False),
        (PartitionPhase.OFFLINE, PartitionPhase.NON_EXISTENT, True),
        (PartitionPhase.ONLINE, PartitionPhase.NEW, False),
    ],
)
def test_partition_moves(previous: PartitionPhase, target: PartitionPhase, is_allowed: bool) -> None:
    context = ControllerContext()
    context.partition_phases["t", 0] = previous
    assert partition_state_machine.can_move(context, ("t", 0), target) is is_allowed


@pytest.mark.parametrize(
    ("previous", "target", "is_allowed"),
    [
        (ReplicaPhase.NON_EXISTENT, ReplicaPhase.NEW, True),
        (ReplicaPhase.NEW, ReplicaPhase.ONLINE, True),
        (ReplicaPhase.ONLINE, ReplicaPhase.DELETION_STARTED, False),
        (ReplicaPhase.OFFLINE, ReplicaPhase.DELETION_STARTED, True),
        (ReplicaPhase.DELETION_STARTED, ReplicaPhase.ONLINE, False),
        (ReplicaPhase.DELETION_STARTED, ReplicaPhase.DELETION_SUCCESSFUL, True),
        (ReplicaPhase.DELETION_INELIGIBLE, ReplicaPhase.ONLINE, True),
        (ReplicaPhase.DELETION_SUCCESSFUL, ReplicaPhase.NON_EXISTENT, True),
        (ReplicaPhase.OFFLINE, ReplicaPhase.NON_EXISTENT, False),
    ],
)
def test_replica_moves(previous: ReplicaPhase, target: ReplicaPhase, is_allowed: bool) -> None:
    context = ControllerContext()
    context.replica_phases["t", 0, 1] = previous
    assert replica_state_machine.can_move(context, ("t", 0, 1), target) is is_allowed


def context_of_two() -> ControllerContext:
    context = ControllerContext(epoch=4)
    for broker_id in (1, 2):
        registration = BrokerRegistration(broker_id, (RegisteredEndpoint("IN", f"h{broker_id}", 9092),), 0, rack="r")
        context.live_brokers[broker_id] = LiveBroker(registration, epoch=100 + broker_id)
    context.add_topic("t", b"\1" * 16, {0: ReplicaAssignment((1, 2, 3))})
    context.leadership["t", 0] = PartitionState(1, 7, (1, 2), 4, partition_epoch=3)
    return context


def test_an_election_is_refused_to_an_older_controller() -> None:
    context = context_of_two()
    newer = PartitionState(1, 7, (1, 2), controller_epoch=5)
    plan = partition_state_machine.plan_elections(context, {("t", 0): newer}, ElectionReason.OFFLINE, {})
    assert plan.writes == {}
    assert "epoch 5" in plan.failures["t", 0]


def test_a_batch_sends_each_broker_one_request_of_a_kind_in_order() -> None:
    context = context_of_two()
    batch = RequestBatch(context, Sender(1, "IN"))
    batch.add_stop_replica([2, 3], ("t", 0), delete=False)
    batch.add_leader_and_isr([1, 2, 3], ("t", 0), is_new=False)
    batch.add_leader_and_isr([2], ("t", 0), is_new=True)
    built = batch.build()
    assert [(broker_id, type(request)) for broker_id, request in built] == [
        (1, LeaderAndIsrRequest),
        (2, LeaderAndIsrRequest),
        (1, UpdateMetadataRequest),
        (2, UpdateMetadataRequest),
        (2, StopReplicaRequest),
    ]
    request = built[1][1]
    assert isinstance(request, LeaderAndIsrRequest)
    assert request.broker_epoch == 102
    [state] = request.topic_states[0].partition_states
    assert (state.leader, state.leader_epoch, state.partition_epoch, state.is_new) == (1, 7, 3, True)
    assert [(each.broker_id, each.host_name) for each in request.live_leaders] == [(1, "h1")]
    metadata = built[2][1]
    assert isinstance(metadata, UpdateMetadataRequest)
    assert metadata.topic_states[0].partition_states[0].offline_replicas == [3]
    assert [each.rack for each in metadata.live_brokers] == ["r", "r"]
    stop = built[4][1]
    assert isinstance(stop, StopReplicaRequest)
    assert stop.topic_states[0].partition_states[0].leader_epoch == 7


def test_topics_being_deleted_are_told_with_the_leader_that_removes_them() -> None:
    context = context_of_two()
    context.topics_to_delete["t"] = None
    batch = RequestBatch(context, Sender(1, "IN"))
    batch.add_update_metadata([1], [("t", 0)])
    batch.add_stop_replica([1], ("t", 0), delete=True)
    (_, metadata), (_, stop) = batch.build()
    assert isinstance(metadata, UpdateMetadataRequest)
    assert isinstance(stop, StopReplicaRequest)
    assert metadata.topic_states[0].partition_states[0].leader == -2
    assert stop.topic_states[0].partition_states[0].leader_epoch == -2


def test_a_newcomer_hears_that_it_is_there_with_the_last_of_the_partitions() -> None:
    """It serves clients from then on: with a part of the topics they would take the others for deleted."""
    context = context_of_two()
    partitions_count = 2 * METADATA_STEP + 1
    context.add_topic("many", b"\2" * 16, {index: ReplicaAssignment((1, 2)) for index in range(partitions_count)})
    keys = context.partitions_of("many")
    context.leadership.update((key, PartitionState(1, 0, (1, 2), 1)) for key in keys)
    batch = RequestBatch(context, Sender(1, "PLAINTEXT"))
    batch.add_update_metadata([1], keys)
    batch.announce([2], keys)
    told: dict[int, list[tuple[int, list[int]]]] = {1: [], 2: []}
    for broker_id, request in batch.build():
        assert isinstance(request, UpdateMetadataRequest)
        rows = sum(len(topic.partition_states) for topic in request.topic_states)
        told[broker_id].append((rows, [each.id for each in request.live_brokers]))
    assert told[1] == [(METADATA_STEP, [1, 2]), (METADATA_STEP, [1, 2]), (1, [1, 2])]
    assert told[2] == [(METADATA_STEP, [1]), (METADATA_STEP, [1]), (1, [1, 2])]


def test_rows_that_name_the_same_brokers_share_their_lists() -> None:
    """A start tells of ten thousand partitions at once."""
    context = context_of_two()
    context.add_topic("u", b"\2" * 16, {0: ReplicaAssignment((1, 2, 3))})
    context.leadership["u", 0] = PartitionState(2, 1, (1, 2), 4)
    batch = RequestBatch(context, Sender(1, "IN"))
    for key in (("t", 0), ("u", 0)):
        batch.add_leader_and_isr([1], key, is_new=False)
    (_, leaders), (_, metadata), _ = batch.build()
    assert isinstance(leaders, LeaderAndIsrRequest)
    assert isinstance(metadata, UpdateMetadataRequest)
    for request in (leaders, metadata):
        one, other = (topic.partition_states[0] for topic in request.topic_states)
        assert one.replicas is other.replicas
        assert one.isr is other.isr
