"""SCRAM: the RFCs' examples, both sides together, and what is refused."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from security.principal import Principal
from security.sasl.mechanisms import AuthenticationFailed
from security.sasl.scram import (
    MECHANISMS,
    MECHANISMS_BY_CODE,
    MIN_ITERATIONS,
    SaltedPasswords,
    ScramClient,
    ScramCredential,
    ScramMechanism,
    ScramServer,
    TokenLogin,
)

SHA_256, SHA_512 = MECHANISMS.values()
SALT = b"0123456789"


def credential_of(
    mechanism: ScramMechanism, password: str, iterations: int = MIN_ITERATIONS, salt: bytes = SALT
) -> ScramCredential:
    return mechanism.credential(mechanism.salted_password(password, salt, iterations), salt, iterations)


class Source:
    """Credentials in memory."""

    def __init__(self) -> None:
        self.users: dict[tuple[str, str], ScramCredential] = {}
        self.tokens: dict[str, TokenLogin] = {}

    def add(self, mechanism: ScramMechanism, name: str, password: str, iterations: int = MIN_ITERATIONS) -> None:
        self.users[mechanism.name, name] = credential_of(mechanism, password, iterations)

    def user(self, mechanism: str, name: str) -> ScramCredential | None:
        return self.users.get((mechanism, name))

    def token(self, _mechanism: str, token_id: str) -> TokenLogin | None:
        return self.tokens.get(token_id)


@pytest.fixture
def source() -> Source:
    source = Source()
    source.add(SHA_256, "alice", "alice-secret")
    return source


def client_of(mechanism: ScramMechanism, name: str, password: str, *, is_token: bool = False) -> ScramClient:
    return ScramClient(mechanism, name, SaltedPasswords(mechanism, password), "client-nonce", is_token=is_token)


def talk(server: ScramServer, client: ScramClient) -> None:
    """The whole exchange. Raises AuthenticationFailed."""
    challenge = server.step(client.first())
    final = client.answer(challenge)
    assert final is not None and server.identity is None
    assert client.answer(server.step(final)) is None


# --- the RFCs' examples ---


def test_the_example_of_rfc_7677() -> None:
    source = Source()
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    source.users[SHA_256.name, "user"] = credential_of(SHA_256, "pencil", 4096, salt)
    server = ScramServer(SHA_256, source, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    client = ScramClient(SHA_256, "user", SaltedPasswords(SHA_256, "pencil"), "rOprNGfwEbeRWgbNEkqO")
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = server.step(client.first())
    assert challenge == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = client.answer(challenge)
    assert final == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    proof = server.step(final)
    assert proof == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert client.answer(proof) is None
    assert server.identity is not None and server.identity.principal == Principal("User", "user")


# --- both sides ---


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
@pytest.mark.parametrize("name", ["alice", "a,b=c", "with space", "=2C"])
def test_client_and_server(mechanism: ScramMechanism, name: str) -> None:
    source = Source()
    source.add(mechanism, name, "päss,w=rd", 8192)
    server = ScramServer(mechanism, source, "server-nonce")
    talk(server, client_of(mechanism, name, "päss,w=rd"))
    assert server.identity is not None
    assert (server.identity.principal, server.identity.expires_ms) == (Principal("User", name), None)


def test_a_delegation_token_stands_for_its_owner(source: Source) -> None:
    credential = credential_of(SHA_256, "hmac")
    source.tokens["token-id"] = TokenLogin(credential, Principal("User", "owner"), 77)
    server = ScramServer(SHA_256, source, "server-nonce")
    talk(server, client_of(SHA_256, "token-id", "hmac", is_token=True))
    assert server.identity is not None
    assert tuple(server.identity) == (Principal("User", "owner"), 77, True)
    with pytest.raises(AuthenticationFailed):  # a token is no user, and a user no token
        talk(ScramServer(SHA_256, source, "n"), client_of(SHA_256, "token-id", "hmac"))
    with pytest.raises(AuthenticationFailed):
        talk(ScramServer(SHA_256, source, "n"), client_of(SHA_256, "alice", "alice-secret", is_token=True))


def test_a_password_is_salted_once() -> None:
    passwords = SaltedPasswords(SHA_256, "x")
    first = passwords.salted(b"salt", 4096)
    assert passwords.salted(b"salt", 4096) is first
    assert passwords.salted(b"other", 4096) != first


# --- refusals of the server ---


@pytest.mark.parametrize(
    ("name", "password", "reason"),
    [
        ("alice", "wrong", "a wrong password"),
        ("nobody", "alice-secret", "a user without credentials of this mechanism"),
    ],
)
def test_wrong_credentials(source: Source, name: str, password: str, reason: str) -> None:
    server = ScramServer(SHA_256, source, "server-nonce")
    with pytest.raises(AuthenticationFailed, match=reason) as failed:
        talk(server, client_of(SHA_256, name, password))
    assert failed.value.client_message is None
    assert server.identity is None


def test_credentials_of_another_mechanism_do_not_count(source: Source) -> None:
    with pytest.raises(AuthenticationFailed):
        talk(ScramServer(SHA_512, source, "n"), client_of(SHA_512, "alice", "alice-secret"))


def test_a_stored_credential_with_too_few_iterations(source: Source) -> None:
    source.add(SHA_256, "weak", "x", 4095)
    with pytest.raises(AuthenticationFailed, match="4095 iterations"):
        ScramServer(SHA_256, source, "n").step(client_of(SHA_256, "weak", "x").first())


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,",
        b"y,,n=alice,r=abc",
        b"p=tls-unique,,n=alice,r=abc",
        b"n,,n=al,ice,r=abc",
        b"n,,n=al=ice,r=abc",
        "n,,n=älice,r=abc".encode(),
        b"n,,n=alice,r=",
        b"n,,n=alice,r=a b",
        b"n,,n=alice",
        b"n,,n=alice,r=abc,",
        b"n,,n=alice,r=abc,1=x",
        b"n,a=,n=alice,r=abc",
    ],
)
def test_first_messages_that_are_not_scrams(source: Source, first: bytes) -> None:
    with pytest.raises(AuthenticationFailed, match="a first message that is not SCRAM's"):
        ScramServer(SHA_256, source, "n").step(first)


def test_another_authorization_id_is_told(source: Source) -> None:
    with pytest.raises(AuthenticationFailed) as failed:
        ScramServer(SHA_256, source, "n").step(b"n,a=bob,n=alice,r=abc")
    assert failed.value.client_message == (
        "Authentication failed: Client requested an authorization id that is different from username"
    )
    assert ScramServer(SHA_256, source, "n").step(b"n,a=alice,n=alice,r=abc").startswith(b"r=abcn,")


def test_extensions_are_part_of_what_is_signed(source: Source) -> None:
    server = ScramServer(SHA_256, source, "server-nonce")
    client = client_of(SHA_256, "alice", "alice-secret")
    client._bare += ",other=1"
    talk(server, client)


@pytest.mark.parametrize(
    "change",
    [
        lambda final: final.replace(b"r=client", b"r=Client"),
        lambda final: final.replace(b",p=", b",x=1,p="),
        lambda final: final[: final.index(b",p=")],
        lambda final: final[: final.index(b",p=")] + b",p=",
        lambda final: final[: final.index(b",p=")] + b",p=AAAA",
        lambda final: final + b"!",
        lambda _final: b"",
        lambda final: b"c=eSws" + final[6:],
    ],
)
def test_final_messages_that_were_changed(source: Source, change: Callable[[bytes], bytes]) -> None:
    server = ScramServer(SHA_256, source, "server-nonce")
    client = client_of(SHA_256, "alice", "alice-secret")
    final = client.answer(server.step(client.first()))
    assert final is not None
    with pytest.raises(AuthenticationFailed):
        server.step(change(final))
    assert server.identity is None


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(st.binary(max_size=60), st.text(alphabet="n,=arcp1Aa", max_size=60).map(str.encode)),
    st.binary(max_size=60),
)
def test_rubbish_never_gets_in(first: bytes, second: bytes) -> None:
    source = Source()
    source.users[SHA_256.name, "a"] = ScramCredential(b"s", b"x" * 32, b"y" * 32, 4096)
    server = ScramServer(SHA_256, source, "n")
    try:
        server.step(first)
        server.step(second)
    except AuthenticationFailed:
        pass
    assert server.identity is None


# --- refusals of the client ---


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"r=other,s=c2FsdA==,i=4096",
        b"r=client-nonceX,s=c2FsdA==,i=4095",
        b"r=client-nonceX,s=c2FsdA==,i=1000001",
        b"r=client-nonceX,s=c2FsdA==,i=99999999999",
        b"r=client-nonceX,s=!,i=4096",
        b"e=unknown-user",
    ],
)
def test_challenges_that_a_client_does_not_take(challenge: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        client_of(SHA_256, "alice", "x").answer(challenge)


@pytest.mark.parametrize("final", [b"", b"v=AAAA", b"e=invalid-proof", b"v=" + base64.b64encode(b"x" * 32)])
def test_a_server_that_does_not_know_the_password(source: Source, final: bytes) -> None:
    server = ScramServer(SHA_256, source, "server-nonce")
    client = client_of(SHA_256, "alice", "alice-secret")
    client.answer(server.step(client.first()))
    with pytest.raises(AuthenticationFailed):
        client.answer(final)


# --- credentials as text ---


@given(st.binary(max_size=30), st.binary(max_size=64), st.binary(max_size=64), st.integers(1, 10**6))
def test_a_credential_survives_as_text(salt: bytes, stored_key: bytes, server_key: bytes, iterations: int) -> None:
    credential = ScramCredential(salt, stored_key, server_key, iterations)
    assert ScramCredential.parse(credential.text) == credential
    assert repr(credential) == f"ScramCredential(iterations={iterations})"


def test_the_parts_of_the_text() -> None:
    text = credential_of(SHA_256, "alice-secret").text
    salt, stored_key, server_key, iterations = text.split(",")
    assert salt == "salt=" + base64.b64encode(SALT).decode()
    assert stored_key.startswith("stored_key=") and server_key.startswith("server_key=")
    assert iterations == "iterations=4096"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "topsecret",
        "salt=topsecret",
        "salt=!,stored_key=,server_key=,iterations=1",
        "salt=,stored_key=,server_key=,iterations=x",
    ],
)
def test_a_text_that_is_none_is_not_shown(text: str) -> None:
    with pytest.raises(ValueError, match=r"^Credentials not valid$"):
        ScramCredential.parse(text)


def test_codes() -> None:
    assert {code: each.name for code, each in MECHANISMS_BY_CODE.items()} == {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
