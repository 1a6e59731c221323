"""The settings a shard of the share coordinator needs, under their own names and units.

Rules: an immutable value; none of the settings is dynamic in Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShareStateSettings:
    """Defaults are Kafka's: `share.coordinator.snapshot.update.records.per.snapshot` and
    `share.coordinator.cold.partition.snapshot.interval.ms`."""

    updates_per_snapshot: int = 500
    cold_snapshot_interval_ms: int = 300_000
