"""The controller's lines to the brokers: one ordered queue each, its own broker included.

Rules: one request at a time a broker, in the order of sending; a request that finds no connection is repeated until it
is answered or the broker is gone (its queue with it). A broker that moves to another address keeps its queue. Answers
come back through a callback, on the event loop. Lines that were closed take nothing more.
Bounds: a queue lives as long as its broker is registered; it holds what the controller decided meanwhile.
Source: Kafka ControllerChannelManager, RequestSendThread.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol

from controller.requests.request_batch import ControlRequest
from metadata.store.znodes import BrokerRegistration
from protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from runtime.reasons import reason_of
from runtime.tasks import TaskScope

RETRY_BACKOFF_S = 0.1  # Kafka's pause before a control request is sent again

ControlResponse = LeaderAndIsrResponse | UpdateMetadataResponse | StopReplicaResponse
OnResponse = Callable[[int, ControlRequest, ControlResponse], None]

logger = logging.getLogger(__name__)


class BrokerChannel(Protocol):
    """A way to one broker: in process to our own, over a connection to the others."""

    async def send(self, request: ControlRequest) -> ControlResponse:
        """Raises OSError when no answer came; the request is then sent again."""

    def close(self) -> None:
        """A request under way over a wire fails with OSError."""


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

    def close(self) -> None:
        """Nothing to let go of; what the broker has begun it finishes."""


class _Line:
    """One broker's queue; `run` is its only sender."""

    def __init__(self, broker_id: int, channel: BrokerChannel, on_response: OnResponse) -> None:
        self.broker_id = broker_id
        self._channel = channel
        self._on_response = on_response
        self._queue: deque[ControlRequest] = deque()
        self._wake = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._failures_count = 0
        self._is_closed = False

    def put(self, request: ControlRequest) -> None:
        self._queue.append(request)
        self._is_idle.clear()
        self._wake.set()

    async def idle(self) -> None:
        """Everything is answered, or was dropped."""
        await self._is_idle.wait()

    def move(self, channel: BrokerChannel) -> None:
        """The broker is reached by another way from now on; what waits goes there."""
        old, self._channel = self._channel, channel
        old.close()

    def close(self) -> None:
        self._is_closed = True
        self._queue.clear()
        self._is_idle.set()
        self._wake.set()
        self._channel.close()

    def __len__(self) -> int:
        return len(self._queue)

    async def run(self) -> None:
        while not self._is_closed:
            if not self._queue:
                self._wake.clear()
                await self._wake.wait()
                continue
            request = self._queue[0]
            try:
                response = await self._channel.send(request)
            except OSError as error:
                if not self._is_closed:
                    self._note_failure(request, error)
                    await self._pause()
                continue
            self._note_answer()
            if self._queue and self._queue[0] is request:  # a closed line has dropped it
                self._queue.popleft()
                if not self._queue:
                    self._is_idle.set()
                self._on_response(self.broker_id, request, response)
            del request, response  # it may be long until the next, and they are large

    def _note_failure(self, request: ControlRequest, error: OSError) -> None:
        """The first is told: a broker may be out of reach for long, and is asked ten times a second."""
        if self._failures_count == 0:
            logger.info(
                "control request not answered, retrying: broker=%d api=%s error=%s",
                self.broker_id,
                request.api_name,
                reason_of(error),
            )
        self._failures_count += 1

    def _note_answer(self) -> None:
        if self._failures_count and not self._is_closed:
            logger.info("broker responds again: broker=%d failures=%d", self.broker_id, self._failures_count)
        self._failures_count = 0

    async def _pause(self) -> None:
        """Before the same request is sent again; a closed line does not wait."""
        self._wake.clear()
        try:
            async with asyncio.timeout(RETRY_BACKOFF_S):
                while not self._is_closed:
                    await self._wake.wait()
                    self._wake.clear()
        except TimeoutError:
            return


class Channels:
    """All lines of one controller's term. `connect` makes the channel to a registered broker."""

    def __init__(self, connect: Connect, tasks: TaskScope, on_response: OnResponse) -> None:
        self._connect = connect
        self._tasks = tasks
        self._on_response = on_response
        self._lines: dict[int, _Line] = {}
        self._is_closed = False

    def add(self, registration: BrokerRegistration) -> None:
        if self._is_closed:
            return
        self.remove(registration.broker_id)
        line = _Line(registration.broker_id, self._connect(registration), self._on_response)
        self._lines[registration.broker_id] = line
        self._tasks.spawn(line.run(), name=f"control requests to broker {registration.broker_id}")

    def move(self, registration: BrokerRegistration) -> None:
        """The broker has changed its endpoints without a restart."""
        line = self._lines.get(registration.broker_id)
        if line is not None:
            line.move(self._connect(registration))

    def remove(self, broker_id: int) -> None:
        line = self._lines.pop(broker_id, None)
        if line is not None:
            line.close()

    def send(self, broker_id: int, request: ControlRequest) -> None:
        """Nothing happens for a broker without a line: it has gone meanwhile."""
        line = self._lines.get(broker_id)
        if line is not None:
            line.put(request)

    def queue_sizes(self) -> dict[int, int]:
        """Requests that wait or are under way, by broker."""
        return {broker_id: len(line) for broker_id, line in self._lines.items()}

    async def idle(self) -> None:
        """Everything that was sent is answered. Takes for ever while a broker cannot be reached."""
        for line in list(self._lines.values()):
            await line.idle()

    def close(self) -> None:
        self._is_closed = True
        for broker_id in list(self._lines):
            self.remove(broker_id)
