"""What may be meant by an unknown name: a similar one of those that are known. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping


def similar_name(name: str, known: Iterable[str], elsewhere: Mapping[str, str]) -> str:
    """Return a question for the known name that is most like `name`; empty if none is. `elsewhere` are the names that known
    ones have elsewhere, each with the known one."""
    nearest = difflib.get_close_matches(name.lower(), dict.fromkeys((*known, *elsewhere)), n=1)
    return f"did you mean {elsewhere.get(nearest[0], nearest[0])}?" if nearest else ""
