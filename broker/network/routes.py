"""The table of handlers: one row for each API, one route for each API in one version.

Rules: pure. `Handler` and `Route` say what does not change about a request: its codec, its rights, whether it overlaps. What a
handler is called with is the concern of `broker.network.dispatch`, so these rows know nothing of the broker's components.
Source: Kafka ApiKeys, ApiVersionsResponse.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from broker.network.newer_versions import NEWER
from broker.network.requests.large_requests import Undecoded, small_only
from broker.network.responses.error_responses import TOP_LEVEL, Errors
from metadata.features import CurrentLevels
from protocol.codec.bounds import heaviest_element
from protocol.header import request_header_version, response_header_version
from protocol.messages.alter_partition import AlterPartitionRequest
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leader_and_isr import LeaderAndIsrRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from protocol.messages.stop_replica import StopReplicaRequest
from protocol.messages.sync_group import SyncGroupRequest
from protocol.messages.update_metadata import UpdateMetadataRequest
from protocol.schema import Message, Request, Response

if TYPE_CHECKING:
    from broker.observability.audited_request import Audit
    from metadata.features import FeatureLevels
    from runtime.disk.filesystem import Buffer
    from security.access import Access, Requirement

R = TypeVar("R", bound=Request)

# What the controller sends, about all of a broker's partitions in one request.
CONTROL_KEYS = frozenset(
    request_type.api_key for request_type in (LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest)
)

# Served before the broker is ready: what makes it ready, and what clients send before their first real request.
EARLY_KEYS = CONTROL_KEYS | {
    request_type.api_key for request_type in (ApiVersionsRequest, SaslHandshakeRequest, SaslAuthenticateRequest)
}
# What ends the rebalance of a group: none of these waits for requests that wait. What members keep in memory while they wait
# is counted by the group coordinator (`coordinator.group.classic.waiting_bytes`).
REBALANCE_KEYS = frozenset(
    request_type.api_key for request_type in (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest)
)
# What the cluster waits for: none of these waits in the queue of clients' large requests.
URGENT_KEYS = CONTROL_KEYS | {AlterPartitionRequest.api_key}

THROTTLE_TIME = "throttle_time_ms"
"""The field of a response that tells a client for how long it is muted."""
_HEAD_V0 = struct.Struct(">ii")
_HEAD_V1 = struct.Struct(">iix")  # with its empty tag section
_CORRELATION_BYTES = 4


@dataclass(frozen=True, slots=True)
class Handler(Generic[R]):
    """One row of the table. Callable like the function it stands for."""

    request_type: type[R]
    function: Callable[..., Any]
    first_version: int
    last_version: int
    overlaps: bool
    access: Access
    """What the request needs."""
    errors: Errors = TOP_LEVEL
    """Makes the response to a request that failed as a whole."""
    audit: Audit | None = None
    """Of an API of administration: what the audit log says of a request."""
    fast_path: Callable[[], Any] | None = None
    """Makes a `broker.network.dispatch.FastPath` for each connection that sends such requests."""

    filtered: tuple[Requirement, ...] = field(init=False)
    """What the handler filters: for each it takes `Rights`, behind the request and its context
    (`broker.network.request_context`)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "filtered", tuple(need for need in self.access if need.is_filtered))

    @property
    def api_key(self) -> int:
        return self.request_type.api_key

    @property
    def api_name(self) -> str:
        return self.request_type.api_name

    def __call__(self, request: R, context: Any) -> Any:
        return self.function(request, context, *context.rights(self.filtered))


class ApiVersionRow(NamedTuple):
    api_key: int
    first_version: int
    last_version: int


