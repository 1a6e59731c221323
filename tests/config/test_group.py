"""Settings of one group, as Apache Kafka 4.3.0 takes and refuses them."""

from __future__ import annotations

import pytest

from config.broker import BrokerSettings
from config.errors import ConfigError
from config.group import CONSUMER, SHARE, check_group_bounds, check_group_settings

SESSION, HEARTBEAT, ASSIGNMENT = (
    f"consumer.{kind}" for kind in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
)
WIDE = {"group.consumer.min.session.timeout.ms": "1000", "group.consumer.min.heartbeat.interval.ms": "100"}


@pytest.mark.parametrize(
    ("given", "broker", "refusal"),
    [
        ({}, {}, None),
        ({SESSION: "50000", HEARTBEAT: "5000", ASSIGNMENT: "2000"}, {}, None),
        ({SESSION: "1"}, {}, f"{SESSION} must be greater than or equal to group.consumer.min.session.timeout.ms"),
        ({SESSION: "70000"}, {}, f"{SESSION} must be less than or equal to group.consumer.max.session.timeout.ms"),
        ({HEARTBEAT: "4999"}, {}, f"{HEARTBEAT} must be greater than or equal to group.consumer.min.heartbeat.interval.ms"),
        ({HEARTBEAT: "20000"}, {}, f"{HEARTBEAT} must be less than or equal to group.consumer.max.heartbeat.interval.ms"),
        ({ASSIGNMENT: "16000"}, {}, f"{ASSIGNMENT} must be less than or equal to group.consumer.max.assignment.interval.ms"),
        ({ASSIGNMENT: "-1"}, {}, f"Invalid value -1 for configuration {ASSIGNMENT}: Value must be at least 0"),
        ({SESSION: "abc"}, {}, f"Invalid value abc for configuration {SESSION}: Not a number of type INT"),
        ({"nope": "1"}, {}, "Unknown group config name: nope"),
        ({SESSION: "5000"}, WIDE, f"{SESSION} must be greater than {HEARTBEAT}"),
        ({SESSION: "5000", HEARTBEAT: "4999"}, WIDE, None),
        ({"share.delivery.count.limit": "2", "share.isolation.level": "read_committed"}, {}, None),
        ({"share.delivery.count.limit": "11"}, {},
         "share.delivery.count.limit must be less than or equal to group.share.max.delivery.count.limit"),
        ({"share.partition.max.record.locks": "5000"}, {},
         "share.partition.max.record.locks must be less than or equal to group.share.max.partition.max.record.locks"),
        ({"share.record.lock.duration.ms": "14999"}, {},
         "share.record.lock.duration.ms must be greater than or equal to group.share.min.record.lock.duration.ms"),
        ({"share.session.timeout.ms": "1"}, {},
         "share.session.timeout.ms must be greater than or equal to group.share.min.session.timeout.ms"),
        ({"share.session.timeout.ms": "5000"}, {"group.share.min.session.timeout.ms": "1000"},
         "share.session.timeout.ms must be greater than share.heartbeat.interval.ms"),
    ],
)  # fmt: skip
def test_what_a_group_may_have(given: dict[str, str], broker: dict[str, str], refusal: str | None) -> None:
    settings = BrokerSettings(broker)
    check_group_bounds(CONSUMER, settings)
    if refusal is None:
        check_group_settings(given, settings)
        return
    with pytest.raises(ConfigError) as refused:
        check_group_settings(given, settings)
    assert str(refused.value) == refusal


@pytest.mark.parametrize("kind", [CONSUMER, SHARE])
@pytest.mark.parametrize(
    ("name", "value", "refusal"),
    [
        ("max.session.timeout.ms", "1", "max.session.timeout.ms must be greater than or equal to group.KIND.min."),
        ("session.timeout.ms", "1", "session.timeout.ms must be greater than or equal to group.KIND.min."),
        ("heartbeat.interval.ms", "15001", "heartbeat.interval.ms must be less than or equal to group.KIND.max."),
        ("max.assignment.interval.ms", "999", "assignment.interval.ms must be less than or equal to group.KIND.max"),
    ],
)
def test_bounds_that_contradict_each_other(kind: str, name: str, value: str, refusal: str) -> None:
    with pytest.raises(ConfigError, match=refusal.replace("KIND", kind)):
        check_group_bounds(kind, BrokerSettings({f"group.{kind}.{name}": value}))


@pytest.mark.parametrize("kind", [CONSUMER, SHARE])
def test_a_heartbeat_is_sent_within_a_session(kind: str) -> None:
    given = {
        f"group.{kind}.min.session.timeout.ms": "1000",
        f"group.{kind}.min.heartbeat.interval.ms": "100",
        f"group.{kind}.session.timeout.ms": "5000",
    }
    with pytest.raises(ConfigError, match=f"heartbeat.interval.ms must be less than group.{kind}.session"):
        check_group_bounds(kind, BrokerSettings(given))
