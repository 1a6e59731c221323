"""The checkers of the relay: each must speak up at what it is there for, and only then."""

from __future__ import annotations

import pytest

from protocol.key_hashes import by_murmur2
from protocol.records.record import Record
from tests.simulation.relays.checkers.early import early
from tests.simulation.relays.checkers.intact import altered
from tests.simulation.relays.checkers.order import out_of_order
from tests.simulation.relays.checkers.outcomes import Outcomes, lost
from tests.simulation.relays.expected import due_ms, is_cancellation
from tests.simulation.relays.facts import Finals, Known, Life, Send, Stored
from tests.simulation.relays.plan import AGAIN, DEAD, LATER, LATER_OUT, RESULTS, RETRY_DELAYS_MS, WORK, PlannedRule

RULES = {
    LATER: PlannedRule(LATER, "delay", LATER_OUT, 3, "murmur2", DEAD, results=RESULTS),
    AGAIN: PlannedRule(AGAIN, "retry", WORK, 1, "murmur2", DEAD, delays_ms=RETRY_DELAYS_MS),
}
DAY_MS = 86_400_000
RELAY_1 = Life("relay1.1", 5.0)
Headers = dict[str, str]


class Case:
    """A history in which each record of `later` is produced at its offset in ms, in partition 0, and is due there."""

    def __init__(self, *values: str | tuple[str, Headers]) -> None:
        self.finals, self.known = Finals(), Known()
        self.finals.sources[LATER, 0] = [
            source(LATER, at, *((each, {}) if isinstance(each, str) else each)) for at, each in enumerate(values)
        ]

    def delivered(self, value: str, *, timestamp_ms: int = 100, wall_ms: int | None = None, at_s: float = 10.0) -> Case:
        origin = next((each for each in self.finals.sources[LATER, 0] if each.value == value), None)
        key = b"k"
        partition = by_murmur2(key, RULES[LATER].partitions)
        rows = self.finals.outputs.setdefault((LATER_OUT, partition), [])
        headers = place(LATER, origin.offset if origin else 0)
        rows.append(Stored(LATER_OUT, partition, record(len(rows), timestamp_ms, value, headers)))
        self.known.sent(
            Send(value, LATER_OUT, timestamp_ms, timestamp_ms if wall_ms is None else wall_ms, at_s, RELAY_1)
        )
        return self

    def dead(self, value: str) -> Case:
        rows = self.finals.outputs.setdefault((DEAD, 0), [])
        rows.append(Stored(DEAD, 0, record(len(rows), 100, value, {"barnabas-reason": "why"})))
        return self

    def result(self, offset: int, text: str) -> Case:
        rows = self.finals.outputs.setdefault((RESULTS, 0), [])
        rows.append(Stored(RESULTS, 0, record(len(rows), 100, text, place(LATER, offset))))
        return self

    def taken(self, position: int, at_s: float) -> Case:
        self.known.taken.setdefault((LATER, 0), []).append((at_s, position))
        return self

    def outcomes(self, *, forgets: bool = False) -> list[str]:
        judged = Outcomes(self.finals, self.known, RULES, forgets)
        judged.judge()
        return [*judged.wrong, *lost(judged)]


def record(offset: int, timestamp_ms: int, value: str, headers: Headers) -> Record:
    return Record(offset, timestamp_ms, b"k", value.encode(), [(name, text.encode()) for name, text in headers.items()])


def source(topic: str, offset: int, value: str, headers: Headers) -> Stored:
    return Stored(topic, 0, record(offset, offset, value, headers))


def place(topic: str, offset: int) -> Headers:
    return {
        "barnabas-source-topic": topic, "barnabas-source-partition": "0",
        "barnabas-source-offset": str(offset), "barnabas-source-timestamp": str(offset),
    }  # fmt: skip


def named(value: str, **more: str) -> tuple[str, Headers]:
    return value, {"barnabas-id": "x", **{f"barnabas-{name}": text for name, text in more.items()}}


def cancel(value: str = "c") -> tuple[str, Headers]:
    return named(value, cancel="")


