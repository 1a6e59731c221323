"""One name for one thing: no two classes of a program have the same name.

The programs are two: the server with its client and its commands, and the web process, whose models have the names that
other people's interfaces give them. Messages are named by Kafka, which repeats names of nested types; they are compared with
nothing."""

from __future__ import annotations

import ast
from collections import defaultdict

import pytest

from tests.architecture.test_log_lines import PACKAGES, ROOT

WEB = ("web",)
SERVER = tuple(each for each in PACKAGES if each not in WEB)


@pytest.mark.parametrize(("packages", "least"), [(SERVER, 500), (WEB, 200)], ids=["server", "web"])
def test_no_two_classes_have_one_name(packages: tuple[str, ...], least: int) -> None:
    modules: dict[str, list[str]] = defaultdict(list)
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.is_relative_to(ROOT / "protocol" / "messages"):
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    modules[node.name].append(str(path.relative_to(ROOT)))
    assert len(modules) > least
    assert {name: where for name, where in modules.items() if len(where) > 1} == {}
