"""A log line for each request: at DEBUG of the logger `kafka.request.logger` who asked what, and how long it took; at TRACE the
contents of request and response as well.

Rules: nothing of it is in the way of a request while the logger is off: when its level changes, connections get another
`Dispatch`, or the plain one back. Contents are made into a text at once and are short (`broker.observability.message_text`), so
that no request is kept for its line. A request whose client disconnects before it has a response is logged, too. Those of an
authentication are not: they reach no handler.
Source: Kafka RequestChannel.updateRequestMetrics, config/log4j.properties.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from broker.network.requests.large_requests import Undecoded
from broker.network.responses.deferred import CloseConnection, Deferred, EncodedResponse
from broker.observability.logging_setup import REQUEST_LOGGER, follow_levels
from broker.observability.message_text import message_text
from protocol.errors import ErrorCode
from protocol.schema import Response
from runtime.log_forms import TRACE

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.network.dispatch import Dispatch, FastPath, Frame, Outcome
    from broker.network.faults.faulty_dispatch import FaultyDispatch
    from broker.network.request_context import RequestContext
    from broker.network.routes import Route
    from protocol.schema import Request
    from runtime.clock import Clock

    PlainDispatch: TypeAlias = Dispatch | FaultyDispatch
    AnyDispatch: TypeAlias = "PlainDispatch | LoggedDispatch"

logger = logging.getLogger(REQUEST_LOGGER)

_SIZE_BYTES = 4  # before the rest of a response's head
_NOT_SHOWN = "..."


class RequestLog:
    """Switches the log of a broker's requests on and off, as the level of its logger says, until `close`."""

    def __init__(self, dispatch: PlainDispatch, clock: Clock, use: Callable[[AnyDispatch], None]) -> None:
        """`use` is called with the dispatch that connections go through from now on."""
        self._use = use
        self._plain, self._logged = dispatch, LoggedDispatch(dispatch, clock)
        self._end_following = follow_levels(self._follow)
        self._follow()

    def close(self) -> None:
        self._end_following()

    def _follow(self) -> None:
        self._use(self._logged if logger.isEnabledFor(logging.DEBUG) else self._plain)


class _LoggedRequest(NamedTuple):
    """What is known of a request before its outcome. `contents` is empty unless they are logged."""

    route: Route
    context: RequestContext
    correlation_id: int
    began_ns: int
    contents: str


class LoggedDispatch:
    """In place of a `Dispatch`: does the same, and logs each request when it has its outcome."""

    def __init__(self, dispatch: PlainDispatch, clock: Clock) -> None:
        self.table, self.observer, self.gate = dispatch.table, dispatch.observer, dispatch.gate
        self._dispatch = dispatch
        self._now_ns = clock.monotonic_ns

    def handle(
        self, route: Route, request: Request | Undecoded, context: RequestContext
    ) -> Outcome | Deferred[Outcome]:
        asked = self._asked(route, request, context, context.correlation_id)
        outcome = self._dispatch.handle(route, request, context)
        if isinstance(outcome, Deferred):
            return self._followed(asked, outcome)
        self._log(asked, outcome)
        return outcome

    def handle_fast(
        self, path: FastPath, frame: Frame, new: object, correlation_id: int
    ) -> bytes | Outcome | Deferred[Outcome]:
        route = path.route
        assert route is not None
        asked = self._asked(route, *path.as_slow_path(correlation_id, new), correlation_id)
        outcome = self._dispatch.handle_fast(path, frame, new, correlation_id)
        if isinstance(outcome, Deferred):
            return self._followed(asked, outcome)
        if isinstance(outcome, bytes):
            response_type = route.handler.request_type.response_type
            self._log(asked, response_type.decode(outcome, route.version, _SIZE_BYTES + route.head_bytes))
        else:
            self._log(asked, outcome)
        return outcome

    def _asked(
        self, route: Route, request: Request | Undecoded, context: RequestContext, correlation_id: int
    ) -> _LoggedRequest:
        contents = ""
        if logger.isEnabledFor(TRACE):
            contents = _NOT_SHOWN if isinstance(request, Undecoded) else message_text(request)
        return _LoggedRequest(route, context, correlation_id, self._now_ns(), contents)

    def _followed(self, asked: _LoggedRequest, outcome: Deferred[Outcome]) -> Deferred[Outcome]:
        """Return what completes with `outcome`, and is logged then."""
        followed: Deferred[Outcome] = Deferred(is_barrier=outcome.is_barrier, keeps_request=outcome.keeps_request)

        def abandon() -> None:
            self._write(asked, "abandoned", "")
            followed.drop(outcome)

        def complete(value: Outcome) -> None:
            self._log(asked, value)
            followed.complete(value)

        followed.on_abandon(abandon)
        followed.on_expedite(outcome.expedite)
        if outcome.keeps_request:
            outcome.frame_owner = followed
        outcome.then(complete)
        return followed

    def _log(self, asked: _LoggedRequest, outcome: Outcome) -> None:
        contents = ""
        if isinstance(outcome, EncodedResponse):
            outcome = outcome.response
        match outcome:
            case Response():
                code = getattr(outcome, "error_code", ErrorCode.NONE)
                text = "answered" if code == ErrorCode.NONE else ErrorCode(code).name
                contents = message_text(outcome) if asked.contents else ""
            case CloseConnection():
                text = "closed"
            case None:
                text = "unanswered"
        self._write(asked, text, contents)

    def _write(self, asked: _LoggedRequest, outcome: str, contents: str) -> None:
        route, context = asked.route, asked.context
        facts = (
            route.handler.api_name, route.version, asked.correlation_id, context.client_id, str(context.principal),
            context.connection.peer.host, context.connection.peer.port, context.listener,
            (self._now_ns() - asked.began_ns) // 1000,
        )  # fmt: skip
        if asked.contents:
            logger.log(
                TRACE,
                "request done: api=%s version=%d correlation_id=%d client_id=%r principal=%r address=%s:%d listener=%s "
                "duration_us=%d outcome=%s request=%s response=%s",
                *facts, outcome, asked.contents, contents,
            )  # fmt: skip
        else:
            logger.debug(
                "request done: api=%s version=%d correlation_id=%d client_id=%r principal=%r address=%s:%d listener=%s "
                "duration_us=%d outcome=%s",
                *facts, outcome,
            )  # fmt: skip
