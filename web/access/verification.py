"""Whether a login is one of the cluster's: its brokers say so.

Rules: a login that brokers have accepted counts for `VERIFIED_MS`, then they are asked again, so that a user who is removed is
out after that time at the latest. One that they refuse counts against the address that it came from; the logins of one address
are asked about one after the other, so that none is tried beyond the limit. Bounded: so many logins are asked about at a time,
so many of one address wait, and so many are kept. A login that was accepted before is never refused because of others'
failures.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from client.admin.brokers import cluster
from client.errors import NotAuthenticated
from protocol.errors import ErrorCode, KafkaError
from web.access.failed_logins import FailedLogins
from web.cluster.user_cluster import UserCluster
from web.errors import HttpProblem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from client.settings.values import ClientSettings, LoginSettings
    from web.access.identity import Identity
    from web.surroundings import Surroundings

VERIFIED_MS: Final = 10 * 60_000
KEPT: Final = 1_000
AT_A_TIME: Final = 16
WAITING: Final = 64
_NOT_ALLOWED: Final = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


class Verification:
    """`settings` are those of the process."""

    def __init__(self, settings: ClientSettings, surroundings: Surroundings, failures: FailedLogins) -> None:
        self._settings = settings
        self._surroundings = surroundings
        self._failures = failures
        self._verified_ms: dict[LoginSettings, int] = {}
        self._places = asyncio.Semaphore(AT_A_TIME)
        self._turns: dict[str, list[asyncio.Future[None]]] = {}
        """Who waits for the first of an address, itself among them."""

    async def require(self, identity: Identity, address: str) -> None:
        """Return when the brokers accept this login, or have done so. Raises HttpProblem when they refuse it, or this address
        has failed too often; OSError when no broker answers."""
        if identity.login is None or self._is_verified(identity.login):
            return
        async with self._turn(address):
            if not self._is_verified(identity.login):
                await self._verify(identity, identity.login, address)

    async def renew(self, identity: Identity, address: str) -> None:
        """Ask the brokers, whatever they said before. Raises as `require`."""
        assert identity.login is not None
        async with self._turn(address):
            await self._verify(identity, identity.login, address)

    async def _verify(self, identity: Identity, login: LoginSettings, address: str) -> None:
        wait_ms = self._failures.wait_ms(address, self._now_ms())
        if wait_ms:
            raise too_many_failures(wait_ms)
        self._verified_ms.pop(login, None)
        try:
            async with self._places:
                await self.ask(identity)
        except NotAuthenticated as error:
            self._failures.failed(address, self._now_ms())
            raise refused(str(error.__cause__ or error)) from None
        self._verified_ms[login] = self._now_ms()
        if len(self._verified_ms) > KEPT:
            del self._verified_ms[next(iter(self._verified_ms))]

    async def ask(self, identity: Identity) -> None:
        """Log in at a broker. Raises NotAuthenticated, OSError."""
        one = UserCluster(replace(self._settings, login=identity.login), self._surroundings, identity.name)
        try:
            await one.run(cluster())
        except KafkaError as error:
            if error.code not in _NOT_ALLOWED:
                raise
        finally:
            await one.close()

    def forget(self, login: LoginSettings | None) -> None:
        """Ask the brokers at the next request."""
        if login is not None:
            self._verified_ms.pop(login, None)

    def forget_old(self) -> None:
        """Keep no login beyond its time."""
        for login in [each for each in self._verified_ms if not self._is_verified(each)]:
            del self._verified_ms[login]

    @asynccontextmanager
    async def _turn(self, address: str) -> AsyncIterator[None]:
        """Wait until no other login of this address is asked about. Raises HttpProblem when too many wait."""
        waiting = self._turns.setdefault(address, [])
        if len(waiting) >= WAITING:
            raise HttpProblem(503, "too many logins from your address at once", headers={"Retry-After": "1"})
        mine = asyncio.get_running_loop().create_future()
        waiting.append(mine)
        try:
            if waiting[0] is not mine:
                await mine
            yield
        finally:
            was_first = waiting[0] is mine
            waiting.remove(mine)
            if not waiting:
                del self._turns[address]
            elif was_first and not waiting[0].done():
                waiting[0].set_result(None)

    def _is_verified(self, login: LoginSettings) -> bool:
        verified_ms = self._verified_ms.get(login)
        return verified_ms is not None and self._now_ms() - verified_ms < VERIFIED_MS

    def _now_ms(self) -> int:
        return self._surroundings.clock.monotonic_ms()


def refused(reason: str) -> HttpProblem:
    """Return the answer to a login that the cluster does not accept."""
    return HttpProblem(401, f"the cluster does not accept this login: {reason}", code="LOGIN_REFUSED")


def too_many_failures(wait_ms: int) -> HttpProblem:
    seconds = -(-wait_ms // 1000)
    return HttpProblem(
        429,
        f"too many logins from your address have failed: try again in {seconds} s",
        code="TOO_MANY_FAILURES",
        headers={"Retry-After": str(seconds)},
    )
