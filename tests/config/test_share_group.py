"""What a share group goes by."""

from __future__ import annotations

from config.broker import BrokerSettings
from config.group import OwnGroupSettings
from config.offset_reset import OffsetReset, ResetKind
from config.share_group import ShareGroupConfig, share_group_config


def test_the_defaults_are_those_of_the_broker() -> None:
    assert share_group_config(BrokerSettings({}), OwnGroupSettings({})) == ShareGroupConfig()


def test_the_settings_of_the_broker() -> None:
    broker = BrokerSettings({"group.share.record.lock.duration.ms": "20000", "group.share.delivery.count.limit": "3"})
    config = share_group_config(broker, OwnGroupSettings({}))
    assert config == ShareGroupConfig(record_lock_duration_ms=20_000, delivery_count_limit=3)


def test_the_settings_of_the_group_within_the_bounds() -> None:
    own = {
        "share.record.lock.duration.ms": "1000",
        "share.delivery.count.limit": "24",
        "share.heartbeat.interval.ms": "6000",
        "share.isolation.level": "read_committed",
        "share.auto.offset.reset": "by_duration:PT1M",
        "share.renew.acknowledge.enable": "false",
    }
    assert share_group_config(BrokerSettings({}), OwnGroupSettings(own)) == ShareGroupConfig(
        record_lock_duration_ms=15_000,
        delivery_count_limit=10,
        heartbeat_interval_ms=6_000,
        isolation_level="read_committed",
        auto_offset_reset=OffsetReset(ResetKind.BY_DURATION, 60_000),
        renew_acknowledge_enable=False,
    )
