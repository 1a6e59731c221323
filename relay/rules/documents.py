"""Rules in a file, and what is to be changed so that a relay has these and no others. Pure.

    {"rules": [{"source": "reminders-later", "kind": "delay", "target": "reminders"}, ...]}

Rules: what `barnabas relay rules list --json` prints is such a file; what it has beside its rules is passed over. A source has
one rule. Changes are in an order in which no circle comes about that is not in the file: what is removed goes first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from relay.rules.rule import Rule, RuleError, shown


class RuleChange(NamedTuple):
    """`before` is None for a rule that is new, `after` for one that is removed; both for a record that is no rule and goes."""

    source: str
    before: Rule | None
    after: Rule | None

    @property
    def word(self) -> str:
        """What is done."""
        if self.after is None:
            return "remove"
        return "add" if self.before is None else "change"


def rules_of(text: str) -> list[Rule]:
    """Return the rules of a file. Raises RuleError, which names the rule by its place in the file."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RuleError(f"it is no JSON: {error}") from error
    rows = document.get("rules") if isinstance(document, dict) else None
    if not isinstance(rows, list):
        raise RuleError('it is not of the form {"rules": [...]}')
    found: dict[str, Rule] = {}
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise RuleError(f"rule {number}: {shown(row)} is no JSON object")
        try:
            rule = Rule.of_members(row)
        except RuleError as error:
            raise RuleError(f"rule {number}: {error}") from error
        if rule.source in found:
            raise RuleError(f"rule {number}: {rule.source} has a rule before")
        found[rule.source] = rule
    return list(found.values())


def document_of(rules: Iterable[Rule], problems: Mapping[str, str]) -> dict[str, Any]:
    """Return the JSON object of a file with these rules. `problems` say why some do not hold, by their sources."""
    return {"rules": [rule.members() for rule in rules], "problems": dict(problems)}


def changes(before: Mapping[str, Rule], unreadable: Iterable[str], after: Iterable[Rule]) -> list[RuleChange]:
    """Return what turns the rules `before` into those `after`, in the order in which it is to be done. `unreadable` are the
    sources of records that are no rules."""
    wanted = {rule.source: rule for rule in after}
    gone = sorted({*before, *unreadable} - wanted.keys())
    removed = [RuleChange(source, before.get(source), None) for source in gone]
    others = [RuleChange(source, before.get(source), rule) for source, rule in wanted.items()]
    return removed + [each for each in others if each.before != each.after]
