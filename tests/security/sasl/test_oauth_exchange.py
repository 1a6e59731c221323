"""The exchange of OAUTHBEARER, of both sides."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from security.principal import Principal
from security.sasl.mechanisms import AuthenticationFailed, Identity
from security.sasl.oauth_exchange import FirstMessage, OAuthBearerClient, OAuthBearerServer
from security.sasl.oauth_token import INSUFFICIENT_SCOPE, BearerToken, TokenRefused


class Tokens:
    """Accepts the token `good`."""

    def validated(self, token: str) -> BearerToken:
        if token == "good":
            return BearerToken("alice", 5000, frozenset())
        if token == "narrow":
            raise TokenRefused("too little", status=INSUFFICIENT_SCOPE, scope="[a]")
        raise TokenRefused("it is wrong")


def server() -> OAuthBearerServer:
    return OAuthBearerServer(Tokens())


def test_a_good_token() -> None:
    side, client = server(), OAuthBearerClient(lambda: "good", {"traceId": "7", "pool": "a b"})
    assert client.first() == b"n,,\x01auth=Bearer good\x01traceId=7\x01pool=a b\x01\x01"
    assert side.identity is None
    answer = side.step(client.first())
    assert (answer, client.answer(answer)) == (b"", None)
    assert side.identity == Identity(Principal("User", "alice"), 5000)


@pytest.mark.parametrize(
    ("token", "told"),
    [("bad", '{"status":"invalid_token"}'), ("narrow", '{"status":"insufficient_scope", "scope":"[a]"}')],
)
@pytest.mark.parametrize("second", [b"\x01", b"", b"n,,\x01auth=Bearer good\x01\x01"])
def test_a_bad_token_fails_in_two_steps(token: str, told: str, second: bytes) -> None:
    side, client = server(), OAuthBearerClient(lambda: token)
    answer = side.step(client.first())
    assert answer == told.encode() and client.answer(answer) == b"\x01"
    with pytest.raises(AuthenticationFailed) as caught:
        side.step(second)
    assert caught.value.client_message == told and side.identity is None


def test_an_authorization_id() -> None:
    side = server()
    assert side.step(b"n,a=alice,\x01auth=bearer good\x01\x01") == b""
    with pytest.raises(AuthenticationFailed, match="authorization id") as caught:
        server().step(b"n,a=bob,\x01auth=Bearer good\x01\x01")
    assert caught.value.client_message is not None and "(bob)" in caught.value.client_message


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x01", b"n,,", b"n,,\x01\x01", b"n,,\x01auth=Bearer good\x01", b"y,,\x01auth=Bearer good\x01\x01",
        b"n,b=x,\x01auth=Bearer good\x01\x01", b"n,a=x=y,\x01auth=Bearer good\x01\x01", b"n,a=,\x01auth=Bearer good\x01\x01",
        b"n,,\x01auth=Basic good\x01\x01", b"n,,\x01auth=Bearer go od\x01\x01", b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01k1=x\x01auth=Bearer good\x01\x01", b"n,,\x01k=\x01auth=Bearer good\x01\x01", b"n,,\x01x=y\x01\x01",
        b"n,,\x01auth=Bearer good\x01k=\x7f\x01\x01", b"n,,\xff\x01auth=Bearer good\x01\x01", b"n,,auth=Bearer good\x01\x01",
        b"n,,\x01" + b"".join(b"k%c=v\x01" % (97 + i % 26) * 5 for i in range(26)) + b"auth=Bearer good\x01\x01x",
    ],
)  # fmt: skip
def test_a_message_that_is_malformed(data: bytes) -> None:
    with pytest.raises(AuthenticationFailed, match="malformed") as caught:
        server().step(data)
    assert caught.value.client_message is None


@given(st.binary(max_size=80) | st.binary(max_size=60).map(lambda tail: b"n,,\x01auth=Bearer " + tail + b"\x01\x01"))
def test_rubbish_is_refused_or_answered(data: bytes) -> None:
    side = server()
    try:
        side.step(data)
    except AuthenticationFailed:
        assert side.identity is None


@given(
    st.from_regex(r"[-_.a-zA-Z0-9]+", fullmatch=True),
    st.dictionaries(
        st.from_regex(r"[A-Za-z]+", fullmatch=True).filter(lambda key: key != "auth"),
        st.from_regex("[\x21-\x7e \t]+", fullmatch=True),
        max_size=5,
    ),
)
def test_what_is_encoded_is_parsed(token: str, extensions: dict[str, str]) -> None:
    message = FirstMessage("", token, extensions)
    assert FirstMessage.parse(message.encode()) == message
