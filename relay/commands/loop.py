"""What a command does on an event loop: clients of the cluster that the command works on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from client.errors import ClusterUnavailable
from client.event_loop.cluster_client import AsyncClusterClient
from client.event_loop.settings import cluster_client_of, connector_of
from protocol.errors import ErrorCode, KafkaError
from runtime.network.os_transport import OsNetwork
from runtime.randomness import Randomness
from tools.cluster import Cluster

T = TypeVar("T")
NewClient = Callable[[], AsyncClusterClient]


def on_loop(cluster: Cluster, randomness: Randomness, work: Callable[[NewClient], Awaitable[T]]) -> T:
    """Return the result of `work`, which is given what makes clients; they are closed at its end. Raises KafkaError, also when
    the time is over, SettingsError, and what `work` raises."""
    cluster.connect()  # whoever cannot log in is told so
    settings = cluster.settings.client

    async def run() -> T:
        connector = connector_of(settings, OsNetwork(), randomness)
        clients: list[AsyncClusterClient] = []

        def new_client() -> AsyncClusterClient:
            clients.append(cluster_client_of(settings, connector, randomness))
            return clients[-1]

        try:
            return await work(new_client)
        finally:
            for client in clients:
                await client.close()

    try:
        return asyncio.run(run())
    except ClusterUnavailable as error:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, str(error)) from error
