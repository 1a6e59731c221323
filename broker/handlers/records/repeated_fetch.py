"""The fast path of Fetch: a consumer that has everything asks again, and again there is nothing.

An idle consumer repeats its request. Without a session all bytes are those of the request before; in a session its epoch has
moved by one, and no partition is named. Two such requests in a row that waited are learned. From then on the fetch itself is
kept while its client is away: its partitions are watched on, so that it knows whether anything has changed. If nothing has, a
repeated request only begins another wait, and its response is that of the wait before.

Rules: learns from small requests of consumers alone, with an authorizer only from those of a session. While a quota counts
fetches, requests take the slow path. A fetch begins again when its session is at rest (`replication.fetch_sessions`) and its
client has the rights that it had; what ends a wait otherwise is done as on the slow path.
Invariants: no client can tell which path its request took. A connection keeps one fetch, which ends with it, and takes
as much memory as a fetch that waits.
Source: none in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from struct import Struct
from typing import TYPE_CHECKING, Any, cast

from broker.handlers.records.fetch import EVERYBODY, ParkedFetch, fetch_all, rights_of, slack_ms
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.deferred import Deferred, EncodedResponse
from protocol.messages.fetch import FetchRequest, FetchResponse
from replication.fetch_read import CONSUMER_ID, NO_ERROR
from replication.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, ResolvedFetch

if TYPE_CHECKING:
    from broker.network.dispatch import Frame, Outcome
    from broker.network.routes import Route
    from replication.fetch_read import PartitionRead
    from runtime.disk.filesystem import Buffer

LARGEST_FRAME_BYTES = 2048
"""Of a request with some 50 partitions. For larger ones decoding is a small part of the work."""
FIRST_VERSION = 7  # with sessions
# Of a frame: before this position are its API and version, which the route stands for, and its correlation id.
FRONT_POSITION = 8
_EPOCH = Struct(">i")
_unpack_epoch = _EPOCH.unpack_from


class KeptFetch(ParkedFetch):
    """A fetch that may begin again once its wait has ended without news. After another end it keeps nothing."""

    __slots__ = ("_encode", "_has_session", "_max_wait_ms", "_rights", "_slack_ms", "_unchanged")

    def __init__(
        self,
        encode: Callable[[FetchResponse, bytes], list[Buffer]],
        request: FetchRequest,
        context: RequestContext,
        resolved: ResolvedFetch,
        may_act: Rights,
        may_read: Rights,
    ) -> None:
        super().__init__(request, context, resolved, may_act, may_read)
        self._encode = encode
        self._max_wait_ms, self._slack_ms = request.max_wait_ms, slack_ms(request.max_wait_ms)
        self._rights = EVERYBODY if may_read.are_open else rights_of(context)
        self._unchanged: EncodedResponse | None = None  # the response while its session has no news
        self._has_session = resolved.session_id != NO_SESSION
        if not self._has_session:
            resolved.session.keep_apart()

    @property
    def is_waiting(self) -> bool:
        return self._timer is not None

    def repeat(self, epoch: int) -> bool:
        """Wait again, for a request with this session epoch. False, and nothing is done, if there may be news."""
        if self._unchanged is None or self._timer is not None:
            return False
        if self._may_read is not None and self._rights != rights_of(self._context):
            return False
        services, resolved = self._services, self._resolved
        if not self._has_session:
            if not resolved.session.begin_again():
                return False
        elif services.fetch_sessions.repeat(resolved, epoch, services.clock.monotonic_ms()):
            self._reads.clear()  # the client knows what they say
        else:
            return False
        resolved.session.parked = self
        self.deferred = Deferred(abandoned=self._abandon, expedited=self._on_deadline)
        self._timer = services.timer.schedule(self._max_wait_ms, self._on_deadline, self._slack_ms)
        return True

    def drop(self) -> None:
        """It will not begin again. A session that its client knows remains."""
        self._unchanged = None
        if not self._has_session:
            self._resolved.session.drop()

    def on_progress(self) -> None:
        self._unchanged = None
        super().on_progress()

    def _on_deadline(self) -> None:
        encoded, timer, services, resolved = self._unchanged, self._timer, self._services, self._resolved
        if (
            encoded is None
            or timer is None
            or services.quotas.counts_fetches
            or resolved.session.epoch != resolved.expected_epoch
            or not resolved.session.end_without_news()
        ):
            self._unchanged = None
            super()._on_deadline()
            return
        services.metrics.fetch_expired(is_replica=False)
        timer.cancel()
        self._timer = None
        self.deferred.complete(encoded)  # type: ignore[arg-type]  # the connection knows it

    def _response(self, reads: list[PartitionRead]) -> FetchResponse:
        response = super()._response(reads)
        resolved = self._resolved
        if (
            resolved.session.is_at_rest
            and response.error_code == NO_ERROR
            and not self._services.quotas.counts_fetches
            and not (resolved.is_incremental and response.responses)
        ):
            self._unchanged = EncodedResponse(response, b"".join(self._encode(response, b"")))
        else:
            self._reads.clear()  # with their records
            self.drop()
        return response


class RepeatedFetch:
    """What the requests of one connection repeat; `route` is None until that is known."""

    __slots__ = (
        "_behind",
        "_epoch_position",
        "_follows_close",
        "_front",
        "_has_session",
        "_kept",
        "_last",
        "_size_bytes",
        "context",
        "request",
        "route",
    )

    def __init__(self) -> None:
        self.route: Route | None = None
        self._last: Buffer = b""  # the last request that was learned from
        self._front: Buffer = b""  # what requests of the route begin with, and end with
        self._behind: Buffer = b""
        self._kept: KeptFetch | None = None
        self._follows_close = False

    # --- learning ---

    def learn(
        self,
        route: Route,
        frame: Buffer,
        position: int,
        request: FetchRequest,
        context: RequestContext,
        outcome: object,
    ) -> None:
        """Learn from a request on the slow path; its message begins at `position`."""
        size_bytes = len(frame)
        if not isinstance(outcome, Deferred) or size_bytes > LARGEST_FRAME_BYTES or route.version < FIRST_VERSION:
            return
        if request.replica_id != CONSUMER_ID or request.replica_state.replica_id != CONSUMER_ID:
            return  # of followers nothing is kept
        last, self._last = self._last, frame
        epoch_position = position + _epoch_position(route.version)
        behind_position = epoch_position + _EPOCH.size
        if (
            len(last) != size_bytes
            or last[behind_position:] != frame[behind_position:]
            or last[FRONT_POSITION:epoch_position] != frame[FRONT_POSITION:epoch_position]
        ):
            self.route = None
            if self._kept is not None:
                self._forget()
        elif route is not self.route:
            self._has_session = request.session_epoch > INITIAL_EPOCH
            if self._may_repeat(route, request, context):
                self._front, self._behind = frame[FRONT_POSITION:epoch_position], frame[behind_position:]
                self._size_bytes, self._epoch_position = size_bytes, epoch_position
                self.request, self.context, self.route = request, context, route

    def _may_repeat(self, route: Route, request: FetchRequest, context: RequestContext) -> bool:
        # Without a session the client's rights are looked up, and logged, for each request.
        are_open = all(right.are_open for right in context.rights(route.filtered))
        return self._has_session or (request.session_epoch == FINAL_EPOCH and are_open)

    # --- repeating ---

    def recognise(self, frame: Frame) -> Any:
        """Recognise a request of `route`, and return its session epoch; None if it differs in more than that."""
        if (
            len(frame) != self._size_bytes
            or not frame.startswith(self._front, FRONT_POSITION)
            or not frame.endswith(self._behind)
        ):
            return None
        (epoch,) = _unpack_epoch(frame, self._epoch_position)
        if epoch <= INITIAL_EPOCH if self._has_session else epoch != FINAL_EPOCH:
            return None
        return None if self.context.services.quotas.counts_fetches else epoch

    def handle(self, _frame: Frame, epoch: int, _correlation_id: int) -> Outcome | Deferred[Outcome]:
        """Answer a request that was recognised."""
        kept = self._kept
        if kept is not None and kept.repeat(epoch):
            return kept.deferred  # type: ignore[return-value]  # to cast it is a call
        request, context, route = self.request, self.context, self.route
        assert route is not None
        request.session_epoch = epoch
        parked_type: Callable[..., ParkedFetch] = ParkedFetch
        if kept is None or not kept.is_waiting:  # else the client does not wait for the response before
            self._forget()
            parked_type = partial(self._keep, route)
        rights = context.rights(route.filtered)
        return cast("Outcome | Deferred[Outcome]", fetch_all(request, context, *rights, parked_type=parked_type))

    def throttled(self, _frame: bytes, _throttle_time_ms: int) -> bytes:
        raise AssertionError("no response of a fetch is encoded here")

    def as_slow_path(self, correlation_id: int, new: int) -> tuple[FetchRequest, RequestContext]:
        """Return request and context as the slow path would have made them."""
        context, request = self.context, self.request
        request.session_epoch = new
        return request, RequestContext(
            context.api_version, correlation_id, context.client_id, context.connection, context.services
        )

    def _keep(self, route: Route, request: FetchRequest, context: RequestContext, *more: Any) -> KeptFetch:
        kept = self._kept = KeptFetch(route.encode, request, context, *more)
        if not self._follows_close:
            self._follows_close = True
            context.on_close(self._forget)
        return kept

    def _forget(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.drop()


@cache
def _epoch_position(version: int) -> int:
    """Return where a request has its session epoch: behind fields of fixed sizes."""
    requests = (FetchRequest(max_wait_ms=0, min_bytes=0, topics=[], session_epoch=epoch) for epoch in (0, -1))
    zero, other = (b"".join(request.encode_chunks(version)) for request in requests)
    return next(at for at in range(len(zero)) if zero[at] != other[at])