@pytest.mark.parametrize(
    ("topic", "headers", "expected"),
    [
        (LATER, {}, 7),
        (LATER, {"barnabas-delay-ms": "20"}, 27),
        (LATER, {"barnabas-delay-ms": "20", "barnabas-deliver-at": "3"}, 3),
        (LATER, {"barnabas-deliver-at": "-3"}, None),
        (LATER, {"barnabas-delay-ms": "1.5"}, None),
        (LATER, {"barnabas-delay-ms": str(400 * DAY_MS)}, None),
        (LATER, {"barnabas-cancel": ""}, None),
        (AGAIN, {}, 307),
        (AGAIN, {"barnabas-attempt": "2"}, 1_507),
        (AGAIN, {"barnabas-attempt": "1", "barnabas-retries": "2"}, 6_007),
        (AGAIN, {"barnabas-attempt": "4"}, None),
    ],
)
def test_when_a_record_is_due(topic: str, headers: Headers, expected: int | None) -> None:
    assert due_ms(source(topic, 7, "v", headers), RULES[topic]) == expected


def test_a_cancellation_has_an_id() -> None:
    assert is_cancellation(source(LATER, 0, *cancel()))
    assert not is_cancellation(source(LATER, 0, "c", {"barnabas-cancel": ""}))


@pytest.mark.parametrize(
    "case",
    [
        Case("a").delivered("a"),
        Case(("a", {"barnabas-deliver-at": "x"})).dead("a"),
        Case(("a", {"barnabas-expires-at": "5"})).dead("a"),
        Case(named("a"), named("b")).delivered("b").result(1, "replaced"),
        Case(named("a"), named("b")).delivered("a").result(1, "too late"),
        Case(named("a"), cancel(), named("b")).result(1, "cancelled").delivered("b"),
        Case(named("a"), cancel()).delivered("a").result(1, "too late"),
        Case(cancel()).result(0, "unknown"),
        Case(named("a"), named("b"), cancel()).delivered("a").result(1, "too late").result(2, "too late"),
        Case(named("a"), cancel()).delivered("a", at_s=10).result(1, "too late").taken(2, at_s=10),
    ],
)
def test_what_may_become_of_records(case: Case) -> None:
    assert case.outcomes() == []


