"""The gate of the application: every request passes it before any endpoint, every answer after. An ASGI middleware.

Rules: a request that another site has caused, that names another host, or comes past the proxy that must be in front, is
answered here; so is one whose login the cluster does not accept, before anybody reads its body, which may be large. What is
known about the request afterwards is in `request.state`: its `Caller`. An answer leaves with the headers of
`web.access.headers`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers

from protocol.errors import KafkaError
from web.access.headers import with_headers
from web.access.origins import CSRF_HEADER, OAUTH_CALLBACK, IncomingRequest, problem_of
from web.access.proxies import is_loopback
from web.errors import HttpProblem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from web.access.access import Access
    from web.access.identity import Identity
    from web.access.proxies import Sender
    from web.access.sessions import Session

BACKGROUND_HEADER: Final = "x-barnabas-background"
"""Of requests that the page makes by itself: they do not prolong a session."""
CHALLENGE: Final = 'Basic realm="Kafka", charset="UTF-8"'
OPEN: Final = frozenset(("/api/session", "/api/oauth/login", "/api/openapi.json", OAUTH_CALLBACK))
"""What anybody may ask."""
OPEN_BODY_BYTES_MAX: Final = 16 * 1024
_ONCE: Final = ("host", "origin", "authorization", "sec-fetch-site", "content-type", CSRF_HEADER)


@dataclass(frozen=True, slots=True)
class Caller:
    """Where a request comes from. `session` is that of its cookie, where it holds. `identity` is None for what may be asked
    without a login, and was."""

    sender: Sender
    session: Session | None
    identity: Identity | None


class Gate:
    def __init__(self, application: ASGIApp, access: Access) -> None:
        self._application = application
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        asked: IncomingRequest | None = None

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                is_page = asked is not None and asked.opens_page
                message = {**message, "headers": with_headers(message.get("headers", ()), is_page=is_page)}
            await send(message)

        try:
            headers = Headers(scope=scope)
            sender = self._sender(scope, headers)
            asked = _asked(scope, headers, sender.scheme)
            caller = await self._caller(asked, headers, sender)
        except HttpProblem as problem:
            await problem.response(scope["path"])(scope, receive, answer)
            return
        except (KafkaError, OSError) as error:
            await HttpProblem.of(error).response(scope["path"])(scope, receive, answer)
            return
        scope.setdefault("state", {})["caller"] = caller
        await self._application(scope, receive, answer)

    def _sender(self, scope: Scope, headers: Headers) -> Sender:
        """Raises HttpProblem."""
        peer = scope["client"][0] if scope.get("client") else ""
        sender = self._access.proxies.sender(
            peer, scope["scheme"], headers.getlist("x-forwarded-for"), headers.getlist("x-forwarded-proto")
        )
        if (
            sender.is_direct
            and not is_loopback(peer)
            and not (sender.scheme == "https" and self._access.logins.is_needed)
        ):
            raise HttpProblem(
                403,
                "requests come through the proxy in front of this server",
                code="NOT_THROUGH_PROXY",
                next_step="barnabas.web.trusted.proxies names the addresses of proxies",
            )
        return sender

    async def _caller(self, asked: IncomingRequest, headers: Headers, sender: Sender) -> Caller:
        """Raises HttpProblem; KafkaError, OSError when brokers cannot be asked about a login."""
        access = self._access
        session_id = access.cookie.value(headers.getlist("cookie"), sender.scheme)
        session = access.session(session_id, is_use=BACKGROUND_HEADER not in headers)
        problem = problem_of(asked, access.hosts, access.csrf(session))
        if problem is not None:
            raise HttpProblem(403, problem, code="REFUSED")
        if asked.opens_page or asked.path in OPEN:
            if asked.has_body and not _is_short(headers):
                raise HttpProblem(413, f"the request is longer than {OPEN_BODY_BYTES_MAX} bytes", code="TOO_LARGE")
            return Caller(sender, session, None)
        try:
            identity = await access.identity(headers.get("authorization"), session, sender.address)
        except HttpProblem as refused:
            if (
                refused.status == 401 and not asked.is_of_browser
            ):  # a browser would ask for a password in its own window
                refused.headers["WWW-Authenticate"] = CHALLENGE
            raise
        return Caller(sender, session, identity)


def _is_short(headers: Headers) -> bool:
    """Return whether a request says how long it is, and that is not much."""
    length = headers.get("content-length", "")
    return length.isascii() and length.isdigit() and len(length) < 8 and int(length) <= OPEN_BODY_BYTES_MAX


def _asked(scope: Scope, headers: Headers, scheme: str) -> IncomingRequest:
    """Raises HttpProblem for a header that is there twice."""
    for name in _ONCE:
        if len(headers.getlist(name)) > 1:
            raise HttpProblem(400, f"the header {name} is there twice", code="INVALID")
    if "host" not in headers:
        raise HttpProblem(400, "the header Host is missing", code="INVALID")
    return IncomingRequest(
        method=scope["method"],
        path=scope["path"],
        scheme=scheme,
        host=headers["host"],
        origin=headers.get("origin"),
        fetch_site=headers.get("sec-fetch-site"),
        user_agent=headers.get("user-agent"),
        content_type=headers.get("content-type"),
        has_body=headers.get("content-length", "0") != "0" or "transfer-encoding" in headers,
        has_cookie="cookie" in headers,
        has_authorization="authorization" in headers,
        csrf=headers.get(CSRF_HEADER),
    )
