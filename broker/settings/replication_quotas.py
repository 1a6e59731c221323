"""The replication quotas of the dynamic settings: one for leaders, one for followers, and one for logs that move between
directories of this broker.

Rules: rates are dynamic settings of brokers, the throttled replicas are settings of topics (KIP-73).
Source: Kafka ReplicationQuotaManager, TopicConfigHandler.updateThrottledList, BrokerConfigHandler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from config.layers import Layers, Throttles
from replication.throttle import NO_LIMIT, ReplicationQuota

if TYPE_CHECKING:
    from config.broker import BrokerSettings
    from config.topic import LogConfig
    from runtime.clock import Clock

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LOG_MOVES_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


class ReplicationQuotas:
    """Holds the quotas `leader`, `follower` and `log_moves`, and updates them when settings change."""

    def __init__(self, broker_id: int, settings: BrokerSettings, clock: Clock) -> None:
        self._broker_id = broker_id
        window_ms = settings.replication_quota_window_size_seconds * 1000
        samples_max = settings.replication_quota_window_num
        self.leader = ReplicationQuota(clock.monotonic_ms, window_ms=window_ms, samples_max=samples_max)
        self.follower = ReplicationQuota(clock.monotonic_ms, window_ms=window_ms, samples_max=samples_max)
        self.log_moves = ReplicationQuota(
            clock.monotonic_ms,
            window_ms=settings.alter_log_dirs_replication_quota_window_size_seconds * 1000,
            samples_max=settings.alter_log_dirs_replication_quota_window_num,
        )

    def on_broker_settings(self, layers: Layers) -> None:
        self.leader.limit_bytes_per_second = _rate(layers, LEADER_RATE)
        self.follower.limit_bytes_per_second = _rate(layers, FOLLOWER_RATE)
        self.log_moves.limit_bytes_per_second = _rate(layers, LOG_MOVES_RATE)

    def on_topic_settings(self, topic: str, config: LogConfig) -> None:
        self.leader.throttle(topic, config.leader_replication_throttled_replicas, self._broker_id)
        self.follower.throttle(topic, config.follower_replication_throttled_replicas, self._broker_id)


def _rate(layers: Layers, name: str) -> int:
    found = layers.synonyms(name)
    if not found:
        return NO_LIMIT
    return int(str(Throttles.definitions[name].parse(found[0].value)))
