"""Values of options."""

import click
import pytest

from runtime.command_line import parsing

NOW_MS = 1_700_000_000_000


def test_settings_are_names_and_values() -> None:
    assert parsing.settings(["a=1", " b = x=y "], "--config") == {"a": "1", "b": "x=y"}


@pytest.mark.parametrize("text", ["a", "=1", ""])
def test_what_is_no_setting_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="NAME=VALUE"):
        parsing.settings([text], "--config")


def test_partitions_are_numbers_and_ranges() -> None:
    assert parsing.partitions("0,2,5-7") == [0, 2, 5, 6, 7]
    assert parsing.partitions(None) is None


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "1;2"])
def test_what_is_no_partition_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        parsing.partitions(text)


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("1700000000123", 1_700_000_000_123),
        ("2023-11-14T22:13:20", NOW_MS),
        ("2023-11-14T22:13:20.007", NOW_MS + 7),
        ("9999-12-31T23:59:59.999", 253_402_300_799_999),
        ("9999-12-31T23:59:59-14:00", 253_402_351_199_000),
        ("100000d", 0),
        ("2023-11-14T23:13:20+01:00", NOW_MS),
        ("2023-11-14", 1_699_920_000_000),
        ("90s", NOW_MS - 90_000),
        ("2h ago", NOW_MS - 7_200_000),
        ("PT1H30M", NOW_MS - 5_400_000),
        ("P1DT0.5S", NOW_MS - 86_400_500),
    ],
)
def test_times_are_dates_or_ages(text: str, expected_ms: int) -> None:
    assert parsing.time_ms(text, "--from-time", NOW_MS) == expected_ms


@pytest.mark.parametrize("text", ["yesterday", "P", "PT", "", "12 h", "10000-01-01"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is no time"):
        parsing.time_ms(text, "--from-time", NOW_MS)


def test_a_duration_is_no_date() -> None:
    assert parsing.duration_ms("PT1M", "--by-duration") == 60_000
    with pytest.raises(click.BadParameter, match="is no duration"):
        parsing.duration_ms("2023-11-14", "--by-duration")
    for text in ("9" * 400 + "d", f"P{'9' * 400}D", "106751991168d"):
        with pytest.raises(click.BadParameter, match="is too large for a duration"):
            parsing.duration_ms(text, "--by-duration")


def test_assignments_name_the_brokers_of_each_partition() -> None:
    assert parsing.assignments("0:1,2:0", "--replica-assignment") == [[0, 1], [2, 0]]
    with pytest.raises(click.BadParameter):
        parsing.assignments("0:x", "--replica-assignment")
