"""Authentication with SASL on a connection: order of requests, failures, time limits, sessions, rubbish."""

from __future__ import annotations

import logging
import struct
from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.handlers.security.sasl_authenticate import sasl_authenticate
from broker.handlers.security.sasl_handshake import sasl_handshake
from broker.network.memory_budget import MemoryBudget
from broker.network.sasl.authentication import ListenersAuthentication
from broker.network.sasl.exchange import SaslRules
from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.heartbeat import HeartbeatResponse
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from security.principal import ANONYMOUS, Principal
from security.sasl.mechanisms import Identity
from security.sasl.plain import PlainServer
from tests.broker.harness import Broker, Peer
from tests.broker.recorded_requests import HEARTBEAT_V, Log, V, heartbeat_of, produce_of

GOOD = b"\0alice\0alice-secret"
BAD = b"\0alice\0wrong"
LISTENER = "CLIENTS"
DELAY_MS = 100
TIMEOUT_MS = 30_000
MAX_RECEIVE_BYTES = 10_000
SOFTWARE = ApiVersionsRequest(client_software_name="test", client_software_version="1")


class ExpiringServer(PlainServer):
    """PLAIN whose credentials end at a time of the wall clock."""

    expires_ms = 61_000

    def step(self, token: bytes) -> bytes:
        answer = super().step(token)
        assert self.identity is not None
        self.identity = Identity(self.identity.principal, self.expires_ms, is_by_token=True)
        return answer


class CountedMetrics:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def authenticated(self, _listener: str, *, knows_lifetime: bool) -> None:
        self.counts["authenticated"] += 1
        self.counts["for good"] += not knows_lifetime

    def authentication_failed(self, _listener: str) -> None:
        self.counts["failed"] += 1

    def reauthenticated(self, _listener: str, _took_ms: int, _now_ms: int) -> None:
        self.counts["again"] += 1

    def reauthentication_failed(self, _listener: str) -> None:
        self.counts["failed again"] += 1

    def expired_connection_killed(self, _listener: str) -> None:
        self.counts["killed"] += 1


class World:
    """A broker with one SASL listener."""

    def __init__(
        self,
        *,
        max_reauth_ms: Mapping[str, int] | None = None,
        delay_ms: int = DELAY_MS,
        budget_bytes: int = 1 << 20,
        is_open: bool = True,
        early_keys: frozenset[int] = frozenset(),
        max_pending: int = 100,
    ) -> None:
        passwords = {"alice": "alice-secret", "bob": "bob-secret"}
        rules = SaslRules(
            mechanisms={"PLAIN": lambda: PlainServer(passwords), "EXPIRING": lambda: ExpiringServer(passwords)},
            max_reauth_ms=max_reauth_ms or {},
            max_receive_bytes=MAX_RECEIVE_BYTES,
            failure_delay_ms=delay_ms,
            timeout_ms=TIMEOUT_MS,
        )
        self.metrics = CountedMetrics()
        self.budget = MemoryBudget(budget_bytes)

        def authentication(broker: Broker) -> ListenersAuthentication:
            return ListenersAuthentication(
                {LISTENER: rules}, broker.table, broker.clock, broker.timer, broker.audit,
                self.metrics, self.budget, max_pending,
            )  # fmt: skip

        self.log = Log()
        self.broker = Broker(
            [*self.log.handlers, sasl_handshake, sasl_authenticate],
            authentication=authentication,
            is_open=is_open,
            early_keys=early_keys,
        )

    def connect(self, listener: str = LISTENER) -> Peer:
        return self.broker.connect(listener=listener)

    def member(self, mechanism: str = "PLAIN", token: bytes = GOOD, version: int = 2) -> Peer:
        """A client that has authenticated."""
        peer = self.connect()
        begin(peer, mechanism)
        peer.send(SaslAuthenticateRequest(auth_bytes=token), version)
        (answer,) = peer.answers()
        assert isinstance(answer, SaslAuthenticateResponse)
        assert answer.error_code == ErrorCode.NONE
        self.lifetime_ms = answer.session_lifetime_ms
        return peer


def begin(peer: Peer, mechanism: str = "PLAIN", version: int = 1) -> None:
    peer.send(SaslHandshakeRequest(mechanism=mechanism), version)
    (answer,) = peer.answers()
    assert isinstance(answer, SaslHandshakeResponse)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.NONE, ["PLAIN", "EXPIRING"])


