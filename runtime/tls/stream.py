"""One TLS connection over a plain one, of either side: the plain stream's handler, and the `Connection` of its own handler.

Rules: sans-IO: the TLS engine works in memory (`ssl.MemoryBIO`), so it runs over any `Network`. What takes OpenSSL long (a
signature in a handshake, the encryption of a large write) is done by `Offload`, in a thread that does not hold the
interpreter's lock, so that no other connection waits for it. A renegotiation ends the connection.
Bounds: received bytes wait encrypted, at most one buffer, while a thread has the engine or the handler does not read. Bytes to
send wait in plain text, where they are; at most `PIECE_BYTES` of them are encrypted before the peer accepts them. The engine's
memory grows to its largest write and read, and no smaller: it gets `SLICE_BYTES` at a time.
Invariants: one thread at a time uses the engine. Bytes are sent in the order of `write`, those from before the
end of the handshake first. The handler is called on the loop only.
Source: Kafka SslTransportLayer. Arrangement: docs/decisions/022-tls-in-memory.md.
"""

from __future__ import annotations

import ssl
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from runtime.disk.filesystem import Buffer
from runtime.network.file_range import Piece, in_memory, release_ranges
from runtime.network.transport import Address, Connection, ConnectionHandler

RECEIVE_BUFFER_BYTES = 64 * 1024
# One TLS record: smaller writes of several chunks are joined.
RECORD_BYTES = 16 * 1024
# From this size on, encrypting takes longer than passing it to a thread.
LARGE_WRITE_BYTES = 128 * 1024
# How much is encrypted before the peer has accepted it.
PIECE_BYTES = 1024 * 1024
# How much the engine gets at a time: its memory never becomes smaller again, for as long as the connection is open.
SLICE_BYTES = 64 * 1024

# The memory into which all TLS connections of a process receive: it is copied into an engine at once.
_receive_buffer = memoryview(bytearray(RECEIVE_BUFFER_BYTES))


