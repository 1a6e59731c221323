"""Controlled shutdown: before a broker stops, the controller moves its leaderships to others.

Rules: the request is sent again, after a pause, while the controller reports remaining leaderships or does not respond; as
often as the settings say, and in total not much longer than those pauses: a controller that hangs must not delay the stop of a
broker until it is killed. A broker that is the only live one does not send it, and gives up when it becomes the only one
between two attempts: when all brokers are stopped together, one is the last.
Source: Kafka KafkaServer.controlledShutdown.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from protocol.errors import ErrorCode, KafkaError
from protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from runtime.error_texts import reason_of

if TYPE_CHECKING:
    from broker.cluster.controller_channel import ControllerChannel
    from config.broker import BrokerSettings

logger = logging.getLogger(__name__)

AloneWithin = Callable[[int], Awaitable[bool]]
"""Waits for the given ms, or until no other broker is alive: then it returns True."""

# Time for the responses, in addition to the pauses between the attempts.
RESPONSES_TIMEOUT_MS = 5_000


async def request_controlled_shutdown(
    request: ControlledShutdownRequest,
    version: int,
    channel: ControllerChannel,
    settings: BrokerSettings,
    alone_within: AloneWithin,
) -> bool:
    """Ask the controller to move leaderships; return whether all that can move have moved. Raises nothing: the broker
    stops in any case."""
    pauses_ms = (settings.controlled_shutdown_max_retries - 1) * settings.controlled_shutdown_retry_backoff_ms
    try:
        async with asyncio.timeout((max(pauses_ms, 0) + RESPONSES_TIMEOUT_MS) / 1000):
            return await _attempt(request, version, channel, settings, alone_within)
    except TimeoutError:
        logger.warning("controlled shutdown given up, the controller did not respond in time")
        return False


async def _attempt(
    request: ControlledShutdownRequest,
    version: int,
    channel: ControllerChannel,
    settings: BrokerSettings,
    alone_within: AloneWithin,
) -> bool:
    attempts = max(settings.controlled_shutdown_max_retries, 1)
    for attempt in range(1, attempts + 1):
        try:
            response = await channel.ask(
                request, version, ControlledShutdownResponse, timeout_ms=settings.controlled_shutdown_retry_backoff_ms
            )
        except (OSError, KafkaError) as error:
            outcome = repr(reason_of(error))
        else:
            remaining = len(response.remaining_partitions)
            if response.error_code == ErrorCode.NONE and not remaining:
                logger.info("controlled shutdown complete, leaderships have moved: attempt=%d", attempt)
                return True
            outcome = ErrorCode(response.error_code).name
            if response.error_code == ErrorCode.NONE:  # the controller warns, if this is not a stop of all brokers
                logger.info(
                    "leaderships remain, no other broker can take them now: attempt=%d attempt_limit=%d partitions=%d",
                    *(attempt, attempts, remaining),
                )
        if outcome != ErrorCode.NONE.name:
            logger.warning(
                "controlled shutdown not complete: attempt=%d attempt_limit=%d outcome=%s", attempt, attempts, outcome
            )
        if attempt < attempts and await alone_within(settings.controlled_shutdown_retry_backoff_ms):
            logger.info("controlled shutdown given up, no other broker is alive")
            return False
    return False
