"""The client of one ZooKeeper session: it connects, sends and receives, and delivers responses and watches, on the event loop.

Rules:
- Responses and watch events are delivered through one FIFO, in the order of arrival. A watch is called immediately in its
  turn; a response wakes its caller, which runs before any later watch is called.
- One connection at a time, one server after another; after a round without success a pause that grows, with jitter. A
  server that completes the handshake, and closes before any other response, is no success.
- A connection without a handshake within its share of the session's timeout, a third at most, is closed: a server that is just
  starting may accept a connection and never respond, also if it is the only one.
- Bytes of a closed connection are ignored.
Source: ZooKeeper ClientCnxn, ClientCnxn.SendThread.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from metadata.store.port import SessionEvent, Watch, WatchKind
from metadata.store.zookeeper.ensemble import Rotation
from metadata.store.zookeeper.session import (
    Answer,
    ClientSession,
    Drop,
    Effect,
    Fire,
    OnOutcome,
    Outcome,
    Send,
    Tell,
    ZooKeeperRequest,
)
from protocol.frame import FrameError, FrameReader
from runtime.clock import Clock
from runtime.error_texts import reason_of
from runtime.network.transport import Address, Connection, Network
from runtime.randomness import Randomness
from runtime.tasks import TaskScope

# The list of a cluster's topics is one frame; ensembles that large raise jute.maxbuffer.
FRAME_BYTES_MAX: Final = 64 * 1024 * 1024
GREETING_TIMEOUT_MIN_MS: Final = 500
GREETINGS_PER_TIMEOUT: Final = 3
RECONNECT_PAUSE_MIN_MS: Final = 50
RECONNECT_PAUSE_MAX_MS: Final = 1_000
TICKS_PER_TIMEOUT: Final = 12
NO_SERVER_TRIED: Final = "no server was tried"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClientDependencies:
    network: Network
    clock: Clock
    randomness: Randomness
    tasks: TaskScope


@dataclass(frozen=True, slots=True)
class Listeners:
    """`fire` gets watch events with the server's path of their node, `notify` gets the events of the session."""

    fire: Callable[[list[Watch], WatchKind, str], None]
    notify: Callable[[SessionEvent], None]


