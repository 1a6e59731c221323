"""Controlled shutdown: asked as often as the settings say, and never for ever."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TypeVar, cast

import pytest

from broker.cluster.controlled_shutdown import request_controlled_shutdown
from broker.cluster.controller_channel import ControllerChannel
from config.broker import BrokerSettings
from metadata.image import ClusterImage, MetadataCache
from protocol.errors import ErrorCode
from protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from protocol.schema import Request, Response
from tests.simulation.clock import SimClock
from tests.simulation.loop import SimLoop, simulate

R = TypeVar("R", bound=Response)

REQUEST = ControlledShutdownRequest(broker_id=1, broker_epoch=7)
SETTINGS = BrokerSettings.from_sources({}, {}, {})
DONE = ControlledShutdownResponse(error_code=ErrorCode.NONE, remaining_partitions=[])
SOME_LEFT = ControlledShutdownResponse(
    error_code=ErrorCode.NONE, remaining_partitions=[RemainingPartition(topic_name="t", partition_index=0)]
)
MOVED = ControlledShutdownResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH, remaining_partitions=[])
REFUSED = ControlledShutdownResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, remaining_partitions=[])


class Client:
    """Plays the controller's side of one line: answers in order, the last one for ever."""

    def __init__(self, *answers: Response | OSError, delay_s: float = 0) -> None:
        self._answers = deque(answers)
        self.delay_s = delay_s
        self.asked: list[tuple[Request, int]] = []
        self.is_closed = False

    async def send(self, request: Request, version: int, response_type: type[R]) -> R:
        self.asked.append((request, version))
        await asyncio.sleep(self.delay_s)
        answer = self._answers.popleft() if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, OSError):
            raise answer
        return cast(R, answer)

    def close(self) -> None:
        self.is_closed = True


def played(*answers: Response | OSError, delay_s: float = 0, alone_after_s: float = 3600) -> tuple[bool, Client, float]:
    """(outcome, the line, seconds)."""

    async def program(loop: SimLoop) -> tuple[bool, Client, float]:
        client = Client(*answers, delay_s=delay_s)
        metadata = MetadataCache()
        metadata.publish(ClusterImage(controller_id=2))
        line = ControllerChannel(1, None, metadata, lambda _: client, SimClock(loop))  # type: ignore[arg-type,return-value]
        began_s = loop.time()

        async def alone_within(timeout_ms: int) -> bool:
            left_s = began_s + alone_after_s - loop.time()
            await asyncio.sleep(min(timeout_ms / 1000, max(left_s, 0)))
            return loop.time() - began_s >= alone_after_s

        outcome = await request_controlled_shutdown(REQUEST, 3, line, SETTINGS, alone_within)
        return outcome, client, loop.time() - began_s

    return simulate(1, program)


def test_done_at_once() -> None:
    outcome, client, took_s = played(DONE)
    assert outcome
    assert client.asked == [(REQUEST, 3)]
    assert took_s == 0


def test_asked_again_while_some_remain() -> None:
    outcome, client, took_s = played(SOME_LEFT, SOME_LEFT, DONE)
    assert outcome
    assert len(client.asked) == 3
    assert took_s == 10


def test_given_up_after_the_last_attempt() -> None:
    for answer in (SOME_LEFT, REFUSED):
        outcome, client, took_s = played(answer)
        assert not outcome
        assert len(client.asked) == SETTINGS.controlled_shutdown_max_retries
        assert took_s == 10


def test_the_next_controller_is_looked_for() -> None:
    outcome, client, took_s = played(MOVED, OSError("gone"), MOVED, DONE)
    assert outcome
    assert len(client.asked) == 4
    assert took_s < 1


def test_a_silent_controller_does_not_stop_the_stop() -> None:
    outcome, _, took_s = played(OSError("gone"))
    assert not outcome
    assert took_s < 30


def test_nor_does_one_that_hangs() -> None:
    """Longer than those who stop brokers are used to wait."""
    outcome, client, took_s = played(DONE, delay_s=60)
    assert not outcome
    assert len(client.asked) == 1
    assert took_s == 15


def test_one_that_has_much_to_move_is_waited_for() -> None:
    outcome, client, took_s = played(DONE, delay_s=12)
    assert outcome
    assert len(client.asked) == 1
    assert took_s == 12


def test_the_last_broker_gives_up_as_soon_as_the_others_are_gone() -> None:
    outcome, client, took_s = played(SOME_LEFT, alone_after_s=0.3)
    assert not outcome
    assert len(client.asked) == 1
    assert took_s == pytest.approx(0.3)
