"""Sources, derived values and checks of broker settings."""

from __future__ import annotations

import pytest

from config.broker import BrokerSettings, base_name, is_listener_setting
from config.errors import ConfigError
from config.unknown_settings import unknown_settings


def settings(**given: str) -> BrokerSettings:
    return BrokerSettings.from_sources({}, {}, {name.replace("_", "."): text for name, text in given.items()})


def test_overrides_win_over_environment_over_properties() -> None:
    found = BrokerSettings.from_sources(
        {"num.partitions": "1", "log.dirs": "/file", "broker.rack": "file"},
        {"KAFKA_NUM_PARTITIONS": "2", "KAFKA_LOG_DIRS": "/environment"},
        {"num.partitions": "3"},
    )
    assert (found.num_partitions, found.log_dirs, found.broker_rack) == (3, "/environment", "file")


def test_settings_for_one_listener_are_known() -> None:
    assert base_name("listener.name.inside.ssl.keystore.location") == "ssl.keystore.location"
    assert base_name("listener.name.inside.scram-sha-256.sasl.jaas.config") == "sasl.jaas.config"
    assert not is_listener_setting("listener.name.inside.nonsense")


def test_what_was_set_without_effect_is_named() -> None:
    found = settings(
        **{
            "num.partitions": "7", "ssl.client.auth": "required", "ssl.keymanager.algorithm": "PKIX",
            "auto.include.jmx.reporter": "false", "broker.id": "1",
            "listener.name.inside.ssl.keystore.password": "hunter2", "listener.name.inside.max.connections": "5",
            "listener.name.inside.num.network.threads": "5",
            "group.share.max.groups": "10", "authorizer.class.name": "", "my.plugin.thing": "2",
        }
    )  # fmt: skip
    assert found.without_effect == (
        "auto.include.jmx.reporter",
        "listener.name.inside.num.network.threads",
        "ssl.keymanager.algorithm",
    )


def test_apache_kafkas_own_server_properties_start() -> None:
    """Nothing in its config/server.properties is worth a warning."""
    own = """broker.id=0 num.network.threads=3 num.io.threads=8 socket.send.buffer.bytes=102400 num.partitions=1
        socket.receive.buffer.bytes=102400 socket.request.max.bytes=104857600 log.dirs=/tmp/kafka-logs
        num.recovery.threads.per.data.dir=1 offsets.topic.replication.factor=1 transaction.state.log.min.isr=1
        transaction.state.log.replication.factor=1 log.retention.hours=168 zookeeper.connect=localhost:2181
        log.retention.check.interval.ms=300000 zookeeper.connection.timeout.ms=18000 group.initial.rebalance.delay.ms=0"""
    found = BrokerSettings.from_sources(dict(line.split("=") for line in own.split()), {}, {})
    assert (unknown_settings(found), found.without_effect) == ((), ())


@pytest.mark.parametrize(
    ("given", "retention_ms"),
    [
        ({}, 168 * 3_600_000),
        ({"log_retention_hours": "1"}, 3_600_000),
        ({"log_retention_hours": "1", "log_retention_minutes": "5"}, 300_000),
        ({"log_retention_hours": "1", "log_retention_minutes": "5", "log_retention_ms": "7"}, 7),
        ({"log_retention_ms": "-1"}, -1),
        ({"log_retention_minutes": "-1"}, -1),
        ({"log_retention_hours": "-1"}, -1),
    ],
)
def test_the_finer_unit_of_retention_wins(given: dict[str, str], retention_ms: int) -> None:
    assert settings(**given).log_retention_effective_ms == retention_ms


def test_rolling_and_flushing_units() -> None:
    found = settings(log_roll_hours="2", log_roll_jitter_hours="1", log_flush_scheduler_interval_ms="9")
    assert found.log_roll_effective_ms == 7_200_000
    assert found.log_roll_jitter_effective_ms == 3_600_000
    assert found.log_flush_effective_ms == 9
    assert settings(log_roll_hours="2", log_roll_ms="5").log_roll_effective_ms == 5


def test_log_directories() -> None:
    assert settings().log_directories == ("/tmp/kafka-logs",)
    assert settings(log_dir="/a").log_directories == ("/a",)
    assert settings(log_dir="/a", log_dirs=" /b , /c,").log_directories == ("/b", "/c")


def test_broker_and_node_id_are_one() -> None:
    assert settings(broker_id="3").node_id == 3
    assert settings(node_id="4").effective_broker_id == 4
    assert settings().effective_broker_id == -1


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"log_segment_bytes": "3"}, "at least 14"),
        ({"log_dirs": " , "}, "At least one log directory"),
        ({"broker_id": "1001"}, r"not greater than reserved.broker.max.id; .* leave broker.id unset, or -1"),
        ({"broker_id": "1", "node_id": "2"}, "same value"),
        ({"broker_id_generation_enable": "false"}, "greater than or equal to 0"),
        ({"log_roll_ms": "0"}, "log.roll.ms must be"),
        ({"log_roll_jitter_ms": "-1"}, "log.roll.jitter.ms must be"),
        ({"log_retention_ms": "0"}, "log.retention.ms must be"),
        ({"log_cleaner_dedupe_buffer_size": "1000"}, "at least 1MB"),
        ({"replica_fetch_wait_max_ms": "40000"}, "replica.socket.timeout.ms"),
        ({"replica_lag_time_max_ms": "100"}, "replica.lag.time.max.ms"),
        ({"offsets_commit_required_acks": "4"}, "offsets.commit.required.acks"),
        ({"connections_max_idle_ms": "50"}, "connections.max.idle.ms=50"),
        ({"max_connections_per_ip": "0"}, "max.connections.per.ip.overrides"),
        ({"max_connections_per_ip_overrides": "some.host:5"}, "'max.connections.per.ip.overrides': 'some.host'"),
        ({"process_roles": "broker"}, "process.roles"),
        ({"authorizer_class_name": "org.example.Authorizer"}, "runs no Java"),
    ],
)
def test_values_that_do_not_fit_are_refused(given: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        settings(**given)


def test_settings_that_differ_from_kafka_on_purpose() -> None:
    differing = {name for name, row in BrokerSettings.definitions.items() if row.default != row.kafka_default}
    assert differing == {
        "listeners", "queued.max.request.bytes", "group.consumer.migration.policy",
        "group.share.partition.max.record.locks",
    }  # fmt: skip
