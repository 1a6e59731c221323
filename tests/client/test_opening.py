"""How a connection begins: steps with the broker's answers, and what ends them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from client.errors import LoginRefused
from client.opening import Ask, Compute, Login, Steps, ask_versions, log_in, renewal_pause_ms
from client.versions import common_version
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from protocol.messages.fetch import FetchRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeResponse
from protocol.schema import Request, Response
from security.sasl.mechanisms import AuthenticationFailed
from security.sasl.plain import PlainClient, PlainServer


def carry_out(steps: Steps[Any], answer: Callable[[Request, int], Response]) -> Any:
    result = None
    while True:
        try:
            step = steps.send(result)
        except StopIteration as end:
            return end.value
        result = answer(step.request, step.version) if isinstance(step, Ask) else step.function()


def test_versions_are_asked_again_of_an_older_broker() -> None:
    rows = [ApiVersion(api_key=12, min_version=1, max_version=3), ApiVersion(api_key=1, min_version=4, max_version=17)]
    asked = []

    def answer(_request: Request, version: int) -> Response:
        asked.append(version)
        code = ErrorCode.UNSUPPORTED_VERSION if len(asked) == 1 else ErrorCode.NONE
        return ApiVersionsResponse(error_code=code, api_keys=rows if code is ErrorCode.NONE else [])

    known = carry_out(ask_versions(), answer).ranges
    assert (asked, known) == ([3, 0], {12: (1, 3), 1: (4, 17)})
    assert common_version(HeartbeatRequest, known, "a:1") == 3
    assert common_version(FetchRequest, known, "a:1") == 12, "later ones name topics by their ids"
    for theirs, told in ({12: (5, 9)}, "in versions 5 to 9"), ({}, "Heartbeat not"):
        with pytest.raises(KafkaError, match=told):
            common_version(HeartbeatRequest, theirs, "a:1")
    with pytest.raises(KafkaError, match="ApiVersions failed: INVALID_REQUEST"):
        carry_out(ask_versions(), lambda *_: ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[]))


class Answers:
    """A broker that has PLAIN."""

    def __init__(self, *, code: ErrorCode = ErrorCode.NONE, lifetime_ms: int = 0) -> None:
        self._code, self._lifetime_ms = code, lifetime_ms
        self.versions: list[int] = []

    def __call__(self, request: Request, version: int) -> Response:
        self.versions.append(version)
        if not isinstance(request, SaslAuthenticateRequest):
            return SaslHandshakeResponse(error_code=self._code, mechanisms=["PLAIN"])
        try:
            answer = PlainServer({"alice": "secret"}).step(request.auth_bytes)
        except AuthenticationFailed as error:
            return SaslAuthenticateResponse(error_code=58, error_message=error.client_message, auth_bytes=b"")
        return SaslAuthenticateResponse(
            error_code=0, error_message=None, auth_bytes=answer, session_lifetime_ms=self._lifetime_ms
        )


def login(password: str = "secret", version: int = 1) -> Login:
    return Login("PLAIN", lambda: PlainClient("alice", password), version)


def test_a_login_returns_how_long_its_session_holds() -> None:
    broker = Answers(lifetime_ms=5_000)
    assert carry_out(log_in(login(version=0)), broker) == 5_000
    assert broker.versions == [1, 0]


@pytest.mark.parametrize(
    ("broker", "password", "reason"),
    [
        (Answers(code=ErrorCode.UNSUPPORTED_SASL_MECHANISM), "secret", "PLAIN is not enabled, but PLAIN"),
        (Answers(code=ErrorCode.ILLEGAL_SASL_STATE), "secret", "SaslHandshake failed"),
        (Answers(), "wrong-one", "PLAIN: Authentication failed: Invalid username or password"),
    ],
)
def test_a_login_that_is_refused(broker: Answers, password: str, reason: str) -> None:
    with pytest.raises(LoginRefused, match=reason) as raised:
        carry_out(log_in(login(password)), broker)
    assert "wrong-one" not in str(raised.value)


def test_what_computes_says_what_is_wrong_with_the_client_itself() -> None:
    class NoToken:
        def first(self) -> bytes:
            raise AuthenticationFailed("there is no bearer token")

        def answer(self, token: bytes) -> bytes | None:
            raise AssertionError

    steps = log_in(Login("OAUTHBEARER", NoToken))
    step = next(steps)
    assert isinstance(step, Compute)
    with pytest.raises(LoginRefused, match="OAUTHBEARER: there is no bearer token"):
        steps.send(step.function())


def test_a_session_is_renewed_before_it_ends() -> None:
    assert renewal_pause_ms(0, random.Random(1)) is None
    pauses = [renewal_pause_ms(10_000, random.Random(seed)) or 0 for seed in range(200)]
    assert 8_500 <= min(pauses) < 8_600 and 9_400 < max(pauses) <= 9_500
