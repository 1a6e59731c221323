"""Conditions of searches: what they hold of, and what a user is told about wrong ones."""

from __future__ import annotations

import pytest

from web.messages.conditions import Conditions, Contents, InvalidCondition

ORDER = Contents(
    b"order-17",
    '{"order": {"id": 17, "sku": "A7", "paid": true, "note": null, "city": "Köln"}, '
    '"lines": [{"n": 1}, {"n": 20}]}'.encode(),
    [("trace", b"00-ab"), ("retry", None), ("trace", b"second"), ("Ü", b"\xff\x00")],
)
TOMBSTONE = Contents(None, None, [])
BINARY = Contents(b"\x00\x01", b"\xff\xfeTimeout\x00", [])

HOLDING = [
    *((ORDER, f"key:{each}") for each in (
        "is:order-17", "is~:ORDER-17", "starts:order", "starts~:ORD", "contains:er-1", "matches:^order-[0-9]+$",
        "matches~:^ORDER", "exists", "!is:order-1", "!contains:x", "contains:")),
    *((ORDER, f"value:{each}") for each in ("contains:Köln", "contains~:KÖLN")),
    *((ORDER, f"header:{each}") for each in (
        "trace:is:second", "trace:starts:00-", "retry:exists", "none:!exists", "%C3%9C:exists")),
    *((ORDER, f"json:{each}") for each in (
        "$.order.id:is:17", "order.sku:is:A7", "order.paid:is:true", "order.note:is:null", "order.note:exists",
        "order.none:!exists", "lines[1].n:is:20", "lines[-1].n:is:20", "$..n:is:20", "$.lines[?@.n > 10]:exists",
        'lines[0]:is:{"n":1}', "$.order[?search(@, 'K.ln')]:exists")),
    *((ORDER, f"any:{each}") for each in ("contains:second", "is:retry", "contains:order-17")),
    (TOMBSTONE, "value:!exists"), (TOMBSTONE, "key:!contains:x"), (TOMBSTONE, "json:a:!exists"),
    (BINARY, "value:contains:Timeout"), (BINARY, "value:matches:Time.ut"), (BINARY, "json:a:!exists"),
]  # fmt: skip
NOT_HOLDING = [
    *((ORDER, each) for each in (
        "key:is:order-1", "key:is:Order-17", "key:starts:rder", "key:matches:^rder", "value:!exists",
        "header:trace:is:00", "header:Trace:exists", "json:order.id:is:1", "json:order.id.x:exists",
        "json:lines[2]:exists", "key_json:a:exists", "any:!contains:order-17", "json:$.lines[?@.n > 100]:exists")),
    (TOMBSTONE, "value:contains:"), (TOMBSTONE, "any:exists"),
]  # fmt: skip


@pytest.mark.parametrize(("contents", "text"), HOLDING)
def test_a_condition_holds(contents: Contents, text: str) -> None:
    assert Conditions.parse([text]).hold(contents)


@pytest.mark.parametrize(("contents", "text"), NOT_HOLDING)
def test_a_condition_does_not_hold(contents: Contents, text: str) -> None:
    assert not Conditions.parse([text]).hold(contents)


def test_all_must_hold() -> None:
    assert Conditions.parse(["key:is:order-17", "json:order.id:is:17"]).hold(ORDER)
    assert not Conditions.parse(["key:is:order-17", "json:order.id:is:18"]).hold(ORDER)


@pytest.mark.parametrize(
    ("check", "holds"),
    [("contains:needle.", True), ("contains:needle+", False), ("contains~:NEEDLE.", True), ("starts:xx", True)],
)
def test_a_large_value_is_searched_as_a_small_one_is(check: str, holds: bool) -> None:
    large = Contents(None, b"x" * (1 << 20) + b"needle.", [])
    assert Conditions.parse([f"value:{check}"]).hold(large) is holds


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'' is none of key"), ("body:is:x", "'body' is none of"), ("key:is", "says nothing behind 'is'"),
        ("key:equals:x", "'equals' in 'key:equals:x' is no test"), ("key:exists:x", "has a text behind"),
        ("header:is:x", "'x' in 'header:is:x' is no test"), ("header:trace", "has no name"), ("json:a", "has no path"),
        ("key:matches:(", "is no expression of RE2"), ("key:matches:" + "a" * 2000, "more than 1024 bytes"),
        ("key:matches:((a{100}){100})", "RE2"), ("key:matches:(abc){900}", "too large"),
        ("json:$[:exists", "is no JSONPath"), ("json:$['a','b']:exists", "one name"),
        ("json:$..a..b:exists", "once"), ("json:$[?@.a == $.b]:exists", "only at the beginning"),
        ("json:$[?match(@.a,'x'), 0]:exists", "one name"), ("json:" + "a" * 600 + ":exists", "512 characters"),
        ("key:is:" + "x" * 9_000, "more than 8192 characters"),
    ],
)  # fmt: skip
def test_a_wrong_condition_says_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(InvalidCondition) as error:
        Conditions.parse([text])
    assert said in str(error.value)


def test_there_are_at_most_so_many() -> None:
    with pytest.raises(InvalidCondition, match="more than 16"):
        Conditions.parse(["key:exists"] * 17)
