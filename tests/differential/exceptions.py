"""The exceptions that docs/differences.md lists, read from its tables."""

from __future__ import annotations

import re
from pathlib import Path

from tests.differential.normal import FreeTexts

DOCUMENT = Path(__file__).resolve().parent.parent.parent / "docs" / "differences.md"

NEWER_ANSWERS = "Answers beside Apache Kafka 4.3.0"
"""The heading of the table of cases that 4.3.0 decides and this broker answers in its own way."""


def tables() -> dict[str, list[dict[str, str]]]:
    """The rows of each table by the heading above it, as column -> text."""
    found: dict[str, list[dict[str, str]]] = {}
    heading = ""
    columns: list[str] = []
    for line in DOCUMENT.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            heading, columns = line.lstrip("# "), []
        elif line.startswith("|"):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if not columns:
                columns = cells
            elif not set(cells[0]) <= set("-: "):
                found.setdefault(heading, []).append(dict(zip(columns, cells, strict=True)))
        else:
            columns = []
    return found


def differing_cases(heading: str = "Answers") -> dict[str, str]:
    """Case id -> reason, for the cases that this broker answers in its own way."""
    return {row["Case"].strip("`"): row["Reason"] for row in tables().get(heading, [])}


def unreached_errors() -> dict[tuple[str, str], str]:
    """(API, error code) -> reason, for codes that no case brings about. The API `*` stands for every one."""
    return {
        (api.strip(), error.strip("` ")): row["Reason"]
        for row in tables().get("Error codes that no case brings about", [])
        for api in row["API"].split(",")
        for error in row["Error"].split(",")
    }


def differing_answers() -> dict[tuple[str, str], str]:
    """(scenario, what is asked) -> reason, for the answers that a cluster of ours gives in its own way."""
    return {
        (row["Scenario"].strip("`"), row["Asked"].strip("`")): row["Reason"]
        for row in tables().get("Answers of a cluster", [])
    }


def text_rows(api_name: str) -> list[dict[str, str]]:
    """The rows of error messages that differ, of one API."""
    return [row for row in tables().get("Error messages", []) if row["API"] == api_name]


def is_text(pattern: str, text: str | None) -> bool:
    """Whether a text is that of a row: `none`, `empty`, or the words in backquotes, in which `*` stands for anything."""
    if pattern == "none":
        return text is None
    if pattern == "empty":
        return text == ""
    words = map(re.escape, pattern.strip("`").split("*"))
    return text is not None and re.fullmatch(".*".join(words), text) is not None


def free_texts(*api_names: str) -> FreeTexts:
    """The error messages of the named APIs that may differ, by docs/differences.md."""
    rows = [row for api_name in api_names for row in text_rows(api_name)]

    def is_free(expected: str | None, actual: str | None) -> bool:
        return any(is_text(row["Apache Kafka 3.9.1"], expected) and is_text(row["Barnabas"], actual) for row in rows)

    return is_free
