"""`GET /api/session`: who the page's reader is, and what the page may do."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel

from web.cluster.user_cluster import ANONYMOUS
from web.requests import Parts

router = APIRouter()


class SessionState(BaseModel):
    """`user` is null while nobody is logged in; `wants_login` says whether the cluster does. `csrf` goes into the header
    X-Barnabas-CSRF of every request that changes something."""

    user: str | None
    wants_login: bool
    can_write: bool
    csrf: str


@router.get("/api/session")
async def session(parts: Parts) -> SessionState:
    """Tell who is logged in, and what is allowed."""
    wants_login = parts.client.login is not None
    return SessionState(
        user=None if wants_login else ANONYMOUS,
        wants_login=wants_login,
        can_write=parts.settings.barnabas_web_write_enable,
        csrf="",
    )
