"""A client whose calls are watched while they wait."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar, cast

T = TypeVar("T")


def told_client(client: T, waiting: Callable[[], AbstractContextManager[None]]) -> T:
    """Return the client with methods that are called inside `waiting()`; whoever has it cannot tell the two apart."""
    return cast("T", _Told(client, waiting))


class _Told:
    def __init__(self, client: object, waiting: Callable[[], AbstractContextManager[None]]) -> None:
        self._client = client
        self._waiting = waiting

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if not callable(found):
            return found

        @functools.wraps(found)
        def call(*arguments: Any, **options: Any) -> Any:
            with self._waiting():
                return found(*arguments, **options)

        return call
