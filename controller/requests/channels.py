"""The controller's channels to the brokers, with one ordered request queue each, including its own broker.

Rules: one request at a time a broker, in the order of sending; a request without a response is sent again until
it gets one or the broker is removed (with its queue). A broker that changes its address keeps its queue. Responses are passed
to a callback, on the event loop. Closed queues accept no requests.
Bounds: a queue exists as long as its broker is registered; it contains the controller's changes since.
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
from runtime.clock import Clock
from runtime.distribution import Distribution
from runtime.error_texts import reason_of
from runtime.tasks import TaskScope

RETRY_BACKOFF_S = 0.1  # Kafka's pause before a control request is sent again

ControlResponse = LeaderAndIsrResponse | UpdateMetadataResponse | StopReplicaResponse
OnResponse = Callable[[int, ControlRequest, ControlResponse], None]

logger = logging.getLogger(__name__)


class BrokerChannel(Protocol):
    """A channel to one broker: in process to this broker, over a connection to others."""

    async def send(self, request: ControlRequest) -> ControlResponse:
        """Send a request once. Raises OSError when no response came; the request is then sent again."""

    def close(self) -> None:
        """Close the connection; a pending request fails with OSError."""


Connect = Callable[[BrokerRegistration], BrokerChannel]


class ControlHandlers(Protocol):
    """Handles control requests in process. `broker.cluster.control_requests.ControlRequests` implements it."""

    async def on_leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse: ...

    async def on_update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse: ...

    async def on_stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse: ...


class InProcessChannel:
    """The channel to this broker: the same requests, without a connection."""

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
        """Do nothing: the broker completes requests in progress."""


class _RequestQueue:
    """The request queue of one broker; only `run` sends its requests."""

    def __init__(self, broker_id: int, channel: BrokerChannel, on_response: OnResponse, clock: Clock) -> None:
        self.broker_id = broker_id
        self._channel = channel
        self._on_response = on_response
        self._now_ns = clock.monotonic_ns
        self._queue: deque[ControlRequest] = deque()
        self._queued_ns: deque[int] = deque()  # when each was queued, until it is sent for the first time
        self.waits = Distribution()
        self._wake = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._failures_count = 0
        self._is_closed = False

    def put(self, request: ControlRequest) -> None:
        self._queue.append(request)
        self._queued_ns.append(self._now_ns())
        self._is_idle.clear()
        self._wake.set()

    async def idle(self) -> None:
        """Wait until every request has a response, or was dropped."""
        await self._is_idle.wait()

    def move(self, channel: BrokerChannel) -> None:
        """Use another channel from now on, also for queued requests."""
        old, self._channel = self._channel, channel
        old.close()

    def close(self) -> None:
        self._is_closed = True
        self._queue.clear()
        self._queued_ns.clear()
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
            if len(self._queued_ns) == len(self._queue):
                self.waits.add(self._now_ns() - self._queued_ns.popleft())
            try:
                response = await self._channel.send(request)
            except OSError as error:
                if not self._is_closed:
                    self._note_failure(request, error)
                    await self._pause()
                continue
            self._note_response()
            if self._queue and self._queue[0] is request:  # it was dropped when the queue was closed
                self._queue.popleft()
                if not self._queue:
                    self._is_idle.set()
                self._on_response(self.broker_id, request, response)
            del request, response  # release it: requests are large, and the next may be sent much later

    def _note_failure(self, request: ControlRequest, error: OSError) -> None:
        """Log the second failure only: a broker may be unreachable for long, and requests are repeated ten times a second. The
        first is often that of a broker which stops, and whose registration is about to be removed."""
        if self._failures_count == 1:
            logger.info(
                "control request not answered, retrying: broker=%d api=%s error=%s",
                self.broker_id,
                request.api_name,
                reason_of(error),
            )
        self._failures_count += 1

    def _note_response(self) -> None:
        if self._failures_count > 1 and not self._is_closed:
            logger.info("broker responds again: broker=%d failures=%d", self.broker_id, self._failures_count)
        self._failures_count = 0

    async def _pause(self) -> None:
        """Pause before a request is sent again, or until the queue is closed."""
        self._wake.clear()
        try:
            async with asyncio.timeout(RETRY_BACKOFF_S):
                while not self._is_closed:
                    await self._wake.wait()
                    self._wake.clear()
        except TimeoutError:
            return


class Channels:
    """All channels of one controller's term. `connect` makes the channel to a registered broker."""

    def __init__(self, connect: Connect, tasks: TaskScope, on_response: OnResponse, clock: Clock) -> None:
        self._clock = clock
        self._connect = connect
        self._tasks = tasks
        self._on_response = on_response
        self._queues: dict[int, _RequestQueue] = {}
        self._is_closed = False

    def add(self, registration: BrokerRegistration) -> None:
        if self._is_closed:
            return
        self.remove(registration.broker_id)
        queue = _RequestQueue(registration.broker_id, self._connect(registration), self._on_response, self._clock)
        self._queues[registration.broker_id] = queue
        self._tasks.spawn(queue.run(), name=f"control requests to broker {registration.broker_id}")

    def move(self, registration: BrokerRegistration) -> None:
        """Use the new endpoints of a broker that has not restarted."""
        queue = self._queues.get(registration.broker_id)
        if queue is not None:
            queue.move(self._connect(registration))

    def remove(self, broker_id: int) -> None:
        queue = self._queues.pop(broker_id, None)
        if queue is not None:
            queue.close()

    def send(self, broker_id: int, request: ControlRequest) -> None:
        """Queue a request; it is dropped if the broker was removed meanwhile."""
        queue = self._queues.get(broker_id)
        if queue is not None:
            queue.put(request)

    def queue_sizes(self) -> dict[int, int]:
        """Return the number of queued and pending requests by broker."""
        return {broker_id: len(queue) for broker_id, queue in self._queues.items()}

    def waits(self) -> dict[int, Distribution]:
        """Return for how long requests were queued, by broker."""
        return {broker_id: queue.waits for broker_id, queue in self._queues.items()}

    async def idle(self) -> None:
        """Wait until every request has a response; without a limit while a broker cannot be reached."""
        for queue in list(self._queues.values()):
            await queue.idle()

    def close(self) -> None:
        self._is_closed = True
        for broker_id in list(self._queues):
            self.remove(broker_id)
