"""What a handler knows about the request it answers, besides the decoded message.

Invariant: a context lives as long as its request; a connection's facts are shared by all of its contexts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from runtime.transport import Address

if TYPE_CHECKING:
    from broker.services import Services

T = TypeVar("T")


class CloseConnection(Exception):
    """A handler asks for the connection to be closed: the only answer that is left. The text goes to the log."""


class _Waiting:
    """The mark of an answer that is not there yet; None may be an answer."""


_WAITING = _Waiting()


class Holder(Protocol):
    """Who counts the memory of a request that waits."""

    def free(self) -> None: ...


class Deferred(Generic[T]):
    """An answer that comes later: stage two of Produce and Fetch. Completed once; later completions are ignored.

    Owner: the handler completes it, the connection waits for it. `abandon` tells the handler that nobody waits any more
    (the connection is gone), so that it can leave its waiting lists; `hurry`, that it should not wait any longer.
    `free` tells the connection that what the client sent is kept no longer: the bytes of its frame are free.
    """

    __slots__ = ("_abandoned", "_callback", "_hurried", "_value", "holder", "is_barrier", "keeps_request")

    def __init__(self, *, is_barrier: bool = False, keeps_request: bool = True) -> None:
        """`is_barrier`: nothing behind this request starts before it is answered. `keeps_request`: what the client sent
        stays in memory until the answer, or until it is freed; if not, little is left, or its owner counts it."""
        self.is_barrier = is_barrier
        self.keeps_request = keeps_request
        self.holder: Holder | None = None
        self._value: Any = _WAITING
        self._callback: Callable[[T], None] | None = None
        self._abandoned: Callable[[], None] | None = None
        self._hurried: Callable[[], None] | None = None

    def complete(self, value: T) -> None:
        if self._value is not _WAITING:
            return
        self._value = value
        self._abandoned = self._hurried = self.holder = None
        if self._callback is not None:
            self._callback(value)

    @property
    def is_complete(self) -> bool:
        return self._value is not _WAITING

    def then(self, callback: Callable[[T], None]) -> None:
        """Call `callback` with the value: at once when it is already there."""
        assert self._callback is None, "one waiter per answer"
        self._callback = callback
        if self._value is not _WAITING:
            callback(cast(T, self._value))

    def follow(self, outcome: T | Deferred[T]) -> None:
        """Complete with `outcome` when it is there, and tell it what this one is told."""
        if not isinstance(outcome, Deferred):
            self.complete(outcome)
            return
        self._abandoned, self._hurried = outcome.abandon, outcome.hurry
        if outcome.keeps_request:
            outcome.holder = self
        else:
            self.free()
        outcome.then(self.complete)

    def free(self) -> None:
        """What the client sent is kept no longer. Tells the holder, unless it is answered or abandoned."""
        self.keeps_request = False
        holder, self.holder = self.holder, None
        if holder is not None:
            holder.free()

    def on_abandon(self, callback: Callable[[], None]) -> None:
        self._abandoned = callback

    def abandon(self) -> None:
        callback, self._abandoned = self._abandoned, None
        self._callback = self._hurried = self.holder = None
        if callback is not None:
            callback()

    def on_hurry(self, callback: Callable[[], None]) -> None:
        """For waits that only save the client a question: the broker is stopping."""
        self._hurried = callback

    def hurry(self) -> None:
        if self._hurried is not None:
            self._hurried()


@dataclass(slots=True)
class ClientConnection:
    """The facts of one connection that outlive a request.

    `principal` changes when the client authenticates; `software` is (name, version) once ApiVersions told them.
    """

    connection_id: str
    listener: str
    security_protocol: str
    peer: Address
    local: Address
    principal: str
    software: tuple[str, str] | None = None
    closed_callbacks: list[Callable[[], None]] = field(default_factory=list)


@dataclass(slots=True)
class RequestContext:
    """`client_id` is None when the client sent none."""

    api_version: int
    correlation_id: int
    client_id: str | None
    connection: ClientConnection
    services: Services

    @property
    def client_host(self) -> str:
        return self.connection.peer.host

    @property
    def listener(self) -> str:
        return self.connection.listener

    @property
    def principal(self) -> str:
        return self.connection.principal

    @property
    def local_address(self) -> Address:
        return self.connection.local

    @property
    def connection_id(self) -> str:
        return self.connection.connection_id

    @property
    def software(self) -> tuple[str, str] | None:
        return self.connection.software

    def on_close(self, callback: Callable[[], None]) -> None:
        """Call `callback` once when the connection is gone."""
        self.connection.closed_callbacks.append(callback)
