"""Brokers on the real doors whose clients authenticate: settings in the store, users that are there before the first start."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop

from broker.dependencies import Dependencies
from broker.process import open_embedded_store
from broker.server import Broker
from client.event_loop.connection import OutgoingConnection
from config.broker import BrokerSettings
from config.errors import ConfigError
from protocol.errors import ErrorCode
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResponse
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from runtime.clock import SystemClock
from runtime.disk.os_disk_queue import OsDisk
from runtime.disk.os_filesystem import OsFileSystem
from runtime.network.os_transport import OsNetwork, SocketOptions
from runtime.randomness import system_randomness
from security.sasl.mechanisms import SaslClient
from security.sasl.plain import PlainClient
from security.sasl.scram import MECHANISMS, SaltedPasswords, ScramClient

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice-secret";'
PLAIN_JAAS = "listener.name.clients.plain.sasl.jaas.config"
SETTINGS = {
    "listeners": "CLIENTS://127.0.0.1:0,BROKERS://127.0.0.1:0",
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
    "broker.id": "1",
    "password.encoder.secret": "the-secret",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    PLAIN_JAAS: JAAS,
}
PATIENCE_S = 60


@asynccontextmanager
async def running(folder: Path, **changes: str | None) -> AsyncIterator[Broker]:
    """A broker; a change of None leaves a setting out."""
    given = {
        name: value for name, value in {**SETTINGS, "log.dirs": str(folder), **changes}.items() if value is not None
    }
    disk = OsDisk()
    doors = Dependencies(
        SystemClock(), system_randomness(), OsFileSystem(), disk, OsNetwork(SocketOptions()), open_embedded_store
    )
    broker = Broker(BrokerSettings.from_sources({}, {}, given), doors)
    try:
        await broker.start()
        yield broker
    finally:
        await broker.stop()
        await disk.close()


async def logged_in(broker: Broker, mechanism: str, client: SaslClient) -> ErrorCode:
    """What comes of a login; with success, the connection is served."""
    address = broker.bound["CLIENTS"]
    wire = await OutgoingConnection.open(OsNetwork(SocketOptions()), address.host, address.port)
    try:
        async with asyncio.timeout(PATIENCE_S):
            answer = await wire.send(SaslHandshakeRequest(mechanism=mechanism), 1, SaslHandshakeResponse)
            token: bytes | None = client.first()
            while token is not None and not answer.error_code:
                step = await wire.send(SaslAuthenticateRequest(auth_bytes=token), 2, SaslAuthenticateResponse)
                if step.error_code:
                    return ErrorCode(step.error_code)
                token = client.answer(step.auth_bytes)
            if not answer.error_code:
                await wire.send(MetadataRequest(topics=[]), 12, MetadataResponse)
            return ErrorCode(answer.error_code)
    finally:
        wire.abort()


def scram(password: str) -> ScramClient:
    mechanism = MECHANISMS["SCRAM-SHA-256"]
    return ScramClient(mechanism, "bob", SaltedPasswords(mechanism, password), "nonce")


def test_plain(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path) as broker:
            assert await logged_in(broker, "PLAIN", PlainClient("alice", "alice-secret")) == ErrorCode.NONE
            refused = await logged_in(broker, "PLAIN", PlainClient("alice", "wrong"))
            assert refused == ErrorCode.SASL_AUTHENTICATION_FAILED

    uvloop.run(run())


def test_scram_users_come_and_go_and_stay_over_a_restart(tmp_path: Path) -> None:
    async def altered(broker: Broker, request: AlterUserScramCredentialsRequest) -> None:
        address = broker.bound["BROKERS"]
        wire = await OutgoingConnection.open(OsNetwork(SocketOptions()), address.host, address.port)
        answer = await wire.send(request, 0, AlterUserScramCredentialsResponse)
        assert [result.error_code for result in answer.results] == [ErrorCode.NONE]
        wire.abort()

    async def run() -> None:
        mechanism = MECHANISMS["SCRAM-SHA-256"]
        salted = mechanism.salted_password("bob-secret", b"salt", 4096)
        row = ScramCredentialUpsertion(name="bob", mechanism=1, iterations=4096, salt=b"salt", salted_password=salted)
        async with running(tmp_path) as broker:
            await altered(broker, AlterUserScramCredentialsRequest(deletions=[], upsertions=[row]))
            assert await logged_in(broker, "SCRAM-SHA-256", scram("bob-secret")) == ErrorCode.NONE
        async with running(tmp_path) as broker:
            assert await logged_in(broker, "SCRAM-SHA-256", scram("bob-secret")) == ErrorCode.NONE
            wrong = await logged_in(broker, "SCRAM-SHA-256", scram("wrong"))
            assert wrong == ErrorCode.SASL_AUTHENTICATION_FAILED
            deletion = ScramCredentialDeletion(name="bob", mechanism=1)
            await altered(broker, AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[]))
            gone = await logged_in(broker, "SCRAM-SHA-256", scram("bob-secret"))
            assert gone == ErrorCode.SASL_AUTHENTICATION_FAILED

    uvloop.run(run())


def test_settings_in_the_store_apply_after_a_restart(tmp_path: Path) -> None:
    changed = {PLAIN_JAAS: JAAS.replace("alice", "carol"), "sasl.enabled.mechanisms": "PLAIN"}

    async def run() -> None:
        async with running(tmp_path) as broker:
            await broker.services.dynamic_settings.alter_broker(
                lambda stored: {**stored, **changed}, per_broker=True, validate_only=False
            )
            assert await logged_in(broker, "PLAIN", PlainClient("alice", "alice-secret")) == ErrorCode.NONE
        async with running(tmp_path, **{PLAIN_JAAS: None}) as broker:
            assert await logged_in(broker, "PLAIN", PlainClient("carol", "carol-secret")) == ErrorCode.NONE
            refused = await logged_in(broker, "SCRAM-SHA-256", scram("bob-secret"))
            assert refused == ErrorCode.UNSUPPORTED_SASL_MECHANISM

    uvloop.run(run())


def test_no_secret_is_described_or_measured(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> str:
        async with running(tmp_path) as broker:
            await logged_in(broker, "PLAIN", PlainClient("alice", "alice-secret"))
            await logged_in(broker, "PLAIN", PlainClient("alice", "wrong-secret"))
            await logged_in(broker, "SCRAM-SHA-256", scram("bob-secret"))
            address = broker.bound["BROKERS"]
            wire = await OutgoingConnection.open(OsNetwork(SocketOptions()), address.host, address.port)
            resource = DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)
            request = DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=True)
            described = await wire.send(request, 4, DescribeConfigsResponse)
            wire.abort()
            names = {config.name: config.value for result in described.results for config in result.configs}
            assert PLAIN_JAAS in names and names[PLAIN_JAAS] is None
            samples = [str(sample) for sample in broker._metrics.samples()]
            assert any("failed-authentication-total" in sample for sample in samples)
            return f"{described}\n{samples}\n{broker.settings!r}"

    with caplog.at_level(logging.DEBUG):
        shown = uvloop.run(run())
    assert not re.search(r"(alice|bob|wrong|the)-secret", shown + caplog.text)


def test_a_listener_with_the_default_mechanism_stops_the_start(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path, **{"sasl.enabled.mechanisms": None}):
            raise AssertionError("it has started")

    with pytest.raises(ConfigError, match="has GSSAPI"):
        uvloop.run(run())
