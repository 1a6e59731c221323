"""A rule: what the relay does with the records of one source topic. Pure.

In the topic of the rules its key is the source topic, and its value a JSON object:

    {"source": "reminders-later", "kind": "delay", "target": "reminders", "delay_ms": 60000}
    {"source": "orders-retry", "kind": "retry", "target": "orders", "delays_ms": [1000, 10000, 60000],
     "dead_letters": "orders-dead", "partitioner": "crc32", "principal": "User:orders"}

`kind`            delay: the record is delivered once, later. retry: it is brought back after a delay for each failed attempt.
`target`          the topic in which records are delivered
`delay_ms`        of a delay whose records say no time of their own; 0 without it
`delays_ms`       of a retry: the delays after the first, the second ... failed attempt. Who fails more often is a dead letter.
`partitioner`     murmur2 (of Java's clients, the default) or crc32 (of librdkafka) chooses the partition by the key; same: the
                  partition has the number of the source partition
`dead_letters`    the topic for records that cannot be delivered; the relay's own without it
`results`         the topic that is told of cancelled and replaced records, and of those that came too late; nobody without it
`principal`       whose rights count: this user must be allowed to read the source and to write to the other topics

Rules: unknown members, other types, and numbers out of bounds are refused: a slip in a rule must not deliver at a wrong time. A
rule never writes into its own source.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeVar

from config.relay import DELAY_MAX_MS
from protocol.topic_names import problem_of_name
from runtime.suggestions import did_you_mean
from security.principal import Principal

DELAYS_MAX: Final = 100
"""How many delays a retry may have."""
VALUE_MAX_BYTES: Final = 16_384
"""Of a rule in JSON: more than the longest valid one has."""
_MEMBERS: Final = (
    "source", "kind", "target", "delay_ms", "delays_ms", "partitioner", "dead_letters", "results", "principal",
)  # fmt: skip
_EVERYBODY: Final = "*"
_SHOWN_CHARACTERS: Final = 80

E = TypeVar("E", bound=StrEnum)


class RuleKind(StrEnum):
    """What a rule does with records."""

    DELAY = "delay"
    RETRY = "retry"


class Partitioner(StrEnum):
    """What chooses the partition of the target."""

    MURMUR2 = "murmur2"
    CRC32 = "crc32"
    SAME = "same"


class RuleError(ValueError):
    """A text is no rule; the message says why, in one line."""


@dataclass(frozen=True, slots=True)
class Rule:
    """`delay_ms` belongs to a delay, `delays_ms` to a retry. `principal` is a text like "User:alice"."""

    source: str
    kind: RuleKind
    target: str
    delay_ms: int = 0
    delays_ms: tuple[int, ...] = ()
    partitioner: Partitioner = Partitioner.MURMUR2
    dead_letters: str | None = None
    results: str | None = None
    principal: str | None = None

    @classmethod
    def parse(cls, source: str, value: bytes) -> Rule:
        """Return the rule of a record with the key `source`. Raises RuleError."""
        if len(value) > VALUE_MAX_BYTES:
            raise RuleError(f"it has {len(value)} bytes, and {VALUE_MAX_BYTES} are allowed")
        try:
            members = json.loads(value, object_pairs_hook=_without_repetition, parse_constant=_refuse_constant)
        except RuleError:
            raise
        except (ValueError, RecursionError) as error:
            raise RuleError("it is no JSON") from error
        if not isinstance(members, dict):
            raise RuleError("it is no JSON object")
        rule = cls.of_members(members)
        if rule.source != source:
            raise RuleError(f"source is {rule.source}, and the key of the record is {shown(source)}")
        return rule

    @classmethod
    def of_members(cls, members: Mapping[str, Any]) -> Rule:
        """Return the rule of a JSON object. Raises RuleError."""
        for name in members:
            if name not in _MEMBERS:
                raise RuleError(f"unknown member {shown(name)}{did_you_mean(name[:_SHOWN_CHARACTERS], _MEMBERS)}")
        kind = _word(members, "kind", RuleKind, None)
        other = "delays_ms" if kind is RuleKind.DELAY else "delay_ms"
        if other in members:
            raise RuleError(f"{other} does not belong to a {kind}")
        rule = cls(
            source=_topic(members, "source"),
            kind=kind,
            target=_topic(members, "target"),
            delay_ms=_delay_ms(members.get("delay_ms", 0), "delay_ms"),
            delays_ms=_delays_ms(members) if kind is RuleKind.RETRY else (),
            partitioner=_word(members, "partitioner", Partitioner, Partitioner.MURMUR2),
            dead_letters=_topic(members, "dead_letters") if "dead_letters" in members else None,
            results=_topic(members, "results") if "results" in members else None,
            principal=_principal(members["principal"]) if "principal" in members else None,
        )
        for name in ("target", "dead_letters", "results"):
            if getattr(rule, name) == rule.source:
                raise RuleError(f"{name} is the source itself, {rule.source}")
        return rule

    @property
    def destinations(self) -> tuple[str, ...]:
        """The topics that the rule names to be written into, each once."""
        return tuple(dict.fromkeys(each for each in (self.target, self.dead_letters, self.results) if each is not None))

    def members(self) -> dict[str, Any]:
        """Return what the JSON object has, without what is as it is anyway."""
        found: dict[str, Any] = {"source": self.source, "kind": self.kind.value, "target": self.target}
        if self.kind is RuleKind.RETRY:
            found["delays_ms"] = list(self.delays_ms)
        elif self.delay_ms:
            found["delay_ms"] = self.delay_ms
        if self.partitioner is not Partitioner.MURMUR2:
            found["partitioner"] = self.partitioner.value
        optional = {"dead_letters": self.dead_letters, "results": self.results, "principal": self.principal}
        return found | {name: value for name, value in optional.items() if value is not None}

    def to_json(self) -> bytes:
        """Return the value of the rule's record: the same rule has the same bytes."""
        return json.dumps(self.members(), ensure_ascii=False, separators=(",", ":")).encode()


