"""CRC-32C, the checksum of record batches: the C function of the package `crc32c`, loaded without the package.

The package's `__init__` has a command line and reads its version from the installed metadata, for which Python loads
argparse, email, csv, zipfile: 2 MB that no broker uses, and 25 ms of its start. So only the extension module is loaded.
Rule: if a release has its extension elsewhere, the package is imported as usual.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from typing import Protocol

from protocol.primitives import Buffer

_EXTENSION = "crc32c._crc32c"


class Checksum(Protocol):
    def __call__(self, data: Buffer, value: int = 0, /) -> int: ...


def _extension() -> ModuleSpec | None:
    package = PathFinder.find_spec("crc32c")
    return None if package is None else PathFinder.find_spec(_EXTENSION, package.submodule_search_locations)


def _c_function(spec: ModuleSpec | None) -> Checksum:
    if spec is None or spec.loader is None:
        from crc32c import crc32c as packaged  # noqa: PLC0415  only where there is no other way

        return packaged
    extension = sys.modules.get(_EXTENSION)
    if extension is None:
        extension = sys.modules[_EXTENSION] = module_from_spec(spec)
        spec.loader.exec_module(extension)
    return extension.crc32c  # type: ignore[no-any-return]


crc32c = _c_function(_extension())
"""Returns the checksum of `data`, continued from `value`, the checksum of the preceding data."""
