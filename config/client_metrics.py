"""Settings of one subscription of client metrics (resource type CLIENT_METRICS).

Rules: pure. What the items of `match` mean is checked where they are used (`broker.telemetry.subscriptions`).
Source: Kafka 4.3 ClientMetricsConfigs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from config.definition import INT, LIST, SettingTable, setting
from config.errors import ConfigError

INTERVAL_MIN_MS = 100
INTERVAL_MAX_MS = 3_600_000
INTERVAL_MS = 300_000
"""How often clients push without a subscription that says it."""


class SubscriptionRefused(ConfigError):
    """What Apache Kafka calls an invalid request, and not an invalid value."""


@dataclass(frozen=True, slots=True)
class _NoEmptyItems:
    def __call__(self, name: str, value: object) -> None:
        if isinstance(value, tuple) and not all(value):
            raise ConfigError(f"Configuration '{name}' values must not be empty.", valid=str(self))

    def __str__(self) -> str:
        return "a list without empty items"


class SubscriptionSettings(SettingTable):
    """What is set for one subscription, as attributes: the wire name with underscores for dots."""

    metrics: tuple[str, ...] = setting(
        "metrics", LIST, (), _NoEmptyItems(), effective=True, doc="Telemetry metric name prefix list"
    )
    interval_ms: int = setting(
        "interval.ms", INT, INTERVAL_MS, effective=True, doc="Metrics push interval in milliseconds"
    )
    match: tuple[str, ...] = setting("match", LIST, (), _NoEmptyItems(), effective=True, doc="Client match criteria")


def check_subscription_settings(name: str, given: Mapping[str, str]) -> SubscriptionSettings:
    """Check what a subscription would have, and return it parsed. Raises ConfigError."""
    if not name:
        raise SubscriptionRefused("Subscription name can't be empty")
    for key in given:
        if key not in SubscriptionSettings.definitions:
            raise SubscriptionRefused(f"Unknown client metrics configuration: {key}")
    own = SubscriptionSettings(given)
    if not INTERVAL_MIN_MS <= own.interval_ms <= INTERVAL_MAX_MS:
        raise SubscriptionRefused(
            f"Invalid value {own.interval_ms} for interval.ms, interval must be between {INTERVAL_MIN_MS} and "
            f"{INTERVAL_MAX_MS} (1 hour)"
        )
    return own
