"""`/api/session`: who the page's reader is; log in, log out.

Rules: a login begins a new session whatever cookie came with it, and ends the one of that cookie. No answer has a password.
"""

from __future__ import annotations

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field, SecretStr

from web.access.identity import ANONYMOUS
from web.access.sessions import Session
from web.parts import WebParts
from web.requests import Asking, Parts

router = APIRouter()


class SessionState(BaseModel):
    """`user` is null while nobody is logged in; `wants_login` says whether the cluster does, `takes_passwords` whether with a
    password, `oauth` is the name of the provider where they log in. `csrf` goes into the header X-Barnabas-CSRF of every
    request that changes something. A session ends `idle_ms` after the last request that the reader has caused."""

    user: str | None
    wants_login: bool
    takes_passwords: bool
    oauth: str | None
    can_write: bool
    csrf: str
    idle_ms: int


class PasswordLogin(BaseModel):
    user: str = Field(min_length=1, max_length=1_000)
    password: SecretStr = Field(min_length=1, max_length=1_000)


@router.get("/api/session")
async def session(parts: Parts, asking: Asking) -> SessionState:
    """Tell who is logged in, and what is allowed."""
    return _state(parts, asking.session)


@router.post("/api/session")
async def log_in(given: PasswordLogin, parts: Parts, asking: Asking, response: Response) -> SessionState:
    """Log in with a user of the cluster."""
    begun = await parts.access.log_in(given.user, given.password.get_secret_value(), asking.sender.address)
    if asking.session is not None:
        await parts.access.log_out(asking.session)
    response.headers.append("Set-Cookie", parts.access.cookie.set(begun.session_id, asking.sender.scheme))
    return _state(parts, begun)


@router.delete("/api/session")
async def log_out(parts: Parts, asking: Asking, response: Response) -> SessionState:
    """Log out: the session ends, and what it has under way."""
    if asking.session is not None:
        await parts.access.log_out(asking.session)
    response.headers.append("Set-Cookie", parts.access.cookie.unset(asking.sender.scheme))
    return _state(parts, None)


def _state(parts: WebParts, begun: Session | None) -> SessionState:
    access = parts.access
    nobody = None if access.logins.is_needed else ANONYMOUS.name
    return SessionState(
        user=nobody if begun is None else begun.identity.name,
        wants_login=access.logins.is_needed,
        takes_passwords=access.logins.password_mechanism is not None,
        oauth=None if access.provider is None else access.provider.name,
        can_write=parts.settings.barnabas_web_write_enable,
        csrf=access.csrf(begun),
        idle_ms=access.sessions.limits.idle_ms,
    )