class ZooKeeperClient:
    """Life: `start`, then `settled`; `end` closes the session, `stop` only leaves it."""

    def __init__(
        self, session: ClientSession, rotation: Rotation, doors: ClientDependencies, listeners: Listeners
    ) -> None:
        self.session = session
        self.last_failure = NO_SERVER_TRIED
        self._rotation = rotation
        self._doors = doors
        self._listeners = listeners
        self._link: _Link | None = None
        self._deliveries: deque[Answer | Fire | Tell] = deque()
        self._is_delivering = False
        self._settled = asyncio.Event()
        self._over = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        spawn = self._doors.tasks.spawn
        self._tasks = [
            spawn(self._stay_connected(), name="zookeeper connection"),
            spawn(self._keep_time(), name="zookeeper time"),
        ]

    async def settled(self) -> None:
        """Wait until the session has begun, or has ended."""
        await self._settled.wait()

    async def over(self) -> None:
        await self._over.wait()

    def submit(self, request: ZooKeeperRequest, on_outcome: OnOutcome) -> None:
        """Submit a request; `on_outcome` is called with the outcome later, never from inside this call."""
        self._carry_out(self.session.submit(request, on_outcome, self._now_ms()))

    async def call(self, request: ZooKeeperRequest) -> Outcome:
        """Submit a request, and return its result. Raises StoreError."""
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def on_outcome(outcome: Outcome) -> None:
            if answer.done():
                return
            if isinstance(outcome, Exception):
                answer.set_exception(outcome)
            else:
                answer.set_result(outcome)

        self.submit(request, on_outcome)
        return await answer

    async def end(self, timeout_ms: int) -> bool:
        """Close the session; returns False if the ensemble did not respond in time: it ends by its timeout then."""
        self._carry_out(self.session.end(self._now_ms()))
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._over.wait()
        except TimeoutError:
            return False
        finally:
            await self.stop()
        return True

    async def stop(self) -> None:
        """Close the connection without closing the session."""
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._detach()

    # --- connecting ---

    async def _stay_connected(self) -> None:
        pause_ms = RECONNECT_PAUSE_MIN_MS
        while not self.session.is_over:
            server = self._rotation.next()
            link = self._link = _Link(self, server)
            if self.last_failure == NO_SERVER_TRIED:  # an error of a server is more useful
                self.last_failure = f"{server.host}:{server.port}: no answer"
            try:
                await self._connect(link, server)
            except (OSError, TimeoutError) as error:
                self.last_failure = f"{server.host}:{server.port}: {reason_of(error)}"
                logger.debug("ZooKeeper server not reached: error=%s", self.last_failure)
                self._detach()
                if self._rotation.round_is_over and pause_ms == RECONNECT_PAUSE_MIN_MS:
                    logger.warning("no ZooKeeper server reached, retrying: error=%s", self.last_failure)
            else:
                if self.session.is_connected:
                    logger.info(
                        "ZooKeeper connected: address=%s:%d session=%s timeout_ms=%d",
                        server.host,
                        server.port,
                        session_text(self.session.credentials.session_id),
                        self.session.timeout_ms,
                    )
                await link.lost.wait()
                if not self.session.is_over:
                    logger.warning(
                        "ZooKeeper connection lost: address=%s:%d reason=%s", server.host, server.port, link.reason
                    )
                if self.session.has_answered:
                    pause_ms = RECONNECT_PAUSE_MIN_MS
                    self._rotation.succeeded()
            if self._rotation.round_is_over and not self.session.is_over:
                jittered_ms = self._doors.randomness.randrange(pause_ms // 2, pause_ms + 1)
                pause_ms = min(pause_ms * 2, RECONNECT_PAUSE_MAX_MS)
                await asyncio.sleep(jittered_ms / 1000)
        self._detach()

    async def _connect(self, link: _Link, server: Address) -> None:
        """Connect, and wait for the handshake. Raises OSError, TimeoutError."""
        share_ms = self.session.timeout_ms // max(len(self._rotation), GREETINGS_PER_TIMEOUT)
        timeout_ms = max(share_ms, GREETING_TIMEOUT_MIN_MS)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                link.stream = await self._doors.network.connect(server.host, server.port, link)
                await link.greeted.wait()
        except TimeoutError as error:
            raise TimeoutError(f"no greeting within {timeout_ms} ms") from error
        if link.lost.is_set() and not self.session.is_over:
            raise ConnectionError(f"closed before it greeted: {link.reason}")

    async def _keep_time(self) -> None:
        while not self.session.is_over:
            await asyncio.sleep(self.session.timeout_ms / TICKS_PER_TIMEOUT / 1000)
            self._carry_out(self.session.on_tick(self._now_ms()))

    def _detach(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.abort()
            if not link.lost.is_set():
                link.end("given up")
                self._carry_out(self.session.on_lost(self._now_ms()))

    # --- events of links ---

    def on_opened(self, link: _Link) -> None:
        if link is self._link:
            self._carry_out(self.session.on_opened(self._now_ms()))

    def on_frames(self, link: _Link, frames: Iterable[bytes | bytearray]) -> None:
        for frame in frames:
            if link is not self._link or link.lost.is_set():
                return
            self._carry_out(self.session.on_frame(frame, self._now_ms()))
            if self.session.is_connected or self.session.is_over:
                link.greeted.set()

    def on_closed(self, link: _Link, reason: str) -> None:
        if link.lost.is_set():
            return
        link.end(reason)
        if link is self._link:
            self._carry_out(self.session.on_lost(self._now_ms()))

    # --- effects ---

    def _now_ms(self) -> int:
        return self._doors.clock.monotonic_ms()

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(data):
                    if self._link is not None:
                        self._link.write(data)
                case Drop(reason):
                    if self._link is not None:
                        self._link.end(reason)
                        self._link.abort()
                case Answer() | Fire() | Tell():
                    self._deliveries.append(effect)
        if self._deliveries and not self._is_delivering:
            self._is_delivering = True
            asyncio.get_running_loop().call_soon(self._deliver)
        if self.session.is_connected or self.session.is_over:
            self._settled.set()
        if self.session.is_over:
            self._over.set()
            if self._link is not None and not self._link.lost.is_set():
                self._link.end("the session is over")
                self._link.abort()

    def _deliver(self) -> None:
        """Deliver effects. Responses wake tasks, which run in the next turn of the loop: later callbacks wait for that turn."""
        has_answered = False
        try:
            while self._deliveries:
                if has_answered and not isinstance(self._deliveries[0], Answer):
                    return
                match self._deliveries.popleft():
                    case Answer(on_outcome, outcome):
                        has_answered = True
                        on_outcome(outcome)
                    case Fire(watches, kind, path):
                        self._listeners.fire(watches, kind, path)
                    case Tell(event):
                        self._listeners.notify(event)
        finally:
            self._is_delivering = bool(self._deliveries)
            if self._is_delivering:
                asyncio.get_running_loop().call_soon(self._deliver)


class _Link:
    """One attempt to connect to a server, and its connection."""

    def __init__(self, client: ZooKeeperClient, server: Address) -> None:
        self.server = server
        self.greeted = asyncio.Event()
        self.lost = asyncio.Event()
        self.reason = ""
        self._client = client
        self._frames = FrameReader(FRAME_BYTES_MAX)
        self.stream: Connection | None = None  # the connection, perhaps without a handshake yet
        self._connection: Connection | None = None  # the same, once it is

    def write(self, data: bytes) -> None:
        if self._connection is not None and not self.lost.is_set():
            self._connection.write([data])

    def abort(self) -> None:
        stream = self._connection or self.stream
        if stream is not None:
            stream.abort()

    def end(self, reason: str) -> None:
        self.reason = reason
        self.lost.set()
        self.greeted.set()

    # What follows is runtime.network.transport.ConnectionHandler.

    def connected(self, connection: Connection) -> None:
        self._connection = connection
        if self.lost.is_set():
            connection.abort()
        else:
            self._client.on_opened(self)

    def receive_buffer(self, _size_hint: int) -> memoryview:
        return self._frames.receive_buffer()

    def received(self, count: int) -> None:
        try:
            frames = self._frames.received(count)
        except FrameError as error:
            self._client.on_closed(self, str(error))
            self.abort()
        else:
            self._client.on_frames(self, frames)

    def writing_paused(self) -> None:
        """Do nothing: the session bounds the requests in flight."""

    def writing_resumed(self) -> None:
        """Do nothing, as in `writing_paused`."""

    def disconnected(self, error: Exception | None) -> None:
        self._client.on_closed(self, str(error) if error else "the server closed it")


def session_text(session_id: int) -> str:
    """As ZooKeeper writes it."""
    return f"{session_id & 0xFFFFFFFFFFFFFFFF:#x}"
