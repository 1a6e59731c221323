"""`barnabas settings`: prints every setting with the value that a start with the same sources would use.

Rules: printing only. Three lines a setting, for reading and for grep: name and value, what it is for, its type with the range,
and the default where the value is another. Secrets are not shown.
"""

from __future__ import annotations

from broker.commands.output import print_problem, print_result
from config.broker import BrokerSettings
from config.definition import Setting
from config.document import valid_words
from config.errors import HIDDEN


def run(settings: BrokerSettings, *, all_of_them: bool) -> int:
    """Print the settings. `all_of_them`: also those without effect, of which otherwise only the names are printed."""
    for warning in (*settings.unknown, *settings.provided.unresolved):
        print_problem(f"barnabas: {warning}")
    rows = sorted(settings.definitions.values(), key=lambda row: row.name)
    for row in rows:
        if all_of_them or row.effective:
            references = settings.provided.references.get(row.name, ())
            mark = f" (from {', '.join(references)})" if references else ""
            mark += "" if row.effective else " (no effect)"
            print_result(
                f"{row.name} = {_shown(row, settings.value(row.name))}{mark}\n    {row.doc}\n    {_kind(row, settings)}"
            )
    if not all_of_them:
        names = "".join(f"\n    {row.name}" for row in rows if not row.effective)
        print_result(f"\nAccepted, without effect:{names}")
    return 0


def _kind(row: Setting, settings: BrokerSettings) -> str:
    kind = ", ".join(filter(None, (row.type.name.lower(), valid_words(row))))
    is_default = settings.value(row.name) == row.default
    return kind if is_default else f"{kind}; default {_shown(row, row.default)}"


def _shown(row: Setting, value: object) -> str:
    if value is None:
        return "null"
    return HIDDEN if row.is_sensitive else row.format(value) or ""
