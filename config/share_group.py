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
    return ShareGroupConfig(
        session_timeout_ms=_bounded(
            own.share_session_timeout_ms if "share.session.timeout.ms" in own.given else None,
            broker.group_share_session_timeout_ms,
            broker.group_share_min_session_timeout_ms,
            broker.group_share_max_session_timeout_ms,
        ),
        heartbeat_interval_ms=_bounded(
            own.share_heartbeat_interval_ms if "share.heartbeat.interval.ms" in own.given else None,
            broker.group_share_heartbeat_interval_ms,
            broker.group_share_min_heartbeat_interval_ms,
            broker.group_share_max_heartbeat_interval_ms,
        ),
        assignment_interval_ms=_bounded(
            own.share_assignment_interval_ms if "share.assignment.interval.ms" in own.given else None,
            broker.group_share_assignment_interval_ms,
            broker.group_share_min_assignment_interval_ms,
            broker.group_share_max_assignment_interval_ms,
        ),
        record_lock_duration_ms=_bounded(
            own.share_record_lock_duration_ms if "share.record.lock.duration.ms" in own.given else None,
            broker.group_share_record_lock_duration_ms,
            broker.group_share_min_record_lock_duration_ms,
            broker.group_share_max_record_lock_duration_ms,
        ),
        delivery_count_limit=_bounded(
            own.share_delivery_count_limit if "share.delivery.count.limit" in own.given else None,
            broker.group_share_delivery_count_limit,
            broker.group_share_min_delivery_count_limit,
            broker.group_share_max_delivery_count_limit,
        ),
        partition_max_record_locks=_bounded(
            own.share_partition_max_record_locks if "share.partition.max.record.locks" in own.given else None,
            broker.group_share_partition_max_record_locks,
            broker.group_share_min_partition_max_record_locks,
            broker.group_share_max_partition_max_record_locks,
        ),
        isolation_level="read_committed" if own.share_isolation_level == "read_committed" else "read_uncommitted",
        auto_offset_reset=OffsetReset.parse(own.share_auto_offset_reset),
        renew_acknowledge_enable=own.share_renew_acknowledge_enable,
    )


def _bounded(own: int | None, default: int, least: int, most: int) -> int:
    return default if own is None else min(max(own, least), most)
