"""The checkers of share groups: each must speak up at what it is there for, and only then."""

from __future__ import annotations

from random import Random

import pytest

from protocol.records.record import Record, encode_batch
from protocol.share_states import AcknowledgeType, DeliveryState
from protocol.stored.share_state import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    StoredStateBatch,
)
from protocol.topic_partition import TopicPartition
from tests.simulation.disk_survey import FoundBatch
from tests.simulation.shares.checkers.deliveries import DeliveryChecker, Term
from tests.simulation.shares.checkers.fates import TransactionFates
from tests.simulation.shares.checkers.starts import StartChecker
from tests.simulation.shares.checkers.states import wrong_states
from tests.simulation.shares.clients.session import batches_of
from tests.simulation.test_checkers import Reports

KEY: TopicPartition = ("in", 0)
TERM, NEXT = Term(1, 1, 0), Term(2, 1, 1)
ACCEPT, RELEASE, REJECT, RENEW = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.RENEW,
)
Row = tuple[bytes, bytes | None]


class Deliveries:
    """Of a group whose locks last 2 s, with at most 3 deliveries, and sessions of 4 s. Answers take 0.1 s."""

    def __init__(self) -> None:
        self.reports = Reports()
        self.now_s = 0.0
        self.checker = DeliveryChecker(
            self.reports, lambda what: None, lambda: self.now_s,
            limit_of=lambda group: 3, lock_s_of=lambda group: 2.0, session_s=4.0,
        )  # fmt: skip
        for member in ("m", "n"):
            self.checker.alive(member, 1.0)

    def acquired(
        self,
        member: str,
        *,
        at_s: float,
        count: int = 1,
        term: Term | None = TERM,
        took_s: float = 0.1,
        value: str = "a",
    ) -> None:
        self.now_s = at_s + took_s
        self.checker.acquired(
            "g", KEY, member, {0: value}, count, sent_s=at_s, lock_s=2.0, term=term,
            forgotten_count=self.checker.forgotten_count,
        )  # fmt: skip

    def acknowledged(
        self,
        member: str,
        kind: AcknowledgeType = ACCEPT,
        *,
        at_s: float,
        term: Term | None = TERM,
        is_done: bool = True,
        is_refused: bool = False,
    ) -> None:
        self.now_s = at_s
        rows = self.checker.acknowledging("g", KEY, member, {0: kind}, term)
        self.now_s = at_s + 0.1
        self.checker.answered(
            rows, term, is_done=is_done, is_refused=is_refused, forgotten_count=self.checker.forgotten_count
        )


@pytest.mark.parametrize("kind", [ACCEPT, REJECT])
@pytest.mark.parametrize("term", [TERM, NEXT])
def test_what_is_done_does_not_come_again(kind: AcknowledgeType, term: Term) -> None:
    case = Deliveries()
    case.acquired("m", at_s=1.0)
    case.acknowledged("m", kind, at_s=1.5)
    case.acquired("n", at_s=1.3, took_s=0.5, term=term, count=2)
    assert "is given ('in', 0) 0 again" in case.reports[0]


def test_what_a_leader_that_was_has_stored_is_done() -> None:
    case = Deliveries()
    case.acquired("m", at_s=1.0, term=None)
    case.acknowledged("m", at_s=1.5, term=None)
    case.acquired("n", at_s=1.55, term=NEXT)
    assert not case.reports
    case.acquired("n", at_s=3.8, term=NEXT, count=2)
    assert "which was done" in case.reports[0]


@pytest.mark.parametrize(
    "why", ["release", "refused", "in doubt", "sent before", "leader that was", "forgotten", "excused"]
)
def test_what_is_not_done_may_come_again(why: str) -> None:
    case, term, at_s = Deliveries(), NEXT, 1.8
    case.acquired("m", at_s=1.0)
    kind = RELEASE if why == "release" else ACCEPT
    case.acknowledged("m", kind, at_s=1.5, is_refused=why == "refused", is_done=why not in ("in doubt", "refused"))
    case.reports.clear()  # that it was refused
    match why:
        case "sent before":
            at_s = 1.05
        case "forgotten":
            case.checker.forget()
        case "excused":
            case.checker.excuse(KEY)
    case.acquired("n", at_s=at_s, term=None if why == "leader that was" else term, count=2)
    assert not case.reports


