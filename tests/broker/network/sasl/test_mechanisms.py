"""From settings to the mechanisms of a listener: Kafka's names, and every mistake named without a secret."""

from __future__ import annotations

import random

import pytest

from broker.composition import listener_plans
from broker.network.sasl.exchange import SaslRules
from broker.network.sasl.mechanisms import sasl_rules
from broker.network.sasl.sources import SaslSources
from config.broker import BrokerSettings
from config.errors import ConfigError
from config.unknown_settings import unknown_settings
from runtime.disk.os_filesystem import OsFileSystem
from runtime.documents import NoDocuments
from runtime.tasks import TaskScope
from tests.doubles.clock import ManualClock

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
PLAIN_JAAS = f'{MODULE} required username="admin" password="topsecret" user_alice="topsecret";'
LISTENERS = {
    "listeners": "CLIENTS://localhost:0,BROKERS://localhost:0",
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
}
PLAIN = {
    "listener.name.clients.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.clients.plain.sasl.jaas.config": PLAIN_JAAS,
}


def rules_of(given: dict[str, str]) -> dict[str, SaslRules]:
    settings = BrokerSettings.from_sources({**LISTENERS, **given}, {}, {})
    assert not unknown_settings(settings)
    sources = SaslSources(random.Random(1), NoDocuments(), OsFileSystem(), ManualClock(), TaskScope("test"))
    return sasl_rules(settings, listener_plans(settings), sources)


def test_each_listener_with_sasl_has_rules() -> None:
    (rules,) = rules_of(PLAIN).values()
    assert rules.names == ["PLAIN"]
    assert dict(rules.max_reauth_ms) == {"PLAIN": 0}
    assert (rules.max_receive_bytes, rules.failure_delay_ms, rules.timeout_ms) == (524_288, 100, 30_000)
    server = rules.mechanisms["PLAIN"]()
    server.step(b"\0alice\0topsecret")
    assert server.identity is not None


@pytest.mark.parametrize(
    ("given", "max_reauth_ms"),
    [
        ({"connections.max.reauth.ms": "1"}, 1),
        ({"connections.max.reauth.ms": "1", "listener.name.clients.connections.max.reauth.ms": "2"}, 2),
        (
            {
                "listener.name.clients.connections.max.reauth.ms": "2",
                "listener.name.clients.plain.connections.max.reauth.ms": "3",
            },
            3,
        ),
        ({"listener.name.brokers.connections.max.reauth.ms": "4"}, 0),
    ],
)
def test_the_nearest_limit_of_sessions_wins(given: dict[str, str], max_reauth_ms: int) -> None:
    assert dict(rules_of({**PLAIN, **given})["CLIENTS"].max_reauth_ms) == {"PLAIN": max_reauth_ms}


def test_a_listeners_own_settings_are_not_named_as_without_effect() -> None:
    settings = BrokerSettings.from_sources({**LISTENERS, **PLAIN}, {}, {})
    assert settings.without_effect == ()


def with_jaas(text: str) -> dict[str, str]:
    return {**PLAIN, "listener.name.clients.plain.sasl.jaas.config": text}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (
            {},
            "listener CLIENTS: sasl.enabled.mechanisms has GSSAPI (which is its default), and this broker has no Kerberos",
        ),
        ({"sasl.enabled.mechanisms": "PLAIN,GSSAPI"}, "has GSSAPI"),
        ({"sasl.enabled.mechanisms": "CRAM-MD5"}, "has CRAM-MD5, which is unknown"),
        ({"sasl.enabled.mechanisms": ""}, "is empty"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, "listener.name.clients.plain.sasl.jaas.config is not set"),
        (
            {"sasl.enabled.mechanisms": "PLAIN", "sasl.jaas.config": PLAIN_JAAS},
            "without listener and mechanism in front is not for listeners",
        ),
        (
            with_jaas("topsecret"),
            "listener.name.clients.plain.sasl.jaas.config: Login module control flag not specified",
        ),
        (with_jaas(PLAIN_JAAS * 2), "contains 2 login modules, should be 1 module"),
        (with_jaas("com.sun.security.auth.module.Krb5LoginModule required;"), "no Krb5LoginModule"),
        (with_jaas('x.Own required password="topsecret";'), "login module Own is not known"),
        ({**PLAIN, "listener.name.clients.sasl.server.max.receive.size": "x"}, "Not a number"),
    ],
)
def test_mistakes_stop_the_start_without_a_secret(given: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        rules_of(given)
    assert problem in str(refused.value)
    assert "topsecret" not in refused.value.line
