"""One cluster, brokers of both kinds: each knows the delegation tokens of the other, by the nodes in ZooKeeper."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kazoo.client import KazooClient

from metadata.store.delegation_tokens import TokenNode
from protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from security.delegation_token import token_password
from security.sasl.scram import MECHANISMS, SaltedPasswords, ScramClient
from tests.differential.wire import NoResponse, Wire
from tests.interop.conftest import need_java
from tests.interop.security.test_delegation_tokens import SETTINGS
from tests.oracle.barnabas import Barnabas
from tests.oracle.kafka import KafkaServer
from tests.oracle.ports import lasting_port
from tests.oracle.process import wait_until
from tests.oracle.zookeeper import ZooKeeper

pytestmark = pytest.mark.interop

PATIENCE_S = 60.0
RENEW_MS = 300_000
"""Moves the end of a token, which is ended by hand before."""


@pytest.fixture(autouse=True)
def java() -> None:
    need_java()


def settings(port: int, clients_port: int) -> dict[str, str]:
    return {
        **SETTINGS,
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CLIENTS://127.0.0.1:{clients_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
    }


@contextmanager
def connected(port: int, mechanism: str, *tokens: bytes) -> Iterator[Wire]:
    wire = Wire("127.0.0.1", port)
    try:
        assert wire.ask(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == 0
        for token in tokens:
            answer = wire.ask(SaslAuthenticateRequest(auth_bytes=token), 2)
            assert not isinstance(answer, NoResponse) and answer.error_code == 0, answer
        yield wire
    finally:
        wire.close()


def by_password(port: int, user: str) -> Any:
    return connected(port, "PLAIN", f"\0{user}\0{user}-secret".encode())


def error_of_login(port: int, mechanism: str, token: Any) -> int:
    """0 when the token lets its holder in."""
    scram = MECHANISMS[mechanism]
    passwords = SaltedPasswords(scram, token_password(token.hmac))
    client = ScramClient(scram, token.token_id, passwords, f"{random.getrandbits(90):x}", is_token=True)
    message: bytes | None = client.first()
    with connected(port, mechanism) as wire:
        while message is not None:
            answer = wire.ask(SaslAuthenticateRequest(auth_bytes=message), 2, PATIENCE_S)
            if isinstance(answer, NoResponse) or answer.error_code:
                return -1 if isinstance(answer, NoResponse) else int(answer.error_code)
            message = client.answer(answer.auth_bytes)
    return 0


def made(port: int) -> Any:
    with by_password(port, "alice") as wire:
        request = CreateDelegationTokenRequest(
            owner_principal_type=None,
            owner_principal_name=None,
            renewers=[CreatableRenewers(principal_type="User", principal_name="bob")],
            max_lifetime_ms=600_000,
        )
        answer = wire.ask(request, 3, PATIENCE_S)
        assert answer.error_code == 0
        return answer


def described(port: int, user: str) -> dict[str, Any]:
    with by_password(port, user) as wire:
        answer = wire.ask(DescribeDelegationTokenRequest(owners=None), 3, PATIENCE_S)
        return {row.token_id: row for row in answer.tokens}


def live_through(maker: int, other: int, mechanism: str) -> None:
    """A token is made by one broker, used at both, renewed and ended by the other."""
    token = made(maker)
    assert error_of_login(maker, mechanism, token) == 0
    assert wait_until(lambda: token.token_id in described(other, "bob"), PATIENCE_S)
    row = described(other, "bob")[token.token_id]
    assert (row.hmac, row.expiry_timestamp) == (token.hmac, token.expiry_timestamp_ms)
    assert error_of_login(other, mechanism, token) == 0
    with by_password(other, "bob") as wire:
        renewed = wire.ask(RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=RENEW_MS), 2, PATIENCE_S)
        assert renewed.error_code == 0
    moved_ms = renewed.expiry_timestamp_ms
    assert wait_until(lambda: described(maker, "alice")[token.token_id].expiry_timestamp == moved_ms, PATIENCE_S)
    with by_password(other, "alice") as wire:
        request = ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1)
        assert wire.ask(request, 2, PATIENCE_S).error_code == 0
    assert wait_until(lambda: error_of_login(maker, mechanism, token) != 0, PATIENCE_S)


def test_tokens_of_either_are_known_to_the_other() -> None:
    ports = {kind: (lasting_port(), lasting_port()) for kind in ("kafka", "barnabas")}
    kafka, barnabas = (ports[kind][1] for kind in ("kafka", "barnabas"))
    with (
        ZooKeeper() as zookeeper,
        KafkaServer(zookeeper.connect, port=ports["kafka"][0], settings=settings(*ports["kafka"])),
        Barnabas(settings(*ports["barnabas"]), zookeeper=zookeeper.connect, broker_id=1, port=ports["barnabas"][0]),
    ):
        for maker, other, mechanism in ((kafka, barnabas, "SCRAM-SHA-256"), (barnabas, kafka, "SCRAM-SHA-512")):
            live_through(maker, other, mechanism)
        kept = made(barnabas)
        kazoo = KazooClient(hosts=zookeeper.connect)
        kazoo.start(timeout=30)
        try:
            (name,) = kazoo.get_children("/delegation_token/tokens")
            data, _ = kazoo.get(f"/delegation_token/tokens/{name}")
        finally:
            kazoo.stop()
            kazoo.close()
        assert name == kept.token_id and TokenNode.decode(data).encode() == data
