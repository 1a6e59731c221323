"""Collects all that the checks read: the view over the wire and, beside it, since when the brokers' pages say it is so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from tools.health.requests import BrokerRequests
from tools.health.since import Address, began, read_pages, told_addresses
from tools.health.view_collection import LIMIT_MS, collect_view

if TYPE_CHECKING:
    from client.settings.values import ClientSettings
    from runtime.clock import Clock
    from tools.health.view import BrokerView, ClusterView


def collect(
    settings: ClientSettings,
    clock: Clock,
    window_ms: int,
    previous: ClusterView | None = None,
    *,
    limit_ms: int = LIMIT_MS,
    pages: Sequence[Address] = (),
) -> ClusterView:
    """Return the view, as `collect_view` does; `pages` are where brokers tell since when, if not where they say themselves.
    Raises Unreachable, LoginRefused, SettingsError."""
    requests = BrokerRequests(settings, clock)
    try:
        with ThreadPoolExecutor(1) as pool:
            read = [pool.submit(read_pages, pages)]

            def read_told(brokers: Iterable[BrokerView]) -> None:
                if not pages:
                    read.append(pool.submit(read_pages, told_addresses(brokers)))

            view = collect_view(requests, clock, window_ms, previous, limit_ms=limit_ms, on_brokers=read_told)
            found = {address: page for each in read for address, page in each.result().items()}
        own = {address: page for address, page in found.items() if page["cluster_id"] == view.cluster_id}
        silent = [f"since when: {host}:{port} has no page /health of this cluster" for host, port in pages
                  if (host, port) not in own]  # fmt: skip
        return replace(view, began=began(own.values()), unseen=(*view.unseen, *silent))
    finally:
        requests.close()
