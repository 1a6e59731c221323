"""Controlled shutdown: before a broker stops, the controller moves its leaderships to others.

Rules: asked again, after a pause, while the controller says that some remain or does not answer; as often as the
settings say, and altogether not much longer than those pauses: a controller that hangs, because its store does or its
machine, must not keep a broker until whoever stops it loses patience. A broker that is alone has nobody to hand over to
and does not ask.
A broker that finds itself alone between two attempts gives up: when all brokers are stopped together, one is the last.
Source: Kafka KafkaServer.controlledShutdown.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from protocol.errors import ErrorCode, KafkaError
from protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from runtime.reasons import reason_of

if TYPE_CHECKING:
    from broker.cluster.controller_channel import ControllerChannel
    from config.broker import BrokerSettings

logger = logging.getLogger(__name__)

AloneWithin = Callable[[int], Awaitable[bool]]
"""Waits so many ms, or until no other broker is known to be alive: then True."""

# For the answers, beside the pauses between the attempts.
ANSWERS_PATIENCE_MS = 5_000


async def hand_over(
    request: ControlledShutdownRequest,
    version: int,
    line: ControllerChannel,
    settings: BrokerSettings,
    alone_within: AloneWithin,
) -> bool:
    """Whether all leaderships that can move have moved. Raises nothing: the broker stops in any case."""
    pauses_ms = (settings.controlled_shutdown_max_retries - 1) * settings.controlled_shutdown_retry_backoff_ms
    try:
        async with asyncio.timeout((max(pauses_ms, 0) + ANSWERS_PATIENCE_MS) / 1000):
            return await _attempt(request, version, line, settings, alone_within)
    except TimeoutError:
        logger.warning("controlled shutdown given up, the controller did not respond in time")
        return False


async def _attempt(
    request: ControlledShutdownRequest,
    version: int,
    line: ControllerChannel,
    settings: BrokerSettings,
    alone_within: AloneWithin,
) -> bool:
    attempts = max(settings.controlled_shutdown_max_retries, 1)
    for attempt in range(1, attempts + 1):
        try:
            response = await line.ask(
                request, version, ControlledShutdownResponse, timeout_ms=settings.controlled_shutdown_retry_backoff_ms
            )
        except (OSError, KafkaError) as error:
            outcome = repr(reason_of(error))
        else:
            remaining = len(response.remaining_partitions)
            if response.error_code == ErrorCode.NONE and not remaining:
                logger.info("controlled shutdown complete, leaderships have moved: attempt=%d", attempt)
                return True
            outcome = f"{ErrorCode(response.error_code).name} remaining={remaining}"
        logger.warning(
            "controlled shutdown not complete: attempt=%d attempt_limit=%d outcome=%s", attempt, attempts, outcome
        )
        if attempt < attempts and await alone_within(settings.controlled_shutdown_retry_backoff_ms):
            logger.info("controlled shutdown given up, no other broker is alive")
            return False
    return False
