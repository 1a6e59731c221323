"""The cases that Apache Kafka 4.3.0 decides, one module a subject: what only clients of newer releases ask for."""

from __future__ import annotations

import importlib
import pkgutil


def load_all() -> None:
    """Import every module here, which declares its cases."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
