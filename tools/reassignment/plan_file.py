"""A plan: which replicas partitions shall have, and in which log directories, as the JSON of kafka-reassign-partitions.sh. Pure
but for reading and writing the file.

    {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "/data/2"]}]}

Invariant: a plan that was read names each partition once, each of its replicas once, and a directory for each or for none.
Source: Kafka ReassignPartitionsCommand; KIP-113.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runtime.command_line.failure import Failure
from runtime.command_line.parsing import is_text
from tools.balance.layout import Key

ANY_DIRECTORY = "any"
_FORM = '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2]}]}'


@dataclass(frozen=True, slots=True)
class Target:
    """What a partition shall have. `log_dirs` has a path or "any" for each replica, or nothing."""

    replicas: tuple[int, ...]
    log_dirs: tuple[str, ...] = ()

    @property
    def directories(self) -> dict[int, str]:
        """Return the directory by broker, where one is named."""
        return {
            broker: path for broker, path in zip(self.replicas, self.log_dirs, strict=False) if path != ANY_DIRECTORY
        }


Plan = dict[Key, Target]


def plan_of(replicas: Mapping[Key, list[int] | tuple[int, ...]]) -> Plan:
    return {key: Target(tuple(each)) for key, each in replicas.items()}


def plan_text(plan: Plan) -> str:
    return json.dumps({"version": 1, "partitions": [_row(key, target) for key, target in sorted(plan.items())]})


def write_plan(path: str, plan: Plan) -> None:
    """Raises Failure."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(plan_text(plan) + "\n")
    except OSError as error:
        raise Failure(f"cannot write {path}: {error.strerror}") from error


def read_plan(path: str) -> Plan:
    """Raises Failure, which says what is wrong with the plan."""
    try:
        with open(path, encoding="utf-8") as file:
            return parse_plan(file.read())
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise Failure(f"{path} is no plan: {error}") from error


def parse_plan(text: str) -> Plan:
    """Raises ValueError."""
    try:
        document = json.loads(text)
    except ValueError:
        raise ValueError(f"it is not the JSON {_FORM}") from None
    rows = document.get("partitions") if isinstance(document, dict) else None
    if not isinstance(rows, list):
        raise ValueError(f"it is not of the form {_FORM}")  # noqa: TRY004  whoever wrote the file is told, no caller
    if document.get("version", 1) != 1:
        raise ValueError(f"version {document['version']} is not known, only 1")
    plan: Plan = {}
    for row in rows:
        key, target = _parse_row(row)
        if key in plan:
            raise ValueError(f"{key[0]}-{key[1]} is there twice")
        plan[key] = target
    return plan


def _row(key: Key, target: Target) -> dict[str, Any]:
    row: dict[str, Any] = {"topic": key[0], "partition": key[1], "replicas": list(target.replicas)}
    return row | ({"log_dirs": list(target.log_dirs)} if target.log_dirs else {})


def _parse_row(row: Any) -> tuple[Key, Target]:
    """Raises ValueError."""
    try:
        key = (str(row["topic"]), int(row["partition"]))
        replicas = tuple(int(broker) for broker in row["replicas"])
        log_dirs = tuple(str(path) for path in row.get("log_dirs", ()))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ValueError(f"a row is not of the form {_FORM}") from None
    name = f"{key[0]}-{key[1]}"
    if not all(map(is_text, (key[0], *log_dirs))):
        raise ValueError(f"{name!a} is no name, or one of its log_dirs is none")
    if not replicas:
        raise ValueError(f"{name} has no replicas")
    if len(set(replicas)) < len(replicas):
        raise ValueError(f"{name} has two replicas on one broker")
    if log_dirs and len(log_dirs) != len(replicas):
        raise ValueError(f"{name} has {len(replicas)} replicas and {len(log_dirs)} log_dirs")
    return key, Target(replicas, log_dirs)
