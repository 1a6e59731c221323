"""The ports of a broker: opened at its start, closed before it stops, and then emptied of requests in progress.

Rules: no decisions; clients that connect are served once the acceptor says so. Bounded in time.
Source: Kafka SocketServer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from runtime.network.listen_errors import listen_error

if TYPE_CHECKING:
    from broker.network.connections.acceptor import Acceptor
    from broker.network.listening.listeners import ListenerPlan
    from broker.network.listening.tls_listeners import TlsListeners
    from runtime.network.transport import Address, Listener, Network

logger = logging.getLogger(__name__)

# How long the broker waits, when it stops, for responses to requests in progress.
DRAIN_TIMEOUT_MS = 2_000
REBALANCE_DRAIN_TIMEOUT_MS = 500


class OpenPorts:
    """`bound` is the address of each listener that is open, by its name."""

    def __init__(self, network: Network, acceptor: Acceptor) -> None:
        self._network = network
        self._acceptor = acceptor
        self._listeners: list[Listener] = []
        self.bound: dict[str, Address] = {}

    async def open(self, plans: Sequence[ListenerPlan], tls: TlsListeners) -> None:
        """Open the ports of all listeners. Raises OSError."""
        for plan in plans:
            factory = tls.factory(plan.name, self._acceptor.factory(plan.name, plan.security_protocol))
            try:
                listener = await self._network.listen(plan.bind.host, plan.bind.port, factory)
            except OSError as error:
                raise listen_error(f"listener {plan.name}", error) from error
            self._listeners.append(listener)
            self._acceptor.listening(plan.name, listener)
            self.bound[plan.name] = listener.address

    async def close(self) -> None:
        """Accept no connections any more; those that are open stay."""
        for listener in self._listeners:
            await listener.close()
        self._listeners.clear()


async def drain(acceptor: Acceptor, end_rebalances: Callable[[], None]) -> None:
    """Wait until requests in progress are complete and their responses sent. JoinGroup requests may wait longer than a stop
    should take: they are answered by `end_rebalances` after REBALANCE_DRAIN_TIMEOUT_MS."""
    acceptor.finish_all("the broker is stopping")
    if await _emptied_within(acceptor, REBALANCE_DRAIN_TIMEOUT_MS):
        return
    end_rebalances()
    if not await _emptied_within(acceptor, DRAIN_TIMEOUT_MS - REBALANCE_DRAIN_TIMEOUT_MS):
        logger.warning("connections closed before their requests were done: connections=%d", len(acceptor))


async def _emptied_within(acceptor: Acceptor, timeout_ms: int) -> bool:
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await acceptor.emptied()
    except TimeoutError:
        return False
    return True
