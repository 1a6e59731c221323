"""Answers that cost the brokers much, kept for some seconds: many open pages of one user ask the brokers once.

Rules: one question at a time for each key; who asks meanwhile gets its answer. An answer that failed is kept for nobody else.
Who goes away does not end a question that others wait for. Bounded: LIMIT keys, the oldest goes first. After a change of the
user nothing from before it is given: `forget`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from runtime.tasks import TaskScope

if TYPE_CHECKING:
    from runtime.clock import Clock

T = TypeVar("T")
LIMIT: Final = 100


class RecentAnswers:
    """The answers of one user, who closes it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks = TaskScope("answers")
        self._kept: dict[Hashable, tuple[asyncio.Future[Any], int]] = {}

    async def close(self) -> None:
        await self._tasks.close()

    def forget(self) -> None:
        """Let the next questions be asked anew; who waits for an answer gets it."""
        self._kept.clear()

    async def get(self, key: Hashable, max_age_ms: int, ask: Callable[[], Awaitable[T]]) -> T:
        """Return the answer that is at most so old, or ask. Raises what `ask` raises."""
        found = self._kept.get(key)
        if found is None or found[1] + max_age_ms <= self._clock.monotonic_ms():
            answer = asyncio.get_running_loop().create_future()
            found = self._kept[key] = answer, self._clock.monotonic_ms()
            if len(self._kept) > LIMIT:
                del self._kept[next(iter(self._kept))]
            self._tasks.spawn(self._answer(key, answer, ask), name=f"{key}")
        value: T = await asyncio.shield(found[0])
        return value

    async def _answer(self, key: Hashable, answer: asyncio.Future[T], ask: Callable[[], Awaitable[T]]) -> None:
        try:
            value = await ask()
        except Exception as error:  # noqa: BLE001  whoever asked gets it
            answer.set_exception(error)
            answer.exception()  # nobody may wait any more
            if self._is_kept(key, answer):
                del self._kept[key]
        except BaseException:
            answer.cancel()
            raise
        else:
            answer.set_result(value)
            if self._is_kept(key, answer):
                self._kept[key] = answer, self._clock.monotonic_ms()

    def _is_kept(self, key: Hashable, answer: asyncio.Future[T]) -> bool:
        return self._kept.get(key, (None,))[0] is answer
