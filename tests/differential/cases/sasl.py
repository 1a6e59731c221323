"""SaslHandshake and SaslAuthenticate: the ways in with PLAIN, the ways out, and authenticating again."""

from __future__ import annotations

import struct
from typing import Any

from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.produce import ProduceRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from protocol.schema import Request
from tests.differential.play import PATIENCE_S, SASL, Run, case
from tests.differential.wire import NoResponse, Wire

GOOD = b"\0alice\0alice-secret"
SOFTWARE = ApiVersionsRequest(client_software_name="differential", client_software_version="1.0")


def begin(run: Run, mechanism: str = "PLAIN", *, wire: Wire | None = None, version: int = 1) -> None:
    assert run.do(SaslHandshakeRequest(mechanism=mechanism), version, wire=wire).error_code == 0


def authenticate(run: Run, wire: Wire | None = None) -> None:
    begin(run, wire=wire)
    assert run.do(SaslAuthenticateRequest(auth_bytes=GOOD), wire=wire).error_code == 0


def new_wire(run: Run) -> Wire:
    """One more connection; the one before it in the case is closed."""
    run.wire.close()
    run.wire = run.connect()
    return run.wire


def outcome(wire: Wire, request: Request, version: int) -> str:
    """What becomes of a request whose answer does not matter."""
    answer = wire.ask(request, version, PATIENCE_S)
    return answer.outcome if isinstance(answer, NoResponse) else "answered"


def exchange_raw(run: Run, wire: Wire, data: bytes) -> None:
    """Send bytes, and note the frame that comes."""
    wire.send_raw(data)
    answer = wire.receive_raw(PATIENCE_S)
    run.note(answer.outcome if isinstance(answer, NoResponse) else {"bytes": answer.hex()})


def framed(token: bytes) -> bytes:
    return struct.pack(">i", len(token)) + token


# --- SaslHandshake ---


@case(SaslHandshakeRequest, "normal", stage=SASL)
def a_mechanism_that_is_enabled(run: Run) -> None:
    run.ask(SaslHandshakeRequest(mechanism="PLAIN"))


@case(SaslHandshakeRequest, "wrong", stage=SASL)
def mechanisms_that_are_not(run: Run) -> None:
    for name in ("GSSAPI", "", "plain"):
        wire = new_wire(run)
        run.ask(SaslHandshakeRequest(mechanism=name), wire=wire)
        run.note(outcome(wire, SaslHandshakeRequest(mechanism="PLAIN"), 1))


@case(SaslHandshakeRequest, "wrong")
def a_listener_without_sasl(run: Run) -> None:
    run.ask(SaslHandshakeRequest(mechanism="PLAIN"))
    run.ask(SaslHandshakeRequest(mechanism="GSSAPI"))
    run.note(outcome(run.wire, DescribeClusterRequest(include_cluster_authorized_operations=False), 0))


@case(SaslHandshakeRequest, "edge", stage=SASL)
def behind_api_versions(run: Run) -> None:
    for versions in ([0], [4], [3, 3], [99, 4], [99, 99]):
        wire = new_wire(run)
        for version in versions:
            if version == 99:
                wire.send_raw(struct.pack(">ihhihb", 11, 18, 99, 7, -1, 0))
                answer = wire.receive_raw(PATIENCE_S)
                run.note(answer.outcome if isinstance(answer, NoResponse) else answer.hex()[8:12])
            else:
                run.note(outcome(wire, SOFTWARE, version))
        run.ask(SaslHandshakeRequest(mechanism="PLAIN"), wire=wire)


@case(SaslHandshakeRequest, "edge", stage=SASL)
def behind_api_versions_of_a_client_without_a_name(run: Run) -> None:
    for _ in range(2):
        answer: Any = run.wire.ask(ApiVersionsRequest(), 3, PATIENCE_S)
        run.note({"error_code": answer.error_code, "rows": len(answer.api_keys)})
    run.ask(SaslHandshakeRequest(mechanism="PLAIN"))


@case(SaslHandshakeRequest, "wrong", stage=SASL)
def another_request_first(run: Run) -> None:
    for request, version in (
        (MetadataRequest(topics=None), 1),
        (HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4),
        (SaslAuthenticateRequest(auth_bytes=GOOD), 2),
        (DescribeClusterRequest(include_cluster_authorized_operations=False), 0),
    ):
        wire = new_wire(run)
        run.note(outcome(wire, request, version))
        wire = new_wire(run)
        run.note(outcome(wire, SOFTWARE, 3))
        run.note(outcome(wire, request, version))


@case(SaslHandshakeRequest, "wrong", stage=SASL)
def twice(run: Run) -> None:
    """After version 0 the second one is a token."""
    run.ask(SaslHandshakeRequest(mechanism="PLAIN"))
    run.ask(SaslHandshakeRequest(mechanism="PLAIN"))


@case(SaslHandshakeRequest, "wrong", stage=SASL)
def what_is_no_request(run: Run) -> None:
    for data in (
        framed(b"\x60\x81\x02\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"),  # GSSAPI, as before KIP-43
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        framed(struct.pack(">hhih", 17, 9, 1, -1) + b"\0\5PLAIN"),
        framed(struct.pack(">hhih", 17, 1, 1, -1) + b"\0\x50PLAIN"),
        framed(struct.pack(">hhih", 17, -1, 1, -1) + b"\0\5PLAIN"),
        framed(b""),
        struct.pack(">i", -1),
        struct.pack(">i", 100_001),
    ):
        exchange_raw(run, new_wire(run), data)


