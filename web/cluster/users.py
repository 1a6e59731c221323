"""The clusters of the users who are here: one set of connections for each login, shared by the user's requests.

Rules: bounded: beyond `limit` the one that nobody has used for the longest is closed; when all are in use, `lease` refuses.
What nobody has used for `idle_ms` is closed, at the next lease at the latest.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from web.cluster.user_cluster import UserCluster
from web.errors import HttpProblem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from client.settings.values import ClientSettings, LoginSettings
    from web.surroundings import Surroundings

LIMIT: Final = 1_000
IDLE_MS: Final = 300_000


@dataclass(slots=True)
class _Open:
    cluster: UserCluster
    leases_count: int
    used_ms: int


class UserClusters:
    """`settings` are those of the process: each user has them with another login."""

    def __init__(
        self, settings: ClientSettings, surroundings: Surroundings, *, limit: int = LIMIT, idle_ms: int = IDLE_MS
    ) -> None:
        self._settings = settings
        self._surroundings = surroundings
        self._limit = limit
        self._idle_ms = idle_ms
        self._open: dict[LoginSettings | None, _Open] = {}

    def __len__(self) -> int:
        return len(self._open)

    async def close(self) -> None:
        while self._open:
            await self._open.popitem()[1].cluster.close()

    async def forget(self, login: LoginSettings | None) -> None:
        """Close what this login has open, as its user has logged out."""
        found = self._open.pop(login, None)
        if found is not None:
            await found.cluster.close()

    @asynccontextmanager
    async def lease(self, login: LoginSettings | None, name: str) -> AsyncIterator[UserCluster]:
        """Use the cluster with this login, None without one, as the user `name`. Raises HttpProblem when there are too many
        users."""
        await self.close_idle()
        found = self._open.get(login)
        if found is None:
            await self._make_room()
            cluster = UserCluster(replace(self._settings, login=login), self._surroundings, name)
            found = self._open[login] = _Open(cluster, 0, 0)
        found.leases_count += 1
        try:
            yield found.cluster
        finally:
            found.leases_count -= 1
            found.used_ms = self._surroundings.clock.monotonic_ms()

    def recent(self, within_ms: int) -> list[UserCluster]:
        """Return the clusters that their users have used within this time, the last one first. To look at one of them is no use
        of it: it is closed as if nobody had."""
        since_ms = self._surroundings.clock.monotonic_ms() - within_ms
        found = [each for each in self._open.values() if each.leases_count or each.used_ms >= since_ms]
        found.sort(key=lambda each: (each.leases_count > 0, each.used_ms), reverse=True)
        return [each.cluster for each in found]

    async def close_idle(self) -> None:
        """Close what nobody has used for a while."""
        before_ms = self._surroundings.clock.monotonic_ms() - self._idle_ms
        for login in [
            login for login, each in self._open.items() if not each.leases_count and each.used_ms < before_ms
        ]:
            await self.forget(login)

    async def _make_room(self) -> None:
        if len(self._open) < self._limit:
            return
        idle = [(each.used_ms, login) for login, each in self._open.items() if not each.leases_count]
        if not idle:
            raise HttpProblem(503, f"{self._limit} users are connected, which is the limit: try again later")
        await self.forget(min(idle, key=lambda row: row[0])[1])
