"""The notation of the settings' tables: `setting(...)` is a row, a `SettingTable` is a table and its values.

A table is a class whose rows are its attributes; an instance holds the parsed values under the same attributes and
never changes. The attribute is the wire name with underscores for dots and dashes.
Rules: pure. Values come in as text and are parsed as Kafka's ConfigDef parses them, with its error texts.
Invariant: a value that exists has its row's type and passed its validator. Passwords are in no repr and no text.
Source: Kafka ConfigDef, AbstractConfig.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn

from config.errors import HIDDEN, ConfigError, invalid_value
from config.java_values import java_double, java_integer, java_trim
from config.validators import Range, Validator

KiB = 1024
MiB = 1024 * KiB
GiB = 1024 * MiB
INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class Type(enum.IntEnum):
    """Types of values; the numbers are those of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Update(enum.Enum):
    """How a broker setting may be changed while the broker runs."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


BOOLEAN, STRING, INT, SHORT, LONG = Type.BOOLEAN, Type.STRING, Type.INT, Type.SHORT, Type.LONG
DOUBLE, LIST, CLASS, PASSWORD = Type.DOUBLE, Type.LIST, Type.CLASS, Type.PASSWORD
READ_ONLY, PER_BROKER, CLUSTER_WIDE = Update.READ_ONLY, Update.PER_BROKER, Update.CLUSTER_WIDE


@dataclass(frozen=True, slots=True)
class Password:
    """A secret, only in `value`."""

    value: str = field(repr=False)

    def __str__(self) -> str:
        return HIDDEN

    __repr__ = __str__


@dataclass(slots=True)
class Setting:
    """One row. `default` is parsed already; `kafka_default` differs from it only where this broker's default differs on
    purpose.

    `with_levels`: clients are told of it, or where it is not `internal` of its default, only while the cluster has a feature
    level above 0, because Apache Kafka 3.9 does not tell of it, or has `kafka_default`.
    `effective` says that the broker uses it; other settings are accepted and have no effect.
    `synonyms` are the broker settings that a topic setting falls back to, strongest first. `checked` is the range of a setting
    that has no validator in Kafka, and is checked together with others.
    """

    name: str
    type: Type
    default: object
    valid: Validator | None
    update: Update
    effective: bool
    internal: bool
    kafka_default: object
    synonyms: tuple[str, ...]
    doc: str
    checked: str = ""
    with_levels: bool = False
    attribute: str = ""

    def __set_name__(self, owner: object, attribute: str) -> None:
        assert attribute == self.name.replace(".", "_").replace("-", "_"), attribute
        self.attribute = attribute

    @property
    def is_sensitive(self) -> bool:
        return self.type is Type.PASSWORD

    @property
    def valid_text(self) -> str:
        return "" if self.valid is None else str(self.valid)

    def parse(self, text: str) -> object:
        """Parse `text`. Raises ConfigError."""
        try:
            value = parse_text(self.name, text, self.type)
        except ConfigError as error:
            raise ConfigError(str(error), valid=self._valid_number(text) or error.valid) from error
        self.check(value)
        return value

    def _valid_number(self, text: str) -> str:
        """Return the valid range, for errors about text that is no number, or one out of the type's range; empty if the type
        is the only limit."""
        if not isinstance(self.valid, Range):
            return self.checked
        is_number = _WHOLE_OF_ANY_LENGTH.fullmatch(java_trim(text)) is not None
        return str(
            self.valid.up_to((1 << (_BITS[self.type] - 1)) - 1) if is_number and self.type in _BITS else self.valid
        )

    def check(self, value: object) -> None:
        if self.valid is not None:
            self.valid(self.name, value)

    def format(self, value: object) -> str | None:
        """Return `value` as text, None for null. Passwords are in clear: check `is_sensitive` first."""
        return format_value(value)


_NO_DIFFERENCE = object()


def setting(
    name: str,
    type: Type,  # noqa: A002  the word of every table of settings
    default: object,
    valid: Validator | None = None,
    update: Update = READ_ONLY,
    *,
    doc: str,
    effective: bool = False,
    internal: bool = False,
    kafka_default: object = _NO_DIFFERENCE,
    synonyms: tuple[str, ...] = (),
    checked: str = "",
    with_levels: bool = False,
) -> Any:
    """Make a row of a table. Typed Any, so that the attribute's own annotation is the type of its value."""
    if kafka_default is _NO_DIFFERENCE:
        kafka_default = default
    return Setting(
        name, type, default, valid, update, effective, internal, kafka_default, synonyms, doc, checked, with_levels
    )