@case(SaslHandshakeRequest, "edge", stage=SASL)
def again_when_authenticated(run: Run) -> None:
    authenticate(run)
    run.ask(SaslHandshakeRequest(mechanism="PLAIN"))


@case(SaslHandshakeRequest, "wrong", stage=SASL)
def again_with_a_mechanism_that_is_not_enabled(run: Run) -> None:
    authenticate(run)
    run.ask(SaslHandshakeRequest(mechanism="GSSAPI"))
    run.note(outcome(run.wire, MetadataRequest(topics=None), 1))


@case(SaslHandshakeRequest, "wrong", stage=SASL)
def again_too_soon(run: Run) -> None:
    authenticate(run)
    authenticate(run)
    run.ask(SaslHandshakeRequest(mechanism="PLAIN"))
    run.note(outcome(run.wire, MetadataRequest(topics=None), 1))


@case(SaslHandshakeRequest, "edge", "0", stage=SASL)
def tokens_of_an_old_client(run: Run) -> None:
    for token in (GOOD, b"\0alice\0wrong", b"rubbish", b"", b"\0alice\0alice-secret\0"):
        wire = new_wire(run)
        begin(run, wire=wire, version=0)
        exchange_raw(run, wire, framed(token))
        run.note(outcome(wire, MetadataRequest(topics=None), 1))


# --- SaslAuthenticate ---


@case(SaslAuthenticateRequest, "normal", stage=SASL)
def a_user_with_a_password(run: Run) -> None:
    begin(run)
    run.ask(SaslAuthenticateRequest(auth_bytes=GOOD))
    run.note(outcome(run.wire, MetadataRequest(topics=None), 1))


@case(SaslAuthenticateRequest, "edge", stage=SASL)
def tokens_of_plain(run: Run) -> None:
    for token in (
        b"alice\0alice\0alice-secret",
        b"bob\0alice\0alice-secret",
        b"bob\0alice\0wrong",
        b"\0alice\0wrong",
        b"\0nobody\0alice-secret",
        b"\0ALICE\0alice-secret",
        b"\0alice\0",
        b"\0\0alice-secret",
        b"\0\0",
        b"alice\0alice-secret",
        b"alice-secret",
        b"",
        b"\0alice\0alice-secret\0",
        b"\0alice\0alice-secret\0more",
        b"\0\xff\xfe\0\xff",
    ):
        wire = new_wire(run)
        begin(run, wire=wire)
        answer = run.ask(SaslAuthenticateRequest(auth_bytes=token), wire=wire)
        run.note({"said": getattr(answer, "error_message", None)})
        run.note(outcome(wire, MetadataRequest(topics=None), 1))


@case(SaslAuthenticateRequest, "wrong", stage=SASL)
def without_a_handshake(run: Run) -> None:
    run.ask(SaslAuthenticateRequest(auth_bytes=GOOD))


@case(SaslAuthenticateRequest, "wrong")
def a_listener_without_sasl_(run: Run) -> None:
    answer = run.ask(SaslAuthenticateRequest(auth_bytes=GOOD))
    run.note({"said": answer.error_message})


@case(SaslAuthenticateRequest, "wrong", stage=SASL)
def when_authenticated(run: Run) -> None:
    authenticate(run)
    run.ask(SaslAuthenticateRequest(auth_bytes=GOOD))
    run.note(outcome(run.wire, MetadataRequest(topics=None), 1))


@case(SaslAuthenticateRequest, "wrong", "2", stage=SASL)
def other_requests_in_its_place(run: Run) -> None:
    for request, version in (
        (SOFTWARE, 4),
        (SaslHandshakeRequest(mechanism="PLAIN"), 1),
        (HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4),
        (DescribeClusterRequest(include_cluster_authorized_operations=False), 1),
    ):
        wire = new_wire(run)
        begin(run, wire=wire)
        answer = run.ask(request, version, wire=wire)
        run.note({"said": getattr(answer, "error_message", None)})
        run.note(outcome(wire, MetadataRequest(topics=None), 1))


@case(SaslAuthenticateRequest, "wrong", "2", stage=SASL)
def requests_without_a_top_level_error_in_its_place(run: Run) -> None:
    for request, version in (
        (MetadataRequest(topics=None), 1),
        (ProduceRequest(acks=1, timeout_ms=1, topic_data=[]), 9),
    ):
        wire = new_wire(run)
        begin(run, wire=wire)
        run.ask(request, version, wire=wire)
    for key, version in ((99, 0), (18, 99), (36, 9), (3, 99)):
        wire = new_wire(run)
        begin(run, wire=wire)
        exchange_raw(run, wire, framed(struct.pack(">hhihb", key, version, 1, -1, 0)))


@case(SaslAuthenticateRequest, "edge", stage=SASL)
def again(run: Run) -> None:
    """One that follows at once takes the place of the session."""
    authenticate(run)
    begin(run)
    run.ask(SaslAuthenticateRequest(auth_bytes=GOOD))
    run.note(outcome(run.wire, MetadataRequest(topics=None), 1))


@case(SaslAuthenticateRequest, "wrong", stage=SASL)
def again_with_other_tokens(run: Run) -> None:
    for token in (b"\0bob\0bob-secret", b"\0alice\0wrong", b"rubbish"):
        wire = new_wire(run)
        authenticate(run, wire)
        begin(run, wire=wire)
        answer = run.ask(SaslAuthenticateRequest(auth_bytes=token), wire=wire)
        run.note({"said": getattr(answer, "error_message", None)})
        run.note(outcome(wire, MetadataRequest(topics=None), 1))
