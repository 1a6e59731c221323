"""Which paths a node may have. Pure. Source: ZooKeeper PathUtils."""

from __future__ import annotations

import re
from typing import Final

_WRONG_NAME: Final = re.compile(r"//|/\.\.?(?:/|\Z)|[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")


def is_path(path: str) -> bool:
    """Absolute, without a slash at the end, and every name has characters, is not `.` or `..`, and can be shown."""
    if path == "/":
        return True
    return path.startswith("/") and not path.endswith("/") and _WRONG_NAME.search(path) is None
