"""What values may be, and what is said of others."""

from __future__ import annotations

import pytest

from config.errors import ConfigError
from config.validators import (
    METADATA_VERSIONS,
    NON_EMPTY_LIST,
    NON_EMPTY_TEXT,
    NON_NULL,
    THROTTLED_REPLICAS,
    Validator,
    at_least,
    between,
    one_of,
    one_of_ignoring_case,
)


@pytest.mark.parametrize(
    ("validator", "good"),
    [
        (at_least(0), 0),
        (at_least(1, also=-1), -1),
        (between(1, 9, also=-1), -1),
        (between(0, 0.5), 0.5),
        (between(0, 9, optional=True), None),
        (one_of("a", "b"), "a"),
        (one_of("a", "b"), ("b", "a")),
        (one_of("a"), ()),
        (one_of_ignoring_case("UP"), "up"),
        (NON_EMPTY_TEXT, None),
        (NON_EMPTY_TEXT, "x"),
        (NON_NULL, ""),
        (THROTTLED_REPLICAS, ("*",)),
        (THROTTLED_REPLICAS, ("0:1", "12:3")),
        (THROTTLED_REPLICAS, ()),
        (METADATA_VERSIONS, "3.9-IV0"),
        (METADATA_VERSIONS, "3.9"),
        (METADATA_VERSIONS, "3.9.1"),
        (METADATA_VERSIONS, "0.10.2"),
        (METADATA_VERSIONS, "4.0-IV1"),
    ],
)
def test_passes(validator: Validator, good: object) -> None:
    validator("name", good)


@pytest.mark.parametrize(
    ("validator", "bad", "reason"),
    [
        (at_least(14), 13, "Value must be at least 14"),
        (at_least(1), None, "Value must be non-null"),
        (between(0, 1), 1.5, "Invalid value 1.5 for configuration name: Value must be no more than 1"),
        (between(0, 1), 1e20, "Invalid value 1.0E20 for"),
        (between(0, 1), 1.25e-5 - 1, "Invalid value -0.9999875 for"),
        (between(1, 2), 1.25e-5, "Invalid value 1.25E-5 for"),
        (between(1, 9, also=-1), 0, "Value must be between 1 and 9 or equal to -1"),
        (one_of("a", "b"), "c", "String must be one of: a, b"),
        (one_of("a", "b"), ("a", "c"), "String must be one of: a, b"),
        (one_of_ignoring_case("UP", "DOWN"), "left", "String must be one of (case insensitive): UP, DOWN"),
        (NON_EMPTY_TEXT, "", "String must be non-empty"),
        (NON_EMPTY_LIST, (), "List must be non-empty"),
        (NON_NULL, None, "entry must be non null"),
        (METADATA_VERSIONS, "9.9", "Version 9.9 is not a valid version"),
        (METADATA_VERSIONS, "4.0", "Version 4.0 is not a valid version"),
        (METADATA_VERSIONS, "0.10", "Version 0.10 is not a valid version"),
        (THROTTLED_REPLICAS, ("0:1", "x"), "must be the literal"),
        (THROTTLED_REPLICAS, ("*", "0:1"), "must be the literal"),
    ],
)
def test_refuses_with_a_reason(validator: Validator, bad: object, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validator("name", bad)
    assert reason in str(caught.value)
    assert caught.value.valid == str(validator)
