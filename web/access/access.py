"""Who asks: by the header Authorization, else by the session of the page, else nobody, where the cluster wants no login.

    login   ->  brokers accept it  ->  a session, its id in a cookie
    request ->  identity           ->  the cluster with the login of that user

Rules: what a user may do is decided by the cluster alone. The login that the process itself has been given is never a user's.
Secrets are in memory only, until a session ends: a delegation token where the cluster has them, else what the user gave.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from client.errors import NotAuthenticated
from protocol.errors import KafkaError
from runtime.tasks import TaskScope
from web.access.attempt import LIFETIME_MS, AttemptCookies
from web.access.cookies import LAX, STRICT, Cookie
from web.access.credentials import BadCredentials, PasswordCredentials, TokenCredentials, parse_authorization
from web.access.failed_logins import FailedLogins
from web.access.held_tokens import HeldTokens
from web.access.identity import ANONYMOUS
from web.access.origins import OAUTH_CALLBACK, OwnHosts
from web.access.provider import Provider, ProviderError
from web.access.proxies import TrustedProxies
from web.access.sessions import SessionLimits, Sessions, TooManySessions, new_secret
from web.access.tokens import SessionTokens
from web.access.user_logins import UserLogins
from web.access.verification import Verification
from web.errors import HttpProblem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from client.settings.values import ClientSettings
    from config.web import WebSettings
    from web.access.identity import Identity
    from web.access.sessions import Session
    from web.cluster.users import UserClusters
    from web.surroundings import Surroundings


LOOKED_AFTER_S: Final = 30
logger = logging.getLogger(__name__)


class Access:
    """`client` are the settings of the process, `own` those of a principal of its own, if it has one; `users` the clusters of
    those who are here."""

    def __init__(
        self,
        settings: WebSettings,
        client: ClientSettings,
        own: ClientSettings | None,
        surroundings: Surroundings,
        users: UserClusters,
        base_uri: str,
    ) -> None:
        self.logins = UserLogins(client)
        self.proxies = TrustedProxies(settings.trusted_networks)
        self.hosts = OwnHosts(base_uri, settings.barnabas_web_allowed_hosts)
        self.cookie = Cookie(base_uri, "barnabas", STRICT)
        self.attempt_cookie = Cookie(base_uri, "barnabas-oauth", LAX, LIFETIME_MS // 1000)
        self.attempts = AttemptCookies(surroundings.randomness)
        self.provider: Provider | None = None
        """Where users log in who have no password, if there is one."""
        if settings.barnabas_web_oauth_issuer and self.logins.is_needed:
            self.provider = Provider(settings, surroundings, base_uri.rstrip("/") + OAUTH_CALLBACK)
        self.page_csrf = new_secret(surroundings.randomness)
        """The secret of pages without a session."""
        self.sessions = Sessions(surroundings.randomness, SessionLimits(idle_ms=settings.barnabas_web_session_idle_ms))
        self._verification = Verification(client, surroundings, FailedLogins())
        self._tokens = SessionTokens(client, own, surroundings, self.sessions.limits.lifetime_ms)
        self._clock = surroundings.clock
        self._wall_ms = surroundings.clock.wall_ms
        self._users = users

    def session(self, session_id: str | None, *, is_use: bool = True) -> Session | None:
        """Return the session of this id, where it holds."""
        if session_id is None:
            return None
        return self.sessions.find(session_id, self._clock.monotonic_ms(), is_use=is_use)

    def csrf(self, session: Session | None) -> str:
        """Return the secret of the page with this session."""
        return self.page_csrf if session is None else session.csrf

    async def identity(self, authorization: str | None, session: Session | None, address: str) -> Identity:
        """Return who asks from `address`. Raises HttpProblem 401 when the cluster wants a login and there is none that holds,
        429 when this address has failed too often; OSError when no broker answers."""
        if not self.logins.is_needed:
            return ANONYMOUS
        if authorization is not None:
            try:
                claimed = self.logins.identity(parse_authorization(authorization))
            except BadCredentials as error:
                raise not_logged_in(str(error)) from None
            await self._verification.require(claimed, address)
            return claimed
        if session is None:
            raise not_logged_in("log in first")
        return session.identity

    async def log_in(self, user: str, password: str, address: str) -> Session:
        """Begin a session. Raises as `identity`, and HttpProblem 503 when there are too many sessions."""
        try:
            claimed = self.logins.identity(PasswordCredentials(user, password))
        except BadCredentials as error:
            raise HttpProblem(401, str(error), code="LOGIN_REFUSED") from None
        return await self.begin(claimed, address)

    async def begin(self, claimed: Identity, address: str, refresh: str | None = None) -> Session:
        """Begin a session of this user, if the cluster accepts the login. `refresh` gives the provider's next tokens. Raises as
        `log_in`."""
        await self._verification.renew(claimed, address)
        identity, token = await self._tokens.issued(claimed)
        if token is not None:
            self._verification.forget(claimed.login)  # the password is not needed any more
        try:
            session, ended = self.sessions.begin(identity, self._clock.monotonic_ms())
        except TooManySessions:
            if token is not None:
                await self._tokens.end(token)
            raise HttpProblem(503, "too many people are logged in: try again later", code="TOO_MANY_SESSIONS") from None
        session.token = token
        if token is None:
            session.held = self._held(identity, refresh)
        for each in ended:
            await self._close(each)
        return session

    async def log_out(self, session: Session) -> None:
        """End a session, and what it has under way."""
        self.sessions.end(session)
        await self._close(session)

    async def doubt(self, identity: Identity, session: Session | None) -> None:
        """Ask the brokers again about a login that one of them has refused; end its session if they do not accept it."""
        self._verification.forget(identity.login)
        if session is None:
            await self._users.forget(identity.login)
            return
        try:
            await self._verification.ask(identity)
        except NotAuthenticated:
            await self.log_out(session)
        except (KafkaError, OSError) as error:
            logger.info("login not verified: principal=%r error=%s", identity.name, error)

    async def look_after(self) -> None:
        """End the sessions whose time is over, renew the tokens of others, and forget what nobody uses any more."""
        for each in self.sessions.end_old(self._clock.monotonic_ms()):
            await self._close(each)
        for each in self.sessions.all():
            if not await self._is_kept(each):
                await self.log_out(each)
        self._verification.forget_old()
        await self._users.close_idle()

    async def _is_kept(self, session: Session) -> bool:
        """Return whether the login of a session still holds, which is renewed when its time comes."""
        if session.token is not None:
            renewed = await self._tokens.renewed(session.token)
            session.token = renewed or session.token
            return renewed is not None
        held, now_ms = session.held, self._wall_ms()
        if held is None or now_ms < held.replaced_ms:
            return True
        if held.refresh is None or self.provider is None:
            return now_ms < held.expires_ms
        try:
            grant = await self.provider.refreshed(held.refresh)
            session.identity = self.logins.identity(TokenCredentials(grant.access))
            session.held = self._held(session.identity, grant.refresh)
        except (ProviderError, OSError, BadCredentials) as error:
            logger.warning("session not prolonged by the provider: principal=%r error=%s", session.identity.name, error)
            return now_ms < held.expires_ms
        return True

    def _held(self, identity: Identity, refresh: str | None) -> HeldTokens | None:
        """Return the provider's tokens of a session; None where its user has logged in with a password."""
        if identity.login is None or identity.login.bearer is None:
            return None
        return HeldTokens.of(identity.login.bearer, refresh, self._wall_ms())

    @asynccontextmanager
    async def looked_after(self) -> AsyncIterator[None]:
        """End old sessions meanwhile, and at the end all of them."""
        async with TaskScope("sessions") as tasks:
            tasks.spawn(self._look_after(), name="old sessions")
            yield
        await asyncio.gather(*(self.log_out(each) for each in self.sessions.all()))

    async def _look_after(self) -> None:
        while True:
            await asyncio.sleep(LOOKED_AFTER_S)
            await self.look_after()

    async def _close(self, session: Session) -> None:
        for end in list(session.under_way.values()):
            await end()
        if not self.sessions.is_used(session.identity):
            self._verification.forget(session.identity.login)
            await self._users.forget(session.identity.login)
        if session.token is not None:
            await self._tokens.end(session.token)
        if session.held is not None and session.held.refresh is not None and self.provider is not None:
            try:
                await self.provider.revoke(session.held.refresh)
            except (ProviderError, OSError) as error:
                logger.warning("token of the provider not revoked: error=%s", error)


def not_logged_in(reason: str) -> HttpProblem:
    return HttpProblem(401, reason, code="NOT_LOGGED_IN")