def is_serving(peer: Peer) -> bool:
    peer.send(heartbeat_of("g"), HEARTBEAT_V)
    answers = peer.answers()
    if not answers:
        peer.skip_expected()
    return [type(answer) for answer in answers] == [HeartbeatResponse]


def failed(peer: Peer) -> SaslAuthenticateResponse:
    (answer,) = peer.answers()
    assert isinstance(answer, SaslAuthenticateResponse)
    return answer


# --- the way in ---


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_client_authenticates_and_is_served(version: int) -> None:
    world = World()
    peer = world.member(version=version)
    assert peer.handler.client.principal == Principal("User", "alice")
    assert is_serving(peer)
    assert world.log.contexts[0].principal == Principal("User", "alice")
    assert world.metrics.counts == Counter(authenticated=1, **({"for good": 1} if version == 0 else {}))
    assert world.budget.used_bytes == 0


def test_tokens_without_requests_follow_an_old_handshake() -> None:
    world = World()
    peer = world.connect()
    begin(peer, version=0)
    peer.send_bytes(struct.pack(">i", len(GOOD)) + GOOD)
    assert b"".join(peer.stream.writes) == b"\0\0\0\0"
    peer.stream.writes.clear()
    assert is_serving(peer)


@pytest.mark.parametrize("version", range(5))
def test_api_versions_may_come_first(version: int) -> None:
    world = World()
    peer = world.connect()
    peer.send(SOFTWARE, version)
    (answer,) = peer.answers()
    assert isinstance(answer, ApiVersionsResponse)
    assert {17, 36} <= {row.api_key for row in answer.api_keys}
    begin(peer)
    assert peer.handler.client.software == (("test", "1") if version >= 3 else None)


