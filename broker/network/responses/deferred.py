"""A handler's outcome that is not a response: one that comes later, one that is encoded already, or the wish to close the
connection.

Rules: no IO. Source: Kafka DelayedOperation, RequestChannel.CloseConnectionResponse.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from protocol.schema import Response

T = TypeVar("T")


class CloseConnection(Exception):
    """A handler asks for the connection to be closed: no response can say what is wrong. The text goes to the log."""


class EncodedResponse:
    """A response that a connection gets again and again: its message is encoded, and its errors are counted, once.

    `message` is `response` without a throttle time. `error_counts` is the observer's: how often each error occurs in it.
    """

    __slots__ = ("error_counts", "message", "response")

    def __init__(self, response: Response, message: bytes) -> None:
        self.response = response
        self.message = message
        self.error_counts: tuple[tuple[int, int], ...] | None = None


class _Waiting:
    """The mark of an outcome that is not there yet; None may be one."""


_WAITING = _Waiting()


class FrameOwner(Protocol):
    """The one that counts the bytes of a request's frame in a budget."""

    def release_frame(self) -> None: ...


class Deferred(Generic[T]):
    """A response that comes later: stage two of Produce and Fetch. Completed once; later completions are ignored.

    Owner: the handler completes it, the connection waits for it. `abandon` informs the handler that no client waits any more
    (the connection is closed), so that it can leave its waiting lists; `expedite`, that it should wait no longer.
    `release_frame` informs the connection that the bytes of the request's frame are needed no longer.
    """

    __slots__ = ("_abandoned", "_callback", "_expedited", "_value", "frame_owner", "is_barrier", "keeps_request")

    def __init__(
        self,
        *,
        is_barrier: bool = False,
        keeps_request: bool = True,
        abandoned: Callable[[], None] | None = None,
        expedited: Callable[[], None] | None = None,
    ) -> None:
        """`is_barrier`: no later request of the connection starts before this one has its response. `keeps_request`: the
        frame stays in memory until the response, or until it is released; if not, little is left, or another component
        counts it. `abandoned` and `expedited` as for `on_abandon` and `on_expedite`."""
        self.is_barrier = is_barrier
        self.keeps_request = keeps_request
        self.frame_owner: FrameOwner | None = None
        self._value: Any = _WAITING
        self._callback: Callable[[T], None] | None = None
        self._abandoned = abandoned
        self._expedited = expedited

    def complete(self, value: T) -> None:
        if self._value is not _WAITING:
            return
        self._value = value
        self._abandoned = self._expedited = self.frame_owner = None
        if self._callback is not None:
            self._callback(value)

    @property
    def is_complete(self) -> bool:
        return self._value is not _WAITING

    def then(self, callback: Callable[[T], None]) -> None:
        """Call `callback` with the value, immediately when it is there."""
        assert self._callback is None, "one callback for each Deferred"
        self._callback = callback
        if self._value is not _WAITING:
            callback(cast(T, self._value))

    def follow(self, outcome: T | Deferred[T]) -> None:
        """Complete with `outcome` when it is there, and pass on `abandon` and `expedite` to it."""
        if not isinstance(outcome, Deferred):
            self.complete(outcome)
            return
        self._abandoned = partial(self.drop, outcome) if self.is_barrier else outcome.abandon
        self._expedited = outcome.expedite
        if outcome.keeps_request:
            outcome.frame_owner = self
        else:
            self.release_frame()
        outcome.then(self.complete)

    def drop(self, outcome: Deferred[T]) -> None:
        """Abandon `outcome`, for which this one waits, and complete when nobody works on the frame any more: who owns the frame
        waits for that, after it has abandoned a barrier."""
        outcome.abandon()
        if outcome.is_barrier:
            outcome.then(self.complete)
        else:
            self.complete(cast(T, None))

    def release_frame(self) -> None:
        """The bytes of the request's frame are needed no longer. No effect once it is completed or abandoned."""
        self.keeps_request = False
        owner, self.frame_owner = self.frame_owner, None
        if owner is not None:
            owner.release_frame()

    def on_abandon(self, callback: Callable[[], None]) -> None:
        self._abandoned = callback

    def abandon(self) -> None:
        callback, self._abandoned = self._abandoned, None
        self._callback = self._expedited = self.frame_owner = None
        if callback is not None:
            callback()

    def on_expedite(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the broker stops: for waits that only save the client another request."""
        self._expedited = callback

    def expedite(self) -> None:
        if self._expedited is not None:
            self._expedited()