class Offload(Protocol):
    """Runs what takes OpenSSL long. `runtime.process.os_threads.OsThreads` is one."""

    @property
    def is_busy(self) -> bool: ...

    def start(self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        """Run `job`; `done` is called on the loop with its result or its exception."""


class InPlace:
    """Runs it immediately, on the loop."""

    is_busy = False

    def start(self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        try:
            result = job()
        except OSError as error:
            done(None, error)
        else:
            done(result, None)


@dataclass(frozen=True, slots=True)
class TlsWork:
    """Where what takes long is done: the steps of handshakes, which may come by the thousand, and large writes."""

    handshakes: Offload = field(default_factory=InPlace)
    writes: Offload = field(default_factory=InPlace)


class RenegotiationError(ssl.SSLError):
    """The peer began another handshake on an open connection."""


class TlsFailed(Protocol):
    def __call__(self, error: Exception) -> None: ...


class TlsStream:
    """`is_announced_early`: the handler is called with `connected` before the handshake; else it is for `secured` to do.

    `secured` is called after the handshake, `failed` with the reason when TLS ends the connection, `ended` when it is closed,
    before the handler's `disconnected`. Without a `host` it is the server's side.
    """

    takes_ranges = False

    def __init__(
        self,
        handler: ConnectionHandler,
        context: ssl.SSLContext,
        work: TlsWork,
        *,
        host: str | None = None,
        is_announced_early: bool = False,
        secured: Callable[[TlsStream], None],
        failed: TlsFailed | None = None,
        ended: Callable[[], None] | None = None,
    ) -> None:
        self.peer = self.local = Address("", 0)
        self._handler = handler
        self._work = work
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._is_server = host is None
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=self._is_server, server_hostname=host)
        self._checks_peer = context.verify_mode is not ssl.CERT_NONE
        self._is_announced_early = is_announced_early
        self._secured, self._failed, self._ended = secured, failed, ended
        self._connection: Connection | None = None
        self._failure: Exception | None = None
        self._steps_count = 0  # of the handshake
        self._is_open = False  # the handshake is complete
        self._is_old = False  # older than TLS 1.3
        self._is_closing = False  # it closes when everything is sent
        # A thread has the engine; what came meanwhile, encrypted.
        self._is_engine_away = False
        self._held: list[bytes] = []
        self._is_paused = False  # by the handler
        self._is_reading = True
        self._is_pumping = False
        # What waits to be encrypted, and how much of it is in the thread.
        self._plain: deque[Buffer] = deque()
        self._plain_bytes = self._encrypting_bytes = 0
        self._is_inner_slow = self._is_slow = False

    # --- facts ---

    @property
    def is_secured(self) -> bool:
        """Whether the handshake is complete."""
        return self._is_open

    @property
    def is_working(self) -> bool:
        """Whether this side works on what the peer has sent: it does not wait for the peer."""
        return self._is_engine_away

    @property
    def certificate(self) -> bytes | None:
        """The peer's certificate in DER form; None if it showed none."""
        return self._tls.getpeercert(binary_form=True)

    @property
    def cipher(self) -> str:
        """The name of the cipher suite, as in OpenSSL."""
        cipher = self._tls.cipher()
        return "" if cipher is None else cipher[0]

    @property
    def version(self) -> str:
        """As in "TLSv1.3"."""
        return self._tls.version() or ""

    # --- the plain stream's handler ---

    def connected(self, connection: Connection) -> None:
        self._connection = connection
        self.peer, self.local = connection.peer, connection.local
        if self._is_announced_early:
            self._handler.connected(self)
        if not self._is_server:
            self._continue_handshake()

    def receive_buffer(self, _size_hint: int) -> memoryview:
        return _receive_buffer

    def received(self, count: int) -> None:
        if self._connection is None or self._failure is not None:
            return
        if self._is_engine_away:
            self._held.append(bytes(_receive_buffer[:count]))
            self._adjust_reading()
            return
        self._incoming.write(_receive_buffer[:count])
        if self._is_open:
            self._pump()
        else:
            self._continue_handshake()

    def writing_paused(self) -> None:
        self._is_inner_slow = True
        self._report_pace()

    def writing_resumed(self) -> None:
        self._is_inner_slow = False
        self._send()

    def disconnected(self, error: Exception | None) -> None:
        self._connection = None
        self._plain.clear()
        self._held.clear()
        self._plain_bytes = 0
        if self._ended is not None:
            self._ended()
        self._handler.disconnected(self._failure or error)

    # --- the connection ---

    def write(self, pieces: Sequence[Piece]) -> None:
        if self._connection is None or self._failure is not None or self._is_closing:
            release_ranges(pieces)
            return
        chunks = in_memory(pieces)
        size = sum(map(len, chunks))
        if not size:
            return
        if size < LARGE_WRITE_BYTES and self._is_open and not self._plain and not self._is_engine_away:
            self._connection.write(self._encrypted(chunks, size))
            return
        self._plain.extend(chunks)
        self._plain_bytes += size
        self._send()

    def unsent_bytes(self) -> int:
        if self._connection is None:
            return 0
        return self._connection.unsent_bytes() + self._plain_bytes + self._encrypting_bytes

    def pause_reading(self) -> None:
        self._is_paused = True
        self._adjust_reading()

    def resume_reading(self) -> None:
        if self._is_closing:
            return
        self._is_paused = False
        if self._is_open and not self._is_engine_away:
            self._pump()
        self._adjust_reading()

    def close(self) -> None:
        if self._connection is None:
            return
        if self._is_open and self._failure is None:
            self._is_closing = self._is_paused = True
            self._adjust_reading()
            if self._plain or self._is_engine_away:
                return
            with suppress(ssl.SSLError):  # it raises until the peer has said the same
                self._tls.unwrap()
            self._flush()
        self._connection.close()

    def abort(self) -> None:
        if self._connection is not None:
            self._connection.abort()

    # --- handshake ---

    def _continue_handshake(self) -> None:
        """Do a step of the handshake with what was received. On the server's side the first one signs; on either side a step
        may check a certificate."""
        self._steps_count += 1
        is_first = self._steps_count == 1
        self._is_engine_away = True
        takes_long = is_first or self._checks_peer if self._is_server else not is_first
        (self._work.handshakes if takes_long else _in_place).start(self._handshake_step, self._on_handshake_step)

    def _handshake_step(self) -> bool:
        """Return whether the handshake is complete."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def _on_handshake_step(self, is_complete: bool | None, error: BaseException | None) -> None:
        has_more = self._take_engine()
        if self._connection is None:
            return
        if error is not None:
            self._fail(error)
            return
        self._flush()
        if is_complete:
            self._is_open = True
            self._is_old = self.version != "TLSv1.3"
            self._secured(self)
            self._send()
            self._pump()
        elif has_more:
            self._continue_handshake()

    def _take_engine(self) -> bool:
        """The thread has finished. Returns whether bytes came meanwhile."""
        self._is_engine_away = False
        held, self._held = self._held, []
        for data in held:
            self._incoming.write(data)
        self._adjust_reading()
        return bool(held)

    # --- receiving ---

    def _pump(self) -> None:
        """Decrypt what was received, and pass it on, for as long as the handler reads."""
        if self._is_pumping:  # called by the handler: the loop below goes on
            return
        self._is_pumping = True
        has_more = True
        try:
            while has_more and self._connection is not None and not self._is_paused and not self._is_engine_away:
                place = self._handler.receive_buffer(RECEIVE_BUFFER_BYTES)
                count, end = self._read_into(place)
                has_more = count == len(place)
                if count:
                    self._handler.received(count)
                if isinstance(end, Exception):
                    self._fail(end)
                    return
                if end:
                    self.close()
                    return
        finally:
            self._is_pumping = False
        if not self._is_engine_away:
            self._flush()

    def _read_into(self, place: memoryview) -> tuple[int, bool | Exception]:
        """Fill `place` as far as possible. Returns the number of bytes, and whether the peer has ended the stream, or why it
        must end."""
        count, room = 0, len(place)
        read, incoming, pending = self._tls.read, self._incoming, self._tls.pending
        try:
            while count < room:
                received = int(read(room - count, place[count:]))
                if not received:
                    return count, True
                count += received
                if not incoming.pending and not pending():
                    break
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            return count, error
        if (
            self._is_old and self._outgoing.pending
        ):  # OpenSSL refuses it by a warning, which is all that reading could send
            return count, RenegotiationError(1, "renegotiation")
        return count, False

    def _adjust_reading(self) -> None:
        connection = self._connection
        is_wanted = not self._is_paused and not self._held
        if connection is not None and is_wanted != self._is_reading:
            self._is_reading = is_wanted
            if is_wanted:
                connection.resume_reading()
            else:
                connection.pause_reading()

    # --- sending ---

    def _encrypted(self, chunks: Sequence[Buffer], size: int) -> list[Buffer]:
        if len(chunks) > 1 and size <= RECORD_BYTES:
            chunks = (b"".join(chunks),)
        write, outgoing, encrypted = self._tls.write, self._outgoing, list[Buffer]()
        for chunk in chunks:
            for start in range(0, len(chunk), SLICE_BYTES):
                part = chunk if len(chunk) <= SLICE_BYTES else memoryview(chunk)[start : start + SLICE_BYTES]
                written = write(part)
                assert written == len(part)  # the memory takes everything
                encrypted.append(outgoing.read())
        return encrypted

    def _flush(self) -> None:
        if self._connection is not None and self._outgoing.pending:
            self._connection.write([self._outgoing.read()])

    def _send(self) -> None:
        """Encrypt and send what waits, for as long as the peer accepts it."""
        while self._plain and self._is_open and not self._is_inner_slow and not self._is_engine_away:
            if self._connection is None or self._failure is not None:
                return
            piece, size = self._take_piece()
            if size < LARGE_WRITE_BYTES or self._work.writes.is_busy:
                self._connection.write(self._encrypted(piece, size))
            else:
                self._is_engine_away, self._encrypting_bytes = True, size
                self._work.writes.start(partial(self._encrypted, piece, size), self._on_encrypted)
        self._report_pace()
        if self._is_closing and not self._plain and not self._is_engine_away:
            self.close()

    def _take_piece(self) -> tuple[list[Buffer], int]:
        plain, piece, size = self._plain, list[Buffer](), 0
        while plain and size < PIECE_BYTES:
            chunk = plain.popleft()
            room = PIECE_BYTES - size
            if len(chunk) > room:
                view = memoryview(chunk)
                chunk, rest = view[:room], view[room:]
                plain.appendleft(rest)
            piece.append(chunk)
            size += len(chunk)
        self._plain_bytes -= size
        return piece, size

    def _on_encrypted(self, data: list[Buffer] | None, error: BaseException | None) -> None:
        self._encrypting_bytes = 0
        self._take_engine()
        if self._connection is None:
            return
        if data is None:
            assert error is not None
            self._fail(error)
            return
        self._connection.write(data)
        self._send()
        if self._is_open and not self._is_engine_away:
            self._pump()

    def _report_pace(self) -> None:
        is_slow = self._is_open and (self._is_inner_slow or bool(self._plain) or self._encrypting_bytes > 0)
        if is_slow != self._is_slow and self._connection is not None:
            self._is_slow = is_slow
            if is_slow:
                self._handler.writing_paused()
            else:
                self._handler.writing_resumed()

    # --- the end ---

    def _fail(self, error: BaseException) -> None:
        """TLS cannot continue: send the alert, and close."""
        if not isinstance(error, OSError):  # the threads are closed: the broker stops
            self.abort()
            return
        self._failure = error
        self._flush()
        if self._failed is not None:
            self._failed(error)
        if self._connection is not None:
            self._connection.close()


_in_place = InPlace()


def reason_of_failure(error: Exception) -> str:
    """Return why TLS has ended a connection, without file names and line numbers of OpenSSL."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return str(getattr(error, "reason", None) or error.args[-1]).replace("_", " ").lower()
    return str(error)
