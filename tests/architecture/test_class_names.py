"""One name for one thing: no two classes of the server have the same name.

Messages are named by Kafka, which repeats names of nested types; they are compared with nothing."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.architecture.test_log_lines import PACKAGES, ROOT

WEB = "web"
"""A program of its own, whose models have the names that other people's interfaces give them."""


def test_no_two_classes_have_one_name() -> None:
    modules: dict[str, list[str]] = defaultdict(list)
    for package in (each for each in PACKAGES if each != WEB):
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.is_relative_to(ROOT / "protocol" / "messages"):
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    modules[node.name].append(str(path.relative_to(ROOT)))
    assert len(modules) > 500
    assert {name: where for name, where in modules.items() if len(where) > 1} == {}
