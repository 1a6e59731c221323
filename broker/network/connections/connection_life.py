"""One connection's life: its phase, its stream, what its next request waits for, and its end.

The parts of a connection (`RequestIntake`, `ResponseQueue`, `Authentication` and theirs) get this object, and change the life
of the connection through it alone. No part knows the connection, which is made of them. The life calls its parts by two
functions, `run` and `end_writing`, which the connection sets.

Rules: sans-IO. Nothing starts inside another request's handler: what a part unblocks runs in the next turn of the loop.
Invariants: a connection is closed once, with one log line; a phase is left for a later one only, but for AUTHENTICATING.
Source: Kafka KafkaChannel, Selector.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.network.connections.connection_phase import WAITS_FOR_EARLIER, WAITS_FOR_QUOTA, ConnectionPhase

if TYPE_CHECKING:
    from broker.network.connections.client_connection import ClientConnection
    from runtime.network.transport import Connection
    from runtime.timer import Timer, TimerEntry

logger = logging.getLogger(__name__)

# As plain numbers: they are compared for every request, and to compare members of an enum costs a call.
_OPENING, _AUTHENTICATING, _SERVING, _SESSION_EXPIRED, _CLOSING, _CLOSED = (
    int(phase)
    for phase in (
        ConnectionPhase.OPENING, ConnectionPhase.AUTHENTICATING, ConnectionPhase.SERVING, ConnectionPhase.SESSION_EXPIRED,
        ConnectionPhase.CLOSING, ConnectionPhase.CLOSED,
    )
)  # fmt: skip


class ConnectionLife:
    """Made with the connection. `phase` is a `ConnectionPhase`; `waits` says why the next request does not start now (bits of
    `connection_phase`); `active_tick` is the sweep before which something last came. `stream` is None before the connection is
    made and after its end; `client` is set when it is made."""

    __slots__ = (
        "_call_soon",
        "_is_reading",
        "_is_scheduled",
        "_mute_timer",
        "_timer",
        "active_tick",
        "client",
        "end_writing",
        "phase",
        "run",
        "stream",
        "waits",
    )

    run: Callable[[], None]
    """Send what is ready, and start what may start."""
    end_writing: Callable[[bool], None]
    """Write what is ready (True) or drop it (False), and write nothing any more."""

    def __init__(self, timer: Timer, call_soon: Callable[[Callable[[], None]], object], tick: int) -> None:
        self._timer = timer
        self._call_soon = call_soon
        self.active_tick = tick
        self.phase: int = _OPENING
        self.waits = 0
        self.stream: Connection | None = None
        self.client: ClientConnection | None = None
        self._mute_timer: TimerEntry | None = None
        self._is_reading = True
        self._is_scheduled = False  # to run in the next turn of the loop

    # --- waiting and going on ---

    def hold(self, reason: int) -> None:
        """Start nothing for this reason, a bit of `connection_phase`, and read nothing."""
        self.waits |= reason
        self.pause_reading()

    def release(self, reason: int) -> None:
        """One reason to wait is over. What waits is tried again in the next turn of the loop."""
        self.waits = self.waits & ~reason | WAITS_FOR_EARLIER
        self.continue_soon()

    def continue_soon(self) -> None:
        """In the next turn of the loop, send what is ready and start what may start."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._continue)

    def _continue(self) -> None:
        self._is_scheduled = False
        if self.stream is not None and self.phase < _CLOSING:
            self.run()

    def mute(self, duration_ms: int) -> None:
        """Start no request and read nothing for so long: the client is over its quota. Responses are sent meanwhile."""
        if self.phase >= _CLOSING:
            return
        self.hold(WAITS_FOR_QUOTA)
        before, until = self._mute_timer, self._timer.schedule(duration_ms, self._unmute)
        if before is not None and before.deadline_tick > until.deadline_tick:  # of an earlier response
            until.cancel()
            return
        if before is not None:
            before.cancel()
        self._mute_timer = until

    def _unmute(self) -> None:
        self._mute_timer = None
        self.release(WAITS_FOR_QUOTA)

    def pause_reading(self) -> None:
        if self._is_reading and self.stream is not None:
            self._is_reading = False
            self.stream.pause_reading()

    def resume_reading(self) -> None:
        if not self._is_reading and self.stream is not None:
            self._is_reading = True
            self.stream.resume_reading()

    @property
    def unsent_bytes(self) -> int:
        """Bytes of responses that the peer has not taken yet."""
        return 0 if self.stream is None else self.stream.unsent_bytes()

    # --- the authentication ---

    def authenticate_again(self) -> None:
        """Give all bytes that follow to the authentication, from the next turn of the loop on."""
        self.phase = _AUTHENTICATING
        self.waits |= WAITS_FOR_EARLIER
        self.continue_soon()

    def session_expired(self) -> None:
        """Serve nothing but a request to authenticate again."""
        if self.phase == _SERVING:
            self.phase = _SESSION_EXPIRED

    # --- the end ---

    def close(self, reason: str, *, level: int = logging.WARNING) -> None:
        """Send what is ready, then close. `reason` becomes the one log line."""
        if self.phase < _CLOSING:
            self._begin_close(reason, level)
            self.end_writing(True)
            if self.stream is not None:
                self.stream.close()

    def disconnect(self, reason: str) -> None:
        """Close immediately and drop what is ready: its peer does not read. `reason` becomes the one log line."""
        if self.phase < _CLOSING:
            self._begin_close(reason, logging.WARNING)
        self.abort()

    def abort(self) -> None:
        """Close without waiting for a peer that does not read, and without a log line."""
        self.phase = max(self.phase, _CLOSING)
        self.end_writing(False)
        if self.stream is not None:
            self.stream.abort()

    def ended(self) -> None:
        """The stream is closed."""
        self.phase = _CLOSED
        self.stream = None
        if self._mute_timer is not None:
            self._mute_timer.cancel()
            self._mute_timer = None

    def _begin_close(self, reason: str, level: int) -> None:
        self.phase = _CLOSING
        client = self.client
        assert client is not None
        logger.log(
            level,
            "connection closed: address=%s:%d listener=%s reason=%s",
            client.peer.host,
            client.peer.port,
            client.listener,
            reason,
        )
