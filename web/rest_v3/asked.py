"""The cluster that a request names, and the answers to it.

@router.get("/clusters/{cluster_id}/things", response_model=ThingDataList)
async def list_things(v3: V3) -> Response:
    return answer(...)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from fastapi import APIRouter, Depends
from fastapi.responses import Response
from pydantic_core import to_json

from protocol.errors import ErrorCode, KafkaError
from runtime.slices import Slices
from web.cluster.user_cluster import UserCluster
from web.errors import HttpProblem
from web.requests import Cluster, Parts
from web.rest_v3.errors import INVALID, V3Route
from web.rest_v3.links import Links, Part
from web.rest_v3.resources import CollectionMetadata, ErrorData

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from runtime.clock import Clock

T = TypeVar("T")
R = TypeVar("R")
K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class AskedCluster:
    """The cluster, as whoever asks."""

    user: UserCluster
    links: Links
    clock: Clock

    @property
    def cluster_id(self) -> str:
        return self.links.cluster_id

    def collection(self, kind: str, data: list[Any], *parts: Part, query: Mapping[str, str] | None = None) -> Response:
        """Return the answer with a list of resources."""
        metadata: CollectionMetadata = {"self": self.links.to(*parts, query=query), "next": None}
        return answer({"kind": kind, "metadata": metadata, "data": data})

    async def each(self, make: Callable[[T], R], rows: Iterable[T]) -> list[R]:
        """Return what is made of each row, in slices: there may be many."""
        slices = Slices(self.clock)
        return [make(row) async for row in slices.over(rows)]


async def id_of(cluster: UserCluster) -> str:
    """Return the id of the cluster, which a broker is asked for once."""
    view = cluster.client.view
    if view.cluster_id is None:
        await cluster.topics([])
    return view.cluster_id or ""


async def _asked(cluster_id: str, cluster: Cluster, parts: Parts) -> AskedCluster:
    """Raises HttpProblem 404 when it is another cluster."""
    there = await id_of(cluster)
    if cluster_id != there:
        raise HttpProblem(404, f"Cluster {cluster_id} cannot be found: there is {there}.")
    return AskedCluster(cluster, Links(parts.base_uri, there), parts.surroundings.clock)


V3 = Annotated[AskedCluster, Depends(_asked)]


def v3_router(tag: str) -> APIRouter:
    """Return a router of endpoints of REST v3."""
    responses: dict[int | str, dict[str, Any]] = {
        "4XX": {"model": ErrorData, "description": "The request is refused."},
        "5XX": {"model": ErrorData, "description": "The cluster or this server fails."},
    }
    return APIRouter(prefix="/v3", route_class=V3Route, responses=responses, tags=[tag])


def answer(body: Any, status: int = 200, *, location: str | None = None) -> Response:
    headers = None if location is None else {"Location": location}
    return Response(to_json(body), status, headers, media_type="application/json")


def done(status: int = 204, *, location: str | None = None) -> Response:
    """Return an answer without a body."""
    return Response(status_code=status, headers=None if location is None else {"Location": location})


def outcome(found: Mapping[K, T | KafkaError], key: K) -> T:
    """Return the value of a key. Raises the KafkaError in its place."""
    value = found[key]
    if isinstance(value, KafkaError):
        raise value
    return value


def not_found(what: str) -> HttpProblem:
    return HttpProblem(404, f"{what} cannot be found.")


def invalid(message: str) -> HttpProblem:
    return HttpProblem(400, message, number=INVALID)


def is_denied(error: KafkaError) -> bool:
    return error.code in (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
