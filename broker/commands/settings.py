"""`barnabas settings`: prints settings with the values that a start with the same sources would use, or checks a file.

Rules: printing only; `broker.commands.settings_check` looks for problems. Three lines a setting, for reading and for grep: name
and value, what it is for, its type with the range, and the default where the value is another. Secrets are not shown. Exit
codes: 0, 1 when a check has found errors or no setting has the words, 2 for invalid arguments and settings.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from typing import Any

import click

from broker.commands.settings_sources import PROPERTIES_SUFFIX, SOURCES, override_option, settings_of
from config.broker import BrokerSettings
from config.companion import COMPANIONS
from config.definition import Setting, SettingTable
from config.document import valid_words
from config.errors import HIDDEN, ConfigError
from config.unknown_settings import broker_setting_hint, unknown_settings
from runtime.command_line.failure import Failure, InvalidUse
from runtime.command_line.output import print_problem, print_result
from runtime.suggestions import did_you_mean


@click.command("settings", epilog=SOURCES)
@click.argument("words", nargs=-1, metavar="[FILE|WORD]...")
@override_option
@click.option("--all", "with_all", is_flag=True, help="list the settings without effect, too")
@click.option("--check", metavar="FILE", type=click.Path(),
              help="print everything that is wrong with a server.properties file, and end with 1 if a broker would not start "
                   "with it or a name is unknown")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def command(words: tuple[str, ...], override: tuple[str, ...], with_all: bool, check: str | None, as_json: bool) -> int:
    """List settings with the values that a broker would start with, or check a file.

    FILE is a server.properties file, with a / in its name or .properties at its end. Any other WORD selects the settings with
    it in their names, also those without effect.
    """
    try:
        if check is not None:
            if words or with_all:
                raise ConfigError("--check takes one file, and no other words")
            from broker.commands import settings_check  # noqa: PLC0415  it reads certificates; a list needs none of that

            return settings_check.run(check, override, os.environ, as_json=as_json)
        path, others = _file_and_words(words)
        settings = settings_of(path, override, os.environ)
        tables = [settings, *(each.table(each.among(settings.given)) for each in COMPANIONS)]
    except ConfigError as error:
        raise InvalidUse(error.line) from None
    for warning in (*unknown_settings(settings), *settings.provided.unresolved):
        print_problem(f"barnabas: {warning}")
    rows = _rows(tables)
    chosen = [row for row in rows if all(word.lower() in row.name for word in others)]
    if not chosen:
        raise _nothing_found(others, rows)
    shown = [row for row in chosen if with_all or others or _has_effect(row)]
    if as_json:
        print_result(json.dumps([_facts(row, settings, tables) for row in shown], indent=2))
        return 0
    for row in shown:
        _show(row, settings, tables)
    if len(shown) < len(chosen):
        names = "".join(f"\n    {row.name}" for row in chosen if not _has_effect(row))
        print_result(f"\nAccepted, without effect:{names}")
    return 0


def _file_and_words(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """Raises ConfigError."""
    files = [one for one in arguments if os.sep in one or one.endswith(PROPERTIES_SUFFIX) or os.path.isfile(one)]
    if len(files) > 1:
        raise ConfigError(f"there is one properties file, not {' and '.join(files)}")
    return next(iter(files), None), [one for one in arguments if one not in files]


def _nothing_found(words: Sequence[str], rows: Iterable[Setting]) -> Failure:
    parts = {part for row in rows for part in row.name.split(".")}
    hints = (broker_setting_hint(word) if "." in word else did_you_mean(word, parts) for word in words)
    return Failure(f"no setting has {' and '.join(words)} in its name{next(filter(None, hints), '')}")


def _has_effect(row: Setting) -> bool:
    return row.effective or any(row.name in each.table.definitions for each in COMPANIONS)


def _rows(tables: Iterable[SettingTable]) -> list[Setting]:
    """Return the rows of all, in the order of their names; of rows with one name that of the first table."""
    found: dict[str, Setting] = {}
    for table in tables:
        found = {**table.definitions, **found}
    return sorted(found.values(), key=lambda row: row.name)


def _value(row: Setting, tables: Iterable[SettingTable]) -> object:
    return next(table.value(row.name) for table in tables if row.name in table.definitions)


def _show(row: Setting, settings: BrokerSettings, tables: Iterable[SettingTable]) -> None:
    references = settings.provided.references.get(row.name, ())
    mark = f" (from {', '.join(references)})" if references else ""
    mark += "" if _has_effect(row) else " (no effect)"
    value = _value(row, tables)
    print_result(f"{row.name} = {_shown(row, value)}{mark}\n    {row.doc}\n    {_kind(row, value)}")


def _kind(row: Setting, value: object) -> str:
    kind = ", ".join(filter(None, (row.type.name.lower(), valid_words(row))))
    return kind if value == row.default else f"{kind}; default {_shown(row, row.default)}"


def _shown(row: Setting, value: object) -> str:
    if value is None:
        return "null"
    return HIDDEN if row.is_sensitive else row.format(value) or ""


def _facts(row: Setting, settings: BrokerSettings, tables: Iterable[SettingTable]) -> dict[str, Any]:
    value = _value(row, tables)
    return {
        "name": row.name,
        "value": None if value is None else _shown(row, value),
        "default": None if row.default is None else _shown(row, row.default),
        "is_given": row.name in settings.given,
        "from": list(settings.provided.references.get(row.name, ())),
        "type": row.type.name.lower(),
        "valid": valid_words(row),
        "update": row.update.value,
        "has_effect": _has_effect(row),
        "doc": row.doc,
    }
