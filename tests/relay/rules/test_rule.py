"""Rules: what is one, what is refused and why, and that a rule survives its JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.relay import DELAY_MAX_MS
from relay.rules.rule import DELAYS_MAX, VALUE_MAX_BYTES, Partitioner, Rule, RuleError, RuleKind

DELAY = {"source": "later", "kind": "delay", "target": "reminders"}
RETRY = {"source": "again", "kind": "retry", "target": "orders", "delays_ms": [1_000, 10_000]}


def test_a_rule_has_what_its_json_says() -> None:
    full = RETRY | {"partitioner": "same", "dead_letters": "dead", "results": "told", "principal": "User:a,b:c"}
    rule = Rule.parse("again", json.dumps(full).encode())
    assert rule == Rule(
        "again", RuleKind.RETRY, "orders", 0, (1_000, 10_000), Partitioner.SAME, "dead", "told", "User:a,b:c"
    )
    assert rule.destinations == ("orders", "dead", "told")
    assert Rule.of_members(DELAY) == Rule("later", RuleKind.DELAY, "reminders")
    assert Rule.of_members(DELAY | {"dead_letters": "reminders"}).destinations == ("reminders",)


REFUSED = [
    ({"source": None}, "source is None, and must be the name of a topic"),
    ({"source": "a b"}, "source is 'a b', which no topic can be called"),
    ({"target": "x" * 250}, "which no topic can be called"),
    ({"target": "later"}, "target is the source itself, later"),
    ({"dead_letters": "later"}, "dead_letters is the source itself"),
    ({"results": "later"}, "results is the source itself"),
    ({"results": None}, "results is None"),
    ({"kind": "sometimes"}, "kind is 'sometimes', and must be one of delay, retry"),
    ({"kind": ["delay"]}, "kind is"),
    ({"kind": "retry"}, "delays_ms must be a list of 1 to 100"),
    ({"delay_ms": -1}, "delay_ms is -1, and must be a number of milliseconds from 0 to 31622400000"),
    ({"delay_ms": DELAY_MAX_MS + 1}, "delay_ms is"),
    ({"delay_ms": True}, "delay_ms is True"),
    ({"delay_ms": 1.5}, "delay_ms is 1.5"),
    ({"delay_ms": "1000"}, "delay_ms is '1000'"),
    ({"delays_ms": [1]}, "delays_ms does not belong to a delay"),
    (RETRY | {"source": "later", "delay_ms": 1}, "delay_ms does not belong to a retry"),
    (RETRY | {"source": "later", "delays_ms": []}, "delays_ms must be a list"),
    (RETRY | {"source": "later", "delays_ms": [1] * (DELAYS_MAX + 1)}, "delays_ms must be a list"),
    (RETRY | {"source": "later", "delays_ms": [1, None]}, "one of delays_ms is None"),
    ({"partitioner": "fnv1a"}, "partitioner is 'fnv1a', and must be one of murmur2, crc32, same"),
    ({"principal": "alice"}, "principal is 'alice', and must be one user"),
    ({"principal": "User:*"}, "must be one user"),
    ({"principal": "User:a\nb"}, "must be a text like"),
    ({"principal": "User:\ud800"}, "must be a text like"),
    ({"taget": "x"}, "unknown member 'taget': did you mean target?"),
]


@pytest.mark.parametrize(("change", "why"), REFUSED, ids=lambda each: each if isinstance(each, str) else None)
def test_what_is_no_rule_is_refused_with_the_reason(change: dict[str, Any], why: str) -> None:
    with pytest.raises(RuleError) as refused:
        Rule.parse("later", json.dumps(DELAY | change).encode())
    assert why in str(refused.value)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "it is no JSON"),
        (b"\xff\xfe\xfd", "it is no JSON"),
        (b"[" * 10_000, "it is no JSON"),
        (b'"later"', "it is no JSON object"),
        (b"{" + b" " * VALUE_MAX_BYTES + b"}", "bytes, and 16384 are allowed"),
        (b'{"delay_ms": ' + b"9" * 5_000 + b"}", "it is no JSON"),
        (b'{"delay_ms": NaN}', "NaN is no JSON"),
        (b'{"kind": "delay", "kind": "retry"}', "member 'kind' is there twice"),
        (b'{"kind": "delay"}', "source is missing"),
        (b"{}", "kind is missing"),
    ],
)
def test_hostile_bytes_are_refused(value: bytes, why: str) -> None:
    with pytest.raises(RuleError, match=why):
        Rule.parse("later", value)


def test_the_key_of_the_record_is_the_source() -> None:
    with pytest.raises(RuleError, match="source is later, and the key of the record is 'other'"):
        Rule.parse("other", json.dumps(DELAY).encode())


TOPICS = st.from_regex(r"[a-z][a-zA-Z0-9._-]{0,20}", fullmatch=True)
DELAYS = st.integers(0, DELAY_MAX_MS)


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    source = draw(TOPICS)
    others = TOPICS.filter(lambda each: each != source)
    kind = draw(st.sampled_from(RuleKind))
    return Rule(
        source,
        kind,
        draw(others),
        draw(DELAYS) if kind is RuleKind.DELAY else 0,
        tuple(draw(st.lists(DELAYS, min_size=1, max_size=DELAYS_MAX))) if kind is RuleKind.RETRY else (),
        draw(st.sampled_from(Partitioner)),
        draw(st.none() | others),
        draw(st.none() | others),
        draw(st.none() | st.sampled_from(["User:alice", "User:CN=a,O=ä", "Group:x:y"])),
    )


@given(rules())
def test_a_rule_survives_its_json(rule: Rule) -> None:
    assert Rule.parse(rule.source, rule.to_json()) == rule
    assert len(rule.to_json()) < VALUE_MAX_BYTES
