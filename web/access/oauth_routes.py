"""`/api/oauth/login` and `/api/oauth/callback`: a user logs in at the provider, and comes back with a session.

Rules: both are for browsers, which are led on; why a login has failed is told in the address by a word, and in the log. The
token that the provider gives is shown to the brokers before there is a session.
"""

from __future__ import annotations

import logging
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse

from web.access.access import Access
from web.access.attempt import PAGE, Attempt
from web.access.credentials import BadCredentials, TokenCredentials
from web.access.gate import Caller
from web.access.origins import OAUTH_CALLBACK
from web.access.provider import Provider, ProviderError
from web.access.sessions import Session
from web.errors import HttpProblem
from web.requests import Asking, Parts

router = APIRouter(include_in_schema=False)
logger = logging.getLogger(__name__)
_SEE_OTHER: Final = 303


@router.get("/api/oauth/login")
async def log_in(parts: Parts, asking: Asking, next: str = PAGE) -> RedirectResponse:  # noqa: A002  the name in the address
    """Lead the browser to the provider."""
    access, around = parts.access, parts.surroundings
    provider = _provider(access)
    attempt = Attempt.begin(next, around.randomness, around.clock.wall_ms())
    try:
        response = RedirectResponse(await provider.login_uri(attempt), _SEE_OTHER)
    except (ProviderError, OSError) as error:
        return _failed(error)
    response.headers.append(
        "Set-Cookie", access.attempt_cookie.set(access.attempts.text(attempt), asking.sender.scheme)
    )
    return response


@router.get(OAUTH_CALLBACK)
async def come_back(request: Request, parts: Parts, asking: Asking) -> RedirectResponse:
    """Begin a session of the user whom the provider has let in."""
    access = parts.access
    provider = _provider(access)
    text = access.attempt_cookie.value(request.headers.getlist("cookie"), asking.sender.scheme)
    attempt = None if text is None else access.attempts.attempt(text)
    asked = request.query_params
    if attempt is None or not attempt.is_of(asked.get("state", ""), parts.surroundings.clock.wall_ms()):
        response = _problem("expired")
    elif asked.get("error") == "access_denied":
        response = _problem("denied")
    else:
        response = await _come_back(access, provider, asked.get("code"), asked.get("iss"), attempt, asking)
    response.headers.append("Set-Cookie", access.attempt_cookie.unset(asking.sender.scheme))
    return response


async def _come_back(
    access: Access, provider: Provider, code: str | None, issuer: str | None, attempt: Attempt, asking: Caller
) -> RedirectResponse:
    try:
        session = await _session(access, provider, code, issuer, attempt, asking.sender.address)
    except (ProviderError, OSError) as error:
        return _failed(error)
    except (HttpProblem, BadCredentials) as error:
        logger.warning("login at the provider refused: reason=%s", error)
        return _problem("refused")
    response = RedirectResponse(attempt.next, _SEE_OTHER)
    response.headers.append("Set-Cookie", access.cookie.set(session.session_id, asking.sender.scheme))
    return response


async def _session(
    access: Access, provider: Provider, code: str | None, issuer: str | None, attempt: Attempt, address: str
) -> Session:
    """Raises ProviderError, OSError, BadCredentials, HttpProblem."""
    if not code:
        raise ProviderError("the browser comes back without a code")
    if issuer not in (None, provider.issuer):
        raise ProviderError("the browser comes back from another provider")
    grant = await provider.exchanged(code, attempt)
    return await access.begin(access.logins.identity(TokenCredentials(grant.access)), address, grant.refresh)


def _provider(access: Access) -> Provider:
    """Raises HttpProblem."""
    if access.provider is None:
        raise HttpProblem(404, "nobody logs in at a provider here", next_step="barnabas.web.oauth.issuer names one")
    return access.provider


def _failed(error: ProviderError | OSError) -> RedirectResponse:
    logger.warning("login at the provider failed: error=%s", error)
    return _problem("provider" if isinstance(error, ProviderError) else "unreachable")


def _problem(word: str) -> RedirectResponse:
    return RedirectResponse(f"{PAGE}?login_problem={word}", _SEE_OTHER)
