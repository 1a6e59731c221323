"""TLS for outgoing connections: a `Network` over another one, whose connections are encrypted.

Rules: the TLS engine is sans-IO (`ssl.MemoryBIO`), so it runs over any `Network`. The handler's `connected` is called after
the handshake, when the peer's certificate was accepted; a refused one leads to `disconnected` with the reason. Listening is
passed on to the inner network.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runtime.filesystem import Buffer
from runtime.transport import Address, Connection, ConnectionHandler, Listener, Network

_BUFFER_BYTES = 64 * 1024


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
    """A `runtime.transport.Network` whose outgoing connections use TLS."""

    def __init__(self, network: Network, context: ssl.SSLContext) -> None:
        self._network = network
        self._context = context

    async def listen(self, host: str, port: int, factory: Callable[[], ConnectionHandler]) -> Listener:
        return await self._network.listen(host, port, factory)

    async def connect(self, host: str, port: int, handler: ConnectionHandler) -> Connection:
        """Connect; returns before the handshake is done. The handler's `connected` is called after it."""
        stream = _TlsStream(handler, self._context, host)
        await self._network.connect(host, port, stream)
        return stream


class _TlsStream:
    """Both interfaces: the inner stream's handler, and the `Connection` of the outer handler."""

    def __init__(self, handler: ConnectionHandler, context: ssl.SSLContext, host: str) -> None:
        self.peer = self.local = Address("", 0)
        self._handler = handler
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._connection: Connection | None = None
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._is_greeted = False
        self._failure: Exception | None = None

    # --- the inner stream's handler ---

    def connected(self, connection: Connection) -> None:
        self._connection = connection
        self.peer, self.local = connection.peer, connection.local
        self._advance()

    def receive_buffer(self, _size_hint: int) -> memoryview:
        return self._buffer

    def received(self, count: int) -> None:
        self._incoming.write(self._buffer[:count])
        self._advance()

    def writing_paused(self) -> None:
        self._handler.writing_paused()

    def writing_resumed(self) -> None:
        self._handler.writing_resumed()

    def disconnected(self, error: Exception | None) -> None:
        self._connection = None
        self._handler.disconnected(self._failure or error)

    # --- the connection ---

    def write(self, chunks: Sequence[Buffer]) -> None:
        if self._connection is None or self._failure is not None:
            return
        data = b"".join(chunks)
        if data:
            self._tls.write(data)
            self._flush()

    def unsent_bytes(self) -> int:
        return 0 if self._connection is None else self._connection.unsent_bytes()

    def pause_reading(self) -> None:
        if self._connection is not None:
            self._connection.pause_reading()

    def resume_reading(self) -> None:
        if self._connection is not None:
            self._connection.resume_reading()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def abort(self) -> None:
        if self._connection is not None:
            self._connection.abort()

    # --- inside ---

    def _advance(self) -> None:
        """Continue handshake and decryption with the bytes received so far."""
        try:
            if not self._is_greeted:
                self._tls.do_handshake()
                self._is_greeted = True
                self._flush()
                self._handler.connected(self)
            while self._connection is not None:
                place = self._handler.receive_buffer(_BUFFER_BYTES)
                data = self._tls.read(len(place))
                if not data:  # the peer has sent close_notify
                    self.close()
                    return
                place[: len(data)] = data
                self._handler.received(len(data))
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError as error:
            self._failure = error
            self._flush()  # send the alert to the peer
            self.close()

    def _flush(self) -> None:
        if self._connection is not None and self._outgoing.pending:
            self._connection.write([self._outgoing.read()])
