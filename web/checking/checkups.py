"""Checks of the cluster's health, as `barnabas cluster health` does them, each for the user who asks.

Rules: a check costs brokers some requests each, and takes up to ten seconds: whoever asks while one runs for the same user, or
soon behind it, gets the same. What nobody has asked for lately is forgotten, and so is what is beyond LIMIT users. Each check
has connections of its own, and runs in a thread. Users are known by their names: nothing of their logins is kept.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from runtime.tasks import TaskScope
from tools.health.checks import findings
from tools.health.collection import collect
from tools.health.since import with_first_seen

if TYPE_CHECKING:
    from client.settings.values import ClientSettings
    from tools.health.checks import Finding
    from tools.health.view import ClusterView
    from web.cluster.user_cluster import UserCluster
    from web.surroundings import Surroundings

WINDOW_MS: Final = 6_000
"""Longer than auto.commit.interval.ms of most consumers, 5 s."""
FRESH_MS: Final = 5_000
LIMIT: Final = 100
IDLE_MS: Final = 600_000


@dataclass(frozen=True, slots=True)
class Checkup:
    view: ClusterView
    found: list[Finding]


@dataclass(slots=True)
class _Kept:
    """Of one user. `seen` is when each problem was first found."""

    running: asyncio.Task[Checkup | Exception] | None = None
    last: Checkup | None = None
    ended_ms: int = 0
    seen: dict[tuple[str, str], int] = field(default_factory=dict)


class Checkups:
    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._tasks = TaskScope("checks of health")
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    async def close(self) -> None:
        await self._tasks.close()

    async def check(self, cluster: UserCluster) -> Checkup:
        """Raises Unreachable, LoginRefused, SettingsError."""
        now_ms = self._surroundings.clock.monotonic_ms()
        kept = self._of(cluster.name, now_ms)
        if kept.running is None:
            if kept.last is not None and now_ms - kept.ended_ms < FRESH_MS:
                return kept.last
            kept.running = self._tasks.spawn(self._run(cluster, kept), name="health")
        outcome = await asyncio.shield(kept.running)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def _run(self, cluster: UserCluster, kept: _Kept) -> Checkup | Exception:
        previous = None if kept.last is None else kept.last.view
        try:
            view = await cluster.blocking(lambda settings: self._collect(settings, previous))
            kept.last = Checkup(view, with_first_seen(findings(view), kept.seen, view.now_ms))
            return kept.last
        except Exception as error:  # noqa: BLE001  it is raised to all who wait
            return error
        finally:
            kept.running = None
            kept.ended_ms = self._surroundings.clock.monotonic_ms()

    def _collect(self, settings: ClientSettings, previous: ClusterView | None) -> ClusterView:
        return collect(settings, self._surroundings.clock, WINDOW_MS, previous)

    def _of(self, user: str, now_ms: int) -> _Kept:
        for each in [each for each, kept in self._kept.items() if kept.running is None]:
            if each != user and (len(self._kept) >= LIMIT or now_ms - self._kept[each].ended_ms > IDLE_MS):
                del self._kept[each]
        kept = self._kept.setdefault(user, _Kept())
        self._kept.move_to_end(user)
        return kept
