"""Settings with units: `retention.ms=7d`, `segment.bytes=1GiB`, `producer_byte_rate=2MB`.

Rules: the name of a setting says what it counts: milliseconds, seconds, minutes, hours, or bytes. Brokers take plain numbers,
and get them. What is no number with a unit goes to the brokers as it is: they decide. A unit that has two meanings is
refused: 1 GB are 1000000000 bytes, as all commands print them, 1 GiB are 1073741824.
Source: the settings of Apache Kafka, whose names end in their units; IEC 80000-13.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import click

from runtime.command_line.output import Output
from runtime.command_line.parsing import duration_or_none

_TIMES_MS = {"ms": 1, "secs": 1_000, "seconds": 1_000, "minutes": 60_000, "hours": 3_600_000}
_TIMES = {unit: {"ms": "milliseconds", "secs": "seconds"}.get(unit, unit) for unit in _TIMES_MS}
_NUMBER_WITH_UNIT = re.compile(r"[\d.]+ ?[A-Za-z]+")
_BYTES = re.compile(r"(?:.*[._])?bytes?(?:[._].*)?|.*\.buffer\.size|.*\.receive\.size|.*\.throttled\.rate")
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([kmgtp]?)(i?)(b?)", re.IGNORECASE)
_PREFIXES = ("", "k", "m", "g", "t", "p")


def with_plain_numbers(settings: Mapping[str, str], option: str) -> dict[str, str]:
    """Return the settings as brokers take them, and tell what became of units. Raises click.BadParameter."""
    plain = {name: _plain(name, value, option) for name, value in settings.items()}
    changed = [f"{name}={plain[name]}" for name, value in settings.items() if plain[name] != value]
    if changed:
        Output.note(f"in plain numbers: {', '.join(changed)}")
    return plain


def size_bytes(text: str, option: str) -> int | None:
    """Return the bytes of "500MB", "1.5 GiB" or "10"; None for what is no size. Raises click.BadParameter for a unit with two
    meanings, and for a part of a byte."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        return None
    number, prefix, binary, byte = found[1], found[2].lower(), found[3], found[4]
    if prefix and not byte:
        letter = prefix.upper()
        raise click.BadParameter(f"{text} has two meanings: {number}{letter}B or {number}{letter}iB", param_hint=option)
    if binary and not prefix:
        return None
    size = Decimal(number) * (1024 if binary else 1000) ** _PREFIXES.index(prefix)
    if size != int(size):
        raise click.BadParameter(f"{text} is no whole number of bytes", param_hint=option)
    return int(size)


class Size(click.ParamType[int]):
    """Bytes, as a number or with a unit."""

    name = "size"

    def __init__(self, least: int = 0) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        size = size_bytes(str(value), "" if param is None else param.opts[0])
        if size is None or size < self._least:
            self.fail(f"{value!r} is no size from {self._least} on: 1000000, 50MB or 64MiB", param, ctx)
        return size


def _plain(name: str, value: str, option: str) -> str:
    text = value.strip()
    unit = re.split(r"[._]", name)[-1]
    if not text or text.isdigit():
        return value
    if unit in _TIMES_MS:
        duration_ms = duration_or_none(text, option)
        if duration_ms is None and _NUMBER_WITH_UNIT.fullmatch(text) is not None:
            raise click.BadParameter(
                f"{name}={value}: it takes {_TIMES[unit]}, or 90s, 36h, 7d, PT1H30M", param_hint=option
            )
        if duration_ms is None:
            return value
        if duration_ms % _TIMES_MS[unit]:
            raise click.BadParameter(f"{name}={value} is no whole number of {unit}", param_hint=option)
        return str(duration_ms // _TIMES_MS[unit])
    if _BYTES.fullmatch(name):
        size = size_bytes(text, option)
        return value if size is None else str(size)
    return value
