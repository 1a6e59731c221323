"""How brokers log in to each other: what the settings say, one connection, and a cluster whose sessions end."""

from __future__ import annotations

import asyncio
import logging
import random

import pytest

from broker.cluster.logins.broker_login import Login, broker_login
from broker.network.sasl.sources import SaslSources
from broker.settings.scram_users import ScramUsers, user_path
from config.broker import BrokerSettings
from config.errors import ConfigError
from config.inter_broker_version import InterBrokerVersion
from metadata.store import configs
from protocol.errors import ErrorCode
from runtime.disk.os_filesystem import OsFileSystem
from runtime.documents import NoDocuments
from runtime.tasks import TaskScope
from security.sasl.plain import PlainServer
from security.sasl.scram import MECHANISMS, ScramServer
from tests.broker.cluster_world import PORT, ClusterWorld
from tests.doubles.clock import ManualClock
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


def login_of(version: str = "3.9-IV0", **changes: str | None) -> Login:
    given = {name: value for name, value in {**SETTINGS, **changes}.items() if value is not None}
    settings = BrokerSettings.from_sources(given, {}, {})
    sources = SaslSources(random.Random(1), NoDocuments(), OsFileSystem(), ManualClock(), TaskScope("test"))
    return broker_login(settings, "BROKERS", InterBrokerVersion.parse(version), sources)


# --- the settings ---


def test_plain() -> None:
    login = login_of()
    assert (login.mechanism, login.version) == ("PLAIN", 1)
    server = PlainServer({"broker": "topsecret"})
    server.step(login.new_exchange().first())
    assert server.identity is not None


def test_scram() -> None:
    mechanism, users = MECHANISMS["SCRAM-SHA-512"], ScramUsers()
    credential = mechanism.credential(mechanism.salted_password("topsecret", b"salt", 4096), b"salt", 4096)
    users.on_entity_changed(user_path("broker"), {mechanism.name: credential.text})
    login = login_of(**{"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512"})
    for _ in range(2):
        server, client = ScramServer(mechanism, users, "nonce"), login.new_exchange()
        final = client.answer(server.step(client.first()))
        assert final is not None and client.answer(server.step(final)) is None
        assert server.identity is not None


def test_a_delegation_token_may_stand_for_a_broker() -> None:
    jaas = SCRAM_JAAS.replace(";", ' tokenauth="true";')
    changes = {
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "listener.name.brokers.scram-sha-512.sasl.jaas.config": jaas,
    }
    assert login_of(**changes).new_exchange().first().endswith(b",tokenauth=true")


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
        assert counts["successful-reauthentication-total"] > 50
        assert counts["failed-authentication-total"] == counts["failed-reauthentication-total"] == 0
        assert counts["expired-connections-killed-count"] == 0

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
