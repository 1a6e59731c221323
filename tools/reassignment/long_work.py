"""Work that takes minutes or hours, in which steps and waits alternate: what a shell is asked for. Pure.

    result = yield Carry(steps)        carry steps out; what they raise is raised here
    is_asked = yield Wait(seconds)     wait so long, or until somebody asks for the end; says whether somebody has

Rules: a shell carries work out to its end: what has begun puts the cluster in order itself when it is asked to end.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from client.admin.steps import Steps

T = TypeVar("T")


class Carry(NamedTuple):
    steps: Steps[Any]


class Wait(NamedTuple):
    """Where it `is_stoppable`, an end that somebody asks for ends the wait as well."""

    seconds: float
    is_stoppable: bool = True


Work = Generator[Carry | Wait, Any, T]


def carried(steps: Steps[T]) -> Work[T]:
    """Return the result of steps. Raises what they raise."""
    result: T = yield Carry(steps)
    return result


class Report(Protocol):
    """Who hears how far work has come."""

    def note(self, text: str) -> None:
        """A sentence about what has happened."""

    def show(self, copied_bytes: int, moving_count: int) -> None:
        """So much is copied, and so many partitions are moving now."""


@dataclass(slots=True)
class Outcomes:
    """What a shell sends into work next: a result, or an error in its place."""

    value: Any = None
    error: Exception | None = None

    def next_of(self, work: Work[Any]) -> Carry | Wait:
        """Raises StopIteration with the result of the work, and what it raises."""
        error, value = self.error, self.value
        self.error = self.value = None
        return work.send(value) if error is None else work.throw(error)
