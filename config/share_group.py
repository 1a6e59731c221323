"""What one share group goes by: the broker's settings, and the group's own in their place.

Rules: pure. A group's value outside the broker's bounds counts as the nearest bound, because the bounds may have changed since
it was set.
Source: KIP-932; Kafka 4.3 GroupConfig, GroupConfigManager.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from config.offset_reset import LATEST, OffsetReset

if TYPE_CHECKING:
    from config.broker import BrokerSettings
    from config.group import OwnGroupSettings

IsolationLevel = Literal["read_uncommitted", "read_committed"]


@dataclass(frozen=True, slots=True)
class ShareGroupConfig:
    """Defaults are those of Kafka 4.3."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    record_lock_duration_ms: int = 30_000
    delivery_count_limit: int = 5
    partition_max_record_locks: int = 2_000
    isolation_level: IsolationLevel = "read_uncommitted"
    auto_offset_reset: OffsetReset = LATEST
    renew_acknowledge_enable: bool = True


def share_group_config(broker: BrokerSettings, own: OwnGroupSettings) -> ShareGroupConfig:
    """Return what a group goes by whose own settings are `own`."""

    def of(kind: str) -> int:
        if f"share.{kind}" not in own.given:
            return _number(broker.value(f"group.share.{kind}"))
        least = _number(broker.value(f"group.share.min.{kind}"))
        most = _number(broker.value(f"group.share.max.{kind}"))
        return min(max(_number(own.value(f"share.{kind}")), least), most)

    return ShareGroupConfig(
        session_timeout_ms=of("session.timeout.ms"),
        heartbeat_interval_ms=of("heartbeat.interval.ms"),
        assignment_interval_ms=of("assignment.interval.ms"),
        record_lock_duration_ms=of("record.lock.duration.ms"),
        delivery_count_limit=of("delivery.count.limit"),
        partition_max_record_locks=of("partition.max.record.locks"),
        isolation_level="read_committed" if own.share_isolation_level == "read_committed" else "read_uncommitted",
        auto_offset_reset=OffsetReset.parse(own.share_auto_offset_reset),
        renew_acknowledge_enable=own.share_renew_acknowledge_enable,
    )


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value
