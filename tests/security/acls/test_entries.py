"""Filters select the bindings that Kafka's select."""

from __future__ import annotations

import pytest

from security.access import Operation, ResourceType
from security.acls.entries import (
    ANY,
    AclBinding,
    AclEntry,
    AclFilter,
    EntryFilter,
    PatternFilter,
    PatternType,
    PermissionType,
    ResourcePattern,
)
from security.principal import Principal

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
LITERAL, PREFIXED, MATCH = PatternType.LITERAL, PatternType.PREFIXED, PatternType.MATCH
ENTRY = AclEntry(Principal("User", "alice"), "10.0.0.1", Operation.READ, PermissionType.ALLOW)


@pytest.mark.parametrize(
    ("asked", "selected"),
    [
        (PatternFilter(TOPIC, "orders", LITERAL), ["orders"]),
        (PatternFilter(TOPIC, "orders", PREFIXED), ["orders~"]),
        (PatternFilter(TOPIC, "orders", PatternType.ANY), ["orders", "orders~"]),
        (PatternFilter(TOPIC, "orders", MATCH), ["orders", "*", "or~", "orders~"]),
        (PatternFilter(TOPIC, "orders-2", MATCH), ["*", "or~", "orders~"]),
        (PatternFilter(TOPIC, "*", MATCH), ["*"]),
        (PatternFilter(TOPIC, "*", LITERAL), ["*"]),
        (PatternFilter(TOPIC, None, MATCH), ["orders", "*", "or~", "orders~"]),
        (PatternFilter(TOPIC, None, PREFIXED), ["or~", "orders~"]),
        (PatternFilter(ANY, "orders", LITERAL), ["orders", "group orders"]),
        (PatternFilter(GROUP, None, PatternType.ANY), ["group orders"]),
    ],
)
def test_pattern_filters(asked: PatternFilter, selected: list[str]) -> None:
    patterns = {
        "orders": ResourcePattern(TOPIC, "orders", LITERAL),
        "*": ResourcePattern(TOPIC, "*", LITERAL),
        "or~": ResourcePattern(TOPIC, "or", PREFIXED),
        "orders~": ResourcePattern(TOPIC, "orders", PREFIXED),
        "group orders": ResourcePattern(GROUP, "orders", LITERAL),
    }
    assert [name for name, pattern in patterns.items() if asked.selects(pattern)] == selected
    for pattern in asked.named:
        assert asked.selects(pattern)
    if asked.named:
        assert {pattern for pattern in patterns.values() if asked.selects(pattern)} <= set(asked.named)


def test_only_filters_that_can_select_few_patterns_name_them() -> None:
    assert PatternFilter(TOPIC, "a", LITERAL).named == (ResourcePattern(TOPIC, "a", LITERAL),)
    assert len(PatternFilter(TOPIC, "a", PatternType.ANY).named) == 2
    assert PatternFilter(TOPIC, "a", MATCH).named == ()
    assert PatternFilter(TOPIC, None, LITERAL).named == ()
    assert PatternFilter(ANY, "a", LITERAL).named == ()


@pytest.mark.parametrize(
    ("asked", "selects"),
    [
        (EntryFilter(None, None, ANY, ANY), True),
        (EntryFilter("User:alice", "10.0.0.1", Operation.READ, PermissionType.ALLOW), True),
        (EntryFilter("User:*", None, ANY, ANY), False),
        (EntryFilter(None, "*", ANY, ANY), False),
        (EntryFilter(None, None, Operation.ALL, ANY), False),
        (EntryFilter(None, None, ANY, PermissionType.DENY), False),
    ],
)
def test_entry_filters_compare_exactly(asked: EntryFilter, selects: bool) -> None:
    pattern = ResourcePattern(TOPIC, "orders", LITERAL)
    assert asked.selects(ENTRY) is selects
    binding = AclBinding(pattern, ENTRY)
    assert AclFilter(PatternFilter(TOPIC, None, PatternType.ANY), asked).selects(binding) is selects
    assert not AclFilter(PatternFilter(GROUP, None, PatternType.ANY), asked).selects(binding)
