"""Bugs planted into the broker, each of which the histories must find: a simulation that cannot fail is none.

A mutant replaces a function of the broker for the time of a run. Most are mistakes that a broker of this kind has been
seen to make; `read-cold-forgets-growth` is one that these histories found in this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Patches:
    """What is replaced, so that it can be put back."""

    _originals: list[tuple[Any, str, Any]] = field(default_factory=list)

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """`make` gets the original, which may be inherited, and answers what stands in its place."""
        if isinstance(owner, type):
            owner = next(each for each in owner.__mro__ if name in each.__dict__)
        original = owner.__dict__[name]
        bare = original.__func__ if isinstance(original, classmethod | staticmethod) else original
        self._originals.append((owner, name, original))
        made = make(bare)
        setattr(owner, name, type(original)(made) if isinstance(original, classmethod | staticmethod) else made)

    def undo(self) -> None:
        for owner, name, original in reversed(self._originals):
            setattr(owner, name, original)


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    what: str
    plant: Callable[[Patches], None]

    @contextmanager
    def planted(self) -> Iterator[None]:
        patches = Patches()
        try:
            self.plant(patches)
            yield
        finally:
            patches.undo()
