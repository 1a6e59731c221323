"""Several values in one field of a log line: `1,2,3`, `NONE:5`. Pure.

Rules: a field that has no values is `-`, so that no field is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def listed(values: Iterable[object]) -> str:
    """Return `1,2,3`, or `-`."""
    return ",".join(map(str, values)) or "-"


def counted(counts: Mapping[Any, int]) -> str:
    """Return `NONE:5,FENCED_LEADER_EPOCH:1`, or `-`."""
    return ",".join(f"{key}:{count}" for key, count in counts.items()) or "-"
