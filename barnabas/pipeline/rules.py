"""The rules of the job `route`: which records go to which topic, by key, header or content. Pure.

A rule is `CONDITION -> TOPIC`. A condition is `any`, or a field, an operator and an operand:

    key = Lyon -> orders-lyon
    header.kind ~ ^refund -> refunds
    value.customer.country != FR -> exports
    value.amount >= 1000 -> large-orders
    header.trace exists -> traced

`=` and `!=` compare texts, `~` finds a regular expression of Java, `<` `<=` `>` `>=` compare numbers. `value.a.b` is a
field of a JSON object. A record without the field fulfils no condition. The first rule whose condition is fulfilled counts.

Rules: pure. A rule becomes a condition in Spark's SQL, so that no record leaves the JVM for it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from barnabas.spark.patterns import InvalidPatternError, UnsupportedPatternError, compile_java

OPERATORS = ("=", "!=", "~", "<", "<=", ">", ">=", "exists")
VALID = "key, header.NAME or value.FIELD; then =, !=, ~, <, <=, >, >= and an operand, or exists; then -> TOPIC"
_RULE = re.compile(r"(?P<condition>.+?)\s*->\s*(?P<topic>[A-Za-z0-9._-]{1,249})")
_CONDITION = re.compile(r"(?P<field>\S+)\s+(?P<operator>!=|<=|>=|=|~|<|>|exists)(\s+(?P<operand>.+))?")
_PATH = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


class InvalidRule(ValueError):
    """A text is no rule; the message says what is valid."""


@dataclass(frozen=True, slots=True)
class RouteRule:
    """A condition in Spark's SQL, and the topic of the records that fulfil it."""

    condition: str
    topic: str


def parse_rule(text: str) -> RouteRule:
    """Return the rule. Raises InvalidRule."""
    rule = _RULE.fullmatch(text.strip())
    if rule is None:
        raise InvalidRule(f"{text!r} is no rule; valid is {VALID}")
    return RouteRule(condition_sql(rule["condition"]), rule["topic"])


def condition_sql(text: str) -> str:
    """Return a condition as SQL. Raises InvalidRule."""
    if text == "any":
        return "true"
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise InvalidRule(f"{text!r} is no condition; valid is any, or {VALID}")
    field, operator, operand = field_sql(found["field"]), found["operator"], found["operand"]
    if operator == "exists":
        if operand is not None:
            raise InvalidRule(f"{text!r}: exists takes no operand")
        return f"{field} IS NOT NULL"
    if operand is None:
        raise InvalidRule(f"{text!r}: {operator} needs an operand")
    if operator == "~":
        _check_pattern(operand, text)
        return f"{field} RLIKE {literal(operand)}"
    if operator in ("=", "!="):
        return f"{field} {operator} {literal(operand)}"
    if re.fullmatch(r"-?[0-9]{1,15}(\.[0-9]{1,15})?", operand) is None:
        raise InvalidRule(f"{text!r}: {operator} compares numbers, and {operand!r} is none")
    return f"TRY_CAST({field} AS DOUBLE) {operator} {operand}D"


def _check_pattern(pattern: str, text: str) -> None:
    """Raises InvalidRule for what is no regular expression of Java, which Spark reads it as."""
    with contextlib.suppress(UnsupportedPatternError):  # Java has more than can be checked here
        try:
            compile_java(pattern)
        except InvalidPatternError as error:
            raise InvalidRule(f"{text!r}: {pattern!r} is no regular expression: {error}") from None


def field_sql(name: str) -> str:
    """Return the text of `key`, `header.NAME` or `value.FIELD` as SQL, null where a record has none. Raises InvalidRule."""
    kind, _, rest = name.partition(".")
    if name == "key":
        return "CAST(key AS STRING)"
    if kind == "header" and rest:
        return f"CAST({header_sql(rest)} AS STRING)"
    if kind == "value" and _PATH.fullmatch(rest):
        path = "".join(f"['{step}']" for step in rest.split("."))
        return f"GET_JSON_OBJECT(CAST(value AS STRING), {literal('$' + path)})"
    raise InvalidRule(f"{name!r} is no field; valid are key, header.NAME and value.FIELD")


def header_sql(name: str) -> str:
    """Return the bytes of a record's last header of a name as SQL, null without one."""
    return f"TRY_ELEMENT_AT(FILTER(headers, h -> h.key = {literal(name)}), -1).value"


def topic_sql(rules: Sequence[RouteRule], otherwise: str | None) -> str:
    """Return the topic of a record as SQL, null when no rule has one."""
    cases = " ".join(f"WHEN {rule.condition} THEN {literal(rule.topic)}" for rule in rules)
    last = "NULL" if otherwise is None else literal(otherwise)
    return f"CASE {cases} ELSE {last} END" if cases else f"CAST({last} AS STRING)"


def reason_sql(*, is_json: bool, required: Sequence[str]) -> str:
    """Return why a record is invalid as SQL, null when it is valid. `required` are fields. Raises InvalidRule."""
    cases = []
    if is_json:
        cases.append(
            "WHEN value IS NULL OR GET_JSON_OBJECT(CAST(value AS STRING), '$') IS NULL THEN 'the value is no JSON'"
        )
    cases += [f"WHEN {field_sql(name)} IS NULL THEN {literal(f'there is no {name}')}" for name in required]
    return f"CASE {' '.join(cases)} END" if cases else "CAST(NULL AS STRING)"


def literal(text: str) -> str:
    """Return a text as a literal of Spark's SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
