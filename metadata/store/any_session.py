"""Steps of a starting broker in the store, retried when the session ends.

Rules: for steps that may be repeated. Acting under one session only, as a controller does, is `Store.session()`.
Source: ours; Apache Kafka's start fails when its session ends meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from metadata.store.port import SessionExpiredError

T = TypeVar("T")

logger = logging.getLogger(__name__)

PAUSE_S = 0.1


async def in_any_session(step: Callable[[], Awaitable[T]]) -> T:
    """Run `step`, and again under the next session if its session ends meanwhile. Raises other errors of the step."""
    while True:
        try:
            return await step()
        except SessionExpiredError as error:
            logger.info("session ended, retrying under the next one: path=%s", error)
            await asyncio.sleep(PAUSE_S)
