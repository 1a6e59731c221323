"""Waiting for a change in the cluster image: admin requests respond when their change is visible.

Rules: one listener on the metadata cache and one timer for each wait; both are removed at its end.
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

    def check(image: ClusterImage) -> None:
        if not shown.done() and predicate(image):
            shown.set_result(True)

    def give_up() -> None:
        if not shown.done():
            shown.set_result(False)

    timer = loop.call_later(max(timeout_ms, 0) / 1_000, give_up)
    cache.subscribe(check)
    try:
        return await shown
    finally:
        cache.unsubscribe(check)
        timer.cancel()
