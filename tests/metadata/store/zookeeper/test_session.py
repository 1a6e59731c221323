"""The session's state machine on its own: events in, effects out, no server and no loop."""

from __future__ import annotations

import struct

import pytest

from metadata.store.port import Create, SessionEvent, Stat, StoreError, WatchEvent
from metadata.store.store_use import StoreUse
from metadata.store.zookeeper import wire as wire
from metadata.store.zookeeper.requests import Requests
from metadata.store.zookeeper.session import (
    Answer,
    ClientSession,
    Credentials,
    Drop,
    Effect,
    Fire,
    Outcome,
    Send,
    Tell,
    ZooKeeperRequest,
)
from metadata.store.zookeeper.session_file import decode, encode
from metadata.store.zookeeper.wire import OpCode, ReplyCode
from protocol.primitives import DecodeError

REQUESTS = Requests("", is_secure=False)
STAT = struct.pack(">qqqqiiiqiiq", 1, 2, 3, 4, 5, 6, 7, 0, 9, 10, 11)
PASSWORD = b"p" * 16


def greeting(session_id: int = 9, timeout_ms: int = 6_000) -> bytes:
    return struct.pack(">iiq", 0, timeout_ms, session_id) + wire.opaque(PASSWORD) + b"\0"


def reply(xid: int, body: bytes = b"", *, error: int = 0, zxid: int = 1) -> bytes:
    return struct.pack(">iqi", xid, zxid, error) + body


class Script:
    """A session, what it sent, and what it told in order."""

    def __init__(self, **options: object) -> None:
        self.session = ClientSession(6_000, **options)  # type: ignore[arg-type]
        self.now_ms = 0
        self.sent: list[tuple[int, OpCode]] = []
        self.told: list[object] = []

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(data):
                    self._note(data)
                case Answer(settle, outcome):
                    settle(outcome)
                case Fire(watches, kind, path):
                    for watch in watches:
                        watch(WatchEvent(kind, path))
                case Tell(event):
                    self.told.append(event)
                case Drop():
                    self.told.append("drop")

    def _note(self, data: bytes) -> None:
        while data:
            (size,) = struct.unpack_from(">i", data)
            xid, code = struct.unpack_from(">ii", data, 4)
            if size != 45:  # the handshake
                self.sent.append((xid, OpCode(code)))
            data = data[4 + size :]

    def connect(self, frame: bytes | None = None) -> None:
        self.take(self.session.on_opened(self.now_ms))
        self.take(self.session.on_frame(frame or greeting(), self.now_ms))

    def ask(self, name: str, request: ZooKeeperRequest) -> None:
        def settle(outcome: Outcome) -> None:
            told = type(outcome).__name__ if isinstance(outcome, StoreError | Stat) else outcome
            self.told.append((name, told))

        self.take(self.session.submit(request, settle, self.now_ms))

    def hear(self, frame: bytes) -> None:
        self.take(self.session.on_frame(frame, self.now_ms))

    def lose(self) -> None:
        self.take(self.session.on_lost(self.now_ms))

    def tick(self, after_ms: int) -> None:
        self.now_ms += after_ms
        self.take(self.session.on_tick(self.now_ms))


def write(path: str) -> ZooKeeperRequest:
    return REQUESTS.write(Create(path))


def read(path: str) -> ZooKeeperRequest:
    return REQUESTS.exists(path, None)


def test_requests_wait_for_the_handshake_and_leave_in_order() -> None:
    script = Script()
    script.ask("a", read("/a"))
    assert script.sent == []
    script.connect()
    script.ask("b", write("/b"))
    assert script.sent == [(1, OpCode.EXISTS), (2, OpCode.CREATE)]
    script.hear(reply(1, STAT))
    script.hear(reply(2, wire.text("/b")))
    assert script.told == [SessionEvent.CONNECTED, ("a", "Stat"), ("b", "/b")]


def test_what_is_under_way_is_bounded() -> None:
    script = Script(in_flight_requests_max=2)
    script.connect()
    for number in range(4):
        script.ask(str(number), read(f"/{number}"))
    assert len(script.sent) == 2
    script.hear(reply(1, STAT))
    assert len(script.sent) == 3


def test_a_cut_fails_writes_that_were_not_even_sent_and_repeats_reads_in_their_order() -> None:
    script = Script(in_flight_requests_max=2)
    script.connect()
    for name, request in (("w1", write("/1")), ("r1", read("/1")), ("w2", write("/2")), ("r2", read("/2"))):
        script.ask(name, request)
    script.told.clear()
    script.lose()
    script.ask("w3", write("/3"))
    lost = "ConnectionLossError"
    assert script.told == [("w1", lost), ("w2", lost), SessionEvent.SUSPENDED]
    script.sent.clear()
    script.connect()
    for _ in range(4):
        xid, code = script.sent[-1] if len(script.sent) < 2 else script.sent[0]
        script.hear(reply(xid, wire.text("/") if code in (OpCode.SYNC, OpCode.CREATE) else STAT))
        script.sent.remove((xid, code))
    assert script.told[3:] == [SessionEvent.CONNECTED, ("r1", "Stat"), ("r2", "Stat"), ("w3", "/")]


def test_a_return_begins_with_watches_and_a_sync() -> None:
    script = Script()
    script.connect()
    script.ask("a", REQUESTS.get("/a", lambda event: script.told.append(event)))
    script.hear(reply(1, wire.opaque(b"x") + STAT))
    script.lose()
    script.ask("b", read("/b"))
    script.sent.clear()
    script.connect()
    assert [code for _, code in script.sent] == [OpCode.SET_WATCHES, OpCode.SYNC, OpCode.EXISTS]


