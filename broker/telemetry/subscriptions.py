"""Subscriptions of client metrics: which clients are asked to push which metrics, and how often.

A subscription has prefixes of names of metrics, an interval, and patterns that clients must match. A client gets the prefixes
of all subscriptions that it matches, the shortest of their intervals, and an id, by which a push shows that it knows them.

Rules: pure. Patterns have RE2's syntax, whose matching takes time in proportion to the text: clients choose their ids. Apache
Kafka 4.3 takes all that Java has; its later releases use RE2/J as well.
Source: KIP-714; Kafka 4.3 ClientMetricsManager.createClientInstance and computeSubscriptionId, ClientMetricsConfigs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import re2

from config.client_metrics import INTERVAL_MS, check_subscription_settings
from config.errors import ConfigError
from metadata.store.znode_json import java_hash
from protocol.crc32c import crc32c

if TYPE_CHECKING:
    from config.client_metrics import SubscriptionSettings

ALL_METRICS = "*"
"""The prefix by which a subscription asks for everything."""
MAX_PATTERN_BYTES = 1_024
_COMPILED_MAX_BYTES = 256 * 1024


class ClientFacts(NamedTuple):
    """What patterns match: the attributes of a client, each None when it has not told."""

    client_instance_id: str
    client_id: str | None
    client_software_name: str
    client_software_version: str
    client_source_address: str
    client_source_port: str


@dataclass(frozen=True, slots=True)
class MetricsSubscription:
    """`patterns` by the attribute that each has to match as a whole."""

    metrics: tuple[str, ...]
    interval_ms: int
    patterns: Mapping[str, Any] = field(repr=False)

    def is_for(self, client: ClientFacts) -> bool:
        for attribute, pattern in self.patterns.items():
            value = getattr(client, attribute)
            if value is None or pattern.fullmatch(value.encode("utf-8", "surrogatepass")) is None:
                return False
        return True


@dataclass(frozen=True, slots=True)
class Asked:
    """What one client is asked for. `version` is that of the subscriptions it was derived from."""

    version: int
    subscription_id: int
    metrics: tuple[str, ...]
    interval_ms: int

    def wants(self, name: str) -> bool:
        """Return whether a metric of this name was asked for."""
        return self.metrics == (ALL_METRICS,) or name.startswith(self.metrics)


def subscription(name: str, given: Mapping[str, str]) -> MetricsSubscription:
    """Return the subscription that has these settings. Raises ConfigError."""
    own: SubscriptionSettings = check_subscription_settings(name, given)
    return MetricsSubscription(own.metrics, own.interval_ms, dict(map(_pattern, own.match)))


class Subscriptions:
    """All of them. `version` grows with each change."""

    def __init__(self) -> None:
        self._by_name: dict[str, MetricsSubscription] = {}
        self.version = 0

    def __len__(self) -> int:
        return len(self._by_name)

    def replace(self, by_name: Mapping[str, MetricsSubscription]) -> None:
        self._by_name = dict(sorted(by_name.items()))
        self.version += 1

    def asked(self, client: ClientFacts, instance_id: bytes) -> Asked:
        """Return what a client is asked for; `instance_id` are the 16 bytes of its id."""
        metrics: dict[str, None] = {}
        interval_ms = INTERVAL_MS
        for each in self._by_name.values():
            if each.is_for(client):
                metrics.update(dict.fromkeys(each.metrics))
                interval_ms = min(interval_ms, each.interval_ms)
        names = [ALL_METRICS] if ALL_METRICS in metrics else _in_order_of_a_java_set(metrics)
        text = f"[{', '.join(names)}]{interval_ms}"
        subscription_id = _signed(crc32c(text.encode()) ^ _hash_of_uuid(instance_id))
        return Asked(self.version, subscription_id, tuple(names), interval_ms)


def _pattern(item: str) -> tuple[str, Any]:
    """Return the attribute and the pattern of an item of `match`. Raises ConfigError."""
    words = item.split("=")
    while words and not words[-1]:
        words.pop()  # as Java's split does
    refusal = ConfigError(f"Illegal client matching pattern: {item}")
    if len(words) != 2 or words[0].strip() not in ClientFacts._fields or len(item.encode()) > MAX_PATTERN_BYTES:
        raise refusal
    options = re2.Options()
    options.max_mem = _COMPILED_MAX_BYTES
    options.log_errors = False
    options.never_capture = True
    try:
        return words[0].strip(), re2.compile(words[1].strip(), options)
    except re2.error:
        raise refusal from None


def _in_order_of_a_java_set(names: Iterable[str]) -> list[str]:
    """Return the order in which a Java HashSet iterates: by bucket of a table of 16, which doubles beyond three quarters."""
    found = list(names)
    buckets = 16
    while len(found) > buckets * 3 // 4:
        buckets *= 2

    def bucket(name: str) -> int:
        value = java_hash(name)
        return (value ^ value >> 16) & (buckets - 1)

    return sorted(found, key=bucket)


def _hash_of_uuid(identifier: bytes) -> int:
    """Return Java's hash of a UUID, as an unsigned number."""
    both = int.from_bytes(identifier[:8], "big") ^ int.from_bytes(identifier[8:], "big")
    return both >> 32 ^ both & 0xFFFFFFFF


def _signed(value: int) -> int:
    return value - (1 << 32) if value & 0x80000000 else value