def shown(value: object) -> str:
    """Return a text of a value that somebody else chose, for a message of one line."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def _topic(members: Mapping[str, Any], name: str) -> str:
    if name not in members:
        raise RuleError(f"{name} is missing")
    topic = members[name]
    if not isinstance(topic, str):
        raise RuleError(f"{name} is {shown(topic)}, and must be the name of a topic")
    if problem_of_name(topic) is not None:
        raise RuleError(f"{name} is {shown(topic)}, which no topic can be called")
    return topic


def _word(members: Mapping[str, Any], name: str, words: type[E], default: E | None) -> E:
    word = members.get(name, default)
    if word is None:
        raise RuleError(f"{name} is missing")
    if word not in list(words):
        raise RuleError(f"{name} is {shown(word)}, and must be one of {', '.join(words)}")
    return words(word)


def _delay_ms(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= DELAY_MAX_MS:
        raise RuleError(f"{name} is {shown(value)}, and must be a number of milliseconds from 0 to {DELAY_MAX_MS}")
    return value


def _delays_ms(members: Mapping[str, Any]) -> tuple[int, ...]:
    delays = members.get("delays_ms")
    if not isinstance(delays, list) or not 1 <= len(delays) <= DELAYS_MAX:
        raise RuleError(f"delays_ms must be a list of 1 to {DELAYS_MAX} numbers of milliseconds")
    return tuple(_delay_ms(each, "one of delays_ms") for each in delays)


def _principal(value: object) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise RuleError(f"principal is {shown(value)}, and must be a text like User:alice")
    principal_type, separator, name = value.partition(":")
    if not separator or not principal_type or name in ("", _EVERYBODY):
        raise RuleError(f"principal is {shown(value)}, and must be one user, like User:alice")
    return str(Principal(principal_type, name))


def _without_repetition(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise RuleError(f"member {shown(name)} is there twice")
        found[name] = value
    return found


def _refuse_constant(word: str) -> Any:
    raise RuleError(f"{word} is no JSON")
