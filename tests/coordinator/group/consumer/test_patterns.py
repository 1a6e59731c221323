"""Regular expressions of consumer groups beside what RE2/J answered: `python -m tests.oracle.re2_patterns`."""

from __future__ import annotations

import pytest

from coordinator.group.consumer.patterns import MAX_EXPRESSION_BYTES, MAX_EXPRESSIONS, invalid_text, resolve
from tests.oracle.re2_patterns import recording

RECORDED = recording()
INPUTS: list[str] = RECORDED["inputs"]

# Intended differences, which docs/differences.md names: RE2/J's answer is another one.
OURS = {
    "(?P<n>foo)(?P<n>foo)": "001000000000",
    r"\C": "000110011000",
    r"\ü": "invalid escape sequence",
    "(?:(?:f{100}){100})": "invalid repeat count",
    "((a{100}){100}){100}": "invalid repeat count",
}


@pytest.mark.parametrize(("expression", "recorded"), RECORDED["rows"])
def test_matches_as_in_apache_kafka(expression: str, recorded: str) -> None:
    expected = OURS.get(expression, recorded)
    assert (expression in OURS) == (expected != recorded)
    matched = resolve([expression], INPUTS)[expression]
    if set(expected) <= {"0", "1"}:
        assert invalid_text(expression) is None
        assert "".join("01"[topic in matched] for topic in INPUTS) == expected
    else:
        text = f"SubscribedTopicRegex `{expression}` is not a valid regular expression: {expected}."
        assert invalid_text(expression) == text
        assert not matched


@pytest.mark.parametrize("expression", [r"(?i)[\pL]{1000}", r"(?:\pL{50}){20}", r"[\pL\pN]" * 400])
def test_an_expression_that_explodes_is_refused(expression: str) -> None:
    text = invalid_text(expression)
    assert text == f"SubscribedTopicRegex `{expression}` is not a valid regular expression: expression too large."


@pytest.mark.parametrize(
    "expression",
    ["(x+x+)+y", "(?:a?){1000}a{1000}", "(?:(?:a|b|c)?(?:o|r|a)*){1000}z", "(" * 2000 + "z" + ")" * 2000],
    ids=["nested repetition", "many options", "many states", "many groups"],
)
def test_an_expression_that_takes_other_libraries_ages_matches_at_once(expression: str) -> None:
    topics = ["x" * 249, "a" * 249, "orders"]
    assert invalid_text(expression) is None
    assert resolve([expression], topics) == {expression: frozenset()}


def test_the_length_of_an_expression_is_limited() -> None:
    assert invalid_text("a" * MAX_EXPRESSION_BYTES) is None
    assert invalid_text("ü" * (MAX_EXPRESSION_BYTES // 2 + 1)) == "SubscribedTopicRegex is longer than 4096 bytes."


def test_a_group_has_a_limited_number_of_expressions() -> None:
    subscribed = {f"topic-{number}" for number in range(MAX_EXPRESSIONS)}
    assert invalid_text("topic-7", subscribed) is None
    assert invalid_text("other", subscribed) == "The group has 1000 regular expressions, and may have no more."
    assert invalid_text("other", subscribed - {"topic-7"}) is None


def test_each_expression_has_its_own_topics() -> None:
    resolved = resolve(["a.*", "(", ".*b", "a.*"], ["ab", "ac", "cb"])
    assert resolved == {"a.*": {"ab", "ac"}, "(": frozenset(), ".*b": {"ab", "cb"}}