def test_a_late_acceptance_excuses_only_what_was_asked_for_before() -> None:
    case = Deliveries()
    case.acquired("m", at_s=1.0)
    case.acquired("n", at_s=3.2, count=2)
    case.acknowledged("n", at_s=3.4)
    case.acknowledged("m", at_s=3.6)  # behind the start offset it is nothing
    assert not case.reports
    case.acquired("m", at_s=3.8, count=3)
    assert "which was done" in case.reports[0]


def test_two_members_never_hold_one_record() -> None:
    case = Deliveries()
    case.acquired("m", at_s=1.0)
    case.acquired("n", at_s=1.2, count=2)
    assert "though m holds it" in case.reports[0]


@pytest.mark.parametrize(
    "why",
    [
        "lock",
        "released",
        "session",
        "session here",
        "member lost",
        "next leader",
        "leader that was",
        "crossed",
        "renewed",
    ],
)
def test_a_record_is_given_to_another_member_when_it_is_free(why: str) -> None:
    case, at_s, term, count = Deliveries(), 1.5, TERM, 2
    case.acquired("m", at_s=1.0)
    match why:
        case "lock":
            at_s = 2.95
        case "released":
            case.acknowledged("m", RELEASE, at_s=1.2, is_done=False)
        case "session":
            case.checker.session_over("m")
        case "session here":
            case.checker.session_over("m", 1)
        case "member lost":
            case.acquired("m", at_s=4.0, count=2)  # until 6.0, but nobody has heard of it since 1.0
            at_s, count = 5.1, 3
        case "next leader":
            term, count = NEXT, 1
        case "leader that was":
            term = None  # type: ignore[assignment]
        case "crossed":
            at_s, count = 1.05, 1
        case "renewed":
            case.acknowledged("m", RENEW, at_s=2.0)
            at_s = 3.95
    case.acquired("n", at_s=at_s, term=term, count=count)
    assert not case.reports


@pytest.mark.parametrize("broker_id", [2, None])
def test_a_lock_ends_neither_early_nor_with_another_session(broker_id: int | None) -> None:
    case = Deliveries()
    case.acquired("m", at_s=1.0)
    if broker_id is not None:
        case.checker.session_over("m", broker_id)
        case.acquired("n", at_s=2.0, count=2)
    else:
        case.acknowledged("m", RENEW, at_s=2.0)
        case.acquired("n", at_s=3.5, count=2)
    assert "though m holds it" in case.reports[0]


@pytest.mark.parametrize(("count", "text"), [(0, "time 0, the limit"), (4, "time 4, the limit")])
def test_counts_are_within_their_limit(count: int, text: str) -> None:
    case = Deliveries()
    case.acquired("m", at_s=1.0, count=count)
    assert text in case.reports[0]


@pytest.mark.parametrize(("count", "term", "is_told"), [(1, TERM, True), (1, NEXT, False), (2, TERM, False)])
def test_counts_grow_in_one_term(count: int, term: Term, is_told: bool) -> None:
    case = Deliveries()
    case.acquired("m", at_s=1.0)
    case.checker.session_over("m")
    case.acquired("n", at_s=1.5, count=count, term=term)
    assert bool(case.reports) is is_told


