"""The forms that the values of options have, and the error for one that has not. Pure.

Rules: pure. Every error names the option, what it was given, and what is valid.
Source: Spark KafkaSourceProvider, JsonUtils.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from protocol.topic_partition import TopicPartition
from runtime.suggestions import nearest

Offsets = dict[TopicPartition, int]


class SourceOptionError(ValueError):
    """An option, or a combination of options, is not valid; the text says what is."""


def check_names(given: Iterable[str], known: Iterable[str], what: str, also: Iterable[str] = ()) -> None:
    """Raises SourceOptionError for a name that is not known, whatever its case; names of `also` are known and not told."""
    names = {name.lower(): name for name in known}
    for name in given:
        if name.lower() not in names and name.lower() not in also:
            near = nearest(name.lower(), names)
            guess = f" Did you mean {names[near]!r}?" if near is not None else ""
            raise SourceOptionError(
                f"{what} {name!r} is not known.{guess} Valid are: {', '.join(sorted(names.values()))}"
            )


def trimmed(name: str, text: str) -> str:
    """A text without the blanks around it, which must not be empty."""
    found = text.strip()
    if not found:
        raise SourceOptionError(f"{name} is empty: {text!r}")
    return found


def boolean(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise SourceOptionError(f"{name} is true or false, not {text!r}")
    return text.lower() == "true"


def integer(name: str, text: str, least: int = 0, most: int = (1 << 63) - 1) -> int:
    digits = text.strip()
    if not digits.removeprefix("-").isdecimal() or not digits.isascii() or not least <= int(digits) <= most:
        limit = f"from {least} up" if most >= (1 << 31) - 1 else f"from {least} to {most}"
        raise SourceOptionError(f"{name} is a whole number {limit}, not {text!r}")
    return int(digits)


def choice(name: str, text: str, valid: Mapping[str, Any]) -> Any:
    if text.lower() not in valid:
        raise SourceOptionError(f"{name} is one of {', '.join(valid)}, not {text!r}")
    return valid[text.lower()]


def words(name: str, text: str) -> tuple[str, ...]:
    """Words between commas, each once."""
    found = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not found:
        raise SourceOptionError(f"{name} names nothing: {text!r}")
    return found


def partitions(name: str, text: str) -> tuple[TopicPartition, ...]:
    """`{"topic": [0, 1]}`; no partition at all is valid, and chooses nothing."""
    form = f'{name} is JSON such as {{"topic": [0, 1]}}, not {text!r}'
    found: list[TopicPartition] = []
    for topic, numbers in _json_object(text, form).items():
        if not isinstance(numbers, list) or not all(type(number) is int and number >= 0 for number in numbers):
            raise SourceOptionError(form)
        found += [(topic, number) for number in numbers]
    return tuple(dict.fromkeys(found))


def by_partition(name: str, text: str, least: int) -> Offsets:
    """`{"topic": {"0": 23, "1": -2}}`: an offset or a time of each partition."""
    form = f'{name} is JSON such as {{"topic": {{"0": 23, "1": 45}}}}, not {text!r}'
    found: Offsets = {}
    for topic, numbers in _json_object(text, form).items():
        if not isinstance(numbers, dict):
            raise SourceOptionError(form)
        for partition, number in numbers.items():
            if not partition.isdecimal() or type(number) is not int or number < least:
                raise SourceOptionError(form)
            found[topic, int(partition)] = number
    return found


def _json_object(text: str, form: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        raise SourceOptionError(form) from None
    if not isinstance(found, dict):
        raise SourceOptionError(form)
    return found


def read(options: Mapping[str, str], name: str, parse: Callable[..., Any], default: Any, *arguments: Any) -> Any:
    """The value of an option, or `default` when it was not given. `options` has names in lower case."""
    text = options.get(name.lower())
    return default if text is None else parse(name, text, *arguments)