def test_an_answer_out_of_order_costs_the_connection() -> None:
    script = Script()
    script.connect()
    script.ask("a", write("/a"))
    script.hear(reply(2, wire.text("/a")))
    assert script.told == [SessionEvent.CONNECTED, "drop", ("a", "ConnectionLossError"), SessionEvent.SUSPENDED]


def test_a_session_that_moved_is_a_lost_connection_and_not_a_refusal() -> None:
    script = Script()
    script.connect()
    script.ask("a", write("/a"))
    script.hear(reply(1, error=ReplyCode.SESSION_MOVED))
    assert ("a", "ConnectionLossError") in script.told
    assert "drop" in script.told


@pytest.mark.parametrize("comes", ["by an answer", "by the handshake"])
def test_expiry_refuses_everything_in_order_and_then_tells(comes: str) -> None:
    script = Script()
    script.connect()
    script.ask("a", read("/a"))
    if comes == "by an answer":
        script.hear(reply(1, error=ReplyCode.SESSION_EXPIRED))
    else:
        script.lose()
        script.connect(greeting(0, 0))
    assert script.told[-2:] == [("a", "SessionExpiredError"), SessionEvent.EXPIRED]
    assert script.session.is_over
    script.ask("b", read("/b"))
    assert script.told[-1] == ("b", "SessionExpiredError")


def test_silence_costs_the_connection_but_a_late_look_at_the_clock_does_not() -> None:
    script = Script()
    script.connect()
    script.tick(60_000)  # this process was stopped: its answers may lie in the socket
    assert "drop" not in script.told
    script.hear(reply(wire.PING_XID))
    script.tick(4_001)
    assert "drop" not in script.told
    script.tick(500)
    assert script.told[-2:] == ["drop", SessionEvent.SUSPENDED]


def test_an_idle_connection_pings_in_time() -> None:
    script = Script()
    script.connect()
    for _ in range(12):
        script.tick(500)
        script.hear(reply(wire.PING_XID))
    pings = [code for _, code in script.sent if code is OpCode.PING]
    assert len(pings) == 3


def test_the_end_answers_callers_at_once_and_closes_when_the_ensemble_says_so() -> None:
    script = Script()
    script.connect()
    script.ask("a", read("/a"))
    script.take(script.session.end(0))
    assert script.told[-1] == ("a", "SessionExpiredError")
    assert script.sent[-1] == (2, OpCode.CLOSE_SESSION)
    script.hear(reply(1, STAT))
    assert not script.session.is_over
    script.lose()
    script.connect()
    assert script.sent[-1] == (3, OpCode.CLOSE_SESSION)
    script.hear(reply(3))
    assert script.session.is_over
    assert script.told.count(("a", "SessionExpiredError")) == 1


def test_the_time_of_each_answer_is_measured() -> None:
    use = StoreUse()
    script = Script(use=use)
    script.connect()
    script.ask("a", read("/a"))
    script.now_ms += 30
    script.hear(reply(1, STAT))
    assert (use.latencies.count, use.latencies.total) == (1, 30_000_000)


def test_authentications_with_sasl_are_counted() -> None:
    class Login:
        def __init__(self) -> None:
            self.tokens = [b"second", None]

        def first(self) -> bytes:
            return b"first"

        def answer(self, token: bytes) -> bytes | None:
            if token == b"wrong":
                raise DecodeError("the server does not know the password")
            return self.tokens.pop(0)

    use = StoreUse()
    script = Script(login=Login, use=use)
    for answers in ([b"challenge", b"proof"], [b"wrong"]):
        script.take(script.session.on_opened(script.now_ms))
        script.take(script.session.on_frame(greeting(), script.now_ms))
        for answer in answers:
            (xid, _) = script.sent[-1]
            script.take(script.session.on_frame(reply(xid, wire.opaque(answer)), script.now_ms))
        script.lose()
    assert (use.authentications_count, use.authentication_failures_count) == (1, 1)


def test_each_connection_authenticates_first() -> None:
    use = StoreUse()
    script = Script(authentications=[("digest", b"user:secret")], use=use)
    for _ in range(2):
        script.sent.clear()
        script.connect()
        assert script.sent[0] == (wire.AUTH_XID, OpCode.AUTH)
        script.lose()
    script.connect()
    script.hear(reply(wire.AUTH_XID, error=ReplyCode.AUTH_FAILED))
    assert "drop" in script.told
    assert use.authentication_failures_count == 1


def test_bytes_that_are_no_answer_raise_nothing() -> None:
    for size in range(40):
        script = Script()
        script.connect()
        script.ask("a", read("/a"))
        script.hear(bytes(size))
        assert script.session.is_connected or "drop" in script.told
        script = Script()
        script.take(script.session.on_opened(0))
        script.hear(bytes(size))


def test_credentials_survive_their_file() -> None:
    for session_id in (1, 0x1000ABCDEF0001, -5):
        credentials = Credentials(session_id, bytes(range(16)))
        assert decode(encode(credentials)) == credentials
    for spoiled in (b"", b"0\n0x1\n\n", b"1\n0x1\n" + b"00" * 16 + b"\n", b"0\n0x0\n" + b"00" * 16 + b"\n", b"\xff"):
        with pytest.raises(ValueError):  # noqa: PT011 (any kind of it)
            decode(spoiled)


def test_a_watch_event_reader_is_bounded_by_its_frame() -> None:
    script = Script()
    script.connect()
    script.hear(struct.pack(">iqi", wire.NOTIFICATION_XID, -1, 0) + struct.pack(">iii", 3, 3, 1 << 30))
    assert "drop" in script.told
