"""The only module that creates tasks. Each has a name and an owner, and every failure is reported.

Rules: `TaskScope.spawn` instead of `asyncio.create_task`. A scope holds its tasks strongly, logs an exception once with
its traceback and hands it to `on_failure`; what to do then (restart, stop the broker) is the owner's decision.
Invariants: after `close` no task of the scope runs; a closed scope accepts no task. Cancellation is no failure.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

logger = logging.getLogger(__name__)

FailureHook = Callable[[str, BaseException], None]


class TaskScope:
    """The tasks of one owner, which closes it."""

    def __init__(self, name: str, on_failure: FailureHook | None = None) -> None:
        self._name = name
        self._on_failure = on_failure
        self._tasks: dict[asyncio.Task[Any], None] = {}  # ordered, so that a simulation repeats
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._tasks)

    async def __aenter__(self) -> TaskScope:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def spawn(self, coroutine: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Start `coroutine`; its failure is reported even if the task is awaited."""
        if self._is_closed:
            coroutine.close()
            raise RuntimeError(f"task scope {self._name} is closed: {name} was not started")
        task = asyncio.get_running_loop().create_task(coroutine, name=f"{self._name}: {name}")
        self._tasks[task] = None
        task.add_done_callback(self._done)
        return task

    async def close(self) -> None:
        """Cancel everything and wait until it has ended. Called from one of its own tasks, it does not cancel that one."""
        self._is_closed = True
        current = asyncio.current_task()
        while tasks := [task for task in self._tasks if task is not current]:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            return
        logger.error("task failed: task=%s", task.get_name(), exc_info=error)
        if self._on_failure is not None:
            self._on_failure(task.get_name(), error)