class Route:
    """One API in one version: everything about it that a request needs and that does not change."""

    __slots__ = (
        "decode",
        "element_cost",
        "encode",
        "fast_path",
        "filtered",
        "for_followers",
        "function",
        "handler",
        "has_records",
        "has_throttle_time",
        "head",
        "head_bytes",
        "is_control",
        "is_flexible",
        "is_plain",
        "keeps_request",
        "kind",
        "overlaps",
        "version",
    )

    def __init__(self, handler: Handler[Any], version: int, *, is_for_followers: bool = False) -> None:
        request_type = handler.request_type
        self.handler = handler
        self.version = version
        self.function = handler.function
        self.filtered = handler.filtered
        self.overlaps = handler.overlaps
        self.fast_path = handler.fast_path
        self.encode: Callable[[Response, bytes], list[Buffer]] = request_type.response_type.encoder(version)
        self.is_flexible = request_header_version(handler.api_key, version) == 2
        self.has_records = _has_records(request_type)
        self.has_throttle_time = any(
            field.name == THROTTLE_TIME and field.versions.covers(version)
            for field in request_type.response_type.__fields__
        )
        self.is_control = handler.api_key in CONTROL_KEYS
        self.keeps_request = handler.api_key not in REBALANCE_KEYS  # while it waits
        self.is_plain = not self.has_records and self.keeps_request and handler.api_key not in URGENT_KEYS
        decode = request_type.decoder(version)
        self.decode: Callable[[Buffer, int, int], tuple[Request | Undecoded, int]] = (
            decode if self.overlaps or self.has_records or handler.api_key in URGENT_KEYS else small_only(decode)
        )
        # An element of a request mostly has one in the response, which is the larger one: it has to fit as well.
        asked = heaviest_element(request_type, version)
        responded = 0 if self.has_records else heaviest_element(request_type.response_type, version)
        self.element_cost = -(-(asked + responded) // asked)
        head = _HEAD_V1 if response_header_version(handler.api_key, version) else _HEAD_V0
        self.head = head.pack
        self.head_bytes = head.size - _CORRELATION_BYTES  # of the head, what the length prefix counts
        # Fetches of followers are measured apart from those of consumers.
        is_fetch = handler.api_key == FetchRequest.api_key
        self.kind = "" if not is_fetch else "FetchFollower" if is_for_followers else "FetchConsumer"
        self.for_followers = (
            Route(handler, version, is_for_followers=True) if is_fetch and not is_for_followers else None
        )


class DispatchTable:
    """Handlers by API key, one for each range of its versions, the newest last; routes by API key and version, made when
    they are first asked for. `levels` decide which versions there are (`broker.network.newer_versions`): none above those of
    3.9.1 without levels."""

    def __init__(self, handlers: Iterable[Handler[Any]], levels: CurrentLevels | None = None) -> None:
        self.levels = levels or CurrentLevels()
        """What is finalized in this cluster, as ApiVersions tells it beside the versions."""
        self._handlers: dict[int, list[Handler[Any]]] = {}
        for handler in handlers:
            self._handlers.setdefault(handler.api_key, []).append(handler)
        for same in self._handlers.values():
            same.sort(key=lambda handler: handler.first_version)
            for older, newer in pairwise(same):
                assert older.last_version + 1 == newer.first_version, (
                    f"{newer.api_name} has two handlers of a version, or none"
                )
        self.routes: dict[int, Route] = {}
        self._kept_back: frozenset[int] = frozenset()
        self._offered = self._offered_by(self.levels.levels)
        self.levels.subscribe(self._on_levels)

    def keep_back(self, api_keys: frozenset[int]) -> None:
        """Do not tell clients of these APIs, of which they would make no use now; who knows them is served. Replaces what was
        kept back before."""
        if api_keys != self._kept_back:
            self._kept_back = api_keys
            self._offered = self._offered_by(self.levels.levels)

    def _on_levels(self, levels: FeatureLevels) -> None:
        """Forget the routes that are no longer served: the others are found for each request without asking the levels."""
        self._offered = self._offered_by(levels)
        for key, route in list(self.routes.items()):
            if route.version > self._last_served(route.handler.api_key):
                del self.routes[key]

    def _last_served(self, api_key: int) -> int:
        last = self._handlers[api_key][-1].last_version
        newer = NEWER.get(api_key)
        return last if newer is None else newer.last_served(last, self.levels.levels)

    def _offered_by(self, levels: FeatureLevels) -> tuple[ApiVersionRow, ...]:
        rows = []
        for key, same in sorted(self._handlers.items()):
            first, last = same[0].first_version, same[-1].last_version
            newer = NEWER.get(key)
            if newer is not None:
                last = newer.last_offered(last, levels)
            if last >= first and key not in self._kept_back:
                rows.append(ApiVersionRow(key, first, last))
        return tuple(rows)

    @staticmethod
    def route_key(api_key: int, version: int) -> int:
        return api_key << 16 | version

    def route(self, api_key: int, version: int) -> Route | None:
        """None when this API, or this version of it, is not served."""
        key = self.route_key(api_key, version)
        route = self.routes.get(key)
        if route is None and api_key in self._handlers and version <= self._last_served(api_key):
            for handler in self._handlers[api_key]:
                if handler.first_version <= version <= handler.last_version:
                    route = self.routes[key] = Route(handler, version)
        return route

    def handler(self, api_key: int) -> Handler[Any] | None:
        """The one of the newest versions; None for an API that is not served."""
        same = self._handlers.get(api_key)
        return None if same is None or self._last_served(api_key) < same[0].first_version else same[-1]

    def api_versions(self) -> tuple[ApiVersionRow, ...]:
        """The rows of an ApiVersions response, by key."""
        return self._offered


def _has_records(message_type: type[Message]) -> bool:
    """Whether a decoded message keeps references into the bytes it came from."""
    return any(
        field.kind == "records"
        or (isinstance(field.element, type) and issubclass(field.element, Message) and _has_records(field.element))
        for field in message_type.__fields__
    )
