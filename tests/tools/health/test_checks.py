"""What is wrong with a cluster: each check, and their order."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

import pytest

from tools.health.causes import by_cause
from tools.health.checks import CHECKS, findings
from tools.health.view import (
    TOPIC_SETTINGS,
    BrokerView,
    ClusterView,
    Condition,
    GroupView,
    LagView,
    LogDirectoryView,
    PartitionView,
    Problem,
    ReassignmentView,
    Severity,
    Since,
    Stall,
    Statement,
    TransactionView,
    Validity,
)

NOW_MS = 1_000_000_000
GiB = 1 << 30


def broker(number: int, round_trip_ms: float | None = 1.0) -> BrokerView:
    return BrokerView(number, f"host-{number}:9092", round_trip_ms, waited_ms=2_000)


def view_of(*partitions: PartitionView, brokers: tuple[int, ...] = (1, 2), controller: int | None = 1) -> ClusterView:
    return ClusterView(
        brokers={number: broker(number) for number in brokers},
        controller=controller,
        partitions=partitions,
        now_ms=NOW_MS,
        reassignments=(),
    )


def with_broker(view: ClusterView, changed: BrokerView) -> ClusterView:
    return replace(view, brokers={**view.brokers, changed.broker_id: changed})


def names(view: ClusterView) -> list[str]:
    return [each.check for each in findings(view)]


def only(view: ClusterView, check: str) -> Problem:
    [found] = [each.problem for each in findings(view) if each.check == check]
    return found


def test_a_well_cluster_has_no_problem() -> None:
    assert findings(view_of(PartitionView("orders", 0, 1, (1, 2), (2, 1)))) == []


def test_names_of_checks_are_different() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)


def test_causes_come_before_what_they_cause_and_notices_last() -> None:
    lost = PartitionView("orders", 0, None, (3,), (3,))
    behind = PartitionView("orders", 1, 1, (1, 2, 3), (1,))
    led = PartitionView("orders", 2, 1, (2, 1), (1, 2))
    view = view_of(led, behind, lost, controller=None)
    assert names(view) == [
        "no controller",
        "broker gone",
        "partition without leader",
        "replicas behind",
        "leaders uneven",
    ]
    assert [each.problem.severity for each in findings(view)] == sorted(
        each.problem.severity for each in findings(view)
    )
    gone = only(view, "broker gone")
    assert "2 partitions have a replica on it (orders-1, orders-0)" in gone.cause


# --- partitions ---


def test_a_partition_whose_in_sync_replicas_are_gone_names_them_and_what_an_unclean_election_costs() -> None:
    problem = only(view_of(PartitionView("orders", 4, None, (3, 1), (3,))), "partition without leader")
    assert (problem.severity, problem.subject) == (Severity.ERROR, "partition orders-4")
    assert "in sync: 3 of replicas 3, 1; gone: broker 3" in problem.cause
    assert "start broker 3" in problem.next_step
    assert (
        "`barnabas partitions elect --topic orders --partition 4 --election-type unclean --execute`"
        in problem.next_step
    )
    assert "loses records" in problem.next_step


def shown(view: ClusterView) -> dict[str, Problem]:
    """What the screen shows, by check."""
    return {each.check: each.problem for each in by_cause(findings(view))}


def test_partitions_that_have_one_cause_are_one_problem() -> None:
    lost = [PartitionView("lost", at, None, (3, at % 2 + 1), (3,)) for at in range(5)]
    few = [PartitionView("few", at, 1, (1, 2, 3) if at % 2 else (1, 3, 2), (1,)) for at in range(4)]
    settings = {"few": {"min.insync.replicas": "2"}}
    view = replace(view_of(*lost, *few, brokers=(1,)), topic_settings=settings)
    found = shown(view)
    leaderless = found["partition without leader"]
    assert leaderless.subject == "2 partitions (lost-1, lost-3)", "those of another broker have another cause"
    [first] = [each.problem for each in by_cause(findings(view)) if "lost-0" in each.problem.subject]
    assert first.subject == "3 partitions (lost-0, lost-2, lost-4)"
    assert first.cause.endswith("in sync were replicas on broker 3, gone by now")
    assert "`barnabas partitions elect --election-type unclean` shows which of them" in first.next_step
    assert found["under min ISR"].subject == "4 partitions (few-0, few-1, few-2 ...)"
    assert found["under min ISR"].next_step == "start brokers 2, 3"
    behind = shown(view_of(*few, brokers=(1, 2, 3)))["replicas behind"]
    assert (behind.subject, behind.cause) == (
        "4 partitions (few-0, few-1, few-2 ...)", "replicas on brokers 2, 3 are behind"
    )  # fmt: skip


def test_brokers_on_one_disk_and_other_things_with_one_cause_are_one_problem() -> None:
    full = LogDirectoryView("/d", total_bytes=100 * GiB, usable_bytes=GiB)
    brokers = {at: replace(broker(at), address=f"host:{at}", directories=(full,)) for at in (1, 2, 3)}
    disk = shown(replace(view_of(brokers=(1, 2, 3)), brokers=brokers))["disk full"]
    assert disk.subject == "3 brokers (1, /d; 2, /d; 3, /d)"
    assert disk.cause.endswith("are free, on host")
    valid = Validity(NOW_MS - 86_400_000 * 90, NOW_MS + 86_400_000)
    secured = {at: replace(broker(at), certificate=valid) for at in (1, 2)}
    assert "their certificates expire" in shown(replace(view_of(), brokers=secured))["certificate expires"].cause
    throttled = {name: {"leader.replication.throttled.replicas": "*"} for name in ("a", "b")}
    left = shown(replace(view_of(), topic_settings=throttled))["throttle left behind"]
    assert (left.subject, "`barnabas partitions cancel --execute`" in left.next_step) == ("2 topics (a, b)", True)
    hanging = tuple(TransactionView(("t", at), 7, 42, None, is_known=False) for at in range(3))
    hangs = shown(replace(view_of(), transactions=hanging))["hanging transaction"]
    assert hangs.subject == "3 partitions (t-0, t-1, t-2)"
    assert "--producer-id 42 --execute" in hangs.next_step


@pytest.mark.parametrize(
    ("settings", "absent", "found"),
    [
        ({}, {"__consumer_offsets"}, Severity.ERROR),
        ({}, {"__transaction_state"}, Severity.NOTICE),
        ({}, set(), None),  # it exists, perhaps hidden from this user
        ({"offsets.topic.replication.factor": "2"}, {"__consumer_offsets"}, None),
        # A broker of ours without ZooKeeper creates it with one replica.
        ({"barnabas.disk.free.min.bytes": "", "zookeeper.connect": ""}, {"__consumer_offsets"}, None),
        ({"barnabas.disk.free.min.bytes": "", "zookeeper.connect": "zk:2181"}, {"__consumer_offsets"}, Severity.ERROR),
    ],
)  # fmt: skip
def test_an_internal_topic_that_needs_more_brokers_is_told(
    settings: dict[str, str], absent: set[str], found: Severity | None
) -> None:
    of_broker = {"offsets.topic.replication.factor": "3", "transaction.state.log.replication.factor": "3"} | settings
    brokers = {at: replace(broker(at), settings=of_broker) for at in (1, 2)}
    problems = [each.problem for each in findings(replace(view_of(), brokers=brokers, absent=frozenset(absent)))]
    assert [each.severity for each in problems] == ([] if found is None else [found])
    for each in problems:
        assert "replication.factor=3 and 2 brokers nobody can create it" in each.cause
        assert each.next_step.startswith("start brokers until 3 run; or set ")


def test_the_topic_of_share_groups_is_missed_only_where_there_is_one() -> None:
    topic, setting = "__share_group_state", "share.coordinator.state.topic.replication.factor"
    brokers = {1: replace(broker(1), settings={setting: "3"})}
    view = replace(view_of(brokers=(1,)), brokers=brokers, absent=frozenset({topic}))
    assert "internal topic missing" not in shown(view)
    sharing = replace(view, groups=(GroupView("workers", "Stable", 1, 1, is_share=True),))
    assert "members of share groups read nothing" in shown(sharing)["internal topic missing"].cause


def test_without_another_replica_no_election_is_offered() -> None:
    problem = only(view_of(PartitionView("orders", 0, None, (3,), (3,))), "partition without leader")
    assert "unclean" not in problem.next_step


def test_a_partition_on_a_broken_disk_asks_for_a_repair() -> None:
    problem = only(view_of(PartitionView("orders", 0, None, (1,), (1,), offline=(1,))), "partition without leader")
    assert "its log directory is offline on broker 1" in problem.cause
    assert "repair the disk of broker 1 and restart" in problem.next_step


def test_a_partition_without_leader_whose_replicas_are_there_points_to_the_controller() -> None:
    problem = only(view_of(PartitionView("orders", 0, None, (1,), (1,))), "partition without leader")
    assert "controller's log" in problem.next_step


def test_since_is_what_a_broker_tells_and_else_unknown() -> None:
    view = view_of(PartitionView("orders", 0, None, (3,), (3,)))
    assert only(view, "partition without leader").since.at_ms is None
    told = Since(NOW_MS - 5_000, "seen by broker 1")
    view = replace(view, began={(Condition.NO_LEADER, "orders-0"): told})
    assert only(view, "partition without leader").since == told


def test_replicas_that_are_behind_are_named_but_not_those_that_are_added() -> None:
    partition = PartitionView("orders", 4, 1, (1, 2, 3), (1,))
    view = view_of(partition, brokers=(1, 2, 3))
    assert only(view, "replicas behind").cause == "replicas on brokers 2, 3 are behind"
    moving = ReassignmentView(("orders", 4), (1, 2, 3), adding=(2, 3), removing=())
    assert names(replace(view, reassignments=(moving,))) == []


def test_too_few_replicas_for_acks_all_is_an_error() -> None:
    view = view_of(PartitionView("orders", 0, 1, (1, 2), (1,)))
    settings = {"orders": {"min.insync.replicas": "2"}}
    problem = only(replace(view, topic_settings=settings), "under min ISR")
    assert problem.severity is Severity.ERROR
    assert "records with acks=all are refused" in problem.cause
    assert problem.cause.startswith("1 replica is in sync and min.insync.replicas is 2")
    # A partition never needs more replicas than it has.
    for replicas, wanted in (((1,), "2"), ((1, 2), "3")):
        few = view_of(PartitionView("orders", 0, 1, replicas, replicas))
        assert names(replace(few, topic_settings={"orders": {"min.insync.replicas": wanted}})) == []


def test_too_few_replicas_ask_for_brokers_that_are_gone_and_are_dated_by_the_first_that_fell_behind() -> None:
    view = replace(
        view_of(PartitionView("orders", 0, 1, (1, 2, 7), (1,))),
        topic_settings={"orders": {"min.insync.replicas": "2"}},
        began={(Condition.REPLICAS_BEHIND, "orders-0"): Since(NOW_MS - 5_000, "seen by broker 1")},
    )
    problem = only(view, "under min ISR")
    assert problem.next_step == "start broker 7"
    assert problem.since == Since(NOW_MS - 5_000, "its first replica fell behind; seen by broker 1")


def test_a_move_that_copies_nothing_or_goes_to_nobody_stands_still() -> None:
    view = view_of(PartitionView("orders", 0, 1, (1, 2), (1,)))
    moving = ReassignmentView(("orders", 0), (1, 2), adding=(2,), removing=())
    assert names(replace(view, reassignments=(moving,))) == []
    standing = replace(view, reassignments=(replace(moving, stood_ms=6_000),))
    assert "nothing was copied to broker 2 for 6.0 s" in only(standing, "reassignment stands still").cause
    nowhere = replace(view, reassignments=(replace(moving, adding=(7,)),))
    problem = only(nowhere, "reassignment stands still")
    assert "gone, to which it moves: broker 7" in problem.cause
    assert "`barnabas partitions cancel --execute` ends all moves" in problem.next_step


def test_throttles_are_left_behind_when_nothing_moves() -> None:
    name = "leader.replication.throttled.replicas"
    view = replace(view_of(), topic_settings={"orders": {name: "*"}})
    problem = only(view, "throttle left behind")
    assert problem.next_step == f"barnabas configs alter --topic orders --delete-config {name}"
    moving = ReassignmentView(("orders", 0), (1, 2), adding=(2,), removing=())
    assert "throttle left behind" not in names(replace(view, reassignments=(moving,)))
    assert "throttle left behind" not in names(replace(view, reassignments=None)), "nobody told what moves"
    rated = with_broker(view_of(), replace(broker(2), settings={"follower.replication.throttled.rate": "100"}))
    assert only(rated, "throttle left behind").subject == "broker 2"
    rate = "follower.replication.throttled.rate"
    for_all = replace(broker(2), settings={rate: "100"}, shared_settings=frozenset({rate}))
    problem = only(with_broker(view_of(), for_all), "throttle left behind")
    assert problem.subject == "all brokers"
    assert problem.next_step == f"barnabas configs alter --broker-defaults --delete-config {rate}"


def test_leaders_are_uneven_from_a_tenth_on() -> None:
    well = [PartitionView("orders", number, 1, (1, 2), (1, 2)) for number in range(9)]
    moved = PartitionView("orders", 9, 2, (1, 2), (1, 2))
    assert names(view_of(*well, moved)) == []
    problem = only(view_of(*well[:8], moved), "leaders uneven")
    assert (problem.severity, problem.subject) == (Severity.NOTICE, "broker 1")
    assert problem.next_step == "barnabas partitions elect"


# --- brokers ---


def test_a_registered_broker_that_does_not_answer_is_an_error() -> None:
    problem = only(with_broker(view_of(), broker(2, None)), "broker silent")
    assert problem.cause == "it is registered, but does not answer at host-2:9092 within 2 s"
    expired = replace(broker(2, None), error="the certificate of host-2:9092 is not accepted: certificate has expired")
    assert only(with_broker(view_of(), expired), "broker silent").next_step.startswith(
        "check the certificate of broker 2"
    )


def test_a_broker_stalls_that_answers_what_it_has_in_memory_only() -> None:
    stall = Stall(2, TOPIC_SETTINGS, 2_500, "no answer in time")
    view = replace(view_of(), stalls=(stall,))
    problem = only(view, "broker stalls")
    assert (problem.severity, problem.subject) == (Severity.ERROR, "broker 2")
    assert problem.cause == "it answers, but did not tell settings of topics within 2.5 s (no answer in time)"
    assert problem.next_step.startswith("check that ZooKeeper answers")
    others = [replace(view, has_controllers=True), replace(view, stalls=(replace(stall, what="groups"),))]
    for other in others:
        assert only(other, "broker stalls").next_step == "look at its process and its log on host-2:9092"


def test_replicas_of_a_broker_that_is_gone_move_only_where_brokers_are_enough() -> None:
    two, three = PartitionView("few", 0, 1, (1, 7), (1,)), PartitionView("many", 0, 1, (1, 2, 7), (1, 2))
    assert "`barnabas balance --drain 7`" in only(view_of(two), "broker gone").next_step
    assert "not enough brokers for 3 replicas" in only(view_of(two, three), "broker gone").next_step


def test_next_commands_can_be_pasted_whatever_a_group_is_called_and_however_the_cluster_was_named() -> None:
    lag = LagView("orders", 0, committed=17, end=40, is_assigned=False)
    view = replace(view_of(), groups=(GroupView("it's; reboot", "Empty", 0, 1, (lag,)),))
    view = replace(view, options=("--bootstrap-server", "a:1,b:2", "--command-config", "my file"))
    [command] = re.findall(r"`(barnabas groups describe .*?)`", only(view, "group without members").next_step)
    assert shlex.split(command) == [
        "barnabas", "groups", "describe", "it's; reboot", "--bootstrap-server", "a:1,b:2", "--command-config", "my file",
    ]  # fmt: skip


def test_a_broker_is_slow_beside_the_others_or_by_itself() -> None:
    view = view_of(brokers=(1, 2, 3))
    assert "took 300 ms; the others take 1 ms" in only(with_broker(view, broker(3, 300.0)), "slow broker").cause
    assert names(with_broker(view, broker(3, 200.0))) == []
    everybody = replace(view, brokers={number: broker(number, 300.0) for number in (1, 2, 3)})
    assert names(everybody) == [], "all take as long: a network that is far"
    alone = with_broker(view_of(brokers=(1,)), broker(1, 1_200.0))
    assert only(alone, "slow broker").cause == "it is slow: its fastest answer took 1200 ms"


def test_racks_are_set_on_all_brokers_or_on_none() -> None:
    view = view_of(brokers=(1, 2, 3))
    assert names(with_broker(view, replace(broker(2), rack="a"))) == ["racks incomplete"]
    assert only(with_broker(view, replace(broker(2), rack="a")), "racks incomplete").subject == "brokers 1, 3"
    assert names(replace(view, brokers={each: replace(broker(each), rack="a") for each in (1, 2)})) == []
    assert names(replace(with_broker(view, replace(broker(2), rack="a")), has_controllers=True)) == []


def test_a_certificate_is_told_before_it_ends_and_a_short_one_in_its_last_hours() -> None:
    day_ms = 86_400_000

    def found(left_ms: int, life_ms: int) -> list[Severity]:
        validity = Validity(NOW_MS + left_ms - life_ms, NOW_MS + left_ms)
        view = with_broker(view_of(), replace(broker(2), certificate=validity))
        return [each.problem.severity for each in findings(view)]

    assert found(14 * day_ms, 365 * day_ms) == []
    assert found(14 * day_ms - 1, 365 * day_ms) == [Severity.WARNING]
    assert found(2 * day_ms - 1, 365 * day_ms) == [Severity.ERROR]
    assert found(day_ms // 5, day_ms) == []
    assert found(day_ms // 5 - 1, day_ms) == [Severity.WARNING]
    view = with_broker(view_of(), replace(broker(2), certificate=Validity(NOW_MS - 99 * day_ms, NOW_MS + 3 * day_ms)))
    problem = only(view, "certificate expires")
    assert problem.cause == "its certificate at host-2:9092 expires in 3 days: then no client connects any more"


def disk(usable: int, **settings: str) -> ClusterView:
    directory = LogDirectoryView("/data", total_bytes=100 * GiB, usable_bytes=usable)
    return with_broker(view_of(), replace(broker(2), directories=(directory,), settings=settings))


def test_a_disk_is_almost_full_and_then_full() -> None:
    assert names(disk(10 * GiB)) == []
    almost = only(disk(10 * GiB - 1), "disk full")
    assert (almost.severity, almost.subject) == (Severity.WARNING, "broker 2, /data")
    full = only(disk(4 * GiB), "disk full")
    assert full.severity is Severity.ERROR
    assert "the disk is full: 4.3 GB of 107 GB are free" in full.cause


def test_a_disk_below_the_floor_refuses_records() -> None:
    view = disk(50 * GiB, **{"barnabas.disk.free.min.bytes": str(60 * GiB)})
    assert "records are refused" in only(view, "disk full").cause


def test_a_disk_below_the_default_floor_refuses_records() -> None:
    """A quarter of a small disk, two segments of others."""
    unset = {"barnabas.disk.free.min.bytes": "", "log.segment.bytes": str(8 * GiB)}
    assert f"={16 * GiB}: records are refused" in only(disk(16 * GiB - 1, **unset), "disk full").cause
    assert names(disk(16 * GiB, **unset)) == []


def test_a_disk_whose_size_nobody_tells_is_not_judged() -> None:
    directory = LogDirectoryView("/data")
    assert names(with_broker(view_of(), replace(broker(1), directories=(directory,)))) == []


def test_an_offline_log_directory_is_told_once() -> None:
    directory = LogDirectoryView("/data", is_offline=True, total_bytes=100, usable_bytes=0)
    view = with_broker(view_of(), replace(broker(1), directories=(directory,)))
    assert names(view) == ["log directory offline"]


def test_log_directories_are_uneven() -> None:
    directories = (
        LogDirectoryView("/a", sizes={("orders", 0): 3 * GiB}),
        LogDirectoryView("/b", sizes={("orders", 1): GiB}),
    )
    problem = only(with_broker(view_of(), replace(broker(1), directories=directories)), "log directories uneven")
    assert "/a 3.2 GB, /b 1.1 GB" in problem.cause


def saying(*statements: Statement) -> ClusterView:
    """Brokers 1, 2, 3; the last says something else, in each statement."""
    usual = Statement(1, frozenset({1, 2, 3}), {("orders", 0): 1})
    brokers = {number: replace(broker(number), statements=(usual,) * len(statements)) for number in (1, 2)}
    return replace(view_of(brokers=(1, 2, 3)), brokers={**brokers, 3: replace(broker(3), statements=statements)})


def test_a_broker_that_says_something_else_in_each_statement_is_told() -> None:
    usual = Statement(1, frozenset({1, 2, 3}), {("orders", 0): 1})
    stale = Statement(2, frozenset({2, 3}), {("orders", 0): 2})
    problem = only(saying(stale, stale), "brokers disagree")
    assert problem.subject == "broker 3"
    assert "the controller is 2 instead of 1" in problem.cause
    assert "the brokers are [2, 3] instead of [1, 2, 3]" in problem.cause
    assert "1 partition has another leader (orders-0 ...)" in problem.cause
    assert names(saying(stale, usual)) == [], "the news was on its way"


def test_brokers_of_a_quorum_of_controllers_may_name_any_controller() -> None:
    other = Statement(2, frozenset({1, 2, 3}), {("orders", 0): 1})
    assert names(saying(other, other)) == ["brokers disagree"]
    assert names(replace(saying(other, other), has_controllers=True)) == []


def test_of_two_brokers_the_controller_is_believed() -> None:
    usual, stale = Statement(1, frozenset({1, 2})), Statement(1, frozenset({2}))
    view = view_of()
    view = with_broker(view, replace(broker(1), statements=(usual,)))
    view = with_broker(view, replace(broker(2), statements=(stale,)))
    assert only(view, "brokers disagree").subject == "broker 2"


# --- clients ---


def group_of(**changes: object) -> ClusterView:
    lag = LagView("orders", 0, committed=17, end=40, is_assigned=True, stood_ms=6_000, grown=5)
    group = GroupView("billing", "Stable", 2, 1, (replace(lag, **changes),))  # type: ignore[arg-type]
    return replace(view_of(), groups=(group,))


def test_a_group_is_stuck_whose_offset_stands_while_it_lags() -> None:
    problem = only(group_of(oldest_unread_ms=NOW_MS - 5_000), "stuck group")
    assert (problem.severity, problem.subject) == (Severity.WARNING, "group billing")
    assert "its 2 members have committed nothing for 6.0 s in orders-0; lag 23, 5 more records came" in problem.cause
    assert "at offset 17 of orders-0" in problem.next_step
    assert problem.since.at_ms == NOW_MS - 5_000
    assert only(group_of(oldest_unread_ms=NOW_MS - 60_000), "stuck group").severity is Severity.ERROR
    assert only(group_of(), "stuck group").since.at_ms is None
    waiting = replace(group_of(), transactions=(TransactionView(("orders", 0), 17, 4000, None, True),))
    assert "it waits for the transaction that is open from offset 17 on" in only(waiting, "stuck group").next_step
    behind = replace(group_of(), transactions=(TransactionView(("orders", 0), 19, 4000, None, True),))
    assert "transaction" not in only(behind, "stuck group").next_step, "there are records that it could read"


def test_a_group_is_not_stuck_that_moves_or_has_read_all_or_does_not_read_the_partition() -> None:
    assert names(group_of(stood_ms=None)) == []
    assert names(group_of(end=17)) == []
    assert names(group_of(is_assigned=False)) == []
    assert names(group_of(start=40)) == [], "all that it has not read was deleted"


def test_a_share_group_is_stuck_whose_members_acknowledge_nothing() -> None:
    """Most records behind the start offset are done with."""
    view = group_of(share_lag=4)
    view = replace(view, groups=(replace(view.groups[0], is_share=True),))
    problem = only(view, "stuck group")
    assert "its 2 members have acknowledged nothing for 6.0 s in orders-0; lag 4, 5 more records came" in problem.cause
    assert "share.delivery.count.limit" in problem.next_step
    assert names(group_of(share_lag=0)) == []


def test_what_brokers_tell_of_share_groups() -> None:
    """A name of a group may have spaces."""
    names_of = ("my parcels orders-0", "my parcels orders-1", "other orders-0")
    gave_up = {(Condition.SHARE_GAVE_UP, name): Since(NOW_MS - at, "seen") for at, name in enumerate(names_of)}
    told = [each.problem for each in findings(replace(view_of(), began=gave_up)) if each.check == "records given up"]
    assert [(each.subject, each.severity, each.since.at_ms) for each in told] == [
        ("group my parcels", Severity.WARNING, NOW_MS),
        ("group other", Severity.WARNING, NOW_MS - 2),
    ]
    assert "records of orders-0, orders-1 were given up" in told[0].cause
    ran_out = {(Condition.SHARE_LOCKS_RAN_OUT, names_of[0]): Since(NOW_MS, "seen")}
    problem = only(replace(view_of(), began=ran_out), "locks run out")
    assert "--group 'my parcels'" in problem.next_step and problem.severity is Severity.NOTICE


def test_a_group_without_members_that_lags_is_a_notice() -> None:
    lag = LagView("orders", 0, committed=17, end=40, is_assigned=False)
    view = replace(view_of(), groups=(GroupView("billing", "Empty", 0, 1, (lag,)),))
    problem = only(view, "group without members")
    assert problem.severity is Severity.NOTICE
    assert "its lag is 23" in problem.cause
    assert "barnabas groups delete billing" in problem.next_step
    left = replace(view, groups=(replace(view.groups[0], lags=(replace(lag, start=30),)),))
    assert "its lag is 23, of which 10 are still there" in only(left, "group without members").cause
    assert names(replace(view, groups=(replace(view.groups[0], lags=(replace(lag, start=40),)),))) == []
    simple = replace(view, groups=(replace(view.groups[0], is_simple=True),))
    next_step = only(simple, "group without members").next_step
    assert "delete" not in next_step, "its consumers may be there"
    assert "a tool has set its offsets (`groups reset`), or its consumers choose" in next_step
    read = replace(lag, oldest_unread_ms=NOW_MS - 5)
    dated = only(replace(view, groups=(replace(view.groups[0], lags=(read, lag)),)), "group without members").since
    assert dated == Since(NOW_MS - 5, "time of the oldest record that it has not read")


def test_a_rebalance_that_does_not_end_is_told() -> None:
    group = GroupView("billing", "PreparingRebalance", 2, 1, rebalanced_ms=6_000)
    assert "was all 6.0 s" in only(replace(view_of(), groups=(group,)), "rebalance does not end").cause
    assert names(replace(view_of(), groups=(replace(group, rebalanced_ms=None),))) == []


def transaction(**changes: object) -> ClusterView:
    known = TransactionView(
        ("orders", 3), 17, 4000, NOW_MS - 9_000, True, "payments", "Ongoing", NOW_MS - 10_000, 60_000
    )
    return replace(view_of(), transactions=(replace(known, **changes),))  # type: ignore[arg-type]


def test_a_transaction_hangs_that_no_coordinator_knows() -> None:
    young = only(transaction(is_known=False), "hanging transaction")
    assert young.severity is Severity.WARNING
    assert young.next_step.startswith("if this user may describe all transactional ids: barnabas transactions abort")
    old_ms = NOW_MS - 900_000
    problem = only(transaction(is_known=False, last_written_ms=old_ms), "hanging transaction")
    assert problem.severity is Severity.ERROR
    assert "producer id 4000 hangs in it from offset 17 on" in problem.cause
    assert problem.next_step == "barnabas transactions abort orders --partition 3 --start-offset 17 --execute"
    assert problem.since == Since(old_ms, "time of its last record")
    assert names(transaction(is_known=None)) == [], "not every coordinator has answered"
    assert names(transaction()) == []


def test_a_transaction_is_late_behind_its_timeout_or_waiting_for_markers() -> None:
    assert names(transaction(started_ms=NOW_MS - 89_000)) == ["long transaction"]
    late = only(transaction(started_ms=NOW_MS - 91_000), "late transaction")
    assert (late.subject, late.since.at_ms) == ("transaction payments", NOW_MS - 91_000)
    assert names(transaction(state="PrepareCommit", started_ms=NOW_MS - 31_000)) == ["late transaction"]
    assert names(transaction(state="PrepareCommit")) == []
