"""The settings of a group shard.

Rules: an immutable value; none of the settings is dynamic, as in Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass

from config.inter_broker_version import LATEST, InterBrokerVersion


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Defaults are Kafka's, which has no `waiting_max_bytes`, and no `groups_max`: the groups of one shard, beyond which new
    ones are refused. `offset_metadata_max_bytes` counts UTF-16 units, as Kafka does in spite of the name."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2**31 - 1
    initial_rebalance_delay_ms: int = 3_000
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    waiting_max_bytes: int = 128 * 1024 * 1024
    groups_max: int = 100_000
    version: InterBrokerVersion = LATEST
    """The version that every broker of the cluster supports: any of them may be the coordinator next."""
