"""Watch events come before every reply that shows the change."""

from __future__ import annotations

from collections.abc import Callable


class WatchChecker:
    """Of one client. A change of a node is told by the zxid that its data had (None: no node)."""

    def __init__(self, report: Callable[[str], None], name: str) -> None:
        self._report = report
        self._name = name
        self._set: dict[str, int | None] = {}

    def was_set(self, path: str, mzxid: int | None) -> None:
        """With a reply that showed this."""
        self._set.setdefault(path, mzxid)

    def fired(self, path: str) -> None:
        self._set.pop(path, None)

    def replied(self, path: str, mzxid: int | None) -> None:
        """A reply shows the node, after all events that came before it."""
        if path in self._set and self._set[path] != mzxid:
            self._report(
                f"{self._name} was shown {path} of {mzxid}, and its watch of {self._set[path]} has told nothing"
            )

    def forget(self) -> None:
        """The session is over, and its watches with it."""
        self._set.clear()
