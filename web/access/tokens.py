"""Delegation tokens in place of what users have logged in with: the process forgets the password of a session.

    login  ->  a token of the user  ->  the brokers know it  ->  the session has the token alone

Who has logged in by a token may not renew or end it. The login of the process itself does, where it has one with a password:
the one of its client's settings, or of its sampling. It is named as the renewer and needs no rights for it; such a token lives
for `PERIOD_MS` beyond its last renewal. Without one, a token ends when the longest session would.

Rules: a cluster that has no tokens, or does not let this user make one, is no failure: the session keeps what its user gave.
Source: KIP-48.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from client.admin import brokers, delegation_tokens
from client.errors import NotAuthenticated
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.metadata import MetadataRequest
from security.principal import USER_TYPE, Principal
from security.sasl.scram import MECHANISMS as SCRAM
from web.access.identity import Identity
from web.cluster.user_cluster import UserCluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from client.admin.delegation_tokens import Token
    from client.settings.values import ClientSettings
    from web.surroundings import Surroundings

logger = logging.getLogger(__name__)

PERIOD_MS: Final = 3_600_000
LIMIT_MS: Final = 5_000
"""For each question to the brokers, and for all of them to know a new token."""
BROKERS_ASKED: Final = 16
_PAUSE_S: Final = 0.1
_STRONGEST_FIRST: Final = tuple(sorted(SCRAM, reverse=True))


class SessionTokens:
    """`settings` are those of the process, `own` the settings of a principal of its own, if it has one. A session lives for
    `lifetime_ms` at most."""

    def __init__(
        self, settings: ClientSettings, own: ClientSettings | None, surroundings: Surroundings, lifetime_ms: int
    ) -> None:
        self._settings = settings
        self._surroundings = surroundings
        self._lifetime_ms = lifetime_ms
        login = None if own is None else own.login
        self._own = own if login is not None and login.username and not login.is_token else None
        self._renewers = [] if self._own is None or login is None else [Principal(USER_TYPE, login.username)]
        given = None if settings.login is None else settings.login.mechanism
        self._mechanisms = (given,) if given in SCRAM else _STRONGEST_FIRST

    async def issued(self, identity: Identity) -> tuple[Identity, Token | None]:
        """Return the user with a token as the login, and the token; or as it was, and None."""
        async with self._cluster(identity) as user:
            try:
                token = await user.run(delegation_tokens.create(self._renewers, self._lifetime_ms), LIMIT_MS)
            except (KafkaError, OSError) as error:
                _log_none(identity, error)
                return identity, None
            by_token = await self._known_to_brokers(token, identity.name)
            if by_token is None:
                _log_none(identity, None)
                await self._ended_by(user, token)
                return identity, None
        return by_token, await self._shortened(token)

    async def renewed(self, token: Token) -> Token | None:
        """Return the token, renewed when its time comes; None when it can live no longer."""
        now_ms = self._surroundings.clock.wall_ms()
        if self._own is None or token.expires_ms - now_ms > PERIOD_MS // 2:
            return token if token.expires_ms > now_ms else None
        try:
            async with self._opened(self._own, "renewer") as own:
                expires_ms = await own.run(delegation_tokens.renew(token.hmac, PERIOD_MS), LIMIT_MS)
        except OSError as error:
            logger.warning("delegation token not renewed: token_id=%s error=%s", token.token_id, error)
            return token if token.expires_ms > now_ms else None
        except KafkaError as error:
            logger.warning("delegation token not renewed: token_id=%s error=%s", token.token_id, error.code.name)
            return None
        return replace(token, expires_ms=expires_ms)

    async def end(self, token: Token) -> None:
        """End a token, where the process may."""
        if self._own is None:
            return
        async with self._opened(self._own, "renewer") as own:
            await self._ended_by(own, token)

    async def _shortened(self, token: Token) -> Token:
        """Return the token with an end that comes soon if this process does not renew it any more."""
        if self._own is None:
            return token
        try:
            async with self._opened(self._own, "renewer") as own:
                expires_ms = await own.run(delegation_tokens.expire(token.hmac, PERIOD_MS), LIMIT_MS)
        except (KafkaError, OSError) as error:
            logger.warning("delegation token not shortened: token_id=%s error=%s", token.token_id, _shown(error))
            return token
        return replace(token, expires_ms=expires_ms)

    async def _known_to_brokers(self, token: Token, name: str) -> Identity | None:
        """Return the login of a token when the brokers take it: they hear of a new one one after the other. None when they do
        not in time."""
        clock = self._surroundings.clock
        until_ms = clock.monotonic_ms() + LIMIT_MS
        while True:
            for mechanism in self._mechanisms:
                identity = Identity(token.login(mechanism), name)
                if await self._is_known(identity):
                    return identity
            if clock.monotonic_ms() >= until_ms:
                return None
            await asyncio.sleep(_PAUSE_S)

    async def _is_known(self, identity: Identity) -> bool:
        """Return whether no broker that can be reached refuses this login."""
        async with self._cluster(identity) as user:
            try:
                there = [each.node_id for each in (await user.run(brokers.cluster(), LIMIT_MS)).brokers]
                request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
                found = await user.run(brokers.each_broker(request, there[:BROKERS_ASKED]), LIMIT_MS)
            except (NotAuthenticated, KafkaError, OSError):
                return False
        return not any(_is_refusal(each) for each in found.values())

    @staticmethod
    async def _ended_by(user: UserCluster, token: Token) -> None:
        try:
            await user.run(delegation_tokens.expire(token.hmac), LIMIT_MS)
        except (KafkaError, OSError) as error:
            logger.warning("delegation token not ended: token_id=%s error=%s", token.token_id, _shown(error))

    def _cluster(self, identity: Identity) -> AbstractAsyncContextManager[UserCluster]:
        return self._opened(replace(self._settings, login=identity.login), identity.name)

    @asynccontextmanager
    async def _opened(self, settings: ClientSettings, name: str) -> AsyncIterator[UserCluster]:
        cluster = UserCluster(settings, self._surroundings, name)
        try:
            yield cluster
        finally:
            await cluster.close()


def _is_refusal(found: Any) -> bool:
    return isinstance(found, KafkaError) and found.code is ErrorCode.SASL_AUTHENTICATION_FAILED


def _log_none(identity: Identity, error: KafkaError | OSError | None) -> None:
    reason = "brokers do not take its login" if error is None else _shown(error)
    logger.info("session without a delegation token: principal=%r reason=%s", identity.name, reason)


def _shown(error: KafkaError | OSError) -> str:
    return error.code.name if isinstance(error, KafkaError) else str(error)
