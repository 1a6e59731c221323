"""One connection of a client: its frames become requests, and their outcomes replies, in the order of the requests.

    greeting --handshake accepted--> serving --closeSession, error, expiry--> closed
    greeting --a four-letter word--> closed

Rules:
- Writes are given to the tree as they come; a read waits until every write of this connection before it is applied. Proofs of
  identity (addauth, SASL) are answered at once, and hold for the requests behind them.
- Watch events are sent as a transaction is applied, so before every reply that shows the change.
- A frame that is too long, or has no header, ends the connection; a request that does not follow its format is answered with
  an error, as is one that this server does not implement.
Bounds: at most `PENDING_REQUESTS_MAX` requests and about `PENDING_BYTES_MAX` bytes of them wait for the tree. Nothing is
executed while the client does not read what was sent to it. What was received and not begun is one buffer, or one frame; the
connection is not read meanwhile. A client with more than `UNSENT_BYTES_MAX` of watch events before it is disconnected.
Source: ZooKeeper NIOServerCnxn, ZooKeeperServer.processPacket, PrepRequestProcessor, FinalRequestProcessor.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from metadata.store.committed_tree import CommittedTree, Written
from metadata.store.node_tree import StoredSession
from metadata.store.port import NOT_EPHEMERAL, Acl, Check, Create, Stat, StoreError, WatchEvent
from metadata.store.server import four_letter_words, replies
from metadata.store.server.authentication import Identity, StoreUsers
from metadata.store.server.client import Client
from metadata.store.server.reads import Asker, Reads
from metadata.store.server.requests import READS, WRITES, ConnectRequest, Write, read_multi, read_write
from metadata.store.server.service import Service
from metadata.store.zookeeper import wire as wire
from metadata.store.zookeeper.client import session_text
from metadata.store.zookeeper.sasl import DigestMd5Server
from metadata.store.zookeeper.wire import OpCode, Reader, ReplyCode
from protocol.frame import FrameError, FrameReader
from protocol.primitives import DecodeError
from runtime.network.transport import Connection

PENDING_REQUESTS_MAX: Final = 1_000
PENDING_BYTES_MAX: Final = 4 * 1024 * 1024
UNSENT_BYTES_MAX: Final = 64 * 1024 * 1024
RECEIVE_BUFFER_BYTES: Final = 16 * 1024
_NONCE_BYTES: Final = 16
_MISSING = Check("", 0)
"""An operation that fails in every tree, in the place of one that is refused before."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Pending:
    """A request in its place of the order. A read is executed there; `reply` is the code and body of what is decided."""

    xid: int
    code: OpCode | None
    asker: Asker
    size: int
    begun_ms: int
    reader: Reader | None = None
    reply: tuple[int, bytes] | None = None
    zxid: int = 0
    ends: str | None = None
    """Why the connection is closed behind the reply."""


