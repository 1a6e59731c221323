"""The product's client of a cluster, with its answers shown to a checker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from client.event_loop.cluster_client import AsyncClusterClient
from client.event_loop.connector import Connector
from protocol.schema import Request, Response
from runtime.network.transport import Address

if TYPE_CHECKING:
    from tests.simulation.world import World

R = TypeVar("R", bound=Response)
REQUEST_TIMEOUT_MS = 15_000
METADATA_MAX_AGE_S = 10.0  # a leader that was may not know it, and answer for ever


class Observer(Protocol):
    def sending(self, broker_id: int, request: Request) -> object:
        """A request goes; return what `answered` wants to know about the moment."""

    def unanswered(self, request: Request) -> None: ...

    def answered(self, broker_id: int, request: Request, response: Response, then: Any) -> None: ...


class NoObserver:
    """For clients whose answers nobody judges: what must not be is seen in the logs."""

    def sending(self, broker_id: int, request: Request) -> object:
        return None

    def unanswered(self, request: Request) -> None:
        """The client repeats it."""

    def answered(self, broker_id: int, request: Request, response: Response, then: Any) -> None:
        """The client judges it."""


class ObservedCluster(AsyncClusterClient):
    """`versions`: the newest that are taken of some requests, unless the caller says it. `observer` is shown each
    request and each answer."""

    def __init__(self, world: World, name: str, observer: Observer) -> None:
        super().__init__(
            Connector(world.network.node(name)),
            [Address(*address) for address in world.addresses()],
            name,
            world.random,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            metadata_max_age_s=METADATA_MAX_AGE_S,
        )
        self.versions: dict[type[Request], int] = {}
        self._world = world
        self._name = name
        self._observer = observer

    async def send(self, broker_id: int, request: Request, response_type: type[R], **options: Any) -> R:
        world, since_s = self._world, self._world.loop.time()
        world.count("requests")
        version = self.versions.get(type(request))
        if version is not None and options.get("max_version") is None:
            options["max_version"] = version
        then = self._observer.sending(broker_id, request)
        try:
            response = await super().send(broker_id, request, response_type, **options)
        except OSError:
            if world.loop.time() - since_s >= REQUEST_TIMEOUT_MS / 1_000:
                world.liveness.timed_out(self._name, request.api_name, since_s)
            self._observer.unanswered(request)
            raise
        world.count("answers")
        self._observer.answered(broker_id, request, response, then)
        return response
