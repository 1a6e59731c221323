"""`barnabas settings`: prints settings with the values that a start with the same sources would use, or checks a file.

Rules: printing only; `broker.commands.settings_check` looks for problems. Three lines a setting, for reading and for grep: name
and value, what it is for, its type with the range, and the default where the value is another. Secrets are not shown. Exit
codes: 0, 1 when a check has found errors or no setting has the words, 2 for invalid arguments and settings.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Sequence
from typing import Any

from broker.commands.output import print_problem, print_result
from broker.commands.settings_options import PROPERTIES_SUFFIX, settings_of
from config.broker import BrokerSettings
from config.definition import Setting
from config.document import valid_words
from config.errors import HIDDEN, ConfigError
from config.unknown_settings import broker_setting_hint, unknown_settings
from runtime.suggestions import did_you_mean

_EXIT_FAILED, _EXIT_USAGE = 1, 2


def run(options: argparse.Namespace) -> int:
    """Run the command, and return the exit code. Raises OutputError."""
    try:
        if options.check is not None:
            if options.words or options.all:
                raise ConfigError("--check takes one file, and no other words")
            from broker.commands import settings_check  # noqa: PLC0415  it reads certificates; a list needs none of that

            return settings_check.run(options.check, options.override, os.environ, as_json=options.json)
        path, words = _file_and_words(options.words)
        settings = settings_of(path, options.override, os.environ)
    except ConfigError as error:
        print_problem(f"barnabas: {error.line}")
        return _EXIT_USAGE
    for warning in (*unknown_settings(settings), *settings.provided.unresolved):
        print_problem(f"barnabas: {warning}")
    rows = sorted(settings.definitions.values(), key=lambda row: row.name)
    chosen = [row for row in rows if all(word.lower() in row.name for word in words)]
    if not chosen:
        return _nothing_found(words, rows)
    shown = [row for row in chosen if options.all or words or row.effective]
    if options.json:
        print_result(json.dumps([_facts(row, settings) for row in shown], indent=2))
        return 0
    for row in shown:
        _show(row, settings)
    if len(shown) < len(chosen):
        names = "".join(f"\n    {row.name}" for row in chosen if not row.effective)
        print_result(f"\nAccepted, without effect:{names}")
    return 0


def _file_and_words(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """Raises ConfigError."""
    files = [one for one in arguments if os.sep in one or one.endswith(PROPERTIES_SUFFIX) or os.path.isfile(one)]
    if len(files) > 1:
        raise ConfigError(f"there is one properties file, not {' and '.join(files)}")
    return next(iter(files), None), [one for one in arguments if one not in files]


def _nothing_found(words: Sequence[str], rows: Iterable[Setting]) -> int:
    parts = {part for row in rows for part in row.name.split(".")}
    hints = (broker_setting_hint(word) if "." in word else did_you_mean(word, parts) for word in words)
    print_problem(f"barnabas: no setting has {' and '.join(words)} in its name{next(filter(None, hints), '')}")
    return _EXIT_FAILED


def _show(row: Setting, settings: BrokerSettings) -> None:
    references = settings.provided.references.get(row.name, ())
    mark = f" (from {', '.join(references)})" if references else ""
    mark += "" if row.effective else " (no effect)"
    print_result(
        f"{row.name} = {_shown(row, settings.value(row.name))}{mark}\n    {row.doc}\n    {_kind(row, settings)}"
    )


def _kind(row: Setting, settings: BrokerSettings) -> str:
    kind = ", ".join(filter(None, (row.type.name.lower(), valid_words(row))))
    is_default = settings.value(row.name) == row.default
    return kind if is_default else f"{kind}; default {_shown(row, row.default)}"


def _shown(row: Setting, value: object) -> str:
    if value is None:
        return "null"
    return HIDDEN if row.is_sensitive else row.format(value) or ""


def _facts(row: Setting, settings: BrokerSettings) -> dict[str, Any]:
    value = settings.value(row.name)
    return {
        "name": row.name,
        "value": None if value is None else _shown(row, value),
        "default": None if row.default is None else _shown(row, row.default),
        "is_given": row.name in settings.given,
        "from": list(settings.provided.references.get(row.name, ())),
        "type": row.type.name.lower(),
        "valid": valid_words(row),
        "update": row.update.value,
        "has_effect": row.effective,
        "doc": row.doc,
    }
