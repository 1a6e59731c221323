"""The cases, one module an API, or for a few APIs that are one subject."""

from __future__ import annotations

import importlib
import pkgutil


def load_all() -> None:
    """Import every module here, which declares its cases."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
