from __future__ import annotations

import click
import pytest

from tools.setting_units import Size, with_plain_numbers


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ("retention.ms=7d", "604800000"), ("retention.ms=90s", "90000"), ("retention.ms=PT1H30M", "5400000"),
        ("retention.ms=250ms", "250"), ("retention.ms=-1", "-1"), ("retention.ms=86400000", "86400000"),
        ("log.retention.hours=7d", "168"), ("log.retention.minutes=2h", "120"), ("quota.window.size.seconds=1m", "60"),
        ("segment.bytes=1GiB", "1073741824"), ("segment.bytes=1GB", "1000000000"), ("segment.bytes=1.5 MB", "1500000"),
        ("max.message.bytes=64kB", "64000"), ("index.interval.bytes=4KiB", "4096"), ("segment.bytes=10B", "10"),
        ("retention.bytes=-1", "-1"), ("log.cleaner.io.max.bytes.per.second=10mb", "10000000"),
        ("producer_byte_rate=2MB", "2000000"), ("leader.replication.throttled.rate=5MB", "5000000"),
        ("log.cleaner.dedupe.buffer.size=128MiB", "134217728"),
        # What the name does not count, and what is no such number, is the broker's to judge.
        ("cleanup.policy=1d", "1d"), ("retention.ms=soon", "soon"), ("segment.bytes=1d", "1d"), ("retention.ms=", ""),
        ("group.max.size=5MB", "5MB"), ("request_percentage=2MB", "2MB"),
    ],
)  # fmt: skip
def test_brokers_get_plain_numbers(given: str, plain: str, capfd: pytest.CaptureFixture[str]) -> None:
    name, _, value = given.partition("=")
    assert with_plain_numbers({name: value}, "--config") == {name: plain}
    assert capfd.readouterr().err == ("" if value == plain else f"in plain numbers: {name}={plain}\n")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("segment.bytes=1g", "1GB or 1GiB"), ("segment.bytes=64K", "64KB or 64KiB"), ("segment.bytes=0.5B", "whole number"),
        ("log.retention.hours=90m", "no whole number of hours"), ("retention.ms=1GB", "it takes milliseconds, or 90s"),
        ("retention.ms=3 weeks", "it takes milliseconds"), ("retention.ms=99999999999999d", "too large"),
    ],
)  # fmt: skip
def test_what_is_not_clear_is_refused(given: str, told: str) -> None:
    name, _, value = given.partition("=")
    with pytest.raises(click.BadParameter, match=told):
        with_plain_numbers({name: value}, "--config")


@pytest.mark.parametrize(("text", "size"), [("1000", 1000), ("50MB", 50_000_000), ("64MiB", 67_108_864)])
def test_a_throttle_is_a_size(text: str, size: int) -> None:
    assert Size(1).convert(text, None, None) == size


@pytest.mark.parametrize("text", ["0", "-5", "fast", "1 d"])
def test_a_throttle_is_nothing_else(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Size(1).convert(text, None, None)
