"""Everything that is wrong with static settings, for people who ask before a broker starts with them.

A start ends at the first value that it cannot take; here all of them are named, and unknown names are errors.
Rules: pure; sources are texts, and what goes beyond this package (listeners, certificates) is asked of `refusals`. Values that
contradict each other are checked only when each is valid by itself.
Invariant: no password and no value from a config provider is in a problem.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from config.broker import BrokerSettings, base_name
from config.errors import ConfigError
from config.providers import Provided, ProviderFiles
from config.unknown_settings import unknown_settings

_NAME = re.compile(r"[a-z][A-Za-z0-9_.-]*[A-Za-z0-9]")
Refusals = Callable[[BrokerSettings], Iterable[ConfigError]]


@dataclass(frozen=True, slots=True)
class Problem:
    """`settings` are the names that it is about; a start goes on after one that is no error, with a warning or without."""

    settings: tuple[str, ...]
    reason: str
    is_error: bool = True


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of a start, strongest last; `environment` are all variables."""

    properties: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    overrides: Mapping[str, str] = field(default_factory=dict)


def find_problems(sources: Sources, files: ProviderFiles, refusals: Refusals) -> list[Problem]:
    """Return the problems, errors first. `refusals` yields what a start with valid settings would refuse further on."""
    try:
        given, provided = BrokerSettings.resolved(sources.properties, sources.environment, sources.overrides, files)
    except ConfigError as error:
        return [Problem(_named(str(error), sources.properties), error.line)]
    wrong = {name: reason for name in given if (reason := _wrong_value(name, given[name], provided)) is not None}
    settings = BrokerSettings({name: text for name, text in given.items() if name not in wrong})
    found = [Problem((name,), reason) for name, reason in wrong.items()]
    if not wrong:
        refused = list(settings.contradictions()) or refusals(settings)
        found += [Problem(_named(str(error), given), provided.hide(error.line)) for error in refused]
    found += _unknown(settings, sources)
    refused_names = {name for problem in found for name in problem.settings}
    found += [problem for problem in _without_effect(settings) if refused_names.isdisjoint(problem.settings)]
    found += [Problem(_named(text, given), text, is_error=False) for text in provided.unresolved]
    return sorted(found, key=lambda problem: not problem.is_error)


def _wrong_value(name: str, text: str, provided: Provided) -> str | None:
    row = BrokerSettings.definitions.get(base_name(name))
    if row is None:
        return None
    try:
        row.parse(text)
    except ConfigError as error:
        references = provided.references.get(name)
        if not references:
            return error.line.replace(f"configuration {row.name}", f"configuration {name}")
        reason = f"Invalid value for configuration {name}, given by {', '.join(references)}, not shown"
        return ConfigError(reason, valid=error.valid).line
    return None


def _unknown(settings: BrokerSettings, sources: Sources) -> Iterator[Problem]:
    """Yield unknown names. Those of the environment are no errors: other programs have variables with this prefix, too."""
    for unknown in unknown_settings(settings):
        is_error = unknown.name in sources.properties or unknown.name in sources.overrides
        yield Problem((unknown.name,), str(unknown), is_error)


def _without_effect(settings: BrokerSettings) -> Iterator[Problem]:
    for name in settings.without_effect:
        yield Problem((name,), f"{name} is accepted and has no effect in this broker", is_error=False)


def _named(text: str, given: Iterable[str]) -> tuple[str, ...]:
    """Return the settings that a message names, of those that were given, in its order."""
    names = set(given)
    return tuple(dict.fromkeys(name for name in _NAME.findall(text) if name in names))
