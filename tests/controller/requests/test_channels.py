"""Lines to brokers: what they keep of what they have sent."""

from __future__ import annotations

import asyncio
import sys

from controller.requests.channels import Channels, ControlResponse
from controller.requests.request_batch import ControlRequest
from metadata.store.znodes import BrokerRegistration
from protocol.errors import ErrorCode
from protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from runtime.tasks import TaskScope
from tests.doubles.clock import ManualClock


class Answering:
    """A broker that takes whatever is sent."""

    async def send(self, request: ControlRequest) -> ControlResponse:
        return UpdateMetadataResponse(error_code=ErrorCode.NONE)

    def close(self) -> None:
        """There is nothing to close."""


def test_an_answered_request_is_let_go_of() -> None:
    async def run() -> None:
        async with TaskScope("test") as tasks:
            channels = Channels(lambda _: Answering(), tasks, lambda *_: None, ManualClock())
            channels.add(BrokerRegistration(1, (), 0))
            request = UpdateMetadataRequest(controller_id=1, controller_epoch=1, live_brokers=[])
            known = sys.getrefcount(request)
            channels.send(1, request)
            await channels.idle()
            await asyncio.sleep(0)
            held.append(sys.getrefcount(request) - known)
            channels.close()

    held: list[int] = []
    asyncio.run(run())
    assert held == [0]


class Unreachable(Answering):
    """Answers after some attempts."""

    def __init__(self, clock: ManualClock, failures: int) -> None:
        self._clock = clock
        self._failures = failures

    async def send(self, request: ControlRequest) -> ControlResponse:
        self._clock.now_ms += 20
        if self._failures:
            self._failures -= 1
            raise ConnectionError("refused")
        return await super().send(request)


def test_the_wait_of_a_request_ends_when_it_is_sent_for_the_first_time() -> None:
    async def run() -> None:
        clock = ManualClock(1_000)
        async with TaskScope("test") as tasks:
            channels = Channels(lambda _: Unreachable(clock, 1), tasks, lambda *_: None, clock)
            channels.add(BrokerRegistration(1, (), 0))
            for _ in range(2):
                channels.send(1, UpdateMetadataRequest(controller_id=1, controller_epoch=1, live_brokers=[]))
            await channels.idle()
            waits = channels.waits()[1]
            told.append((waits.count, waits.total // 1_000_000))
            channels.close()

    told: list[tuple[int, int]] = []
    asyncio.run(run())
    assert told == [(2, 40)], "the second waited for both attempts of the first"
