"""Which of the names that there are is meant by one that there is not. Pure."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the name that is most like `name`; None where none is like it."""
    import difflib  # noqa: PLC0415  a broker that starts needs none

    return next(iter(difflib.get_close_matches(name, list(names), n=1)), None)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return `: did you mean X?`, which follows the message about `name`; nothing where no name is like it."""
    found = nearest(name, names)
    return "" if found is None else f": did you mean {found}?"
