"""Loads server packages under the private name `barnabas._private`, so that `barnabas.spark` and `barnabas.retry` can use them
in other people's processes.

The server's packages have short names (`protocol`, `storage`, `config`) that users' modules have, too. Here they are loaded
as `barnabas._private.protocol` and so on, from the folder of the installed wheel (`barnabas/_server/`) or of a checkout.
Modules loaded this way have a `__builtins__` of their own whose `__import__` maps the server's names to the private ones;
the modules of these two are loaded the same way, so they import server code by its plain name.

Rules: standard library only; nothing is loaded before it is imported. Pickles name the classes by the private names, which any
process that has imported one of the two resolves.
Invariant: no name of a server package enters `sys.modules`, and no folder enters `sys.path`.
"""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

PACKAGES = frozenset({"client", "config", "protocol", "runtime", "security", "storage"})
"""What is loaded under the private name."""
PRIVATE = "barnabas._private"
_MAPPED = ("barnabas.spark.", "barnabas.retry.")
"""The modules that import server code by its plain name."""


def server_folder() -> str:
    """The folder of the server's packages: inside the installed package, or the root of a checkout."""
    here = os.path.dirname(os.path.abspath(__file__))
    installed = os.path.join(here, "_server")
    return installed if os.path.isdir(installed) else os.path.dirname(here)


def _import(
    name: str,
    globals: Mapping[str, object] | None = None,  # noqa: A002  the names of `builtins.__import__`
    locals: Mapping[str, object] | None = None,  # noqa: A002
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    top = name.partition(".")[0]
    if level or top not in PACKAGES:
        return builtins.__import__(name, globals, locals, fromlist or (), level)
    private = f"{PRIVATE}.{name}"
    module = builtins.__import__(private, globals, locals, fromlist or (), 0)
    return module if fromlist else sys.modules[f"{PRIVATE}.{top}"]


_BUILTINS = {**vars(builtins), "__import__": _import}


class _Loader(SourceFileLoader):
    """Runs a module's code with the mapped `__import__`."""

    def exec_module(self, module: ModuleType) -> None:
        code = self.get_code(module.__name__)
        assert code is not None, "a source file has code"
        vars(module)["__builtins__"] = _BUILTINS
        exec(code, vars(module))  # noqa: S102  what every loader of Python does


class _Finder(MetaPathFinder):
    """Finds the modules below `barnabas._private`, and those that are mapped to them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == PRIVATE:
            package = ModuleSpec(PRIVATE, None, is_package=True)
            package.submodule_search_locations = [server_folder()]
            return package
        if fullname.startswith(f"{PRIVATE}."):
            if fullname.split(".")[2] not in PACKAGES:  # the path below has it, but it is not for users' processes
                raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        elif not fullname.startswith(_MAPPED):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def install() -> None:
    """Make the private names importable. Repeated calls change nothing."""
    if not any(type(finder).__name__ == "_Finder" and type(finder).__module__ == __name__ for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
