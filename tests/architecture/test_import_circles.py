"""No circle of imports in the product: of two modules at most one knows the other. Imports for types (TYPE_CHECKING) count."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set

from tests.architecture.test_imports import sources, syntax_of
from tests.architecture.test_log_lines import ROOT


def imported(syntax: ast.Module) -> Iterator[str]:
    """Yield the names that a module's imports may mean: modules, and names in modules."""
    for node in ast.walk(syntax):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imports_of_the_product() -> dict[str, Set[str]]:
    """Return the modules that each module of the product imports."""
    paths = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sources()
        if path.relative_to(ROOT).parts[0] != "tests"
    }
    return {module: (set(imported(syntax_of(path))) & paths.keys()) - {module} for module, path in paths.items()}


def circles(imports: Mapping[str, Set[str]]) -> set[frozenset[str]]:
    """Return the groups of modules that reach each other."""

    def reached_from(module: str) -> set[str]:
        reached: set[str] = set()
        following = [module]
        while following:
            new = imports[following.pop()] - reached
            reached |= new
            following += new
        return reached

    reach = {module: reached_from(module) for module in imports}
    return {
        frozenset(other for other in reached if module in reach[other])
        for module, reached in reach.items()
        if module in reached
    }


def test_no_module_is_in_a_circle() -> None:
    assert [sorted(circle) for circle in circles(imports_of_the_product())] == []


def test_imports_for_types_count() -> None:
    syntax = ast.parse("import a.b\nif TYPE_CHECKING:\n    from c.d import E\ndef f():\n    from g import h\n")
    assert set(imported(syntax)) == {"a.b", "c.d", "c.d.E", "g", "g.h"}
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == {frozenset("bc")}