def test_a_holder_is_not_refused_and_nobody_else_is_heard() -> None:
    case = Deliveries()
    case.acquired("m", at_s=1.0)
    assert case.checker.holder("g", KEY, "n") == (0, "m") and case.checker.holder("g", KEY, "m") is None
    case.acknowledged("n", RELEASE, at_s=1.2, is_done=False, is_refused=True)
    assert not case.reports
    case.acknowledged("n", RELEASE, at_s=1.4)
    assert "which m holds" in case.reports.pop()
    case.acknowledged("m", at_s=1.6, is_done=False, is_refused=True)
    assert "refused to m, which holds it" in case.reports.pop()
    case.acquired("m", at_s=1.8, count=2)
    case.acknowledged("m", at_s=3.75, is_done=False, is_refused=True)  # its lock may have run out
    assert not case.reports


def test_what_nobody_can_have_finished_is_lost() -> None:
    case = Deliveries()
    assert case.checker.undone("g", KEY, {0: "a"}).keys() == {0}
    for _ in range(3):
        case.checker.unanswered("g", KEY)
    assert not case.checker.undone("g", KEY, {0: "a"})  # three members may have had it
    case.acquired("m", at_s=1.0, count=1)
    case.checker.unanswered("g", KEY)
    assert "delivered 1 times, 1 fetches" in case.checker.undone("g", KEY, {0: "a"})[0]
    assert "and 'b' is there" in case.checker.undone("g", KEY, {0: "b"})[0]
    case.acknowledged("m", at_s=1.5, is_done=False, is_refused=True)
    assert case.checker.undone("g", KEY, {0: "a"})
    case.acquired("m", at_s=5.0, count=3)
    assert not case.checker.undone("g", KEY, {0: "a"})  # nobody gets it a fourth time
    case.checker.reset("g", KEY, 1)
    assert case.checker.undone("g", KEY, {0: "a", 1: "b"}).keys() == {1}
    case.checker.reset("g", KEY, 0)
    case.acquired("m", at_s=6.0)
    assert case.checker.undone("g", KEY, {0: "a"})
    case.acknowledged("m", at_s=6.5, is_done=False)
    assert not case.checker.undone("g", KEY, {0: "a"})  # nobody knows
    case.checker.excuse(KEY)
    assert not case.checker.undone("g", KEY, {1: "b"})


def test_a_record_does_not_change() -> None:
    case = Deliveries()
    case.acquired("m", at_s=1.0)
    case.acquired("m", at_s=3.5, count=2, value="b")
    assert "and was 'a'" in case.reports[0]


def test_start_offsets_do_not_go_back() -> None:
    reports = Reports()
    checker = StartChecker(reports)

    def told(start: int, *, lag: int = 0, floor: int | None = None, forgotten_count: int = 0) -> None:
        asked = checker.floor("g", KEY) if floor is None else floor
        checker.told("g", KEY, start, lag, floor=asked, end=10, forgotten_count=forgotten_count)

    told(-1)
    told(5)
    told(3, floor=-1)  # asked before
    told(7)
    assert not reports
    told(6)
    assert "starts at 6, and at 7 before" in reports.pop()
    told(11)
    assert "the log ends at 10" in reports.pop()
    told(11, lag=-2)
    assert "the lag" in reports.pop()
    reports.clear()
    checker.altering("g", KEY)
    told(2, floor=7)
    told(2, forgotten_count=1)
    checker.forget()
    told(1, forgotten_count=2)
    assert not reports


@pytest.mark.parametrize("is_told_first", [False, True])
def test_aborted_records_are_not_delivered(is_told_first: bool) -> None:
    reports = Reports()
    fates = TransactionFates(reports)
    fates.was_committed([(KEY, 3, "c")])
    fates.delivered("m", ["c", "in doubt"])
    if is_told_first:
        fates.was_aborted(["a"])
    fates.delivered("m", ["a"])
    if not is_told_first:
        assert not reports
        fates.was_aborted(["a"])
    assert "was not committed" in reports.pop() and fates.committed == {KEY: {3: "c"}}
    fates.excuse()
    fates.delivered("m", ["a"])
    assert not reports


def batch(first: int, last: int, state: int = DeliveryState.ACKNOWLEDGED, count: int = 1) -> StoredStateBatch:
    return StoredStateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)


