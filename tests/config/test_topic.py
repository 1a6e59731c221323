"""The effective settings of a log."""

from __future__ import annotations

import pytest

from config.broker import BrokerSettings
from config.errors import ConfigError
from config.topic import LogConfig, check_topic_settings

BROKER = BrokerSettings({"log.segment.bytes": "1000", "log.retention.hours": "1", "log.flush.interval.ms": "5"})


def test_a_topic_follows_the_broker_until_it_says_otherwise() -> None:
    config = LogConfig.from_settings(BROKER, {"segment.bytes": "2000", "unheard.of": "x"})
    assert (config.segment_bytes, config.retention_ms, config.flush_ms) == (2000, 3_600_000, 5)
    assert config.segment_ms == 168 * 3_600_000
    assert config.text("retention.ms") == "3600000"


def test_policies() -> None:
    both = LogConfig.from_settings(BROKER, {"cleanup.policy": "compact, delete"})
    assert (both.is_compacted, both.deletes_by_retention) == (True, True)
    plain = LogConfig.from_settings(BROKER, {})
    assert (plain.is_compacted, plain.deletes_by_retention) == (False, True)


def test_the_deprecated_timestamp_limit_counts_where_the_newer_is_not_used() -> None:
    old = LogConfig.from_settings(BROKER, {"message.timestamp.difference.max.ms": "10"})
    assert (old.timestamp_before_max_ms, old.timestamp_after_max_ms) == (10, 10)
    new = LogConfig.from_settings(
        BROKER, {"message.timestamp.difference.max.ms": "10", "message.timestamp.after.max.ms": "3"}
    )
    assert (new.timestamp_before_max_ms, new.timestamp_after_max_ms) == (10, 3)


@pytest.mark.parametrize(
    ("given", "ttl_ms"),
    [
        ({}, None),
        ({"barnabas.message.ttl.ms": "-1", "cleanup.policy": "compact"}, None),
        ({"barnabas.message.ttl.ms": "5"}, 5),
        ({"barnabas.message.ttl.ms": "0", "cleanup.policy": "compact,delete"}, 0),
    ],
)
def test_records_expire_in_topics_that_delete(given: dict[str, str], ttl_ms: int | None) -> None:
    assert check_topic_settings(given, BROKER).ttl_ms == ttl_ms


def test_a_brokers_policy_may_be_compact_under_a_topic_with_a_ttl() -> None:
    broker = BrokerSettings({"log.cleanup.policy": "compact"})
    assert LogConfig.from_settings(broker, {"barnabas.message.ttl.ms": "5"}).ttl_ms is None
    with pytest.raises(ConfigError, match="only records of a topic"):
        check_topic_settings({"barnabas.message.ttl.ms": "5"}, broker)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"nope": "1"}, "^Unknown topic config name: nope$"),
        ({"retention.mz": "1"}, r"^Unknown topic config name: retention\.mz: did you mean retention\.ms\?$"),
        ({"segment.bytes": "13"}, "Value must be at least 14"),
        ({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}, r"\(10\) > max.compaction.lag.ms \(5\)"),
        ({"remote.storage.enable": "true"}, "Tiered Storage"),
        ({"barnabas.message.ttl.ms": "-2"}, "Value must be at least -1"),
        (
            {"barnabas.message.ttl.ms": "0", "cleanup.policy": "compact"},
            r"barnabas\.message\.ttl\.ms \(0\) with cleanup\.policy \(compact\)",
        ),
    ],
)
def test_refusals(given: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        check_topic_settings(given, BROKER)
