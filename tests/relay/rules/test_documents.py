"""Rules in files: what is read, and in which order changes are made."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from relay.names import RelayNames
from relay.rules.documents import changes, document_of, rules_of
from relay.rules.rule import Rule, RuleKind
from relay.rules.table import RuleTable

SOURCES = st.sampled_from("abcde")


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Rule]:
    """Rules without a circle: each target is behind its source."""
    found = draw(st.dictionaries(SOURCES, st.sampled_from("fgh"), max_size=5))
    return {source: Rule(source, RuleKind.DELAY, target) for source, target in found.items()}


@given(tables(), tables(), st.sets(SOURCES))
def test_changes_turn_one_table_into_the_other(
    before: dict[str, Rule], after: dict[str, Rule], unreadable: set[str]
) -> None:
    table = RuleTable(RelayNames("relay"))
    for rule in before.values():
        table.replay(rule.source.encode(), rule.to_json())
    for source in unreadable - before.keys():
        table.replay(source.encode(), b"rubbish")
    wanted = changes(before, unreadable - before.keys(), after.values())
    for each in wanted:
        table.replay(each.source.encode(), None if each.after is None else each.after.to_json())
    table.judge(dict.fromkeys(table.rules()))
    assert (table.active(), table.suspended()) == (after, {})
    assert [each.word for each in wanted] == sorted((each.word for each in wanted), key=lambda word: word != "remove")
    assert changes(after, (), after.values()) == []


@given(tables())
def test_what_is_listed_is_a_file(rules: dict[str, Rule]) -> None:
    text = json.dumps(document_of(rules.values(), {"x": "it is no JSON"}))
    assert rules_of(text) == list(rules.values())
