"""TLS for outgoing connections: a `Network` over another one, whose connections are encrypted.

Rules: the handler's `connected` is called after the handshake, when the peer's certificate was accepted; a refused one leads to
`disconnected` with the reason. Listening is passed on to the inner network.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable

from runtime.network.transport import Connection, ConnectionHandler, Listener, Network
from runtime.tls.stream import TlsStream, TlsWork


class TlsNetwork:
    """A `Network` whose outgoing connections use TLS. `context` may be replaced: new connections use it."""

    def __init__(self, network: Network, context: ssl.SSLContext, work: TlsWork | None = None) -> None:
        self.context = context
        self._network = network
        self._work = work or TlsWork()

    async def listen(self, host: str, port: int, factory: Callable[[], ConnectionHandler]) -> Listener:
        return await self._network.listen(host, port, factory)

    async def connect(self, host: str, port: int, handler: ConnectionHandler) -> Connection:
        """Connect; returns before the handshake is done. The handler's `connected` is called after it."""
        stream = TlsStream(handler, self.context, self._work, host=host, secured=handler.connected)
        await self._network.connect(host, port, stream)
        return stream
