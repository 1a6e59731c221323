"""AlterUserScramCredentials and DescribeUserScramCredentials, and logins with such credentials."""

from __future__ import annotations

import hashlib
from typing import Any

from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, OpData, RequestEntryData
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from protocol.messages.metadata import MetadataRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from security.sasl.scram import MECHANISMS, SaltedPasswords, ScramClient
from tests.differential.play import PATIENCE_S, SASL, Run, case
from tests.differential.wire import NoResponse, Wire

SALT = b"0123456789"
SHA_256, SHA_512 = 1, 2


def upsertion(
    name: str, mechanism: int = SHA_256, iterations: int = 4096, **changes: bytes
) -> ScramCredentialUpsertion:
    digest = "sha512" if mechanism == SHA_512 else "sha256"
    salted = changes.get("salted_password")
    return ScramCredentialUpsertion(
        name=name,
        mechanism=mechanism,
        iterations=iterations,
        salt=changes.get("salt", SALT),
        salted_password=hashlib.pbkdf2_hmac(digest, b"secret", SALT, max(iterations, 1)) if salted is None else salted,
    )


def altering(*rows: ScramCredentialUpsertion | ScramCredentialDeletion) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest(
        deletions=[row for row in rows if isinstance(row, ScramCredentialDeletion)],
        upsertions=[row for row in rows if isinstance(row, ScramCredentialUpsertion)],
    )


def describing(*names: str) -> DescribeUserScramCredentialsRequest:
    return DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names])


def own_users(run: Run) -> Any:
    def pick(answer: Any) -> None:
        answer.results = [result for result in answer.results if run.prefix in result.user]

    return pick


# --- AlterUserScramCredentials ---


@case(AlterUserScramCredentialsRequest, "normal")
def users_come_change_and_go(run: Run) -> None:
    alice, bob = run.name("alice"), run.name("bob")
    for request in (
        altering(upsertion(alice), upsertion(bob, SHA_512, 16384)),
        altering(upsertion(alice, iterations=8192), upsertion(alice, SHA_512)),
        altering(ScramCredentialDeletion(name=alice, mechanism=SHA_256), upsertion(bob)),
        altering(ScramCredentialDeletion(name=alice, mechanism=SHA_512), upsertion(alice)),
        altering(*(ScramCredentialDeletion(name=bob, mechanism=mechanism) for mechanism in (SHA_256, SHA_512))),
    ):
        run.ask(request)
        run.ask(describing(alice, bob), 0)


@case(AlterUserScramCredentialsRequest, "edge")
def nothing_to_alter(run: Run) -> None:
    run.ask(altering())


@case(AlterUserScramCredentialsRequest, "edge")
def names_of_all_kinds(run: Run) -> None:
    names = [run.name(each) for each in ("with space", "a/b", "a%2Fb", "ünïcödé", "a,b=c", "<default>", "*", "~")]
    run.ask(altering(*(upsertion(name) for name in names)))
    run.ask(describing(*names), 0)
    run.ask(describing(), 0, pick=own_users(run))


@case(AlterUserScramCredentialsRequest, "edge")
def salts_and_passwords_of_any_length(run: Run) -> None:
    name = run.name("alice")
    for row in (
        upsertion(name, salt=b""),
        upsertion(name, salt=b"x" * 1000),
        upsertion(name, salted_password=b"x"),
        upsertion(name, salted_password=b"x" * 1000),
    ):
        run.ask(altering(row))


@case(AlterUserScramCredentialsRequest, "wrong")
def an_empty_salted_password(run: Run) -> None:
    run.ask(altering(upsertion(run.name("alice"), salted_password=b"")))
    run.ask(describing(run.name("alice")), 0)


@case(AlterUserScramCredentialsRequest, "wrong")
def mistakes_of_all_kinds(run: Run) -> None:
    run.do(altering(upsertion(run.name("there"))))
    for rows in (
        [upsertion("")],
        [ScramCredentialDeletion(name="", mechanism=SHA_256)],
        [upsertion(run.name("a"), iterations=4095), upsertion(run.name("b"), iterations=16385)],
        [upsertion(run.name("a"), iterations=0), upsertion(run.name("b"), iterations=-1)],
        [upsertion(run.name("a"), 0), upsertion(run.name("b"), 3), upsertion(run.name("c"), -1)],
        [ScramCredentialDeletion(name=run.name("there"), mechanism=mechanism) for mechanism in (0, 3)],
        [ScramCredentialDeletion(name=run.name("there"), mechanism=SHA_512)],
        [ScramCredentialDeletion(name=run.name("missing"), mechanism=SHA_256)],
        [upsertion(run.name("there")), upsertion(run.name("there"))],
        [upsertion(run.name("there")), ScramCredentialDeletion(name=run.name("there"), mechanism=SHA_256)],
        [upsertion(run.name("there"), SHA_512), upsertion(run.name("there"), iterations=1)],
        [upsertion(run.name("there"), SHA_512), ScramCredentialDeletion(name=run.name("missing"), mechanism=SHA_256)],
        [upsertion(run.name("other")), upsertion(run.name("bad"), iterations=1)],
    ):
        run.ask(altering(*rows))
    run.ask(describing(run.name("there"), run.name("other")), 0)


@case(AlterUserScramCredentialsRequest, "edge")
def quotas_of_the_same_user_stay(run: Run) -> None:
    name = run.name("alice")
    quota = AlterClientQuotasRequest(
        entries=[
            RequestEntryData(
                entity=[EntityData(entity_type="user", entity_name=name)],
                ops=[OpData(key="producer_byte_rate", value=1000.0, remove=False)],
            )
        ],
        validate_only=False,
    )
    run.do(altering(upsertion(name)))
    run.do(quota)
    run.ask(describing(name), 0)
    run.do(altering(upsertion(name, iterations=5000)))
    run.do(quota)
    run.ask(describing(name), 0)


