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
from tests.clocks import ManualClock


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
