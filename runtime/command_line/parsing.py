"""Values of options: settings as NAME=VALUE, partitions, times and durations. Pure.

Source: the forms of kafka-configs.sh and kafka-consumer-groups.sh; ISO 8601.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import click

INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1
"""The largest numbers that fit into a field of a message."""
OFFSET = click.IntRange(0, INT64_MAX)
PARTITIONS = click.IntRange(1, INT32_MAX)
REPLICAS = click.IntRange(1, 2**15 - 1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_PARTITIONS = 1_000_000
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
_SHORT_DURATION = re.compile(r"(\d+)(ms|s|m|h|d)")
_NEXT_SETTING = re.compile(r",(?=[A-Za-z][\w.-]*=)(?![^\[]*\])")
"""A comma behind which the next setting begins: outside of brackets."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def is_text(text: str) -> bool:
    """Return whether the client libraries can send a text whole: it is UTF-8, without NUL, behind which they cut it."""
    return "\0" not in text and not _SURROGATE.search(text)


def settings(texts: Iterable[str], option: str) -> dict[str, str]:
    """Return the settings of NAME=VALUE texts, each a value as it is. Raises click.BadParameter."""
    found = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name.strip():
            raise click.BadParameter(f"{text!r} is not of the form NAME=VALUE", param_hint=option)
        found[name.strip()] = value.strip()
    return found


def listed_settings(texts: Iterable[str], option: str) -> dict[str, str]:
    """Return the settings of texts as "a=1,b=[x,y]": several in one, and brackets around a value with commas may be there.
    Raises click.BadParameter."""
    found = settings((each for text in texts for each in _NEXT_SETTING.split(text)), option)
    return {
        name: value[1:-1] if value.startswith("[") and value.endswith("]") else value for name, value in found.items()
    }


def partitions(text: str | None, option: str = "--partitions") -> list[int] | None:
    """Return the numbers of "0,2,5-7"; None for no text. Raises click.BadParameter."""
    if text is None:
        return None
    found: list[int] = []
    for item in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", item.strip())
        if match is None:
            raise click.BadParameter(f"{item!r} is neither a number nor a range such as 0-3", param_hint=option)
        first, last = int(match[1]), int(match[2] or match[1])
        if last > INT32_MAX or last - first >= _MOST_PARTITIONS:
            raise click.BadParameter(f"{item!r} is too large", param_hint=option)
        found += range(first, last + 1)
    return found


def time_ms(text: str, option: str, now_ms: int) -> int:
    """Return a time in milliseconds since 1970: an ISO date and time (UTC unless it names a zone), a number of milliseconds, or
    "1h" and "PT1H" for so long ago. Raises click.BadParameter."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        if len(text) > len(str(INT64_MAX)) or int(text) > INT64_MAX:
            raise click.BadParameter(f"{text} is too large for a time", param_hint=option)
        return int(text)
    ago_ms = duration_or_none(text.removesuffix(" ago"), option)
    if ago_ms is not None:
        return max(now_ms - ago_ms, 0)  # negative numbers have another meaning to brokers
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is no time: 2026-01-31T12:00:00, milliseconds since 1970, or 1h for an hour ago",
            param_hint=option,
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def duration_ms(text: str, option: str) -> int:
    """Return the milliseconds of "90s", "1h" or "PT1H30M". Raises click.BadParameter."""
    found = duration_or_none(text, option)
    if found is None:
        raise click.BadParameter(f"{text!r} is no duration: 90s, 1h, or PT1H30M", param_hint=option)
    return found


def duration_or_none(text: str, option: str) -> int | None:
    """As `duration_ms`; None for what is no duration. Raises click.BadParameter for one that is too large."""
    short = _SHORT_DURATION.fullmatch(text)
    if short is not None:
        return _bounded_ms(Decimal(short[1]) * _UNIT_MS[short[2]], text, option)
    match = _DURATION.fullmatch(text.upper())
    if match is None or not any(match.groups()):
        return None
    days, hours, minutes, seconds = (Decimal(part or 0) for part in match.groups())
    return _bounded_ms((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000, text, option)


def _bounded_ms(duration_ms: Decimal, text: str, option: str) -> int:
    if duration_ms > INT64_MAX:
        raise click.BadParameter(f"{text} is too large for a duration", param_hint=option)
    return int(duration_ms)


def assignments(text: str, option: str) -> list[list[int]]:
    """Return the brokers of each partition of "0:1,1:2": partition 0 is on brokers 0 and 1. Raises click.BadParameter."""
    try:
        return [[int(broker) for broker in item.split(":")] for item in text.split(",")]
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not of the form 0:1,1:2, the brokers of each partition", param_hint=option
        ) from None


def broker_ids(text: str | None, option: str) -> list[int]:
    """Return the brokers of "1,2,3"; none for no text. Raises click.BadParameter."""
    try:
        return [] if text is None else [int(broker) for broker in text.split(",")]
    except ValueError:
        raise click.BadParameter(f"{text!r} is not of the form 1,2,3", param_hint=option) from None
