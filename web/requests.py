"""What endpoints ask of a request: the parts of the process, the cluster as whoever asks, and whether changes are allowed.

@router.get("/api/things")
async def things(cluster: Cluster) -> ...          the caller's connections, until the response has been sent
@router.post("/api/things", dependencies=[WRITING])
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, cast

from fastapi import Depends, Request

from web.cluster.user_cluster import UserCluster
from web.errors import HttpProblem
from web.parts import WebParts


def parts_of(request: Request) -> WebParts:
    """Return the parts of this process."""
    return cast("WebParts", request.app.state.parts)


async def cluster_of(request: Request) -> AsyncIterator[UserCluster]:
    """Give the cluster, as whoever asks. Raises HttpProblem 401 where the cluster wants a login and there is none."""
    parts = parts_of(request)
    if parts.client.login is not None:
        raise HttpProblem(401, "log in first", code="NOT_LOGGED_IN")
    async with parts.users.lease(None) as cluster:
        yield cluster


def require_writes(request: Request) -> None:
    """Raise HttpProblem 403 where this process only reads."""
    if not parts_of(request).settings.barnabas_web_write_enable:
        raise HttpProblem(
            403,
            "the page and its HTTP interface only read",
            code="READ_ONLY",
            next_step="barnabas.web.write.enable=true allows changes",
        )


Parts = Annotated[WebParts, Depends(parts_of)]
Cluster = Annotated[UserCluster, Depends(cluster_of)]
WRITING = Depends(require_writes)
