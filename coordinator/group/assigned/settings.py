"""The settings of groups with broker-side assignment: those of the broker, and those of a group in their place.

Rules: values, and one table that changes while the broker runs. A group's value outside the broker's bounds counts as the
nearest bound, because the bounds may have changed since it was set.
Invariant: `GroupConfigs.of` always returns values that are within the bounds.
Source: Kafka GroupCoordinatorConfig (`group.consumer.*`), ShareGroupConfig (`group.share.*`), GroupConfig (`consumer.*` and
`share.*` of resource type GROUP).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from config.share_group import ShareGroupConfig


class MigrationPolicy(Enum):
    """Whether a group may move between the kinds of groups while it has members. The value is that of the setting."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        """From classic to consumer."""
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def allows_downgrade(self) -> bool:
        """From consumer to classic."""
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Both values are allowed."""

    least: int
    most: int

    def clamped(self, value: int) -> int:
        return min(max(value, self.least), self.most)


@dataclass(frozen=True, slots=True)
class ConsumerConfig:
    """What one group goes by: `consumer.session.timeout.ms`, `consumer.heartbeat.interval.ms` and
    `consumer.assignment.interval.ms`."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """Defaults are those of Kafka 4.3. `assignors` are the names that members may ask for; the first is the default one."""

    default: ConsumerConfig = field(default_factory=ConsumerConfig)
    session_timeout_bounds_ms: Bounds = Bounds(45_000, 60_000)
    heartbeat_interval_bounds_ms: Bounds = Bounds(5_000, 15_000)
    assignment_interval_bounds_ms: Bounds = Bounds(0, 15_000)
    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    regex_refresh_interval_ms: int = 600_000


@dataclass(frozen=True, slots=True)
class ShareSettings:
    """`group.share.max.size` and `group.share.initialize.retry.interval.ms`; `default` is what a group without settings
    of its own goes by. Defaults are those of Kafka 4.3."""

    default: ShareGroupConfig = field(default_factory=ShareGroupConfig)
    max_size: int = 200
    initialize_retry_interval_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class GroupOverrides:
    """The settings of consumer groups that were set for one group; None: the broker's."""

    session_timeout_ms: int | None = None
    heartbeat_interval_ms: int | None = None
    assignment_interval_ms: int | None = None


class GroupConfigs:
    """The settings of each group. One writer, who watches the nodes of groups; the shards read."""

    def __init__(self, settings: ConsumerSettings | None = None, share: ShareSettings | None = None) -> None:
        self.settings = settings or ConsumerSettings()
        self.share = share or ShareSettings()
        self._configs: dict[str, ConsumerConfig] = {}
        self._shares: Mapping[str, ShareGroupConfig] = {}

    def of(self, group_id: str) -> ConsumerConfig:
        """What a consumer group goes by."""
        return self._configs.get(group_id, self.settings.default)

    def share_of(self, group_id: str) -> ShareGroupConfig:
        """What a share group goes by."""
        return self._shares.get(group_id, self.share.default)

    def replace(
        self, overrides: Mapping[str, GroupOverrides], shares: Mapping[str, ShareGroupConfig] | None = None
    ) -> None:
        """Take `overrides` and `shares` by group id in place of all that were set before. `shares` are within the bounds."""
        self._configs = {group_id: self._effective(each) for group_id, each in overrides.items()}
        self._shares = shares or {}

    def _effective(self, overrides: GroupOverrides) -> ConsumerConfig:
        settings, default = self.settings, self.settings.default
        return ConsumerConfig(
            _effective(overrides.session_timeout_ms, default.session_timeout_ms, settings.session_timeout_bounds_ms),
            _effective(
                overrides.heartbeat_interval_ms, default.heartbeat_interval_ms, settings.heartbeat_interval_bounds_ms
            ),
            _effective(
                overrides.assignment_interval_ms, default.assignment_interval_ms, settings.assignment_interval_bounds_ms
            ),
        )


def _effective(override: int | None, default: int, bounds: Bounds) -> int:
    return default if override is None else bounds.clamped(override)
