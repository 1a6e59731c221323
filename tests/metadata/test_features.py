"""Feature levels: as they are written by people, stored by controllers, and told to those who follow them."""

from __future__ import annotations

import pytest

from metadata.features import (
    NEWEST,
    NEWEST_LEVELS,
    NO_LEVELS,
    REGISTERED,
    CurrentLevels,
    FeatureLevels,
    UnsupportedFeaturesError,
)


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("newest", NEWEST_LEVELS),
        ("none", NO_LEVELS),
        ("group.version=1", FeatureLevels(group=1)),
        (" transaction.version = 2 , group.version=0", FeatureLevels(transaction=2)),
        ("group.version=1,transaction.version=1,share.version=1", FeatureLevels(1, 1, 1)),
    ],
)
def test_levels_as_people_write_them(text: str, levels: FeatureLevels) -> None:
    assert FeatureLevels.parse(text) == levels
    assert FeatureLevels.finalized(levels.above_zero) == levels
    assert levels.any_above_zero == bool(levels.above_zero)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "is not a feature"),
        ("all", "'all' is not a feature; there are group.version, share.version, transaction.version"),
        ("metadata.version=20", "'metadata.version' is not a feature"),
        ("group.version", "levels 0 to 1, not ''"),
        ("group.version=2", "levels 0 to 1, not '2'"),
        ("transaction.version=-1", "levels 0 to 2, not '-1'"),
        ("group.version=1,group.version=1", "there twice"),
    ],
)
def test_what_is_no_level(text: str, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        FeatureLevels.parse(text)


@pytest.mark.parametrize("levels", [{"group.version": 2}, {"group.version": -1}, {"kraft.version": 1}])
def test_levels_of_a_newer_release_are_not_supported(levels: dict[str, int]) -> None:
    with pytest.raises(UnsupportedFeaturesError, match=r"{}={}".format(*next(iter(levels.items())))):
        FeatureLevels.finalized(levels)


def test_what_is_registered_begins_at_one() -> None:
    assert {name: (each["min_version"], each["max_version"]) for name, each in REGISTERED.items()} == {
        name: (1, last) for name, last in NEWEST.items()
    }
    assert NEWEST_LEVELS.above_zero == NEWEST


def test_followers_are_told_of_levels_that_differ() -> None:
    current, told = CurrentLevels(), list[FeatureLevels]()
    current.subscribe(told.append)
    current.publish(NO_LEVELS, 3)
    assert (told, current.epoch) == ([], 3)
    current.publish(NEWEST_LEVELS, 4)
    assert (told, current.levels, current.epoch) == ([NEWEST_LEVELS], NEWEST_LEVELS, 4)