@pytest.mark.parametrize(
    ("case", "text"),
    [
        (Case("a"), "lost: nothing came of 1 records"),
        (Case("a").dead("a"), "lost: .* is a dead letter"),
        (Case("a").delivered("a").delivered("a"), "twice"),
        (Case(("a", {"barnabas-expires-at": "5"})).delivered("a").dead("a"), "twice"),
        (Case(("a", {"barnabas-deliver-at": "x"})).delivered("a"), "belongs to the dead letters"),
        (Case().delivered("a"), "never sent"),
        (Case().dead("a"), "never sent"),
        (Case(named("a"), named("b")).delivered("a").delivered("b"), "delivered though one with its id"),
        (Case(named("a"), named("b")).result(1, "replaced"), "lost"),
        (Case(named("a"), named("b")).delivered("b"), "lost"),
        (Case(named("a"), cancel()).result(1, "too late"), "wrong result"),
        (Case(named("a"), cancel()).delivered("a").result(1, "cancelled"), "wrong result"),
        (Case(named("a"), cancel()).delivered("a").result(1, "unknown"), "wrong result"),
        (Case(named("a"), cancel()).result(1, "cancelled").result(1, "cancelled"), "wrong result"),
        (Case(named("a"), cancel()).delivered("c").result(1, "cancelled"), "a cancellation was delivered"),
        (
            Case(named("a"), cancel()).delivered("a", at_s=10).result(1, "too late").taken(2, at_s=9),
            "cancelled but del",
        ),
        (Case(named("a"), named("b")).delivered("a").result(1, "too late").taken(2, at_s=9), "replaced but delivered"),
    ],
)
def test_what_may_not_become_of_records(case: Case, text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        raise AssertionError("; ".join(case.outcomes()))


def test_what_was_there_before_a_process_began_it_must_know() -> None:
    case = Case(named("a"), cancel()).delivered("a", at_s=10).result(1, "too late")
    case.known.acknowledged_s[LATER, 0] = {1: 6.0}
    assert case.outcomes() == []
    case.known.acknowledged_s[LATER, 0] = {1: 4.0}
    assert "cancelled but delivered" in case.outcomes()[0]


def test_an_id_may_be_forgotten_where_clocks_were_set() -> None:
    case = Case(named("a"), named("b"), cancel()).delivered("a").delivered("b").result(2, "unknown")
    assert case.outcomes(forgets=True) == []
    assert case.outcomes()


def test_a_target_that_is_deleted_takes_its_records_along() -> None:
    case = Case("a", "b").dead("b")
    judged = Outcomes(case.finals, case.known, RULES)
    judged.judge(fragile=LATER)
    assert [*judged.wrong, *lost(judged)] == []
    case.delivered("b")
    judged = Outcomes(case.finals, case.known, RULES)
    judged.judge(fragile=LATER)
    assert "twice" in judged.wrong[0]


@pytest.mark.parametrize(
    ("headers", "timestamp_ms", "wall_ms", "text"),
    [
        ({}, 50, 50, None),
        ({}, 50, 60, None),
        ({}, 49, 60, "has the time"),
        ({}, 49, 49, "sent 1 ms early"),
        ({}, 60, 50, "has the time"),
        ({"barnabas-expires-at": "60"}, 59, 70, None),
        ({"barnabas-expires-at": "60"}, 60, 70, "expired"),
    ],
)
def test_nothing_is_early(headers: Headers, timestamp_ms: int, wall_ms: int, text: str | None) -> None:
    case = Case(("a", {"barnabas-deliver-at": "50", **headers}))
    case.delivered("a", timestamp_ms=timestamp_ms, wall_ms=wall_ms)
    found = "; ".join(early(case.finals, case.known, RULES))
    assert text in found if text else not found


@pytest.mark.parametrize(
    ("due", "position", "is_told"),
    [(("9", "5"), 2, True), (("5", "9"), 2, False), (("5", "5"), 2, True), (("9", "5"), 1, False)],
)
def test_what_is_due_first_comes_first(due: tuple[str, str], position: int, *, is_told: bool) -> None:
    """Here b comes first: wrong when a is due first, or with it, and was known."""
    case = Case(*((value, {"barnabas-deliver-at": at}) for value, at in zip("ba", due, strict=True)))
    if due[0] == due[1]:
        case = Case(*((value, {"barnabas-deliver-at": "5"}) for value in "ab"))
    case.delivered("b").delivered("a").taken(position, at_s=9)
    assert bool(list(out_of_order(case.finals, case.known, RULES))) is is_told


def test_what_is_delivered_is_what_was_produced() -> None:
    case = Case(("a", {"own": "1", "barnabas-delay-ms": "5"}))
    origin = case.finals.sources[LATER, 0][0]
    partition = by_murmur2(b"k", RULES[LATER].partitions)
    same = record(0, 9, "a", {"own": "1", **place(LATER, 0)})
    wrong = (
        record(0, 9, "a", place(LATER, 0)),
        record(0, 9, "a", {"own": "1"}),
        record(0, 9, "a", {"own": "1", **place(LATER, 3)}),
        Record(0, 9, None, b"a", same.headers),
    )
    case.finals.outputs[LATER_OUT, partition] = [Stored(LATER_OUT, partition, same)]
    assert list(altered(case.finals, RULES)) == [], origin
    for each in wrong:
        case.finals.outputs[LATER_OUT, partition] = [Stored(LATER_OUT, partition, each)]
        assert list(altered(case.finals, RULES))
    case.finals.outputs = {(LATER_OUT, 9): [Stored(LATER_OUT, 9, same)]}
    assert "belongs to partition" in next(altered(case.finals, RULES))


def test_a_record_in_another_target_is_told() -> None:
    case = Case("a")
    case.finals.outputs[WORK, 0] = [Stored(WORK, 0, record(0, 9, "a", {}))]
    assert "wrong target" in case.outcomes()[0]
