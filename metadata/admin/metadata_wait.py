"""Waiting until the cluster image shows what was decided: how admin requests know that they are done.

Rules: one listener on the metadata cache and one timer a wait; both are gone when it ends, however it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from metadata.image import ClusterImage, MetadataCache


async def wait_for_image(cache: MetadataCache, predicate: Callable[[ClusterImage], bool], timeout_ms: int) -> bool:
    """Return True as soon as `predicate` holds, False after `timeout_ms` without it."""
    if predicate(cache.image):
        return True
    loop = asyncio.get_running_loop()
    shown: asyncio.Future[bool] = loop.create_future()

    def look(image: ClusterImage) -> None:
        if not shown.done() and predicate(image):
            shown.set_result(True)

    def give_up() -> None:
        if not shown.done():
            shown.set_result(False)

    timer = loop.call_later(max(timeout_ms, 0) / 1_000, give_up)
    cache.subscribe(look)
    try:
        return await shown
    finally:
        cache.unsubscribe(look)
        timer.cancel()
