"""How brokers log in to each other: what the settings say, one connection, and a cluster whose sessions end."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Any

import pytest

from broker.cluster.logins.broker_login import BrokerLogin, broker_login
from broker.cluster.logins.sasl_network import SaslNetwork
from broker.network.sasl.sources import SaslSources
from broker.settings.scram_users import ScramUsers, user_path
from config.broker import BrokerSettings
from config.errors import ConfigError
from config.inter_broker_version import InterBrokerVersion
from metadata.store import configs
from protocol.broker_client import BrokerClient
from protocol.client import Client
from protocol.errors import ErrorCode
from protocol.header import decode_request_header, encode_response
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from runtime.disk.os_filesystem import OsFileSystem
from runtime.documents import NoDocuments
from runtime.network.transport import Address, Connection
from runtime.tasks import TaskScope
from runtime.tls.stream import InPlace
from security.plain import PlainClient, PlainServer
from security.sasl import SaslServer
from security.scram import MECHANISMS, ScramServer
from tests.broker.cluster_world import PORT, ClusterWorld
from tests.clocks import ManualClock
from tests.simulation.loop import SimLoop, simulate

PACKAGE = "org.apache.kafka.common.security"
PLAIN_JAAS = (
    f'{PACKAGE}.plain.PlainLoginModule required username="broker" password="topsecret" user_broker="topsecret";'
)
SCRAM_JAAS = f'{PACKAGE}.scram.ScramLoginModule required username="broker" password="topsecret";'
SETTINGS = {
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.brokers.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "listener.name.brokers.plain.sasl.jaas.config": PLAIN_JAAS,
    "listener.name.brokers.scram-sha-512.sasl.jaas.config": SCRAM_JAAS,
}


def login_of(version: str = "3.9-IV0", **changes: str | None) -> BrokerLogin:
    given = {name: value for name, value in {**SETTINGS, **changes}.items() if value is not None}
    settings = BrokerSettings.from_sources(given, {}, {})
    sources = SaslSources(random.Random(1), NoDocuments(), OsFileSystem(), ManualClock(), TaskScope("test"))
    return broker_login(settings, "BROKERS", InterBrokerVersion.parse(version), sources)


# --- the settings ---


def test_plain() -> None:
    login = login_of()
    assert (login.mechanism, login.version) == ("PLAIN", 1)
    server = PlainServer({"broker": "topsecret"})
    server.step(login.make_client().first())
    assert server.identity is not None


def test_scram() -> None:
    mechanism, users = MECHANISMS["SCRAM-SHA-512"], ScramUsers()
    credential = mechanism.credential(mechanism.salted_password("topsecret", b"salt", 4096), b"salt", 4096)
    users.on_entity_changed(user_path("broker"), {mechanism.name: credential.text})
    login = login_of(**{"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512"})
    for _ in range(2):
        server, client = ScramServer(mechanism, users, "nonce"), login.make_client()
        final = client.answer(server.step(client.first()))
        assert final is not None and client.answer(server.step(final)) is None
        assert server.identity is not None


def test_a_delegation_token_may_stand_for_a_broker() -> None:
    jaas = SCRAM_JAAS.replace(";", ' tokenauth="true";')
    changes = {
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "listener.name.brokers.scram-sha-512.sasl.jaas.config": jaas,
    }
    assert login_of(**changes).make_client().first().endswith(b",tokenauth=true")


def test_older_brokers_are_asked_in_the_version_that_they_know() -> None:
    assert login_of("2.1-IV2").version == 0
    with pytest.raises(ConfigError, match=r"before 1\.0-IV0"):
        login_of("0.11.0-IV2")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"sasl.mechanism.inter.broker.protocol": None}, "=GSSAPI must be included in sasl.enabled.mechanisms"),
        ({"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"}, "=SCRAM-SHA-256 must be included"),
        (
            {
                "listener.name.brokers.plain.sasl.jaas.config": f'{PACKAGE}.plain.PlainLoginModule required user_a="topsecret";'
            },
            "listener.name.brokers.plain.sasl.jaas.config: username and password are needed",
        ),
        (
            {
                "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
                "listener.name.brokers.scram-sha-512.sasl.jaas.config": None,
            },
            "listener.name.brokers.scram-sha-512.sasl.jaas.config is not set",
        ),
    ],
)
def test_mistakes_are_named_without_a_secret(changes: dict[str, str | None], problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        login_of(**changes)
    assert problem in str(refused.value) and "topsecret" not in str(refused.value)


# --- one connection ---


class FakeBroker:
    """Answers a login, and then heartbeats, over a network without sockets."""

    def __init__(self, server: Callable[[], SaslServer], *, lifetime_ms: int = 0) -> None:
        self._server_of = server
        self._lifetime_ms = lifetime_ms
        self.mechanisms = ["PLAIN"]
        self.connections: list[FakeLine] = []
        self.is_silent = False
        self.holds_heartbeats = False

    async def listen(self, *_: object) -> Any:
        raise NotImplementedError

    async def connect(self, host: str, port: int, handler: Any) -> Connection:
        line = FakeLine(self, handler, self._server_of(), self._lifetime_ms)
        self.connections.append(line)
        handler.connected(line)
        return line


class FakeLine:
    """The `Connection` that a client of the `FakeBroker` has."""

    takes_ranges = False

    def __init__(self, broker: FakeBroker, handler: Any, server: SaslServer, lifetime_ms: int) -> None:
        self.peer, self.local = Address("broker", 9092), Address("here", 1)
        self._broker, self._handler, self._server, self._lifetime_ms = broker, handler, server, lifetime_ms
        self.held: list[bytes] = []
        self.is_closed = False
        self.heartbeats = 0

    def write(self, chunks: Any) -> None:
        frame = b"".join(bytes(chunk) for chunk in chunks)[4:]
        header, position = decode_request_header(frame)
        version, response = header.api_version, None
        if self._broker.is_silent:
            return
        if header.api_key == SaslHandshakeRequest.api_key:
            asked = SaslHandshakeRequest.decode(frame, version, position).mechanism
            error = ErrorCode.NONE if asked in self._broker.mechanisms else ErrorCode.UNSUPPORTED_SASL_MECHANISM
            response = SaslHandshakeResponse(error_code=error, mechanisms=self._broker.mechanisms)
        elif header.api_key == SaslAuthenticateRequest.api_key:
            token = SaslAuthenticateRequest.decode(frame, version, position).auth_bytes
            response = self._answered(token)
        else:
            assert self._server.identity is not None, "a request before the end of the login"
            self.heartbeats += 1
            response = HeartbeatResponse(error_code=ErrorCode.NONE)
        data = b"".join(bytes(chunk) for chunk in encode_response(response, version, header.correlation_id))
        if self._broker.holds_heartbeats and isinstance(response, HeartbeatResponse):
            self.held.append(data)
        else:
            self.deliver(data)

    def _answered(self, token: bytes) -> SaslAuthenticateResponse:
        try:
            answer = self._server.step(token)
        except Exception as error:  # noqa: BLE001  whatever a mechanism says
            told = getattr(error, "told", None)
            return SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=told, auth_bytes=b""
            )
        return SaslAuthenticateResponse(
            error_code=ErrorCode.NONE, error_message="", auth_bytes=answer, session_lifetime_ms=self._lifetime_ms
        )

    def deliver(self, data: bytes) -> None:
        def arrive() -> None:
            if not self.is_closed:
                place = self._handler.receive_buffer(-1)
                place[: len(data)] = data
                self._handler.received(len(data))

        asyncio.get_running_loop().call_soon(arrive)

    def unsent_bytes(self) -> int:
        return 0

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            asyncio.get_running_loop().call_soon(self._handler.disconnected, None)


def plain_broker(lifetime_ms: int = 0) -> FakeBroker:
    return FakeBroker(lambda: PlainServer({"broker": "topsecret"}), lifetime_ms=lifetime_ms)


def network_to(
    broker: FakeBroker, clock: ManualClock | None = None, *, password: str = "topsecret", timeout_ms: int = 5_000
) -> SaslNetwork:
    login = BrokerLogin("PLAIN", lambda: PlainClient("broker", password), 1)
    return SaslNetwork(
        broker, login, client_id="1", clock=clock or ManualClock(), randomness=random.Random(1), work=InPlace(),
        timeout_ms=timeout_ms,
    )  # fmt: skip


HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def test_requests_follow_a_login() -> None:
    async def run() -> None:
        client = await Client.connect(network_to(plain_broker()), "broker", 9092)
        assert (await client.send(HEARTBEAT, 4, HeartbeatResponse)).error_code == ErrorCode.NONE
        assert not client.is_ending
        client.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda broker: setattr(broker, "mechanisms", ["SCRAM-SHA-256"]), "the other broker has SCRAM-SHA-256"),
        (lambda broker: setattr(broker, "is_silent", True), "authentication not finished"),
    ],
)
def test_a_broker_that_does_not_take_the_login(change: Callable[[FakeBroker], None], reason: str) -> None:
    broker = plain_broker()
    change(broker)

    async def run() -> None:
        with pytest.raises(ConnectionError, match=reason):
            await Client.connect(network_to(broker, timeout_ms=20 if broker.is_silent else 30_000), "broker", 9092)
        assert [line.is_closed for line in broker.connections] == [True]

    asyncio.run(run())


def test_a_wrong_password_is_an_error_without_it() -> None:
    async def run() -> None:
        with pytest.raises(ConnectionError) as failed:
            await Client.connect(network_to(plain_broker(), password="other-secret"), "broker", 9092)
        assert str(failed.value) == (
            "authentication failed: PLAIN: Authentication failed: Invalid username or password"
        )

    asyncio.run(run())


def test_a_connection_is_replaced_before_its_session_ends_and_after_its_responses() -> None:
    clock, broker = ManualClock(), plain_broker(lifetime_ms=10_000)

    async def run() -> None:
        client = BrokerClient(network_to(broker, clock), lambda: Address("broker", 9092), "1", timeout_ms=5_000)
        await client.send(HEARTBEAT, 4, HeartbeatResponse)
        clock.now_ms = 8_499
        await client.send(HEARTBEAT, 4, HeartbeatResponse)
        assert len(broker.connections) == 1
        broker.holds_heartbeats = True
        waiting = asyncio.ensure_future(client.send(HEARTBEAT, 4, HeartbeatResponse))
        await asyncio.sleep(0)
        clock.now_ms = 9_500  # 85 % and the spread are over
        behind = asyncio.ensure_future(client.send(HEARTBEAT, 4, HeartbeatResponse))
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(broker.connections) == 1 and not waiting.done()
        broker.holds_heartbeats = False
        first = broker.connections[0]
        first.deliver(first.held.pop())
        await waiting
        await behind
        assert [line.heartbeats for line in broker.connections] == [3, 1]
        assert [line.is_closed for line in broker.connections] == [True, False]
        client.close()

    asyncio.run(run())


# --- a cluster ---


STRANGER = 4
STRANGE = {
    "listener.name.brokers.plain.sasl.jaas.config": PLAIN_JAAS.replace('password="topsecret"', 'password="othersecret"')
}


class SaslWorld(ClusterWorld):
    """Brokers that authenticate to each other; clients do not."""

    def settings_of(self, broker_id: int, host: str) -> dict[str, str]:
        return {
            **super().settings_of(broker_id, host),
            "listeners": f"PLAINTEXT://{host}:{PORT},BROKERS://{host}:{PORT + 1}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:SASL_PLAINTEXT",
            "inter.broker.listener.name": "BROKERS",
            **SETTINGS,
            **self._settings,
            **(STRANGE if broker_id == STRANGER else {}),
        }

    async def add_user(self, name: str, password: str) -> None:
        mechanism = MECHANISMS["SCRAM-SHA-512"]
        credential = mechanism.credential(mechanism.salted_password(password, b"salt", 4096), b"salt", 4096)
        store = self.ensemble.connect()
        await configs.write_entity_config(store, "users", name, {mechanism.name: credential.text})

    def counts(self) -> dict[str, float]:
        """What the brokers counted of authentication, together."""
        found: dict[str, float] = {}
        for broker in self.live.values():
            for metric, _, value in broker._metrics.authentication.values(broker._dependencies.clock.monotonic_ms()):
                found[metric.name] = found.get(metric.name, 0) + value
        return found


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_cluster_replicates_over_sessions_that_end(mechanism: str, caplog: pytest.LogCaptureFixture) -> None:
    async def program(loop: SimLoop) -> None:
        world = SaslWorld(loop, sasl_mechanism_inter_broker_protocol=mechanism, connections_max_reauth_ms="2000")
        await world.add_user("broker", "topsecret")
        await world.start()
        await world.create_topic("orders", partitions=3)
        for number in range(40):
            assert (await world.produce("orders", b"%d" % number, number % 3))[0] == ErrorCode.NONE
            await asyncio.sleep(0.5)
        assert all(world.isr_of("orders", index) == {1, 2, 3} for index in range(3))
        counts = world.counts()
        assert counts["successful-authentication-total"] > 60
        assert counts["failed-authentication-total"] == counts["expired-connections-killed-count"] == 0

    with caplog.at_level(logging.DEBUG):
        simulate(1, program)
    assert "topsecret" not in caplog.text


def test_a_broker_with_a_wrong_password_stays_outside(caplog: pytest.LogCaptureFixture) -> None:
    async def program(loop: SimLoop) -> None:
        world = SaslWorld(loop)
        await world.start()
        world.machines[STRANGER] = world.machine(STRANGER, "host4")
        world.machines[STRANGER].start()
        await world.until(lambda: STRANGER in world.live)  # who controls logs in to it, not it to others
        await world.create_topic("orders", assignment=[1, STRANGER])
        await world.until(lambda: world.counts()["failed-authentication-total"] > 3)
        assert all(broker.is_ready for broker in world.live.values())

    with caplog.at_level(logging.DEBUG):
        simulate(1, program)
    assert "secret" not in caplog.text
    assert "Invalid username or password" in caplog.text
