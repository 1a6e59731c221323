"""From a decoded request to its response: the table of handlers, and the one place where handlers' errors end.

Rules: `@handles(XRequest, access)` marks a handler; `broker.handlers.ALL` is the table of all of them. An `async def`
handler is a barrier of its connection and costs no task unless it really waits; it may return a `Deferred`, for which the
request is kept no longer. A plain `def` handler (Produce, Fetch) returns a response, a `Deferred`, or None when nothing is to
be sent. A request reaches its handler through the gate (`broker.network.gate`).
A `KafkaError` becomes the response's top-level error where the message has one; anything else that escapes is a bug: it
is logged once with its traceback, and the error is UNKNOWN_SERVER_ERROR. Where no response can carry an error, the connection
is closed.
A large request may wait in a queue before it is decoded (`broker.network.requests.large_requests`).
A handler must not enter `asyncio.timeout` before it has awaited something: until then it runs outside any task.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import types
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from broker.network.gate import Gate, OpenGate
from broker.network.request_context import RequestContext
from broker.network.requests.large_requests import Undecoded
from broker.network.responses.deferred import CloseConnection, Deferred, EncodedResponse
from broker.network.responses.error_responses import TOP_LEVEL, Errors
from broker.network.routes import DispatchTable, Handler, Route
from protocol.errors import ErrorCode, KafkaError
from protocol.fields import Versions
from protocol.primitives import DecodeError
from protocol.schema import Request, Response
from security.access import Access, Requirement

if TYPE_CHECKING:
    from broker.observability.audited_request import Audit
    from runtime.disk.filesystem import Buffer
    from runtime.tasks import TaskScope

logger = logging.getLogger(__name__)

R = TypeVar("R", bound=Request)
S = TypeVar("S", bound=Response)

# What a handler, and so `Dispatch.handle`, returns. None: nothing is sent.
Outcome = Response | EncodedResponse | CloseConnection | None
HandlerFunction = Callable[..., Any]
# Of a whole request, behind its length: of one with records it may be changed.
Frame = bytes | bytearray


def handles(
    request_type: type[R],
    access: Requirement | Access,
    versions: str | None = None,
    *,
    errors: Errors = TOP_LEVEL,
    audit: Audit | None = None,
) -> Callable[[HandlerFunction], Handler[R]]:
    """Mark a handler of `request_type`, which needs `access`; `versions` narrows what the message class knows. `errors` is the
    form of the response to a request that failed as a whole; an API of administration has an `audit`."""
    served = Versions.parse(versions) if versions else Versions(request_type.min_version, request_type.max_version)
    assert request_type.min_version <= served.first <= served.last <= request_type.max_version, (
        f"{request_type.__name__} has no versions {versions}"
    )

    def mark(function: HandlerFunction) -> Handler[R]:
        overlaps = not inspect.iscoroutinefunction(function)
        needs = (access,) if isinstance(access, Requirement) else access
        handler = Handler(request_type, function, served.first, served.last, overlaps, needs, errors, audit)
        code, count = function.__code__, 2 + len(handler.filtered)
        assert code.co_argcount - len(function.__defaults__ or ()) == count, (
            f"{code.co_name} takes no {count} parameters"
        )
        return handler

    return mark


class FastPath(Protocol):
    """How those requests of one connection are handled that repeat an earlier one but for what is new in each: without
    being decoded. No client can tell which path its request took."""

    route: Route | None
    """Of the requests that may be recognised; None while too little is known."""

    @property
    def request(self) -> Request:
        """What recognised requests repeat, without what is new in each. There is one when there is a `route`."""

    @property
    def context(self) -> RequestContext:
        """Of the request that they repeat. There is one when there is a `route`."""

    def learn(
        self, route: Route, frame: Buffer, position: int, request: Any, context: RequestContext, outcome: object
    ) -> None:
        """A request took the slow path; its message begins at `position` of the frame, its handler returned `outcome`."""

    def recognise(self, frame: Frame) -> Any:
        """Return what is new in a request of `route`, or None when it does not repeat another."""

    def handle(self, frame: Frame, new: Any, correlation_id: int) -> bytes | Outcome | Deferred[Outcome]:
        """Return the whole frame of a small response, or what a handler returns."""

    def throttled(self, frame: bytes, throttle_time_ms: int) -> bytes:
        """Return the frame of a response that `handle` returned, with this throttle time."""

    def as_slow_path(self, correlation_id: int, new: Any) -> tuple[Request, RequestContext]:
        """Return what the slow path would have made of the request, without its records."""


class RequestObserver(Protocol):
    """Counts and times requests. `stamp` is its own; its calls are on the hot path."""

    def began(self, route: Route, size_bytes: int) -> int:
        """A request is handed to its handler; returns a stamp."""

    def waits(self) -> int:
        """The handler of a request has returned, and the response comes later; returns another stamp."""

    def answered(
        self, route: Route, stamp: int, response: Response | EncodedResponse | None, waiting_since: int = 0
    ) -> None:
        """Its response is ready to be sent; None: it has none. `waiting_since` is what `waits` returned."""

    def answered_encoded(self, route: Route, stamp: int) -> None:
        """Its response was encoded on the fast path, which is a success of one partition."""


class Dispatch:
    """Runs the handlers of requests that `gate` admits. `tasks` owns those that wait."""

    def __init__(
        self, table: DispatchTable, tasks: TaskScope, observer: RequestObserver | None = None, gate: Gate | None = None
    ) -> None:
        self.table = table
        self.observer = observer
        self.gate: Gate = gate or OpenGate()
        self._tasks = tasks

    def handle(
        self, route: Route, request: Request | Undecoded, context: RequestContext
    ) -> Outcome | Deferred[Outcome]:
        if isinstance(request, Undecoded):
            return self._handle_in_queue(route, request, context)
        refusal = self.gate.admit(route, request, context)
        if refusal is not None:
            return refuse(route, request, refusal.error, refusal.message)
        try:
            if route.overlaps:
                outcome: Outcome | Deferred[Outcome] = route.function(request, context, *context.rights(route.filtered))
                return outcome
            return self._drive(route, request, context)
        except KafkaError as error:
            return refuse(route, request, error.code, error.own_message)
        except CloseConnection as close:
            return close
        except Exception as error:  # noqa: BLE001 - a handler's bug must not take the broker down
            return _fail(route, request, context, error)

    def handle_fast(
        self, path: FastPath, frame: Frame, new: Any, correlation_id: int
    ) -> bytes | Outcome | Deferred[Outcome]:
        """As `handle`, for a request that `path` has recognised and the gate has admitted."""
        try:
            return path.handle(frame, new, correlation_id)
        except Exception as error:  # noqa: BLE001 - as in `handle`
            assert path.route is not None
            return _fail(path.route, *path.as_slow_path(correlation_id, new), error)

    def _handle_in_queue(self, route: Route, undecoded: Undecoded, context: RequestContext) -> Deferred[Outcome]:
        """A large request: it is decoded and handled when it is first in the queue."""
        deferred: Deferred[Outcome] = Deferred()

        def handle() -> None:
            try:
                request = undecoded.request
            except DecodeError as error:
                name, version = route.handler.api_name, route.version
                deferred.complete(CloseConnection(f"malformed {name} version {version}: {error}"))
            else:
                deferred.follow(self.handle(route, request, context))

        serial_queue = context.services.serial_queue
        place = serial_queue.when_free(undecoded.decode, handle)
        deferred.on_abandon(lambda: serial_queue.cancel(place))
        return deferred

    def _drive(self, route: Route, request: Request, context: RequestContext) -> Outcome | Deferred[Outcome]:
        """Run an `async def` handler up to its first real wait; most have none and need no task."""
        coroutine: Coroutine[Any, Any, Outcome | Deferred[Outcome]] = route.function(
            request, context, *context.rights(route.filtered)
        )
        try:
            awaited = coroutine.send(None)
        except StopIteration as stop:
            outcome: Outcome | Deferred[Outcome] = stop.value
            return outcome
        deferred: Deferred[Outcome] = Deferred(keeps_request=route.keeps_request)
        rest: Generator[Any, Any, Outcome | Deferred[Outcome]] = _resume(coroutine, awaited)
        meter = self.gate.meter
        if meter.times_requests:
            rest = meter.timed_rest(context.connection, rest)
        self._tasks.spawn(
            self._finish(route, request, context, rest, deferred),
            name=route.handler.api_name,
        )
        return deferred

    async def _finish(
        self,
        route: Route,
        request: Request,
        context: RequestContext,
        rest: Generator[Any, Any, Outcome | Deferred[Outcome]],
        deferred: Deferred[Outcome],
    ) -> None:
        outcome: Outcome | Deferred[Outcome]
        try:
            outcome = await cast("Coroutine[Any, Any, Outcome | Deferred[Outcome]]", rest)
        except KafkaError as error:
            outcome = refuse(route, request, error.code, error.own_message)
        except CloseConnection as close:
            outcome = close
        except asyncio.CancelledError:
            deferred.complete(CloseConnection("the broker is stopping"))
            raise
        except Exception as error:  # noqa: BLE001 - as in `handle`
            outcome = _fail(route, request, context, error)
        deferred.follow(outcome)


@types.coroutine
def _resume(
    coroutine: Coroutine[Any, Any, Outcome | Deferred[Outcome]], awaited: Any
) -> Generator[Any, Any, Outcome | Deferred[Outcome]]:
    """The rest of a coroutine that was started outside a task and waits for `awaited`."""
    try:
        yield awaited
    except BaseException as error:  # noqa: BLE001 - cancellation goes where it would have gone
        try:
            awaited = coroutine.throw(error)
        except StopIteration as stop:
            return cast("Outcome | Deferred[Outcome]", stop.value)
        return (yield from _resume(coroutine, awaited))
    return (yield from coroutine.__await__())


def refuse(route: Route, request: Request, error: ErrorCode, message: str | None) -> Outcome:
    """Return the response to a request that failed as a whole."""
    response = route.handler.errors(request, route.version, error, message)
    if response is None:
        text = KafkaError(error, message)
        return CloseConnection(f"{route.handler.api_name} failed, and no response can carry an error: {text}")
    return response


def _fail(route: Route, request: Request, context: RequestContext, error: Exception) -> Outcome:
    logger.error(
        "request failed: api=%s version=%d client_id=%r address=%s listener=%s",
        route.handler.api_name,
        route.version,
        context.client_id,
        context.client_host,
        context.listener,
        exc_info=error,
    )
    response = route.handler.errors(request, route.version, ErrorCode.UNKNOWN_SERVER_ERROR, None)
    if response is None:
        return CloseConnection(f"{route.handler.api_name} failed, and no response can carry an error")
    return response