class ServedConnection:
    """A `ConnectionHandler`."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._tree: CommittedTree = service.tree
        self._reads: Reads = service.reads
        self._authentication: StoreUsers = service.options.authentication
        self._frames = FrameReader(service.options.frame_bytes_max, RECEIVE_BUFFER_BYTES)
        self._connection: Connection | None = None
        self._client: Client | None = None
        self._first = b""  # of a connection, up to the length of a word
        self._view = memoryview(b"")
        self._is_greeting = False
        self._is_greeted = False
        self._is_slow = False
        self._is_advancing = False
        self._inbox: deque[bytes | bytearray] = deque()
        self._pending: deque[_Pending] = deque()
        self._pending_bytes = 0
        self._sasl: DigestMd5Server | None = None

    # --- the connection's side ---

    def connected(self, connection: Connection) -> None:
        host = connection.peer.host
        now_ms = self._service.clock.monotonic_ms()
        client = Client(connection.peer, self._tell, self.close, now_ms, (("ip", host),))
        if not self._service.sessions.admit(client):
            connection.abort()
            return
        self._connection, self._client = connection, client

    def certified(self, subject: str) -> None:
        """The client has shown a certificate of `subject`."""
        if self._client is not None:
            self._client.prove(self._authentication.of_certificate(subject))

    def receive_buffer(self, _size_hint: int) -> memoryview:
        self._view = self._frames.receive_buffer()
        return self._view

    def received(self, count: int) -> None:
        if self._connection is None or self._client is None:
            return
        if len(self._first) < four_letter_words.WORD_BYTES:
            self._first += bytes(self._view[: min(count, four_letter_words.WORD_BYTES - len(self._first))])
            if self._first in four_letter_words.KNOWN:
                self._answer_word()
                return
        try:
            frames = self._frames.received(count)
        except FrameError as error:
            self.close(str(error))
            return
        self._client.received_count += len(frames)
        self._service.statistics.received_count += len(frames)
        self._inbox.extend(frames)
        self._advance()

    def writing_paused(self) -> None:
        self._is_slow = True

    def writing_resumed(self) -> None:
        self._is_slow = False
        self._advance()

    def disconnected(self, error: Exception | None) -> None:
        if self._connection is not None:
            logger.debug("connection closed by its client: address=%s error=%s", self._connection.peer, error)
            self._forget()

    def close(self, reason: str, *, is_expected: bool = False) -> None:
        """Send what is written, and close."""
        connection = self._connection
        if connection is None:
            return
        session_id = 0 if self._client is None else self._client.session_id
        logger.log(
            logging.DEBUG if is_expected else logging.INFO,
            "connection closed: address=%s session=%s reason=%s",
            connection.peer,
            session_text(session_id),
            reason,
        )
        self._forget()
        connection.close()

    def _forget(self) -> None:
        self._connection = None
        self._inbox.clear()
        self._pending.clear()
        if self._client is not None:
            self._client.outstanding_count = 0
            self._service.leave(self._client)

    def _send(self, frame: bytes) -> None:
        if self._connection is None or self._client is None:
            return
        self._client.sent_count += 1
        self._service.statistics.sent_count += 1
        self._connection.write([frame])

    def _tell(self, event: WatchEvent) -> None:
        self._send(replies.event_frame(event))
        connection = self._connection
        if connection is not None and connection.unsent_bytes() > UNSENT_BYTES_MAX:
            logger.warning("connection closed, its client does not read: address=%s", connection.peer)
            self._forget()
            connection.abort()

    def _answer_word(self) -> None:
        assert self._connection is not None
        self._service.statistics.received_count += 1
        connection = self._connection
        connection.write([four_letter_words.answer(self._first, self._service.facts())])
        self._forget()
        connection.close()

    # --- the order of requests ---

    def _advance(self) -> None:
        """Begin what was received, and finish what is decided, as far as the bounds allow."""
        if self._is_advancing:
            return
        self._is_advancing = True
        try:
            while self._step():
                pass
        except Exception:  # a request ends its connection, and no other
            logger.exception("request failed")
            self.close("a request failed")
        finally:
            self._is_advancing = False
        connection = self._connection
        if connection is not None:
            if self._inbox or self._is_slow:
                connection.pause_reading()
            else:
                connection.resume_reading()

    def _step(self) -> bool:
        if self._connection is None or self._is_slow:
            return False
        if self._pending and self._is_ready(self._pending[0]):
            self._finish(self._pending.popleft())
            return True
        has_room = len(self._pending) < PENDING_REQUESTS_MAX and self._pending_bytes < PENDING_BYTES_MAX
        if self._inbox and has_room and not self._is_greeting:
            self._begin(self._inbox.popleft())
            return True
        return False

    @staticmethod
    def _is_ready(pending: _Pending) -> bool:
        return pending.reader is not None or pending.reply is not None

    def _begin(self, frame: bytes | bytearray) -> None:
        if not self._is_greeted:
            self._greet(frame)
            return
        assert self._client is not None
        self._service.sessions.touch(self._client)
        reader = Reader(frame)
        try:
            xid, number = reader.int32(), reader.int32()
            if number == OpCode.AUTH:
                self._authenticate(xid, reader)
                return
            if number == OpCode.SASL:
                self._log_in(xid, reader)
                return
        except DecodeError as error:
            self.close(str(error))
            return
        client = self._client
        asker = Asker(client, client.identities)
        now_ms = self._service.clock.monotonic_ms()
        pending = _Pending(xid, OpCode(number) if number in _CODES else None, asker, len(frame), now_ms)
        self._pending.append(pending)
        self._pending_bytes += pending.size
        client.outstanding_count = len(self._pending)
        if pending.code is None:
            pending.reply, pending.zxid = (ReplyCode.UNIMPLEMENTED, b""), -1
            pending.ends = f"operation {number} is not implemented"
        elif pending.code in READS:
            self._begin_read(pending, reader)
        elif pending.code is OpCode.CLOSE_SESSION:
            pending.ends = "its client has closed the session"
            self._service.sessions.end(client, partial(self._decided, pending, []))
        else:
            self._begin_write(pending, reader)

    def _finish(self, pending: _Pending) -> None:
        assert self._client is not None
        self._pending_bytes -= pending.size
        self._client.outstanding_count = len(self._pending)
        if pending.reader is not None:
            assert pending.code is not None
            pending.reply = self._reads.answer(pending.code, pending.reader, pending.asker)
            pending.zxid = self._tree.zxid
        assert pending.reply is not None
        self._service.statistics.answered(self._service.clock.monotonic_ms() - pending.begun_ms)
        xid = wire.PING_XID if pending.code is OpCode.PING else pending.xid
        self._send(replies.reply_frame(xid, pending.zxid or self._tree.zxid, *pending.reply))
        if pending.ends is not None:
            self.close(pending.ends, is_expected=pending.code is OpCode.CLOSE_SESSION)

    # --- the handshake ---

    def _greet(self, frame: bytes | bytearray) -> None:
        assert self._client is not None
        try:
            request = ConnectRequest.of(frame)
        except DecodeError as error:
            self.close(str(error))
            return
        if request.last_zxid > self._tree.zxid:
            self.close(f"it has seen zxid {request.last_zxid:#x}, the last one here is {self._tree.zxid:#x}")
            return
        self._is_greeting = True
        sessions, client = self._service.sessions, self._client
        on_greeted = partial(self._greeted, request)
        if request.session_id == 0:
            sessions.open(client, request.timeout_ms, on_greeted)
        else:
            sessions.resume(client, request.session_id, request.password, request.timeout_ms, on_greeted)

    def _greeted(self, request: ConnectRequest, session: StoredSession | None) -> None:
        if self._connection is None:
            return
        self._is_greeting, self._is_greeted = False, True
        knows = request.knows_read_only
        if session is None:
            self._send(replies.connect_reply(0, 0, bytes(wire.PASSWORD_BYTES), knows_read_only=knows))
            self.close("its session is over, or could not be opened")
            return
        logger.debug(
            "session established: session=%s address=%s timeout_ms=%d",
            session_text(session.session_id),
            self._connection.peer,
            session.timeout_ms,
        )
        frame = replies.connect_reply(session.timeout_ms, session.session_id, session.password, knows_read_only=knows)
        self._send(frame)
        self._advance()

    # --- proofs of identity ---

    def _authenticate(self, xid: int, reader: Reader) -> None:
        """Raises DecodeError."""
        assert self._client is not None
        reader.int32()  # the type, unused
        scheme, credentials = reader.text(), reader.opaque()
        proved = self._authentication.of_auth(scheme, credentials, self._client.address.host)
        if proved is None:
            self._send(replies.reply_frame(xid, 0, ReplyCode.AUTH_FAILED))
            self.close(f"authentication by {scheme!r} is not possible")
            return
        self._client.prove(proved)
        self._send(replies.reply_frame(xid, 0, ReplyCode.OK))

    def _log_in(self, xid: int, reader: Reader) -> None:
        """Raises DecodeError when the request has no token. A server without users answers with null."""
        assert self._client is not None
        token = reader.opaque()
        if not self._authentication.sasl_passwords:
            self._send(replies.reply_frame(xid, 0, ReplyCode.OK, wire.int32(-1)))
            return
        if self._sasl is None:
            nonce = self._service.randomness.randbytes(_NONCE_BYTES).hex()
            self._sasl = DigestMd5Server(self._authentication.sasl_passwords, nonce)
        try:
            answer = self._sasl.answer(token)
        except DecodeError as error:
            self._send(replies.reply_frame(xid, 0, ReplyCode.AUTH_FAILED, wire.int32(-1)))
            self.close(f"authentication failed: {error}")
            return
        if self._sasl.username is not None:
            self._client.prove(self._authentication.of_sasl(self._sasl.username))
        self._send(replies.reply_frame(xid, 0, ReplyCode.OK, wire.opaque(answer)))

    # --- reads and writes ---

    def _begin_read(self, pending: _Pending, reader: Reader) -> None:
        if pending.code is OpCode.SYNC:

            def decided() -> None:
                pending.reader = reader
                self._advance()

            self._tree.after_writes(decided)
        else:
            pending.reader = reader

    def _begin_write(self, pending: _Pending, reader: Reader) -> None:
        assert pending.code is not None

        def checked_acl(acl: Sequence[Acl]) -> tuple[Acl, ...]:
            return self._authentication.checked_acl(acl, pending.asker.identities)

        try:
            if pending.code is OpCode.MULTI:
                writes = read_multi(reader, checked_acl)
            else:
                writes = [read_write(pending.code, reader, checked_acl)]
        except DecodeError:
            pending.reply = ReplyCode.MARSHALLING_ERROR, b""
            return
        # What is refused fails at its place: an operation before it may fail first.
        operations = [write.operation if write.refusal is None else _MISSING for write in writes]
        identities: frozenset[Identity] = frozenset(pending.asker.identities)
        self._tree.write(
            operations,
            session_id=pending.asker.client.session_id,
            identities=identities,
            on_done=partial(self._decided, pending, writes),
        )

    def _decided(self, pending: _Pending, writes: list[Write], outcome: Written | StoreError) -> None:
        pending.zxid = self._tree.zxid
        if isinstance(outcome, StoreError):
            pending.reply = self._failed(pending, writes, outcome)
        elif pending.code is OpCode.MULTI:
            parts = [replies.multi_part(write.code, body) for write, body in self._bodies(pending, writes, outcome)]
            pending.reply = ReplyCode.OK, replies.multi_body(parts)
        else:
            pending.reply = ReplyCode.OK, b"".join(body for _, body in self._bodies(pending, writes, outcome))
        self._advance()

    @staticmethod
    def _failed(pending: _Pending, writes: list[Write], error: StoreError) -> tuple[int, bytes]:
        index = error.operation_index
        code: int = replies.code_of(error)
        if index is not None and writes[index].refusal is not None:
            code = writes[index].refusal or code
        if pending.code is OpCode.MULTI and index is not None:
            return ReplyCode.OK, replies.failed_multi_body(len(writes), index, code)
        return code, b""

    @staticmethod
    def _bodies(pending: _Pending, writes: list[Write], written: Written) -> Iterator[tuple[Write, bytes]]:
        """The bodies of the replies to operations that were applied. A new node is told as it was made: a later operation of
        the transaction may have changed or deleted it."""
        for write, result in zip(writes, written.results, strict=True):
            operation, body = write.operation, b""
            if isinstance(result, Stat):
                body = replies.stat_body(result)
            elif isinstance(operation, Create) and result is not None:
                body = wire.text(result)
                if write.code is not OpCode.CREATE:
                    owner = pending.asker.client.session_id if operation.ephemeral else NOT_EPHEMERAL
                    body += replies.new_stat_body(written.zxid, written.time_ms, owner, len(operation.data))
            yield write, body


_CODES: Final = READS | WRITES | {OpCode.MULTI, OpCode.CLOSE_SESSION}
