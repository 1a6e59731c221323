"""The checkers of clusters, each shown what it must complain about and what it must let pass."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from metadata.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from metadata.store import znodes
from metadata.store.node_map import Node
from metadata.store.node_tree import Staged
from metadata.store.znodes import PartitionState, state_path
from protocol.topic_partition import TopicPartition
from tests.simulation.checkers.logs import View
from tests.simulation.cluster.checkers.expiry import GRACE_MS, ExpiryChecker
from tests.simulation.cluster.checkers.leaders import LeaderChecker
from tests.simulation.cluster.checkers.logs import ClusterLogChecker
from tests.simulation.cluster.checkers.metadata import MetadataChecker, outdated
from tests.simulation.cluster.checkers.promises import PromiseChecker, common_end
from tests.simulation.cluster.checkers.states import StateChecker
from tests.simulation.disk_survey import FoundBatch

KEY: TopicPartition = ("t", 0)
STATE = PartitionState(leader=1, leader_epoch=3, isr=(1, 2), controller_epoch=5)


def batch(base: int, end: int, epoch: int = 0, content: bytes = b"") -> FoundBatch:
    return FoundBatch(base, end, epoch, content)


# --- state nodes ---


class States:
    def __init__(self, *unclean: str) -> None:
        self.reports: list[str] = []
        self.counts: Counter[str] = Counter()
        self.checker = StateChecker(self.reports.append, self._count, unclean.__contains__, lambda change: None)
        self.seen(STATE)

    def _count(self, what: str) -> None:
        self.counts[what] += 1

    def seen(self, state: PartitionState | None) -> list[str]:
        node = None if state is None else Node(state.encode(), 0, 1, 1, 0, 0)
        self.checker.on_transaction(Staged(1, {state_path(*KEY): node}, [], []))
        return self.reports


def test_an_election_within_the_isr_and_changes_of_the_isr_are_counted() -> None:
    states = States()
    assert not states.seen(replace(STATE, isr=(1,)))
    assert not states.seen(replace(STATE, isr=(1, 2)))
    assert not states.seen(replace(STATE, leader=2, leader_epoch=4, isr=(2,)))
    assert states.counts == {"elections": 1, "isr shrinks": 2, "isr expansions": 1}


def test_a_leader_that_is_not_in_the_isr_or_was_not_is_reported() -> None:
    assert "not in the ISR" in States().seen(replace(STATE, isr=(2,)))[0]
    assert "outside of the ISR" in States().seen(replace(STATE, leader=3, leader_epoch=4, isr=(3,)))[0]
    assert not States("t").seen(replace(STATE, leader=3, leader_epoch=4, isr=(3,)))


def test_a_controller_that_writes_after_another_was_elected_is_reported() -> None:
    states = States()
    states.checker.on_transaction(
        Staged(1, {znodes.CONTROLLER_EPOCH: Node(znodes.encode_controller_epoch(6), 0, 1, 1, 0, 0)}, [], [])
    )
    assert not states.seen(replace(STATE, controller_epoch=6))
    assert "in the days of 6" in states.seen(replace(STATE, isr=(1,)))[0]


def test_epochs_that_fall_and_leaders_that_share_one_are_reported() -> None:
    assert "leader epoch 2 after 3" in States().seen(replace(STATE, leader_epoch=2))[0]
    assert "in epoch 3" in States().seen(replace(STATE, leader=2))[0]
    assert "controller epoch 4 wrote after 5" in States().seen(replace(STATE, controller_epoch=4))[0]


def test_an_isr_that_is_empty_or_names_somebody_twice_is_reported() -> None:
    assert States().seen(replace(STATE, leader=-1, isr=()))
    assert States().seen(replace(STATE, isr=(1, 1)))


def test_a_topic_that_is_made_anew_begins_anew() -> None:
    states = States()
    states.seen(None)
    assert not states.seen(replace(STATE, leader=7, leader_epoch=0, isr=(7,), controller_epoch=1))


def test_controllers_must_follow_each_other() -> None:
    states = States()

    def elected(epoch: int) -> None:
        node = Node(znodes.encode_controller_epoch(epoch), 0, 1, 1, 0, 0)
        states.checker.on_transaction(Staged(1, {znodes.CONTROLLER_EPOCH: node}, [], []))

    elected(2)
    elected(3)
    assert states.counts["controllers elected"] == 2
    assert not states.reports
    elected(1)
    assert states.reports


# --- what brokers believe ---


def test_two_leaders_of_one_epoch_are_reported_and_one_of_each_is_not() -> None:
    reports: list[str] = []
    leaders = LeaderChecker(reports.append)
    leaders.on_leader(KEY, b"i", 1, 1)
    leaders.on_leader(KEY, b"i", 2, 2)
    leaders.on_leader(KEY, b"i", 1, 1)
    leaders.on_leader(KEY, b"j", 1, 2)  # another topic of that name
    assert not reports
    leaders.on_leader(KEY, b"i", 1, 2)
    assert reports


def test_a_watermark_may_fall_between_lives_and_epochs_only() -> None:
    reports: list[str] = []
    leaders = LeaderChecker(reports.append)
    assert leaders.on_watermark(KEY, 1, 1, 1, 10)
    assert not leaders.on_watermark(KEY, 1, 1, 1, 10)
    assert leaders.on_watermark(KEY, 1, 1, 2, 5)
    assert leaders.on_watermark(KEY, 2, 2, 1, 7)
    assert not reports
    leaders.on_watermark(KEY, 1, 1, 1, 9)
    assert reports


# --- promises ---


class Promised:
    """Three replicas; `ends` is where their logs end now."""

    def __init__(self) -> None:
        self.reports: list[str] = []
        self.fallen: list[int] = []
        self.ends = {1: 0, 2: 0, 3: 0}
        self.replicas = [1, 2, 3]
        self.unsure: set[int] = set()
        self.checker = PromiseChecker(
            self.reports.append,
            lambda broker_id, key: self.ends.get(broker_id),
            lambda key: self.replicas,
            lambda broker_id: broker_id in self.unsure,
            lambda key, end: self.fallen.append(end),
        )
        self.checker.on_state(KEY, 1, (1, 2, 3))

    def committed(self, end: int) -> None:
        self.checker.on_commit(KEY, end, is_current=True)

    def power_lost(self, broker_id: int, durable: list[FoundBatch]) -> None:
        written = [batch(0, self.ends[broker_id])]
        self.checker.on_power_lost(broker_id, {KEY: written}, {KEY: durable})


def all_at(end: int) -> Promised:
    promised = Promised()
    promised.ends = dict.fromkeys(promised.ends, end)
    promised.committed(end)
    return promised


def test_a_broker_whose_replica_was_removed_keeps_nothing() -> None:
    promised = all_at(5)
    promised.replicas = [2, 3]
    promised.checker.on_state(KEY, 2, (2, 3))
    promised.checker.on_state(KEY, 2, (2,))
    promised.replicas = [1, 2, 3]
    del promised.ends[1]  # it has just begun, and nobody can say what it has
    promised.checker.on_state(KEY, 1, (1,))
    assert promised.checker.of(KEY).end == 0
    assert promised.fallen[0] == 0


def test_a_commit_that_a_live_member_does_not_hold_is_reported() -> None:
    promised = Promised()
    promised.ends = {1: 5, 2: 5, 3: 4}
    promised.committed(4)
    assert not promised.reports
    promised.committed(5)
    assert "broker 3" in promised.reports[0]


def test_a_deposed_leader_may_know_of_less() -> None:
    promised = Promised()
    promised.ends = {1: 5, 2: 0, 3: 0}
    promised.checker.on_commit(KEY, 5, is_current=False)
    assert not promised.reports


def test_who_joins_the_isr_must_hold_what_is_committed() -> None:
    promised = all_at(5)
    promised.checker.on_state(KEY, 1, (1, 2))
    promised.ends[3] = 4
    promised.checker.on_state(KEY, 1, (1, 2, 3))
    assert "broker 3 joins" in promised.reports[0]


def test_a_promise_outlives_losses_of_power_as_long_as_one_member_has_had_none() -> None:
    promised = all_at(5)
    promised.power_lost(1, [])
    promised.power_lost(2, [])
    assert not promised.fallen
    promised.checker.on_state(KEY, 3, (3,))
    assert not promised.fallen


def test_what_an_unclean_leader_had_more_goes_with_the_next_one() -> None:
    promised = all_at(5)
    promised.checker.on_state(KEY, 3, (3,))
    promised.ends = {1: 2, 2: 2, 3: 5}
    promised.checker.on_state(KEY, 1, (1,))
    promised.checker.on_state(KEY, 3, (3,))  # whose records behind 2 are read again
    promised.fallen.clear()
    promised.checker.on_state(KEY, 2, (2,))
    assert promised.fallen == [2]


def test_a_former_leader_that_leads_uncleanly_again_has_its_own_records_behind_an_earlier_fall() -> None:
    promised = all_at(5)
    promised.checker.on_state(KEY, 1, (1,))
    promised.ends = {1: 9, 2: 2, 3: 5}
    promised.committed(9)
    promised.checker.on_state(KEY, 2, (2,))
    assert promised.fallen[-1] == 2
    promised.ends[2] = 12
    promised.committed(12)  # other records
    promised.checker.on_state(KEY, 1, (1,))
    assert promised.fallen[-1] == 2
    promised.ends[2] = promised.ends[1] = 20
    promised.committed(20)
    promised.checker.on_state(KEY, 1, (1, 2))
    promised.checker.on_state(KEY, 1, (1,))
    promised.checker.on_state(KEY, 2, (2,))
    assert promised.fallen[-1] == 20, "one that was in sync again has the same"


def test_what_a_leader_took_alone_before_it_was_deposed_is_not_what_the_others_committed() -> None:
    promised = all_at(5)
    promised.ends[1] = 8
    promised.checker.on_state(KEY, 2, (2, 3))
    promised.ends |= {2: 12, 3: 12}
    promised.committed(12)
    promised.checker.on_state(KEY, 1, (1,))
    assert promised.fallen[-1] == 5


def test_a_promise_falls_to_what_the_last_member_had_flushed() -> None:
    promised = all_at(5)
    promised.power_lost(1, [])
    promised.checker.on_state(KEY, 2, (2, 3))
    promised.checker.on_state(KEY, 2, (2,))
    promised.power_lost(2, [batch(0, 5)])
    assert promised.fallen == []
    promised.ends[2] = 9
    promised.committed(9)
    promised.power_lost(2, [])
    assert promised.fallen == [0]


def test_a_leader_that_has_lost_power_is_an_excuse_only_when_it_is_not_sure_of_its_logs() -> None:
    promised = all_at(5)
    promised.power_lost(1, [])
    promised.checker.on_leader(KEY, 1)
    assert not promised.fallen
    promised.unsure = {1, 2}
    promised.checker.on_leader(KEY, 2)
    assert not promised.fallen
    promised.checker.on_leader(KEY, 1)
    assert promised.fallen == [0]
    promised.checker.on_leader(KEY, 1)
    assert promised.fallen == [0]


def test_a_member_of_the_isr_that_lacks_what_is_committed_is_reported_unless_it_is_not_sure_of_its_logs() -> None:
    promised = all_at(5)
    promised.power_lost(2, [])
    promised.ends = {1: 6, 2: 0, 3: 6}
    promised.unsure.add(2)
    promised.committed(6)
    assert not promised.reports
    promised.unsure.clear()
    promised.committed(7)
    assert promised.reports


def test_a_crash_of_processes_excuses_nothing() -> None:
    promised = all_at(5)
    promised.ends = {}
    promised.checker.on_state(KEY, 2, (2,))
    promised.checker.on_state(KEY, -1, (2,))
    assert not promised.fallen


def test_logs_agree_up_to_the_first_batch_that_differs() -> None:
    written = [batch(0, 2), batch(2, 5, 1), batch(5, 6, 1)]
    assert common_end(written, written) == 6
    assert common_end(written, written[:2]) == 5
    assert common_end(written, [batch(0, 2), batch(2, 4), batch(4, 9)]) == 2
    assert common_end(written, []) == 0


# --- metadata ---


def image(leader_epoch: int, partition_epoch: int, *brokers: int, topic_id: bytes = b"a" * 16) -> ClusterImage:
    partition = PartitionImage(1, leader_epoch, (1, 2), (1, 2), (), partition_epoch, 5)
    live = {broker_id: BrokerImage(broker_id, {}) for broker_id in brokers or (1, 2)}
    return ClusterImage(brokers=live, topics={"t": TopicImage("t", topic_id, {0: partition})})


def test_a_broker_that_goes_back_to_what_was_is_reported_unless_it_has_begun_anew() -> None:
    reports: list[str] = []
    checker = MetadataChecker(reports.append)
    for seen in (image(3, 7), image(3, 8), image(4, 9), image(4, 9, 1)):
        checker.on_published(1, 1, seen)
    checker.on_published(1, 1, image(0, 0, topic_id=b"b" * 16))
    checker.on_published(1, 2, image(0, 0))
    checker.on_published(2, 1, replace(image(3, 9), controller_id=4))
    checker.on_published(2, 1, image(3, 7))
    assert not reports
    checker.on_published(2, 1, image(3, 6))
    assert reports == ["broker 2 goes back: t-0 was of leader and partition epoch (3, 7), now of (3, 6)"]


def test_what_a_broker_does_not_know_is_told() -> None:
    states = {KEY: replace(STATE, leader_epoch=4)}
    assert list(outdated(1, image(4, 9), states, [KEY], {1, 2})) == []
    assert "registered are [1, 3]" in next(outdated(1, image(4, 9), states, [KEY], {1, 3}))
    assert "with leader 1, epoch 3" in next(outdated(1, image(3, 9), states, [KEY], {1, 2}))
    assert "does not know" in next(outdated(1, ClusterImage(), states, [KEY], set()))


# --- records ---


def log_checker() -> tuple[ClusterLogChecker, list[str]]:
    reports: list[str] = []
    checker = ClusterLogChecker(reports.append)
    checker.watch(KEY)
    checker.sending(KEY, ["a", "b", "c"], 0)
    return checker, reports


def test_what_only_the_leader_has_acknowledged_may_go() -> None:
    checker, reports = log_checker()
    checker.acknowledged(KEY, 0, ["a"], 1)
    checker.acknowledged(KEY, 0, ["b"], -1)
    assert not reports
    checker.acknowledged(KEY, 0, ["c"], -1)
    assert reports


def test_what_was_acknowledged_before_the_promise_fell_is_forgotten() -> None:
    checker, reports = log_checker()
    before = checker.view(KEY)
    checker.acknowledged(KEY, 0, ["a", "b"], -1, view=before)
    checker.fallen(KEY, 1)
    checker.acknowledged(KEY, 1, ["b"], -1, view=before)  # was on its way meanwhile
    checker.acknowledged(KEY, 1, ["c"], -1, view=checker.view(KEY))
    assert not reports
    assert checker.view(KEY) == View(committed_end=2, deleted_to=0, known_end=2, cuts_count=1, revivals_count=1)


def expiring_checker() -> tuple[ClusterLogChecker, list[str], list[int]]:
    """Batches of the times 100, 200 and 300, which expire after 50 ms; and the time."""
    checker, reports = log_checker()
    now_ms = [0]
    checker.expiry = ExpiryChecker(
        reports.append,
        lambda _what, _by: None,
        {KEY[0]: 50},
        fastest_ms=lambda: now_ms[0] + 10,
        slowest_ms=lambda: now_ms[0] - 10,
    )
    for offset, value in enumerate("abc"):
        checker.sending(KEY, [value], 100 * (offset + 1))
        checker.acknowledged(KEY, offset, [value], -1)
    return checker, reports, now_ms


def test_what_expires_early_is_reported() -> None:
    checker, reports, now_ms = expiring_checker()
    for now_ms[0], start in ((100, 0), (141, 1), (241, 2), (341, 3)):
        checker.starts_at(KEY, checker.view(KEY), start)
        assert not reports
    checker, reports, now_ms = expiring_checker()
    for now_ms[0], start in ((140, 1), (141, 2)):
        checker.starts_at(KEY, checker.view(KEY), start)
        assert f"starts at {start}" in reports.pop()
    checker.out_of_range(KEY, checker.view(KEY), 1)
    assert "out of range" in reports.pop()
    now_ms[0] = 141
    checker.out_of_range(KEY, checker.view(KEY), 0)
    assert not reports


def test_what_has_expired_and_stays_is_reported() -> None:
    checker, reports, now_ms = expiring_checker()
    for now_ms[0] in (160 + GRACE_MS, 161 + GRACE_MS):
        assert not reports
        assert checker.expiry is not None
        checker.expiry.at_rest(KEY, [(0, "a"), (1, "b"), (2, "c")])
    assert "begins at 0" in reports[0]


def test_replicas_that_differ_are_reported() -> None:
    checker, reports = log_checker()
    one, other = [batch(0, 2), batch(2, 4, 1)], [batch(0, 2), batch(2, 4, 2)]
    checker.replicas_at_rest(KEY, {1: one, 2: one, 3: [batch(2, 4, 1)]})
    assert not reports
    checker.replicas_at_rest(KEY, {1: one, 2: other})
    assert "differ at 2" in reports[0]
    reports.clear()
    checker.replicas_at_rest(KEY, {1: one, 2: one[:1]})
    assert "end at" in reports[0]
    reports.clear()
    checker.replicas_at_rest(("__consumer_offsets", 0), {1: one, 2: one[:1]})
    assert not reports
