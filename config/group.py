"""Settings of one group (resource type GROUP), which come before the broker's settings of all consumer groups.

Rules: pure. A value is within the bounds that the broker sets, and a session lasts longer than the interval of its heartbeats,
whichever of the two is the group's own. Those of share groups and streams groups are unknown.
Source: Kafka 4.3 GroupConfig.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from config.definition import INT, SettingTable, setting
from config.errors import ConfigError
from config.validators import at_least

if TYPE_CHECKING:
    from config.broker import BrokerSettings


class OwnGroupSettings(SettingTable):
    """What is set for one group, as attributes: the wire name with underscores for dots."""

    consumer_session_timeout_ms: int = setting(
        "consumer.session.timeout.ms",
        INT,
        45_000,
        at_least(1),
        effective=True,
        synonyms=("group.consumer.session.timeout.ms",),
        doc="Time without a heartbeat after which a member has left.",
    )
    consumer_heartbeat_interval_ms: int = setting(
        "consumer.heartbeat.interval.ms",
        INT,
        5000,
        at_least(1),
        effective=True,
        synonyms=("group.consumer.heartbeat.interval.ms",),
        doc="Interval in which members send heartbeats.",
    )
    consumer_assignment_interval_ms: int = setting(
        "consumer.assignment.interval.ms",
        INT,
        1000,
        at_least(0),
        effective=True,
        synonyms=("group.consumer.assignment.interval.ms",),
        doc="Time between two assignments of a group.",
    )


BOUNDED = ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms")
"""For each there are `consumer.*` of a group, and `group.consumer.*`, `group.consumer.min.*` and `group.consumer.max.*` of the
broker."""


def check_group_settings(given: Mapping[str, str], broker: BrokerSettings) -> None:
    """Check what one group would have of its own before it is stored. Raises ConfigError."""
    for name in given:
        if name not in OwnGroupSettings.definitions:
            raise ConfigError(f"Unknown group config name: {name}")
    own = OwnGroupSettings(given)
    values = {kind: _milliseconds(own, f"consumer.{kind}") for kind in BOUNDED if f"consumer.{kind}" in given}
    for kind, value in values.items():
        _check_bounds(f"consumer.{kind}", value, kind, broker)
    session, heartbeat = (
        values.get(kind, _milliseconds(broker, f"group.consumer.{kind}"))
        for kind in ("session.timeout.ms", "heartbeat.interval.ms")
    )
    if session <= heartbeat:
        raise ConfigError("consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms")


def check_consumer_group_bounds(broker: BrokerSettings) -> None:
    """Check that the broker's own settings of consumer groups are consistent. Raises ConfigError."""
    for kind in BOUNDED:
        if _milliseconds(broker, f"group.consumer.max.{kind}") < _milliseconds(broker, f"group.consumer.min.{kind}"):
            raise ConfigError(f"group.consumer.max.{kind} must be greater than or equal to group.consumer.min.{kind}")
        _check_bounds(f"group.consumer.{kind}", _milliseconds(broker, f"group.consumer.{kind}"), kind, broker)
    if broker.group_consumer_heartbeat_interval_ms >= broker.group_consumer_session_timeout_ms:
        raise ConfigError("group.consumer.heartbeat.interval.ms must be less than group.consumer.session.timeout.ms")


def _check_bounds(name: str, value: int, kind: str, broker: BrokerSettings) -> None:
    if value < _milliseconds(broker, f"group.consumer.min.{kind}"):
        raise ConfigError(f"{name} must be greater than or equal to group.consumer.min.{kind}")
    if value > _milliseconds(broker, f"group.consumer.max.{kind}"):
        raise ConfigError(f"{name} must be less than or equal to group.consumer.max.{kind}")


def _milliseconds(table: SettingTable, name: str) -> int:
    value = table.value(name)
    assert isinstance(value, int), name
    return value
