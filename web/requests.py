"""What endpoints ask of a request: the parts of the process, the cluster as whoever asks, and whether changes are allowed.

@router.get("/api/things")
async def things(cluster: Cluster) -> ...          the caller's connections, until the response has been sent
@router.post("/api/things", dependencies=[WRITING])
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Final, cast

from fastapi import Depends, Request

from client.errors import NotAuthenticated
from protocol.errors import ErrorCode, KafkaError
from web.access.access import not_logged_in
from web.access.gate import Caller
from web.cluster.user_cluster import UserCluster
from web.errors import HttpProblem
from web.parts import WebParts

READING: Final = ("GET", "HEAD")


def parts_of(request: Request) -> WebParts:
    """Return the parts of this process."""
    return cast("WebParts", request.app.state.parts)


def caller_of(request: Request) -> Caller:
    """Return where a request comes from."""
    return cast("Caller", request.state.caller)


async def cluster_of(request: Request) -> AsyncIterator[UserCluster]:
    """Give the cluster, as whoever asks. Raises HttpProblem 401 where the cluster wants a login and there is none."""
    parts, caller = parts_of(request), caller_of(request)
    identity = caller.identity
    if identity is None:
        raise not_logged_in("log in first")
    try:
        async with parts.users.lease(identity.login, identity.name) as cluster:
            yield cluster
            if request.method not in READING:
                cluster.recent.forget()  # the page shows what it has changed
    except (NotAuthenticated, KafkaError) as error:
        if isinstance(error, NotAuthenticated) or error.code is ErrorCode.SASL_AUTHENTICATION_FAILED:
            await parts.access.doubt(identity, caller.session)
        raise


def require_writes(request: Request) -> None:
    """Raise HttpProblem 403 where this process only reads."""
    if not parts_of(request).settings.barnabas_web_write_enable:
        raise HttpProblem(
            403,
            "the page and its HTTP interface only read",
            code="READ_ONLY",
            next_step="barnabas.web.write.enable=true allows changes",
        )


Asking = Annotated[Caller, Depends(caller_of)]
Parts = Annotated[WebParts, Depends(parts_of)]
Cluster = Annotated[UserCluster, Depends(cluster_of)]
WRITING = Depends(require_writes)
