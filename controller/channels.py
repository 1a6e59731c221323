"""The controller's lines to the brokers: one ordered queue each, its own broker included.

Rules: one request at a time a broker, in the order of sending; a request that finds no connection is repeated until it
is answered or the broker is gone (its queue with it). Answers come back through a callback, on the event loop.
Bounds: a queue lives as long as its broker is registered; it holds what the controller decided meanwhile.
Source: Kafka ControllerChannelManager, RequestSendThread.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol

from controller.requests import ControlRequest
from controller.znodes import BrokerRegistration
from protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from runtime.tasks import TaskScope

RETRY_BACKOFF_S = 0.1  # Kafka's pause before a control request is sent again

ControlResponse = LeaderAndIsrResponse | UpdateMetadataResponse | StopReplicaResponse
OnResponse = Callable[[int, ControlRequest, ControlResponse], None]

log = logging.getLogger(__name__)


class BrokerChannel(Protocol):
    """A way to one broker: in process to our own, over a connection to the others."""

    async def send(self, request: ControlRequest) -> ControlResponse:
        """Raises OSError when no answer came; the request is then sent again."""

    async def close(self) -> None: ...


Connect = Callable[[BrokerRegistration], BrokerChannel]


class ControlHandlers(Protocol):
    """What a broker does with control requests; the composition root joins partitions and metadata into it."""

    async def on_leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse: ...

    async def on_update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse: ...

    async def on_stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse: ...


class InProcessChannel:
    """To this very broker: the same requests, without a wire."""

    def __init__(self, handlers: ControlHandlers) -> None:
        self._handlers = handlers

    async def send(self, request: ControlRequest) -> ControlResponse:
        match request:
            case LeaderAndIsrRequest():
                return await self._handlers.on_leader_and_isr(request)
            case UpdateMetadataRequest():
                return await self._handlers.on_update_metadata(request)
            case StopReplicaRequest():
                return await self._handlers.on_stop_replica(request)

    async def close(self) -> None:
        """Nothing to let go of."""


class _Line:
    """One broker's queue; `run` is its only sender."""

    def __init__(self, broker_id: int, channel: BrokerChannel, on_response: OnResponse) -> None:
        self.broker_id = broker_id
        self._channel = channel
        self._on_response = on_response
        self._queue: deque[ControlRequest] = deque()
        self._wake = asyncio.Event()
        self._is_closed = False

    def put(self, request: ControlRequest) -> None:
        self._queue.append(request)
        self._wake.set()

    def close(self) -> None:
        self._is_closed = True
        self._queue.clear()
        self._wake.set()

    async def run(self) -> None:
        try:
            while not self._is_closed:
                if not self._queue:
                    self._wake.clear()
                    await self._wake.wait()
                    continue
                request = self._queue[0]
                try:
                    response = await self._channel.send(request)
                except OSError as error:
                    log.info(
                        "control request unanswered broker=%d request=%s error=%r",
                        self.broker_id,
                        request.api_name,
                        error,
                    )
                    await asyncio.sleep(RETRY_BACKOFF_S)
                    continue
                if self._queue and self._queue[0] is request:  # a closed line has dropped it
                    self._queue.popleft()
                    self._on_response(self.broker_id, request, response)
        finally:
            await self._channel.close()


class Channels:
    """All lines of one controller's term. `connect` makes the channel to a registered broker."""

    def __init__(self, connect: Connect, tasks: TaskScope, on_response: OnResponse) -> None:
        self._connect = connect
        self._tasks = tasks
        self._on_response = on_response
        self._lines: dict[int, _Line] = {}

    def add(self, registration: BrokerRegistration) -> None:
        self.remove(registration.broker_id)
        line = _Line(registration.broker_id, self._connect(registration), self._on_response)
        self._lines[registration.broker_id] = line
        self._tasks.spawn(line.run(), name=f"control requests to broker {registration.broker_id}")

    def remove(self, broker_id: int) -> None:
        line = self._lines.pop(broker_id, None)
        if line is not None:
            line.close()

    def send(self, broker_id: int, request: ControlRequest) -> None:
        """Nothing happens for a broker without a line: it has gone meanwhile."""
        line = self._lines.get(broker_id)
        if line is not None:
            line.put(request)

    def close(self) -> None:
        for broker_id in list(self._lines):
            self.remove(broker_id)