def snapshot(
    epoch: int, start: int, *batches: StoredStateBatch, leader_epoch: int = 0, state_epoch: int = 0, partition: int = 0
) -> Row:
    key = ShareSnapshotKey(group_id="g", topic_id=b"t" * 16, partition=partition)
    value = ShareSnapshotValue(
        snapshot_epoch=epoch, state_epoch=state_epoch, leader_epoch=leader_epoch, start_offset=start,
        create_timestamp=0, write_timestamp=0, state_batches=list(batches),
    )  # fmt: skip
    return key.encode_stored(0), value.encode_stored(0)


def update(epoch: int, start: int, *batches: StoredStateBatch, leader_epoch: int = 0, partition: int = 0) -> Row:
    key = ShareUpdateKey(group_id="g", topic_id=b"t" * 16, partition=partition)
    value = ShareUpdateValue(
        snapshot_epoch=epoch, leader_epoch=leader_epoch, start_offset=start, state_batches=list(batches)
    )
    return key.encode_stored(1), value.encode_stored(0)


def forgotten() -> Row:
    return ShareSnapshotKey(group_id="g", topic_id=b"t" * 16, partition=0).encode_stored(0), None


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([snapshot(0, 0), update(0, 3, batch(4, 5)), update(0, -1, batch(4, 4)), snapshot(1, 3, batch(4, 5))], None),
        ([snapshot(0, 5), forgotten(), snapshot(0, 0)], None),
        ([snapshot(0, 5), snapshot(1, 0, state_epoch=1)], None),
        ([snapshot(0, 0), update(3, 8, partition=1), snapshot(4, 9, partition=1)], None),
        ([snapshot(0, 0), update(0, 0, partition=1)], "has no snapshot, but an update"),
        ([snapshot(0, 0), forgotten(), update(0, 0)], "has no snapshot, but an update"),
        ([snapshot(3, 0), snapshot(3, 0)], "snapshot 3 after 3"),
        ([snapshot(3, 0), update(2, 0)], "an update of snapshot 2"),
        ([snapshot(0, 0, state_epoch=2), snapshot(1, 0, state_epoch=1)], "state epoch 1 after 2"),
        ([snapshot(0, 0, leader_epoch=4), update(0, 0, leader_epoch=3)], "leader epoch 3 after 4"),
        ([snapshot(0, 7), update(0, 6)], "starts at 6, after 7"),
        ([snapshot(0, 0), update(0, 7), snapshot(1, 6)], "starts at 6, after 7"),
        ([snapshot(0, 0, batch(3, 2))], "3 to 2 in state"),
        ([snapshot(0, 0, batch(3, 4, DeliveryState.ACQUIRED))], "in state 1"),
        ([snapshot(0, 0), update(0, 0, batch(3, 4, count=6))], "delivered 6 times"),
        ([snapshot(0, 4, batch(3, 5))], "begins at 3, before 4"),
        ([snapshot(0, 0, batch(3, 5), batch(5, 6))], "begins at 5, before 6"),
    ],
)
def test_the_log_of_the_share_coordinator(rows: list[Row], text: str | None) -> None:
    batches = [
        FoundBatch(offset, offset + 1, 0, encode_batch([Record(0, 0, *row)], base_offset=offset))
        for offset, row in enumerate(rows)
    ]
    found = list(wrong_states(batches, lambda group: 5))
    assert (not found) if text is None else (found and text in found[0]), found


def test_rows_of_acknowledgements_say_of_each_offset_what_was_said() -> None:
    kinds = {1: ACCEPT, 2: ACCEPT, 3: RELEASE, 7: REJECT}
    rows = list(batches_of(kinds, Random(1)))
    assert rows == [(1, 3, [1, 1, 2]), (7, 7, [3])]
    assert list(batches_of({1: ACCEPT, 2: ACCEPT}, Random(1))) == [(1, 2, [1])]
