"""Waiting for a change in the cluster image, or of the feature levels: admin requests respond when their change is visible.

Rules: one listener on what changes and one timer for each wait; both are removed at its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from metadata.features import CurrentLevels
from metadata.image import ClusterImage, MetadataCache

T = TypeVar("T")
Listen = Callable[[Callable[[T], None]], None]


async def wait_for_image(cache: MetadataCache, predicate: Callable[[ClusterImage], bool], timeout_ms: int) -> bool:
    """Return True as soon as `predicate` holds, False after `timeout_ms` without it."""
    if predicate(cache.image):
        return True
    return await _wait(predicate, cache.subscribe, cache.unsubscribe, timeout_ms)


async def wait_for_levels(levels: CurrentLevels, epoch: int, timeout_ms: int) -> bool:
    """Return True as soon as this broker knows the levels of `epoch`, False after `timeout_ms` without them."""
    if levels.epoch >= epoch:
        return True
    return await _wait(lambda _: levels.epoch >= epoch, levels.subscribe, levels.unsubscribe, timeout_ms)


async def _wait(predicate: Callable[[T], bool], subscribe: Listen[T], unsubscribe: Listen[T], timeout_ms: int) -> bool:
    loop = asyncio.get_running_loop()
    shown: asyncio.Future[bool] = loop.create_future()

    def check(changed: T) -> None:
        if not shown.done() and predicate(changed):
            shown.set_result(True)

    def give_up() -> None:
        if not shown.done():
            shown.set_result(False)

    timer = loop.call_later(max(timeout_ms, 0) / 1_000, give_up)
    subscribe(check)
    try:
        return await shown
    finally:
        unsubscribe(check)
        timer.cancel()
