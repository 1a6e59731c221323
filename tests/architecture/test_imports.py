"""Every name that a module of this repository imports from another one exists, also where no test and not mypy reads it."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.test_log_lines import PACKAGES, ROOT

ROOTS = (*PACKAGES, "barnabas", "benchmarks", "pipelines", "tests")


def sources() -> Iterator[Path]:
    for package in ROOTS:
        yield from sorted((ROOT / package).rglob("*.py"))


@functools.cache
def syntax_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def source_of(module: str) -> Path | None:
    """The file of a module or package; None when there is none."""
    path = ROOT.joinpath(*module.split("."))
    for each in (path.with_suffix(".py"), path / "__init__.py"):
        if each.is_file():
            return each
    return None


@functools.cache
def names_of(path: Path) -> frozenset[str]:
    """The names that a module binds, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(syntax_of(path)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found.update(alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return frozenset(found)


def problems_of(path: Path) -> Iterator[str]:
    for node in ast.walk(syntax_of(path)):
        if not isinstance(node, ast.ImportFrom) or node.level or node.module is None:
            continue
        if node.module.partition(".")[0] not in ROOTS or node.module.startswith("barnabas._"):
            continue
        source = source_of(node.module)
        is_folder = ROOT.joinpath(*node.module.split(".")).is_dir()
        for name in (alias.name for alias in node.names):
            if source is not None and (name in names_of(source) or "__getattr__" in names_of(source)):
                continue
            if not (is_folder and source_of(f"{node.module}.{name}") is not None):
                yield f"{path}:{node.lineno}: {node.module}.{name}"


def test_every_name_that_is_imported_exists() -> None:
    assert [problem for path in sources() for problem in problems_of(path)] == []


def test_a_name_that_does_not_exist_is_found(tmp_path: Path) -> None:
    source = tmp_path / "user.py"
    source.write_text(
        "from runtime.clock import Clock, Sundial\nfrom runtime.sundial import Clock\nfrom runtime import clock\n"
    )
    assert [problem.partition("user.py:")[2] for problem in problems_of(source)] == [
        "1: runtime.clock.Sundial",
        "2: runtime.sundial.Clock",
    ]
