"""The queue of a tree whose file is in memory: what it is given runs at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class InlineQueue:
    """What a tree needs of a disk queue."""

    async def run(self, job: Callable[[], T]) -> T:
        return job()

    async def drain(self) -> None:
        """Nothing waits."""

    async def close(self) -> None:
        """Nothing runs."""

    def write(self, *_: Any) -> None:
        raise AssertionError("a tree commits by `run`")

    write_now = write
