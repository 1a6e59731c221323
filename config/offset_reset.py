"""Where a share group begins in a partition that it has not read: `share.auto.offset.reset`. Pure.

Source: KIP-932, KIP-1106 (durations); Kafka 4.3 ShareGroupAutoOffsetResetStrategy, java.time.Duration.parse.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from config.errors import invalid_value

_DURATION: Final = re.compile(
    r"([-+]?)P(?=[-+0-9T])(?:([-+]?[0-9]+)D)?"
    r"(T(?=[-+0-9])(?:([-+]?[0-9]+)H)?(?:([-+]?[0-9]+)M)?(?:([-+]?)([0-9]+)(?:[.,]([0-9]{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)
_BY_DURATION: Final = "by_duration:"
_LONGEST_S: Final = 2**63 - 1


class ResetKind(Enum):
    """Where a share group begins in a partition that it has not read. The value is that of the setting."""

    LATEST = "latest"
    EARLIEST = "earliest"
    BY_DURATION = "by_duration"


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """`duration_ms` is how long before now it begins, for BY_DURATION."""

    kind: ResetKind = ResetKind.LATEST
    duration_ms: int = 0

    @classmethod
    def parse(cls, text: str) -> OffsetReset:
        """Parse `share.auto.offset.reset`. Raises ValueError."""
        if text.startswith(_BY_DURATION):
            return cls(ResetKind.BY_DURATION, _duration_ms(text.removeprefix(_BY_DURATION)))
        if text not in (ResetKind.LATEST.value, ResetKind.EARLIEST.value):
            raise ValueError(f"{text!r} is no way to begin")
        return cls(ResetKind(text))


LATEST: Final = OffsetReset()


def _duration_ms(text: str) -> int:
    """Return the whole milliseconds of a duration as java.time reads it, of days to nanoseconds. Raises ValueError."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no duration")
    sign, days, _, hours, minutes, second_sign, seconds, fraction = found.groups()
    nanos = int(days or 0) * 86_400 + int(hours or 0) * 3_600 + int(minutes or 0) * 60
    nanos *= 10**9
    of_seconds = int(seconds or 0) * 10**9 + int((fraction or "").ljust(9, "0"))
    nanos += -of_seconds if second_sign == "-" else of_seconds
    nanos = -nanos if sign == "-" else nanos
    if nanos < 0 or nanos // 10**9 > _LONGEST_S:
        raise ValueError(f"{text!r} is negative or too long")
    return nanos // 10**6


@dataclass(frozen=True, slots=True)
class AutoOffsetReset:
    """The validator of `share.auto.offset.reset`."""

    def __call__(self, name: str, value: object) -> None:
        try:
            OffsetReset.parse(str(value))
        except ValueError:
            reason = (
                f"Invalid value `{value}` for configuration {name}. The value must be either 'earliest', 'latest' or of the "
                "format 'by_duration:<PnDTnHnMn.nS>'."
            )
            raise invalid_value(name, value, reason, valid=str(self)) from None

    def __str__(self) -> str:
        return "[latest, earliest, by_duration:PnDTnHnMn.nS]"
