"""Nodes that one client writes: what was acknowledged is read back, by whoever reads, and nothing that was not written is.

Rules: every value is written once. A write without an answer was carried out or not; who reads what came of it knows from then
on. Only the writer reads its nodes while one of its writes is under way.
"""

from __future__ import annotations

from collections.abc import Callable

MISSING = b""
"""Stands for a node that is not there."""


class RegisterChecker:
    """Used over any store: it knows what clients know, and nothing else."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._possible: dict[str, list[bytes]] = {}

    def paths(self) -> list[str]:
        return list(self._possible)

    def writing(self, path: str, value: bytes) -> None:
        """It is sent. Of several that are under way, in this order."""
        self._possible.setdefault(path, [MISSING]).append(value)

    def acknowledged(self, path: str, value: bytes) -> None:
        possible = self._possible[path]
        if value in possible:
            del possible[: possible.index(value)]

    def refused(self, path: str, value: bytes) -> None:
        """It was certainly not carried out."""
        self._possible[path].remove(value)

    def read(self, path: str, value: bytes, reader: str) -> None:
        """No write is under way."""
        possible = self._possible.get(path, [MISSING])
        if value not in possible:
            self._report(f"{reader} reads {value!r} in {path}, which may be {possible}")
        elif path in self._possible:
            self._possible[path] = [value]
