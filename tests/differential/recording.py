"""The recorded answers: one JSON file an API, versions with equal answers joined."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.differential.play import Case, grouped, ungrouped

FOLDER = Path(__file__).resolve().parent / "recorded"
NEWER = {"kafka": "kafka43", "barnabas": "barnabas43"}
"""The folders of the answers to cases that Apache Kafka 4.3.0 decides."""


def path_of(api_name: str, whose: str = "kafka") -> Path:
    return FOLDER / whose / f"{api_name}.json"


def load(api_name: str, whose: str = "kafka") -> dict[str, Any]:
    """The cases of a file by name; empty when it is not there."""
    path = path_of(api_name, whose)
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def answers_of(case: Case, whose: str = "kafka") -> dict[int, list[Any]]:
    entry = load(case.api.api_name, whose).get(case.name)
    return ungrouped(entry["answers"]) if entry else {}


def save(api_name: str, played: dict[str, dict[int, list[Any]]], kinds: dict[str, str], whose: str = "kafka") -> None:
    entries = {name: {"kind": kinds[name], "answers": grouped(played[name])} for name in sorted(played)}
    path = path_of(api_name, whose)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dump(entries) + "\n", encoding="utf-8")


def dump(value: Any, indent: int = 0, width: int = 150) -> str:
    """JSON with whatever fits on one line kept there."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + indent <= width or not isinstance(value, (dict, list)):
        return flat
    inner = " " * (indent + 1)
    if isinstance(value, dict):
        lines = [f"{inner}{json.dumps(key)}: {dump(item, indent + 1, width)}" for key, item in value.items()]
        return "{\n" + ",\n".join(lines) + "\n" + " " * indent + "}"
    return "[\n" + ",\n".join(inner + dump(item, indent + 1, width) for item in value) + "\n" + " " * indent + "]"