def test_api_versions_comes_again_after_one_that_was_refused_only() -> None:
    world = World()
    peer = world.connect()
    frame = bytearray(peer.frame(SOFTWARE, 4))
    frame[6:8] = (99).to_bytes(2, "big")
    peer._expected.append((101, ApiVersionsResponse, 0))
    peer.send_bytes(bytes(frame))
    peer.send(ApiVersionsRequest(client_software_name="", client_software_version="1"), 4)
    peer.send(SOFTWARE, 4)
    codes = [answer.error_code for answer in peer.answers() if isinstance(answer, ApiVersionsResponse)]
    assert codes == [ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    peer.send(SOFTWARE, 4)
    assert peer.stream.is_closed and not peer.stream.writes


def test_only_so_many_may_wait_to_authenticate() -> None:
    world = World(max_pending=2)
    first, second = world.connect(), world.connect()
    refused = world.connect()
    assert refused.stream.is_closed and not first.stream.is_closed and not second.stream.is_closed
    begin(first)
    first.send(SaslAuthenticateRequest(auth_bytes=GOOD), 2)
    assert len(first.answers()) == 1
    third = world.connect()
    assert not third.stream.is_closed, "the first has authenticated"
    assert world.connect().stream.is_closed
    second.handler.disconnected(None)
    assert not world.connect().stream.is_closed, "the second is gone"
    assert is_serving(first)


@pytest.mark.parametrize("piece_bytes", [1, 7, 1000])
def test_everything_may_come_at_once_and_in_pieces(piece_bytes: int) -> None:
    world = World()
    peer = world.connect()
    frames = b""
    for request, version in (
        (SOFTWARE, 3),
        (SaslHandshakeRequest(mechanism="PLAIN"), 1),
        (SaslAuthenticateRequest(auth_bytes=GOOD), 2),
        (produce_of(b"x" * 500), V),
        (heartbeat_of("g"), HEARTBEAT_V),
    ):
        peer.expect(request, version)
        frames += peer.frame(request, version)
    peer.send_bytes(frames, piece_bytes)
    peer.go_on()
    assert len(peer.answers()) == 5
    assert world.log.started == ["produce 0", "heartbeat g"]
    assert world.budget.used_bytes == 0


def test_a_listener_without_sasl_refuses_sasl() -> None:
    peer = World().connect("PLAINTEXT")
    for version in (0, 1):
        peer.send(SaslHandshakeRequest(mechanism="PLAIN"), version)
    peer.send(SaslAuthenticateRequest(auth_bytes=GOOD), 2)
    codes = [answer.error_code for answer in peer.answers()]  # type: ignore[attr-defined]
    assert codes == [ErrorCode.ILLEGAL_SASL_STATE] * 3
    assert is_serving(peer)


def test_a_client_authenticates_before_the_broker_is_ready_and_waits_then() -> None:
    world = World(is_open=False, early_keys=frozenset({18}))
    peer = world.member()
    peer.send(heartbeat_of("g"), HEARTBEAT_V)
    assert peer.answers() == []
    world.broker.acceptor.open()
    peer.go_on()
    assert len(peer.answers()) == 1


def test_nothing_is_answered_while_nothing_may_be_served() -> None:
    world = World(is_open=False)
    peer = world.connect()
    peer.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert peer.answers() == []
    world.broker.acceptor.open()
    peer.go_on()
    assert len(peer.answers()) == 1
    peer.send(SaslAuthenticateRequest(auth_bytes=GOOD), 2)
    assert failed(peer).error_code == ErrorCode.NONE


# --- failures ---


@pytest.mark.parametrize(
    ("token", "told"),
    [
        (BAD, "Authentication failed: Invalid username or password"),
        (b"rubbish", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
    ],
)
def test_a_failure_is_answered_and_the_connection_closed_after_a_delay(
    token: bytes, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    peer = world.connect()
    begin(peer)
    with caplog.at_level(logging.DEBUG):
        peer.send(SaslAuthenticateRequest(auth_bytes=token), 2)
        peer.send_bytes(peer.frame(heartbeat_of("g"), HEARTBEAT_V))
        assert not peer.stream.is_reading
        world.broker.turns.advance(DELAY_MS - 1)
        assert not peer.stream.is_closed and not peer.stream.writes
        world.broker.turns.advance(1)
    answer = failed(peer)
    assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, told)
    assert peer.stream.is_closed
    assert world.log.started == []
    (line,) = [record.getMessage() for record in caplog.records if "authentication failed" in record.getMessage()]
    assert line.startswith(
        "connection closed: address=10.1.1.1:5555 listener=CLIENTS reason=authentication failed: PLAIN"
    )
    assert "wrong" not in line and "alice" not in line
    assert world.metrics.counts == Counter(failed=1)
    peer.disconnect()
    assert world.budget.used_bytes == 0


def test_without_a_delay_it_is_closed_at_once() -> None:
    world = World(delay_ms=0)
    peer = world.connect()
    begin(peer)
    peer.send(SaslAuthenticateRequest(auth_bytes=BAD), 2)
    assert failed(peer).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert peer.stream.is_closed


def test_failures_are_audited_with_the_name_that_was_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    told: list[tuple[str, str, str]] = []

    def login_failed(_client: object, reason: str, *, mechanism: str, user: str) -> None:
        told.append((reason, mechanism, user))

    monkeypatch.setattr(world.broker.shared.services.audit, "login_failed", login_failed)
    peer = world.connect()
    begin(peer)
    peer.send(SaslAuthenticateRequest(auth_bytes=BAD), 2)
    world.connect().send(SaslHandshakeRequest(mechanism="NONE"), 1)
    assert told == [
        ("authentication failed: PLAIN: Authentication failed: Invalid username or password", "PLAIN", "alice"),
        ("SASL mechanism 'NONE' is not enabled", "", ""),
    ]


def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are() -> None:
    world = World()
    peer = world.connect()
    peer.send(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
    world.broker.turns.advance(DELAY_MS)
    (answer,) = peer.answers()
    assert isinstance(answer, SaslHandshakeResponse)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["PLAIN", "EXPIRING"])
    assert peer.stream.is_closed


def test_another_request_in_place_of_a_token() -> None:
    world = World()
    peer = world.connect()
    begin(peer)
    peer.send(heartbeat_of("g"), HEARTBEAT_V)
    world.broker.turns.advance(DELAY_MS)
    (answer,) = peer.answers()
    assert isinstance(answer, HeartbeatResponse)
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert peer.stream.is_closed and world.log.started == []


@pytest.mark.parametrize("version", [V, HEARTBEAT_V])
def test_any_request_before_authentication_closes(version: int) -> None:
    world = World()
    peer = world.connect()
    peer.send_bytes(peer.frame(produce_of(b"x") if version == V else heartbeat_of("g"), version))
    assert peer.stream.is_closed and not peer.stream.writes
    assert world.log.started == []


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n",
        b"\x16\x03\x01\x02\x00",
        struct.pack(">i", -1),
        struct.pack(">i", MAX_RECEIVE_BYTES + 1),
        struct.pack(">i", 8) + b"\x60\x06\0\0\0\0\0\0",
        struct.pack(">i", 0),
        struct.pack(">ihhi", 8, 17, 9, 1),
    ],
)
def test_what_is_no_request_closes(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    peer = world.connect()
    with caplog.at_level(logging.DEBUG):
        peer.send_bytes(data)
        world.broker.turns.advance(DELAY_MS)
    assert peer.stream.is_closed and not peer.stream.writes
    assert len([record for record in caplog.records if "connection closed" in record.getMessage()]) == 1


def test_a_client_that_does_not_authenticate_in_time_is_closed() -> None:
    world = World()
    silent, slow = world.connect(), world.connect()
    begin(slow)
    world.broker.turns.advance(TIMEOUT_MS - 1)
    assert not silent.stream.is_closed and not slow.stream.is_closed
    world.broker.turns.advance(1)
    assert silent.stream.is_closed and slow.stream.is_closed
    peer = world.member()
    world.broker.turns.advance(2 * TIMEOUT_MS)
    assert not peer.stream.is_closed


def test_all_unauthenticated_connections_together_are_bounded() -> None:
    world = World(budget_bytes=20_000)
    peers = [world.connect() for _ in range(4)]
    for peer in peers:
        peer.send_bytes(struct.pack(">i", 9_000) + b"x" * 8_000)
    assert [peer.stream.is_closed for peer in peers] == [False, False, True, True]
    assert world.budget.used_bytes == 16_008
    for peer in peers:
        peer.disconnect()
    assert world.budget.used_bytes == 0


def test_a_client_that_leaves_leaves_nothing() -> None:
    world = World()
    peer = world.connect()
    peer.send_bytes(b"\0\0\0\x09abc")
    assert world.budget.used_bytes == 7
    peer.disconnect()
    assert world.budget.used_bytes == 0
    world.broker.turns.advance(2 * TIMEOUT_MS)


PIECES = st.lists(
    st.one_of(
        st.binary(max_size=30),
        st.binary(max_size=30).map(lambda data: struct.pack(">i", len(data)) + data),
        st.sampled_from(
            [b"\0\0\0\x11\0\x11\0\0\0\0\0\1\xff\xff\0\5PLAIN", b"\0\0\0\x12\0\x12\0\3\0\0\0\1\xff\xff\0\2a\2b\0"]
        ),
    ),
    max_size=8,
)


@settings(max_examples=300, deadline=None)
@given(pieces=PIECES, piece_bytes=st.sampled_from([1, 5, 1000]))
def test_rubbish_never_gets_in(pieces: list[bytes], piece_bytes: int) -> None:
    world = World()
    peer = world.connect()
    for piece in pieces:
        peer.send_bytes(piece, piece_bytes)
    world.broker.turns.advance(TIMEOUT_MS)
    assert peer.stream.is_closed
    assert peer.handler.client.principal == ANONYMOUS
    assert world.log.started == []
    peer.disconnect()
    assert world.budget.used_bytes == 0


# --- sessions, and authenticating again ---


def test_a_session_ends_by_the_setting_or_by_the_credentials() -> None:
    world = World(max_reauth_ms={"PLAIN": 5_000, "EXPIRING": 70_000})
    world.member()
    assert world.lifetime_ms == 5_000
    peer = world.member("EXPIRING")
    assert world.lifetime_ms == 60_000  # the clock shows one second
    assert peer.handler.client.is_token_authenticated


def test_a_request_after_the_end_of_the_session_closes() -> None:
    world = World(max_reauth_ms={"PLAIN": 5_000})
    peer = world.member()
    world.broker.turns.advance(4_999)
    assert is_serving(peer)
    world.broker.turns.advance(1)
    assert not peer.stream.is_closed
    assert not is_serving(peer)
    assert peer.stream.is_closed
    assert world.metrics.counts["killed"] == 1


def test_a_large_request_that_ends_after_its_session_closes() -> None:
    world = World(max_reauth_ms={"PLAIN": 5_000})
    peer = world.member()
    frame = peer.frame(produce_of(b"x" * 100_000), V)
    peer.send_bytes(frame[:50_000])
    world.broker.turns.advance(5_000)
    peer.send_bytes(frame[50_000:])
    assert peer.stream.is_closed and world.log.started == []


def authenticate_again(peer: Peer, mechanism: str = "PLAIN", token: bytes = GOOD) -> list[object]:
    peer.send(SaslHandshakeRequest(mechanism=mechanism), 1)
    peer.send(SaslAuthenticateRequest(auth_bytes=token), 2)
    return list(peer.answers())


@pytest.mark.parametrize("after_ms", [4_000, 6_000])
def test_a_client_authenticates_again(after_ms: int) -> None:
    world = World(max_reauth_ms={"PLAIN": 5_000})
    peer = world.member()
    world.broker.turns.advance(after_ms)
    handshake, authenticated = authenticate_again(peer)
    assert isinstance(handshake, SaslHandshakeResponse) and handshake.error_code == ErrorCode.NONE
    assert isinstance(authenticated, SaslAuthenticateResponse) and authenticated.session_lifetime_ms == 5_000
    world.broker.turns.advance(4_999)
    assert is_serving(peer)
    world.broker.turns.advance(1)
    assert not is_serving(peer)
    assert world.metrics.counts == Counter(authenticated=1, again=1, killed=1)


def test_it_happens_in_mid_stream_behind_requests_that_wait() -> None:
    world = World(max_reauth_ms={"PLAIN": 5_000})
    peer = world.member()
    frames = b""
    for request, version in (
        (produce_of(b"1", timeout_ms=9), V),
        (SaslHandshakeRequest(mechanism="PLAIN"), 1),
        (SaslAuthenticateRequest(auth_bytes=GOOD), 2),
        (produce_of(b"2"), V),
        (heartbeat_of("g"), HEARTBEAT_V),
    ):
        peer.expect(request, version)
        frames += peer.frame(request, version)
    peer.send_bytes(frames)
    assert peer.answers() == []
    world.log.finish(0)
    peer.go_on()
    answers = peer.answers()
    assert len(answers) == 5
    assert world.log.started == ["produce 0", "produce 1", "heartbeat g"]
    assert peer.stream.is_reading


def test_with_another_user_it_fails() -> None:
    world = World(max_reauth_ms={"PLAIN": 5_000})
    peer = world.member()
    handshake = authenticate_again(peer, token=b"\0bob\0bob-secret")
    assert len(handshake) == 1
    world.broker.turns.advance(DELAY_MS)
    answer = failed(peer)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Cannot change principals during re-authentication from User.alice: User.bob"
    assert peer.stream.is_closed
    assert world.metrics.counts == Counter({"authenticated": 1, "failed again": 1})


def test_with_another_mechanism_it_fails_at_the_token() -> None:
    world = World(max_reauth_ms={"PLAIN": 5_000})
    peer = world.member()
    (handshake,) = authenticate_again(peer, mechanism="EXPIRING")
    assert isinstance(handshake, SaslHandshakeResponse) and handshake.error_code == ErrorCode.NONE
    world.broker.turns.advance(DELAY_MS)
    assert peer.answers() == [] and peer.stream.is_closed


def test_with_a_mechanism_that_is_not_enabled_it_fails() -> None:
    world = World(max_reauth_ms={"PLAIN": 5_000})
    peer = world.member()
    peer.send(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
    assert peer.answers() == [] and peer.stream.is_closed
    assert world.metrics.counts["failed again"] == 1


def test_where_sessions_do_not_end_and_too_often_it_is_refused() -> None:
    peer = World().member()
    peer.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    world = World(max_reauth_ms={"PLAIN": 5_000})
    hasty = world.member()
    authenticate_again(hasty)
    hasty.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    for each in (peer, hasty):
        (answer,) = each.answers()
        assert isinstance(answer, SaslHandshakeResponse) and answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert is_serving(each)
    world.broker.turns.advance(1_000)
    assert len(authenticate_again(hasty)) == 2


def test_a_client_that_stops_in_the_middle_of_it_is_closed() -> None:
    world = World(max_reauth_ms={"PLAIN": 5_000})
    peer = world.member()
    peer.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    world.broker.turns.advance(TIMEOUT_MS)
    assert peer.stream.is_closed


def test_a_broker_that_stops_closes_whoever_authenticates() -> None:
    world = World()
    peer = world.connect()
    begin(peer)
    world.broker.acceptor.finish_all("the broker is stopping")
    assert peer.stream.is_closed