# --- DescribeUserScramCredentials ---


@case(DescribeUserScramCredentialsRequest, "normal")
def users_by_name_and_all(run: Run) -> None:
    alice, bob = run.name("alice"), run.name("bob")
    run.do(altering(upsertion(alice), upsertion(bob), upsertion(bob, SHA_512, 9999)))
    run.ask(describing(bob, alice))
    run.ask(describing(), pick=own_users(run))
    run.ask(DescribeUserScramCredentialsRequest(users=None), pick=own_users(run))


@case(DescribeUserScramCredentialsRequest, "wrong")
def users_that_are_not_there(run: Run) -> None:
    alice = run.name("alice")
    run.do(altering(upsertion(alice)))
    run.ask(describing(run.name("missing"), alice))
    run.ask(describing(""))
    run.ask(describing(alice, alice))
    run.ask(describing(run.name("missing"), "", "", run.name("missing"), alice))


@case(DescribeUserScramCredentialsRequest, "edge")
def a_user_with_quotas_only(run: Run) -> None:
    name = run.name("alice")
    quota = RequestEntryData(
        entity=[EntityData(entity_type="user", entity_name=name)],
        ops=[OpData(key="producer_byte_rate", value=1000.0, remove=False)],
    )
    run.do(AlterClientQuotasRequest(entries=[quota], validate_only=False))
    run.ask(describing(name))
    run.ask(describing(), pick=own_users(run))


# --- logins ---


def new_login(run: Run, mechanism: str) -> Wire:
    run.wire.close()
    run.wire = run.connect()
    assert run.do(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == 0
    return run.wire


def login(run: Run, mechanism: str, client: ScramClient) -> None:
    """Authenticate, and keep what is answered but for nonces and signatures."""
    wire = new_login(run, mechanism)
    token: bytes | None = client.first()
    while token is not None:
        answer: Any = wire.ask(SaslAuthenticateRequest(auth_bytes=token), run.version, PATIENCE_S)
        if isinstance(answer, NoResponse):
            run.note(answer.outcome)
            return
        run.note(
            {"error_code": answer.error_code, "said": answer.error_message, "lifetime": answer.session_lifetime_ms}
        )
        if answer.error_code:
            return
        token = client.answer(answer.auth_bytes)
    answer = wire.ask(MetadataRequest(topics=None), 1, PATIENCE_S)
    run.note(answer.outcome if isinstance(answer, NoResponse) else "served")


def until_it_is_known(run: Run, mechanism: str, name: str) -> None:
    """A change reaches what authenticates through a watch."""

    def is_known() -> bool:
        wire = new_login(run, mechanism)
        first = f"n,,n={name},r=abc".encode()
        answer: Any = wire.ask(SaslAuthenticateRequest(auth_bytes=first), 2, PATIENCE_S)
        return bool(answer.error_code == 0)

    run.until(f"{name} can log in", is_known)


@case(SaslAuthenticateRequest, "edge", stage=SASL)
def scram(run: Run) -> None:
    name = run.name("alice")
    assert run.do(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    assert run.do(SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret")).error_code == 0
    run.do(altering(upsertion(name), upsertion(name, SHA_512, 8192)))
    for mechanism in MECHANISMS.values():
        until_it_is_known(run, mechanism.name, name)
        for user, password in ((name, "secret"), (name, "wrong"), (run.name("nobody"), "secret")):
            login(run, mechanism.name, ScramClient(mechanism, user, SaltedPasswords(mechanism, password), "nonce"))


@case(SaslAuthenticateRequest, "wrong", "2", stage=SASL)
def messages_of_scram(run: Run) -> None:
    for first in (
        b"",
        b"n,,",
        b"y,,n=alice,r=abc",
        b"p=x,,n=alice,r=abc",
        "n,,n=ünïcödé,r=abc".encode(),
        b"n,,n=nobody,r=abc",
        b"n,a=bob,n=nobody,r=abc",
        b"n,,n=token,r=abc,tokenauth=true",
        b"\xff\xfe",
    ):
        new_login(run, "SCRAM-SHA-256")
        answer = run.ask(SaslAuthenticateRequest(auth_bytes=first))
        run.note({"said": getattr(answer, "error_message", None)})


# --- settings of listeners with SASL ---


@case(IncrementalAlterConfigsRequest, "wrong", "1", stage=SASL)
def settings_of_sasl_listeners(run: Run) -> None:
    """They are for listeners that are opened later."""
    assert run.do(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    assert run.do(SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret")).error_code == 0
    for name, value in (
        ("sasl.enabled.mechanisms", "PLAIN"),
        ("sasl.mechanism.inter.broker.protocol", "PLAIN"),
        ("sasl.jaas.config", "x required;"),
        ("sasl.server.max.receive.size", "1000"),
        ("connections.max.reauth.ms", "1000"),
        ("connection.failed.authentication.delay.ms", "1"),
        ("listener.name.clients.sasl.enabled.mechanisms", "PLAIN"),
        ("listener.name.clients.plain.connections.max.reauth.ms", "1000"),
        ("listener.name.clients.connections.max.reauth.ms", "1000"),
        ("listener.name.clients.sasl.server.max.receive.size", "1000"),
        ("listener.name.clients.plain.sasl.jaas.config", "x required;"),
        ("listener.name.other.sasl.enabled.mechanisms", "PLAIN"),
    ):
        for operation in (0, 1):
            config = AlterableConfig(name=name, config_operation=operation, value=value if operation == 0 else None)
            resource = AlterConfigsResource(resource_type=4, resource_name="0", configs=[config])
            answer = run.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
            run.note({"setting": name, "said": answer.responses[0].error_message})