# --- text to value and back ---

_WHOLE_OF_ANY_LENGTH = re.compile(r"[+-]?[0-9]+")
_BITS = {Type.SHORT: 16, Type.INT: 32, Type.LONG: 64}
_SPLIT = re.compile(r"\s*,\s*", re.ASCII)


def parse_text(name: str, text: str, type: Type) -> object:  # noqa: A002  as above
    """Parse `text` as a value of `type`, trimmed as in Java. Raises ConfigError, without the text of a secret."""
    text = java_trim(text)
    match type:
        case Type.STRING | Type.CLASS:
            return text
        case Type.PASSWORD:
            return Password(text)
        case Type.LIST:
            return tuple(_SPLIT.split(text)) if text else ()
        case Type.BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise invalid_value(name, text, "Expected value to be either true or false", valid="true, false")
            return text.lower() == "true"
        case Type.DOUBLE:
            try:
                return java_double(text)
            except ValueError:
                raise invalid_value(name, text, "Not a number of type DOUBLE", valid="a number") from None
        case Type.SHORT | Type.INT | Type.LONG:
            try:
                return java_integer(text, _BITS[type])
            except ValueError:
                limit = 1 << (_BITS[type] - 1)
                valid = f"[{-limit},...,{limit - 1}]"
                raise invalid_value(name, text, f"Not a number of type {type.name}", valid=valid) from None


def format_value(value: object) -> str | None:
    """Return a parsed value in Kafka's text form."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case tuple():
            return ",".join(value)
        case Password():
            return value.value
        case float():
            return repr(value).replace("e+", "E").replace("e", "E")
        case _:
            return str(value)


# --- tables ---


class SettingTable:
    """Base of the tables. `given` are the texts that were set, by wire name; everything else has its default."""

    definitions: ClassVar[Mapping[str, Setting]] = {}

    def __init_subclass__(cls) -> None:
        rows: dict[str, Setting] = {}
        for base in reversed(cls.__mro__):
            rows.update((row.name, row) for row in vars(base).values() if isinstance(row, Setting))
        cls.definitions = dict(sorted(rows.items()))

    def __init__(self, given: Mapping[str, str]) -> None:
        """Parse `given`; names the table does not have are ignored here. Raises ConfigError."""
        values = {row.name: row.default for row in self.definitions.values()}
        for name, text in given.items():
            row = self.definitions.get(name)
            if row is not None:
                values[name] = row.parse(text)
        state = self.__dict__
        state["_given"] = dict(given)
        state["_values"] = values
        for name, row in self.definitions.items():
            state[row.attribute] = values[name]

    @property
    def given(self) -> Mapping[str, str]:
        return self.__dict__["_given"]  # type: ignore[no-any-return]

    def value(self, name: str) -> object:
        """Return the parsed value of wire name `name`, before any derivation."""
        return self.__dict__["_values"][name]

    def text(self, name: str) -> str | None:
        """Return that value as text; None for null. Secrets are in clear."""
        return self.definitions[name].format(self.value(name))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"settings do not change: {name}")

    def __repr__(self) -> str:
        """Return the given texts, without secrets and without the values of unknown names, which may be secrets."""
        shown = (name for name in sorted(self.given))
        return f"<{type(self).__name__} {' '.join(f'{name}={self._shown(name)}' for name in shown)}>"

    def _shown(self, name: str) -> str:
        row = self.definitions.get(name)
        return HIDDEN if row is None or row.is_sensitive else self.given[name]
