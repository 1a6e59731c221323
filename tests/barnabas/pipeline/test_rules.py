from __future__ import annotations

import pytest

from barnabas.pipeline.rules import (
    InvalidRule,
    RouteRule,
    condition_sql,
    field_sql,
    literal,
    parse_rule,
    reason_sql,
    topic_sql,
)

KIND = "CAST(TRY_ELEMENT_AT(FILTER(headers, h -> h.key = 'kind'), -1).value AS STRING)"
COUNTRY = "GET_JSON_OBJECT(CAST(value AS STRING), '$[\\'customer\\'][\\'country\\']')"


@pytest.mark.parametrize(
    ("text", "sql", "topic"),
    [
        ("any -> all", "true", "all"),
        ("key = Lyon -> a.b-c_d", "CAST(key AS STRING) = 'Lyon'", "a.b-c_d"),
        ("key = two words -> t", "CAST(key AS STRING) = 'two words'", "t"),
        ("key != it's -> t", "CAST(key AS STRING) != 'it\\'s'", "t"),
        ("key = a -> b -> t", "CAST(key AS STRING) = 'a -> b'", "t"),
        ("header.kind ~ ^re\\d+$ -> t", f"{KIND} RLIKE '^re\\\\d+$'", "t"),
        ("header.kind exists -> t", f"{KIND} IS NOT NULL", "t"),
        ("  value.customer.country = FR->t ", f"{COUNTRY} = 'FR'", "t"),
        ("value.customer.country >= -1.5 -> t", f"TRY_CAST({COUNTRY} AS DOUBLE) >= -1.5D", "t"),
    ],
)
def test_a_rule_is_a_condition_and_a_topic(text: str, sql: str, topic: str) -> None:
    assert parse_rule(text) == RouteRule(sql, topic)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is no rule; valid is key, header.NAME or value.FIELD"),
        ("key = a", "is no rule"),
        ("key = a -> two words", "is no rule"),
        ("-> t", "is no rule"),
        ("key is a -> t", "is no condition; valid is any"),
        ("topic = a -> t", "'topic' is no field; valid are key, header.NAME and value.FIELD"),
        ("header. = a -> t", "'header.' is no field"),
        ("value = a -> t", "'value' is no field"),
        ("value.a'b = a -> t", "is no field"),
        ("key = -> t", "is no condition|needs an operand"),
        ("key exists yes -> t", "exists takes no operand"),
        ("key ~ [ -> t", "is no regular expression"),
        ("key ~ a{,2} -> t", "is no regular expression"),
        ("value.a > many -> t", "> compares numbers, and 'many' is none"),
    ],
)
def test_what_is_no_rule_is_refused_with_what_is_valid(text: str, reason: str) -> None:
    with pytest.raises(InvalidRule, match=reason):
        parse_rule(text)


def test_the_first_rule_counts_and_otherwise_is_last() -> None:
    rules = [RouteRule("a", "x"), RouteRule("b", "y")]
    assert topic_sql(rules, None) == "CASE WHEN a THEN 'x' WHEN b THEN 'y' ELSE NULL END"
    assert topic_sql(rules, "z") == "CASE WHEN a THEN 'x' WHEN b THEN 'y' ELSE 'z' END"
    assert topic_sql([], "z") == "CAST('z' AS STRING)"


def test_reasons_come_in_order() -> None:
    sql = reason_sql(is_json=True, required=["key", "value.id"])
    assert sql.index("'the value is no JSON'") < sql.index("'there is no key'") < sql.index("'there is no value.id'")
    assert reason_sql(is_json=False, required=[]) == "CAST(NULL AS STRING)"


def test_texts_cannot_end_their_literal() -> None:
    assert literal("\\' OR true") == "'\\\\\\' OR true'"
    assert condition_sql("key = ' OR true").endswith(" = '\\' OR true'")
    assert "'it\\'s'" in field_sql("header.it's")


@pytest.mark.parametrize("pattern", [r"^\p{L}+$", r"[a-z&&[^x]]", r"\G\d", r"\p{IsLatn}"])
def test_patterns_are_javas_even_those_that_only_java_has(pattern: str) -> None:
    assert parse_rule(f"key ~ {pattern} -> t").condition.startswith("CAST(key AS STRING) RLIKE ")
