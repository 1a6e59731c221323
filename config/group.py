"""Settings of one group (resource type GROUP), which come before the broker's settings of all groups of its kind.

Rules: pure. A value is within the bounds that the broker sets, and a session lasts longer than the interval of its heartbeats,
whichever of the two is the group's own. Those of streams groups are unknown.
Source: Kafka 4.3 GroupConfig.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from config.definition import BOOLEAN, INT, STRING, SettingTable, setting
from config.errors import ConfigError
from config.offset_reset import AutoOffsetReset
from config.validators import at_least, one_of

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
    share_session_timeout_ms: int = setting(
        "share.session.timeout.ms",
        INT,
        45_000,
        at_least(1),
        effective=True,
        synonyms=("group.share.session.timeout.ms",),
        doc="Time without a heartbeat after which a member of a share group has left.",
    )
    share_heartbeat_interval_ms: int = setting(
        "share.heartbeat.interval.ms",
        INT,
        5000,
        at_least(1),
        effective=True,
        synonyms=("group.share.heartbeat.interval.ms",),
        doc="Interval in which members of a share group send heartbeats.",
    )
    share_assignment_interval_ms: int = setting(
        "share.assignment.interval.ms",
        INT,
        1000,
        at_least(0),
        effective=True,
        synonyms=("group.share.assignment.interval.ms",),
        doc="Time between two assignments of a share group.",
    )
    share_record_lock_duration_ms: int = setting(
        "share.record.lock.duration.ms",
        INT,
        30_000,
        at_least(1000),
        effective=True,
        synonyms=("group.share.record.lock.duration.ms",),
        doc="Time for which a member has a record that it acquired; then it is delivered again.",
    )
    share_delivery_count_limit: int = setting(
        "share.delivery.count.limit",
        INT,
        5,
        at_least(2),
        effective=True,
        synonyms=("group.share.delivery.count.limit",),
        doc="Deliveries of a record at most; a record that was delivered so often and was not accepted is archived.",
    )
    share_partition_max_record_locks: int = setting(
        "share.partition.max.record.locks",
        INT,
        2000,
        at_least(100),
        effective=True,
        synonyms=("group.share.partition.max.record.locks",),
        doc="Locked records of a partition at most.",
    )
    share_isolation_level: str = setting(
        "share.isolation.level",
        STRING,
        "read_uncommitted",
        one_of("read_committed", "read_uncommitted"),
        effective=True,
        doc="Whether a share group is given the records of transactions that are open or were aborted.",
    )
    share_auto_offset_reset: str = setting(
        "share.auto.offset.reset",
        STRING,
        "latest",
        AutoOffsetReset(),
        effective=True,
        doc="Where a share group begins in a partition that it has not read: at its end, at its start, or with the first "
        "record that is not older than a duration, which is written as `by_duration:PT1H`.",
    )
    share_renew_acknowledge_enable: bool = setting(
        "share.renew.acknowledge.enable",
        BOOLEAN,
        True,
        effective=True,
        doc="Whether members may renew the locks of records.",
    )


CONSUMER, SHARE = "consumer", "share"
BOUNDED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        CONSUMER: ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"),
        SHARE: (
            "heartbeat.interval.ms",
            "session.timeout.ms",
            "record.lock.duration.ms",
            "delivery.count.limit",
            "partition.max.record.locks",
            "assignment.interval.ms",
        ),
    }
)
"""By kind of group. For each there are `consumer.*` of a group, and `group.consumer.*`, `group.consumer.min.*` and
`group.consumer.max.*` of the broker; so for share groups."""


def check_group_settings(given: Mapping[str, str], broker: BrokerSettings) -> None:
    """Check what one group would have of its own before it is stored. Raises ConfigError."""
    for name in given:
        if name not in OwnGroupSettings.definitions:
            raise ConfigError(f"Unknown group config name: {name}")
    own = OwnGroupSettings(given)
    for kind, names in BOUNDED.items():
        for name in names:
            if f"{kind}.{name}" in given:
                _check_bounds(f"{kind}.{name}", _number(own, f"{kind}.{name}"), kind, name, broker)
    for kind in BOUNDED:
        session, heartbeat = (
            _number(own, f"{kind}.{name}") if f"{kind}.{name}" in given else _number(broker, f"group.{kind}.{name}")
            for name in ("session.timeout.ms", "heartbeat.interval.ms")
        )
        if session <= heartbeat:
            raise ConfigError(f"{kind}.session.timeout.ms must be greater than {kind}.heartbeat.interval.ms")


def check_group_bounds(kind: str, broker: BrokerSettings) -> None:
    """Check that the broker's own settings of a kind of groups are consistent. Raises ConfigError."""
    for name in BOUNDED[kind]:
        if _number(broker, f"group.{kind}.max.{name}") < _number(broker, f"group.{kind}.min.{name}"):
            raise ConfigError(f"group.{kind}.max.{name} must be greater than or equal to group.{kind}.min.{name}")
        _check_bounds(f"group.{kind}.{name}", _number(broker, f"group.{kind}.{name}"), kind, name, broker)
    heartbeat, session = f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms"
    if _number(broker, heartbeat) >= _number(broker, session):
        raise ConfigError(f"{heartbeat} must be less than {session}")


def _check_bounds(shown: str, value: int, kind: str, name: str, broker: BrokerSettings) -> None:
    if value < _number(broker, f"group.{kind}.min.{name}"):
        raise ConfigError(f"{shown} must be greater than or equal to group.{kind}.min.{name}")
    if value > _number(broker, f"group.{kind}.max.{name}"):
        raise ConfigError(f"{shown} must be less than or equal to group.{kind}.max.{name}")


def _number(table: SettingTable, name: str) -> int:
    value = table.value(name)
    assert isinstance(value, int), name
    return value
