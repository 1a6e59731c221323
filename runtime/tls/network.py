"""TLS for outgoing connections: a `Network` over another one, whose connections are encrypted.

Rules: the handler's `connected` is called after the handshake, when the peer's certificate was accepted; a refused one leads to
`disconnected` with the reason. Listening is passed on to the inner network.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass

from runtime.network.transport import Connection, ConnectionHandler, Listener, Network
from runtime.tls.stream import TlsStream, TlsWork


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files. Without `trusted` the operating system's authorities are used; `own` contains certificate and key."""

    trusted: str | None = None
    own: str | None = None
    own_password: str | None = None


def client_context(
    files: TlsFiles, *, min_version: ssl.TLSVersion, max_version: ssl.TLSVersion, checks_host: bool
) -> ssl.SSLContext:
    """Create the context of a client. Raises OSError (ssl.SSLError is one) for files that cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = checks_host
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version, context.maximum_version = min_version, max_version
    if files.trusted is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(files.trusted)
    if files.own is not None:
        # Without a password OpenSSL would prompt for one on the terminal.
        context.load_cert_chain(files.own, password=files.own_password or "")
    return context


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
