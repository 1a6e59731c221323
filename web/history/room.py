"""The history of one web process: its samples, who looks for them, and who may see them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from client.settings.parsing import parse_client
from runtime.tasks import TaskScope
from web.cluster.user_cluster import UserCluster
from web.history.history import History
from web.history.reading import HistoryReading
from web.history.response_times import ResponseTimes
from web.history.sampler import Sampler
from web.history.visibility import Visibility

if TYPE_CHECKING:
    from client.settings.values import ClientSettings
    from config.web import WebSettings
    from web.cluster.users import UserClusters
    from web.surroundings import Surroundings


class HistoryRoom:
    """`start` and `close` it once. In a cluster without logins it looks as everybody does."""

    def __init__(
        self, settings: WebSettings, client: ClientSettings, users: UserClusters, surroundings: Surroundings
    ) -> None:
        """Raises SettingsError for a wrong barnabas.web.sampling.*."""
        clock = surroundings.clock
        self.is_enabled = settings.barnabas_web_history_enable
        self.history = History(settings.barnabas_web_history_interval_ms, settings.barnabas_web_history_max_bytes)
        self.reading = HistoryReading(self.history)
        self.visibility = Visibility(clock)
        sampling = sampling_client(settings, client) or (client if client.login is None else None)
        self._own = None if sampling is None else UserCluster(sampling, surroundings, "sampling")
        times = ResponseTimes(settings.barnabas_web_metrics_urls, surroundings.http)
        self.sampler = Sampler(self.history, users, self._own, times, clock)
        self._tasks = TaskScope("history")

    def start(self) -> None:
        """Begin to look."""
        if self.is_enabled:
            self._tasks.spawn(self.sampler.run(), name="sampling")

    async def close(self) -> None:
        await self._tasks.close()
        if self._own is not None:
            await self._own.close()


def sampling_client(settings: WebSettings, client: ClientSettings) -> ClientSettings | None:
    """Return the client's settings of the principal that samples, on the same cluster; None where none is named. Raises
    SettingsError."""
    return replace(parse_client(settings.sampling, client), servers=client.servers) if settings.sampling else None
