"""Which layer wins, and what is told about the others."""

from __future__ import annotations

import pytest

from config.broker import BrokerSettings
from config.errors import ConfigError
from config.layers import ConfigSource, Layers, Synonym, check_dynamic_update

STATIC = BrokerSettings({"log.retention.hours": "100", "compression.type": "zstd"})
MS, HOURS = "log.retention.ms", "log.retention.hours"


def test_dynamic_settings_win_and_hide_weaker_units() -> None:
    layers = Layers(STATIC, {MS: "1000", "message.max.bytes": "5"}, {MS: "2000"})
    assert layers.settings.log_retention_effective_ms == 2000
    assert layers.settings.message_max_bytes == 5
    assert layers.settings.log_retention_hours == 168
    assert Layers(STATIC).settings is STATIC


def test_synonyms_strongest_first() -> None:
    layers = Layers(STATIC, {MS: "1000"}, {MS: "2000"})
    assert layers.synonyms(MS) == [
        Synonym(MS, "2000", ConfigSource.DYNAMIC_BROKER),
        Synonym(MS, "1000", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        Synonym(HOURS, "100", ConfigSource.STATIC_BROKER),
        Synonym(HOURS, "168", ConfigSource.DEFAULT),
    ]
    assert layers.topic_synonyms("retention.ms", {"retention.ms": "3"})[:2] == [
        Synonym("retention.ms", "3", ConfigSource.TOPIC),
        Synonym(MS, "2000", ConfigSource.DYNAMIC_BROKER),
    ]


def test_a_value_from_another_unit_has_no_synonyms() -> None:
    assert Layers(STATIC).synonyms(MS) == []
    assert Layers(STATIC).topic_synonyms("retention.ms", {}) == []
    assert Layers(STATIC).topic_synonyms("leader.replication.throttled.replicas", {}) == []


def test_an_update_replaces_its_layer() -> None:
    layers = Layers(STATIC, {MS: "1000"}, {})
    assert check_dynamic_update(layers, {MS: "5"}, per_broker=True).settings.log_retention_effective_ms == 5
    assert check_dynamic_update(layers, {}, per_broker=False).settings.log_retention_effective_ms == 360_000_000


@pytest.mark.parametrize(
    ("given", "per_broker", "reason"),
    [
        ({"broker.id": "1"}, True, r"Cannot update these configs dynamically: Set\(broker.id\)"),
        ({"log.segment.bytes": "3"}, True, "Value must be at least 14"),
        ({"advertised.listeners": "A://b:1"}, False, r"broker id must be specified: Set\(advertised.listeners\)"),
        ({"ssl.keystore.location": "/x"}, True, "per-listener using the listener prefix"),
        ({"listener.name.a.ssl.keystore.location": "/x"}, False, "broker id must be specified"),
        ({"leader.replication.throttled.rate": "-1"}, False, "Value must be at least 0"),
        ({"replica.lag.time.max.ms": "1"}, False, "Cannot update these configs dynamically"),
        ({"num.replica.fetchers": "0"}, False, "value should be at least 1"),
        ({"num.replica.fetchers": "-3"}, True, "value should be at least 1"),
        ({"listener.name.a.max.connections": " 0 "}, True, "Invalid max.connections 0"),
        ({"max.connection.creation.rate": "0"}, False, "Invalid max.connection.creation.rate 0"),
        ({"log.cleaner.threads": "0"}, False, "log.cleaner.threads must be at least 1"),
        (
            {"log.local.retention.ms": "-1"},
            False,
            "Value must not be -1 as log.retention.ms value is set as 360000000.",
        ),
        (
            {"log.local.retention.bytes": "9", "log.retention.bytes": "8"},
            False,
            "more than log.retention.bytes property value: 8",
        ),
    ],
)
def test_refused_updates(given: dict[str, str], per_broker: bool, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        check_dynamic_update(Layers(STATIC), given, per_broker=per_broker)


@pytest.mark.parametrize(
    "given",
    [{"some.plugin": "x"}, {"listener.name.a.max.connections": "5"}, {"leader.replication.throttled.rate": "5"}],
)
def test_accepted_for_the_cluster(given: dict[str, str]) -> None:
    assert check_dynamic_update(Layers(STATIC), given, per_broker=False).dynamic_default == given
