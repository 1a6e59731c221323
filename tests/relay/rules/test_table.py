"""The table of rules: which hold after which records and verdicts, circles, and topics that no rule may name."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.names import RelayNames
from relay.rules.rule import Rule, RuleKind
from relay.rules.table import NOT_JUDGED, RuleTable, circles

NAMES = RelayNames("relay")


def delay(source: str, target: str, delay_ms: int = 0, results: str | None = None, dead: str | None = None) -> Rule:
    return Rule(source, RuleKind.DELAY, target, delay_ms, results=results, dead_letters=dead)


def put(table: RuleTable, *rules: Rule, is_judged: bool = True) -> None:
    for rule in rules:
        table.replay(rule.source.encode(), rule.to_json())
    if is_judged:
        table.judge(dict.fromkeys(rules))


def test_a_rule_holds_once_it_was_judged_and_until_it_is_removed() -> None:
    table, rule = RuleTable(NAMES), delay("a", "b")
    put(table, rule, is_judged=False)
    assert (table.active(), table.suspended(), table.not_judged()) == ({}, {"a": NOT_JUDGED}, [rule])
    table.judge({rule: "User:alice may not write to b", delay("x", "y"): None})
    assert (table.active(), table.suspended(), table.not_judged()) == ({}, {"a": "User:alice may not write to b"}, [])
    table.judge({rule: None})
    assert (table.active(), table.suspended()) == ({"a": rule}, {})
    table.replay(b"a", None)
    assert (table.active(), table.suspended(), table.rules()) == ({}, {}, [])
    table.judge({rule: None})
    put(table, rule, is_judged=False)
    assert table.not_judged() == [rule]


def test_a_changed_rule_is_judged_anew_and_the_same_one_is_not() -> None:
    table, rule = RuleTable(NAMES), delay("a", "b")
    put(table, rule)
    put(table, rule, is_judged=False)
    assert table.active() == {"a": rule}
    put(table, delay("a", "b", 5), is_judged=False)
    assert table.suspended() == {"a": NOT_JUDGED}


def test_what_cannot_be_read_suspends_the_rule_that_was_there() -> None:
    table, rule = RuleTable(NAMES), delay("a", "b")
    put(table, rule, delay("c", "d"))
    table.replay(b"a", b"rubbish")
    table.replay(b"\xff", rule.to_json())
    table.replay(None, rule.to_json())
    assert list(table.active()) == ["c"]
    assert table.suspended()["a"] == "it is no JSON"
    table.replay(b"x\n\x1b", rule.to_json())
    assert len(table.suspended()) == 4
    assert all(source.isprintable() for source in table.suspended())
    assert {table.key_of(source) for source in table.suspended()} >= {b"a", b"\xff", b"x\n\x1b"}
    put(table, rule)
    assert list(table.active()) == ["c", "a"]


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (delay("relay-log", "b"), "source is relay-log, a topic of the relay itself"),
        (delay("a", "relay-rules"), "target is relay-rules, a topic of the relay itself"),
        (delay("a", "relay-dead"), "target is relay-dead, a topic of the relay itself"),
        (delay("a", "b", results="relay-year"), "results is relay-year, a topic of the relay itself"),
        (delay("a", "b", dead="relay-hour"), "dead_letters is relay-hour, a topic of the relay itself"),
        (delay("__consumer_offsets", "b"), "source is __consumer_offsets, a topic of the brokers"),
        (delay("a", "__transaction_state"), "target is __transaction_state, a topic of the brokers"),
    ],
)
def test_topics_that_no_rule_may_name(rule: Rule, why: str) -> None:
    table = RuleTable(NAMES)
    put(table, rule)
    assert (table.active(), table.suspended()) == ({}, {rule.source: why})


def test_the_relays_dead_letters_may_be_named_as_such() -> None:
    table = RuleTable(NAMES)
    put(table, delay("a", "b", dead="relay-dead"), delay("c", "other-log"))
    assert table.suspended() == {}


@pytest.mark.parametrize(
    ("rules", "ways"),
    [
        ([delay("a", "b"), delay("b", "c")], {}),
        ([delay("a", "b"), delay("b", "a")], {"a": "a -> b -> a", "b": "b -> a -> b"}),
        ([delay("a", "b"), delay("b", "x", results="a")], {"a": "a -> b -> a", "b": "b -> a -> b"}),
        ([delay("a", "b"), delay("b", "x", dead="a")], {"a": "a -> b -> a", "b": "b -> a -> b"}),
        ([delay("x", "a"), delay("a", "b"), delay("b", "a"), delay("c", "x")], {"a": "a -> b -> a", "b": "b -> a -> b"}),
        ([delay("a", "b"), delay("b", "c"), delay("c", "a", dead="b")],
         {"a": "a -> b -> c -> a", "b": "b -> c -> b", "c": "c -> b -> c"}),
    ],
)  # fmt: skip
def test_rules_in_a_circle_are_suspended(rules: list[Rule], ways: dict[str, str]) -> None:
    table = RuleTable(NAMES)
    put(table, *rules)
    assert table.suspended() == {source: f"rules in a circle: {way}" for source, way in ways.items()}
    for source in ways:
        table.replay(source.encode(), None)
    assert table.suspended() == {}


def test_a_long_chain_is_no_circle_until_its_end_leads_back() -> None:
    chain = [delay(f"t{index}", f"t{index + 1}") for index in range(5_000)]
    assert circles(chain) == {}
    assert len(circles([*chain, delay("t5000", "t4000")])) == 1_001


NODES = [f"t{index}" for index in range(6)]


@given(st.dictionaries(st.sampled_from(NODES), st.tuples(st.sampled_from(NODES), st.sampled_from(NODES)), max_size=6))
def test_a_rule_is_in_a_circle_exactly_if_its_records_come_back(following: dict[str, tuple[str, str]]) -> None:
    rules = [
        delay(source, first, dead=second)
        for source, (first, second) in following.items()
        if source not in (first, second)
    ]
    edges = {rule.source: set(rule.destinations) for rule in rules}

    def comes_back(source: str) -> bool:
        reached, left = set(), list(edges[source])
        while left:
            node = left.pop()
            if node not in reached:
                reached.add(node)
                left += edges.get(node, ())
        return source in reached

    assert circles(rules).keys() == {source for source in edges if comes_back(source)}


def test_the_order_of_records_does_not_count() -> None:
    rules = [delay(a, b) for a, b in zip("abcdxy", "bcabya", strict=True)]
    outcomes = set()
    for seed in range(20):
        table = RuleTable(NAMES)
        put(table, *random.Random(seed).sample(rules, len(rules)))
        outcomes.add((tuple(sorted(table.active())), tuple(sorted(table.suspended().items()))))
    assert len(outcomes) == 1
    assert outcomes.pop()[0] == ("d", "x", "y")
