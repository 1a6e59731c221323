"""The valid values of settings, beyond their types.

Rules: a validator is a callable value; `str(validator)` is the valid range as documentation and error lines show it.
It gets the parsed value and raises `ConfigError`. Source: Kafka ConfigDef's validators, with their texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from config.errors import invalid_value
from config.java_values import java_trim


class Validator(Protocol):
    def __call__(self, name: str, value: object) -> None: ...


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from `low` to `high`, both included; None is no limit. `also` is one more value that is allowed.

    `optional` accepts null.
    """

    low: float
    high: float | None = None
    also: float | None = None
    optional: bool = False

    def __call__(self, name: str, value: object) -> None:
        if value is None:
            if self.optional:
                return
            raise invalid_value(name, value, "Value must be non-null", valid=str(self))
        assert isinstance(value, int | float)
        if value == self.also:
            return
        if self.also is not None and self.high is not None and not self.low <= value <= self.high:
            reason = f"Value must be between {self.low} and {self.high} or equal to {self.also}"
            raise invalid_value(name, value, reason, valid=str(self))
        if value < self.low:
            raise invalid_value(name, value, f"Value must be at least {self.low}", valid=str(self))
        if self.high is not None and value > self.high:
            raise invalid_value(name, value, f"Value must be no more than {self.high}", valid=str(self))

    def up_to(self, limit: float) -> Range:
        """With `limit` as the highest value where there is none."""
        return self if self.high is not None else replace(self, high=limit)

    def __str__(self) -> str:
        text = f"[{self.low},...]" if self.high is None else f"[{self.low},...,{self.high}]"
        return text if self.also is None else f"{text} or {self.also}"


def at_least(low: float, *, also: float | None = None) -> Range:
    return Range(low, also=also)


def between(low: float, high: float, *, also: float | None = None, optional: bool = False) -> Range:
    return Range(low, high, also, optional)


@dataclass(frozen=True, slots=True)
class OneOf:
    """A text, or every element of a list, among `choices`."""

    choices: tuple[str, ...]
    ignore_case: bool = False

    def __call__(self, name: str, value: object) -> None:
        for text in value if isinstance(value, tuple) else (value,):
            known = isinstance(text, str) and (text.upper() if self.ignore_case else text) in self.choices
            if not known:
                case = " (case insensitive)" if self.ignore_case else ""
                reason = f"String must be one of{case}: {', '.join(self.choices)}"
                raise invalid_value(name, text, reason, valid=str(self))

    def __str__(self) -> str:
        return ("(case insensitive) " if self.ignore_case else "") + f"[{', '.join(self.choices)}]"


def one_of(*choices: str) -> OneOf:
    return OneOf(choices)


def one_of_ignoring_case(*choices: str) -> OneOf:
    return OneOf(choices, ignore_case=True)


@dataclass(frozen=True, slots=True)
class NonEmpty:
    """A text or list that is not empty; null is accepted."""

    kind: str

    def __call__(self, name: str, value: object) -> None:
        if value is not None and not value:
            raise invalid_value(name, value, f"{self.kind.capitalize()} must be non-empty", valid=str(self))

    def __str__(self) -> str:
        return f"non-empty {self.kind}"


@dataclass(frozen=True, slots=True)
class NonNull:
    def __call__(self, name: str, value: object) -> None:
        if value is None:
            raise invalid_value(name, value, "entry must be non null", valid=str(self))

    def __str__(self) -> str:
        return "non-null string"


NON_EMPTY_TEXT = NonEmpty("string")
NON_EMPTY_LIST = NonEmpty("list")
NON_NULL = NonNull()


@dataclass(frozen=True, slots=True)
class ThrottledReplicas:
    """`*`, or pairs of partition and broker."""

    _PAIR = re.compile(r"([0-9]+:[0-9]+)?")

    def __call__(self, name: str, value: object) -> None:
        assert isinstance(value, tuple)
        if java_trim("".join(value)) == "*" or all(self._PAIR.fullmatch(java_trim(text)) for text in value):
            return
        reason = f"{name} must be the literal '*' or a list of replicas in the following format: {self}"
        raise invalid_value(name, f"[{', '.join(value)}]", reason, valid=str(self))

    def __str__(self) -> str:
        return "[partitionId]:[brokerId],[partitionId]:[brokerId],..."


THROTTLED_REPLICAS = ThrottledReplicas()


@dataclass(frozen=True, slots=True)
class MetadataVersion:
    """A version of the inter-broker protocol: one of `releases`, or the first part of one that is finished."""

    releases: tuple[str, ...]
    unfinished: str
    """The unfinished release, which has no short name yet."""

    def __call__(self, name: str, value: object) -> None:
        assert isinstance(value, str)
        segments = value.split(".")
        head = ".".join(segments[: 3 if value.startswith("0.") else 2])
        if head not in self.releases and head not in self._short_names():
            raise invalid_value(name, value, f"Version {value} is not a valid version", valid=str(self))

    def _short_names(self) -> Iterable[str]:
        return {release.partition("-")[0] for release in self.releases} - {self.unfinished}

    def __str__(self) -> str:
        return f"[{', '.join(self.releases)}]"


# Versions of the inter-broker protocol, oldest first.
METADATA_VERSIONS = MetadataVersion(
    tuple(
        """0.8.0 0.8.1 0.8.2 0.9.0 0.10.0-IV0 0.10.0-IV1 0.10.1-IV0 0.10.1-IV1 0.10.1-IV2 0.10.2-IV0 0.11.0-IV0
        0.11.0-IV1 0.11.0-IV2 1.0-IV0 1.1-IV0 2.0-IV0 2.0-IV1 2.1-IV0 2.1-IV1 2.1-IV2 2.2-IV0 2.2-IV1 2.3-IV0
        2.3-IV1 2.4-IV0 2.4-IV1 2.5-IV0 2.6-IV0 2.7-IV0 2.7-IV1 2.7-IV2 2.8-IV0 2.8-IV1 3.0-IV0 3.0-IV1 3.1-IV0
        3.2-IV0 3.3-IV0 3.3-IV1 3.3-IV2 3.3-IV3 3.4-IV0 3.5-IV0 3.5-IV1 3.5-IV2 3.6-IV0 3.6-IV1 3.6-IV2 3.7-IV0
        3.7-IV1 3.7-IV2 3.7-IV3 3.7-IV4 3.8-IV0 3.9-IV0 4.0-IV0 4.0-IV1""".split()  # noqa: SIM905  a paragraph of words
    ),
    unfinished="4.0",
)


@dataclass(frozen=True, slots=True)
class LogLevels:
    """Elements that are a level, for all loggers, or `LOGGER=LEVEL`."""

    levels: tuple[str, ...] = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")

    def __call__(self, name: str, value: object) -> None:
        assert isinstance(value, tuple)
        for text in value:
            logger, separator, level = text.rpartition("=")
            if level.upper() not in self.levels or (separator and not logger):
                raise invalid_value(name, text, "not a level, and not LOGGER=LEVEL", valid=str(self))

    def __str__(self) -> str:
        return f"{'|'.join(self.levels)} (case insensitive), or LOGGER=LEVEL"


LOG_LEVELS = LogLevels()
