"""The listeners and the clock of a store server.

Rules: `open` returns when every listener accepts connections. `close` stops accepting, closes the connections, and leaves the
sessions: clients take them up at the next start, within their timeout.
Source: ZooKeeper ZooKeeperServerMain, NIOServerCnxnFactory.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from metadata.store.committed_tree import CommittedTree, Written
from metadata.store.node_map import ROOT
from metadata.store.port import Acl, StoreError
from metadata.store.server.connection import ServedConnection
from metadata.store.server.service import Service, ServiceOptions
from runtime.clock import Clock
from runtime.network.transport import Address, ConnectionHandler, Listener, Network
from runtime.randomness import Randomness
from runtime.tasks import TaskScope
from runtime.tls.stream import TlsStream, TlsWork, reason_of_failure

SYSTEM_PATH: Final = "/zookeeper"
CONFIG_PATH: Final = "/zookeeper/config"
QUOTA_PATH: Final = "/zookeeper/quota"
_ANYONE_READS: Final = (Acl(1, "world", "anyone"),)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tls:
    """`subject_of` returns the name of a certificate in DER form. Raises ValueError."""

    context: ssl.SSLContext
    subject_of: Callable[[bytes], str]
    work: TlsWork = field(default_factory=TlsWork)


@dataclass(frozen=True, slots=True)
class ServedAddress:
    """Port 0 is a free one."""

    address: Address
    tls: Tls | None = None


class StoreServer:
    """Serves one tree. Life: `open`, then `close`."""

    def __init__(self, service: Service, tasks: TaskScope) -> None:
        self.service = service
        self._tasks = tasks
        self._listeners: list[Listener] = []

    @classmethod
    async def open(
        cls,
        tree: CommittedTree,
        endpoints: Sequence[ServedAddress],
        network: Network,
        clock: Clock,
        randomness: Randomness,
        tasks: TaskScope,
        options: ServiceOptions | None = None,
    ) -> StoreServer:
        """Serve `tree` at every endpoint. `tasks` must outlive the server. Raises OSError, StoreError."""
        await _make_system_nodes(tree)
        server = cls(Service(tree, clock, randomness, options or ServiceOptions()), tasks)
        try:
            for endpoint in endpoints:
                await server._listen(endpoint, network)
        except BaseException:
            await server.close()
            raise
        tasks.spawn(server._keep_time(), name="store ticks")
        return server

    @property
    def addresses(self) -> list[Address]:
        """Where the server listens, in the order of its endpoints."""
        return [listener.address for listener in self._listeners]

    async def close(self) -> None:
        for listener in self._listeners:
            await listener.close()
        for client in self.service.sessions:
            client.close("the server stops")

    async def _listen(self, endpoint: ServedAddress, network: Network) -> None:
        tls, service = endpoint.tls, self.service
        factory: Callable[[], ConnectionHandler]
        if tls is None:
            factory = lambda: ServedConnection(service)  # noqa: E731
        else:
            factory = lambda: _secured(service, tls)  # noqa: E731
        address = endpoint.address
        self._listeners.append(await network.listen(address.host, address.port, factory))

    async def _keep_time(self) -> None:
        while True:
            await asyncio.sleep(self.service.options.limits.tick_ms / 1000)
            self.service.sessions.tick()


def _secured(service: Service, tls: Tls) -> TlsStream:
    connection = ServedConnection(service)

    def secured(stream: TlsStream) -> None:
        if stream.certificate is None:
            return
        try:
            connection.certified(tls.subject_of(stream.certificate))
        except ValueError as error:
            connection.close(f"its certificate names no subject: {error}")

    def failed(error: Exception) -> None:
        connection.close(f"TLS: {reason_of_failure(error)}")

    return TlsStream(connection, tls.context, tls.work, is_announced_early=True, secured=secured, failed=failed)


async def _make_system_nodes(tree: CommittedTree) -> None:
    """The nodes that every ZooKeeper has from its beginning. Raises StoreError."""
    nodes = tree.tree.nodes
    if nodes.find(SYSTEM_PATH) is not None:
        return
    root = nodes["/"]
    made: asyncio.Future[Written | StoreError] = asyncio.get_running_loop().create_future()
    first = {
        "/": root.with_children(0, root.num_children + 1, root.pzxid),
        SYSTEM_PATH: ROOT._replace(num_children=2),
        CONFIG_PATH: ROOT._replace(aversion=-1, acl=_ANYONE_READS),
        QUOTA_PATH: ROOT,
    }
    tree.put_nodes(first, made.set_result)
    outcome = await made
    if isinstance(outcome, StoreError):
        raise outcome
