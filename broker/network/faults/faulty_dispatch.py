"""In place of a `Dispatch`, where a test may inject faults: does the same, but for the requests that faults are for.

Rules: a request that is late holds back those behind it on its connection, as it would on a slow broker, and no others; it is
carried out also when its client has left meanwhile, so that a client that asks again finds the work done. One that is refused
does nothing: its rights and what it asks are not looked at. A broker that stops carries out what is late at once.
Errors stand where the response of a request that failed as a whole has them. In a fetch they stand in the rows of partitions,
but for errors of sessions. A fetch of a session does not name its partitions: it is told that there is no such session, and the
next one, which names them, gets the error. Metadata has the error in the rows of topics, of those that there are where all are
asked for, and names the brokers as ever: a client without any would reach nobody again. A request for brokers alone has no row
for an error, and is carried out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from broker.network.dispatch import refuse
from broker.network.requests.large_requests import Undecoded
from broker.network.responses.deferred import CloseConnection, Deferred
from broker.network.responses.error_responses import ErrorForm
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.primitives import DecodeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.network.dispatch import Dispatch, FastPath, Frame, Outcome
    from broker.network.faults.fault_table import FaultTable, InjectedFault
    from broker.network.request_context import RequestContext
    from broker.network.routes import Route
    from protocol.schema import Request
    from runtime.timer import Timer

_SIZE_BYTES = 4  # before the rest of a response's head
_NO_OFFSET = -1
_of_sessions = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
# Records are empty, not null: librdkafka does not read the latter.
_fetch_rows = ErrorForm(
    {"responses": "topics"},
    high_watermark=_NO_OFFSET,
    last_stable_offset=_NO_OFFSET,
    log_start_offset=_NO_OFFSET,
    records=b"",
)


class FaultyDispatch:
    """`timer` is the broker's; `faults` are those in force."""

    def __init__(self, dispatch: Dispatch, timer: Timer, faults: FaultTable) -> None:
        self.table, self.observer, self.gate = dispatch.table, dispatch.observer, dispatch.gate
        self._dispatch = dispatch
        self._timer = timer
        self._faults = faults

    def handle(
        self, route: Route, request: Request | Undecoded, context: RequestContext
    ) -> Outcome | Deferred[Outcome]:
        fault = self._fault_of(route, request)
        if fault is None:
            return self._dispatch.handle(route, request, context)
        error = fault.error

        def carry_out() -> Outcome | Deferred[Outcome]:
            if fault.closes:
                return CloseConnection("a test asked for it")
            if error is None:
                return self._dispatch.handle(route, request, context)
            if isinstance(request, MetadataRequest):
                return self._metadata_refused(route, request, context, error)
            return _refused(route, request, error)

        return self._late(fault.delay_ms, carry_out) if fault.delay_ms else carry_out()

    def handle_fast(
        self, path: FastPath, frame: Frame, new: Any, correlation_id: int
    ) -> bytes | Outcome | Deferred[Outcome]:
        route = path.route
        assert route is not None
        fault = self._fault_of(route, path.request)
        if fault is None:
            return self._dispatch.handle_fast(path, frame, new, correlation_id)
        error = fault.error

        def carry_out() -> Outcome | Deferred[Outcome]:
            if fault.closes:
                return CloseConnection("a test asked for it")
            if error is not None:
                return _refused(route, path.as_slow_path(correlation_id, new)[0], error)
            outcome = self._dispatch.handle_fast(path, frame, new, correlation_id)
            if isinstance(outcome, bytes):
                response_type = route.handler.request_type.response_type
                return cast("Outcome", response_type.decode(outcome, route.version, _SIZE_BYTES + route.head_bytes))
            return outcome

        return self._late(fault.delay_ms, carry_out) if fault.delay_ms else carry_out()

    def _fault_of(self, route: Route, request: Request | Undecoded) -> InjectedFault | None:
        """Return the fault that a request is for, which has counted it."""
        key, is_follower = route.handler.api_key, _is_of_follower(request)
        fault = self._faults.of(key, is_follower=is_follower)
        if fault is not None and fault.error is not None and _asks_for_brokers(route, request):
            return None
        if fault is not None and not _begins_anew(request, fault):
            self._faults.use(key, fault, is_follower=is_follower)
        return fault

    def _metadata_refused(
        self, route: Route, request: MetadataRequest, context: RequestContext, error: ErrorCode
    ) -> Deferred[Outcome]:
        request.allow_auto_topic_creation = False
        refused: Deferred[Outcome] = Deferred(is_barrier=True)

        def answered(outcome: Outcome) -> None:
            if isinstance(outcome, MetadataResponse):
                for row in outcome.topics:
                    row.error_code, row.partitions = error, []
            refused.complete(outcome)

        outcome = self._dispatch.handle(route, request, context)
        if isinstance(outcome, Deferred):
            outcome.then(answered)
        else:
            answered(outcome)
        return refused

    def _late(self, delay_ms: int, carry_out: Callable[[], Outcome | Deferred[Outcome]]) -> Deferred[Outcome]:
        """Return the outcome of a request that is carried out after a delay, and before any other of its connection."""
        late: Deferred[Outcome] = Deferred(is_barrier=True)
        has_left = False

        def abandon() -> None:
            nonlocal has_left
            has_left = True

        def go_on() -> None:
            entry.cancel()
            outcome = carry_out()
            if has_left and isinstance(outcome, Deferred):
                late.drop(outcome)
            else:
                late.follow(outcome)

        entry = self._timer.schedule(delay_ms, go_on)
        late.on_abandon(abandon)
        late.on_expedite(go_on)
        return late


def _refused(route: Route, request: Request | Undecoded, error: ErrorCode) -> Outcome:
    """Return the response with this error."""
    if isinstance(request, Undecoded):
        request.decode()
        try:
            request = request.request
        except DecodeError as malformed:
            return CloseConnection(f"malformed {route.handler.api_name} version {route.version}: {malformed}")
    if not isinstance(request, FetchRequest) or error in _of_sessions:
        return refuse(route, request, error, None)
    if _has_session(request):
        return refuse(route, request, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, None)
    response = _fetch_rows(request, route.version, error, None)
    assert isinstance(response, FetchResponse)
    response.error_code = ErrorCode.NONE
    return response


def _has_session(request: FetchRequest) -> bool:
    """Whether a fetch names only what has changed since the one before."""
    return request.session_epoch > 0


def _begins_anew(request: Request | Undecoded, fault: InjectedFault) -> bool:
    """Whether a request ends its session only, so that the next one is for the fault."""
    has_error = fault.error is not None and fault.error not in _of_sessions
    return has_error and isinstance(request, FetchRequest) and _has_session(request)


def _asks_for_brokers(route: Route, request: Request | Undecoded) -> bool:
    """Whether it is a request for the brokers, and no topic. In version 0 no topic means all."""
    return isinstance(request, MetadataRequest) and request.topics == [] and route.version > 0


def _is_of_follower(request: Request | Undecoded) -> bool:
    state = getattr(request, "replica_state", None)  # of a fetch; by version it is in one of them
    return max(getattr(request, "replica_id", -1), -1 if state is None else state.replica_id) >= 0
