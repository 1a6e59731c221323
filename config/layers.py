"""The layers of broker settings, and the source of each value.

Strongest first: this broker's dynamic settings, the cluster's dynamic defaults, the static settings, the default. Rules: pure
values; texts as given.
Invariant: `settings` are the effective settings of the layers.
Source: KIP-226; Kafka DynamicBrokerConfig, ConfigHelper.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from config.broker import BrokerSettings, base_name
from config.definition import CLUSTER_WIDE, LONG, LONG_MAX, Setting, SettingTable, Update, setting
from config.errors import ConfigError, invalid_value
from config.java_classes import refused_java_classes
from config.java_values import java_integer, java_trim
from config.topic import LogConfig
from config.validators import at_least
from runtime.scala_text import hash_set, immutable_set


class ConfigSource(enum.IntEnum):
    """The sources, with the numbers of DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    DYNAMIC_CLIENT_METRICS = 7
    DYNAMIC_GROUP = 8


@dataclass(frozen=True, slots=True)
class Synonym:
    """One source that sets a value. `value` is its text, secrets in clear."""

    name: str
    value: str
    source: ConfigSource


FETCHERS = "num.replica.fetchers"
CONNECTION_LIMITS = frozenset(["max.connections", "max.connection.creation.rate"])
"""A listener that admits no client is not made at run time, though such a broker starts."""
UNLIMITED, SAME_AS_WHOLE_LOG = -1, -2

# Broker settings that exist in several units: each is a synonym of the others, strongest first.
_UNITS = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_SYNONYMS = {name: group for group in _UNITS for name in group} | {
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
}


def broker_synonyms(name: str) -> tuple[str, ...]:
    """Return the names under which `name` may be set, strongest first; a listener's own setting falls back to the general
    one."""
    general = base_name(name)
    return (name, general) if general != name else _SYNONYMS.get(name, (name,))


class Throttles(SettingTable):
    """Limits on replication that exist as dynamic settings only: no file can set them."""

    leader_replication_throttled_rate: int = setting(
        "leader.replication.throttled.rate",
        LONG,
        LONG_MAX,
        at_least(0),
        CLUSTER_WIDE,
        doc="Bytes a second that leaders send of throttled replicas.",
    )
    follower_replication_throttled_rate: int = setting(
        "follower.replication.throttled.rate",
        LONG,
        LONG_MAX,
        at_least(0),
        CLUSTER_WIDE,
        doc="Bytes a second that followers fetch of throttled replicas.",
    )
    replica_alter_log_dirs_io_max_bytes_per_second: int = setting(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        LONG,
        LONG_MAX,
        at_least(0),
        CLUSTER_WIDE,
        doc="Bytes a second that moves between log directories write.",
    )


def broker_definition(name: str) -> Setting | None:
    """Return the row of a broker setting, a throttle or a listener's own setting; None for an unknown name."""
    return BrokerSettings.definitions.get(base_name(name)) or Throttles.definitions.get(name)


def update_mode(name: str) -> Update | None:
    """Return how `name` may be changed at run time; None for an unknown name (these are kept for plug-ins)."""
    row = broker_definition(name)
    return None if row is None else row.update


@dataclass(frozen=True)
class Layers:
    """The layers. `static` are the settings of the start; the two others are texts from the store."""

    static: BrokerSettings
    dynamic_default: Mapping[str, str] = field(default_factory=dict)
    dynamic_broker: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def settings(self) -> BrokerSettings:
        """Return the effective settings; a setting hides weaker ones in other units. Raises ConfigError."""
        if not self.dynamic_default and not self.dynamic_broker:
            return self.static
        given = dict(self.static.given)
        for layer in (self.dynamic_default, self.dynamic_broker):
            for name, text in layer.items():
                for synonym in _SYNONYMS.get(name, ()):
                    given.pop(synonym, None)
                given[name] = text
        settings = BrokerSettings(given)
        settings.check()
        return settings

    def synonyms(self, name: str) -> list[Synonym]:
        """Return all sources that set `name`, strongest first: the first one is effective. None if only another unit of it
        is set."""
        found = [
            Synonym(synonym, layer[synonym], source)
            for layer, source in (
                (self.dynamic_broker, ConfigSource.DYNAMIC_BROKER),
                (self.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER),
                (self.static.given, ConfigSource.STATIC_BROKER),
                (_DEFAULTS, ConfigSource.DEFAULT),
            )
            for synonym in broker_synonyms(name)
            if synonym in layer
        ]
        while found and found[0].name != name:
            del found[0]
        return found

    def topic_synonyms(self, name: str, overrides: Mapping[str, str]) -> list[Synonym]:
        """Return the same for topic setting `name` of a topic whose own settings are `overrides`."""
        row = LogConfig.definitions.get(name)
        found = self.synonyms(row.synonyms[0]) if row is not None and row.synonyms else []
        if name in overrides:
            found.insert(0, Synonym(name, overrides[name], ConfigSource.TOPIC))
        return found


_DEFAULTS: Mapping[str, str] = {
    name: text for name, row in BrokerSettings.definitions.items() if (text := row.format(row.default)) is not None
}


def check_dynamic_update(layers: Layers, given: Mapping[str, str], *, per_broker: bool) -> Layers:
    """Return the layers after this broker's dynamic settings, or the cluster's defaults, became `given`.

    Raises ConfigError when one of them may not be changed at run time, not here, or not to that value.
    """
    read_only = sorted(name for name in given if _is_read_only(name))
    if read_only:
        raise ConfigError(f"Cannot update these configs dynamically: {immutable_set(read_only)}")
    listener_only = sorted(LISTENER_ONLY_SETTINGS & given.keys())
    if listener_only:
        reason = "These security configs can be dynamically updated only per-listener using the listener prefix"
        raise ConfigError(f"{reason}: {hash_set(listener_only)}")
    for name, text in given.items():
        row = broker_definition(name)
        if row is not None:
            row.parse(text)
    if per_broker:
        changed = Layers(layers.static, layers.dynamic_default, given)
    else:
        per_broker_only = sorted(name for name in given if _is_per_broker(name))
        if per_broker_only:
            reason = "Cannot update these configs at default cluster level, broker id must be specified"
            raise ConfigError(f"{reason}: {immutable_set(per_broker_only)}")
        changed = Layers(layers.static, given, layers.dynamic_broker)
    # All of them are computed here, so that a value that is invalid with another is refused.
    _check_together(changed.settings, given)
    return changed


def _check_together(settings: BrokerSettings, given: Mapping[str, str]) -> None:
    """Check the effective settings for what is refused at run time alone. Raises ConfigError."""
    fetchers_count = settings.num_replica_fetchers
    if FETCHERS in given and fetchers_count < 1:
        message = f"Dynamic thread count update validation failed for {FETCHERS}={fetchers_count}"
        raise ConfigError(f"{message}, value should be at least 1")
    if "log.cleaner.threads" in given and settings.log_cleaner_threads < 1:
        raise ConfigError("log.cleaner.threads must be at least 1")
    for name, text in given.items():
        general = base_name(name)
        if general in CONNECTION_LIMITS and java_integer(java_trim(text)) < 1:
            raise ConfigError(f"Invalid {general} {java_trim(text)}")
    for name, local, general, whole in (
        (
            "log.local.retention.ms",
            settings.log_local_retention_ms,
            "log.retention.ms",
            settings.log_retention_effective_ms,
        ),
        (
            "log.local.retention.bytes",
            settings.log_local_retention_bytes,
            "log.retention.bytes",
            settings.log_retention_bytes,
        ),
    ):
        if whole == UNLIMITED or local == SAME_AS_WHOLE_LOG:
            continue
        if local == UNLIMITED:
            raise invalid_value(name, local, f"Value must not be -1 as {general} value is set as {whole}.")
        if local > whole:
            raise invalid_value(name, local, f"Value must not be more than {general} property value: {whole}")


def stored_java_classes(stored: Mapping[str, str]) -> Iterator[ConfigError]:
    """Yield an error for each of a broker's stored dynamic settings that has an effect in Apache Kafka and that names Java code
    which guards something."""
    yield from refused_java_classes({name: text for name, text in stored.items() if not _is_read_only(name)})


# Settings of a listener that apply to the whole cluster.
CLUSTER_LEVEL_LISTENER_SETTINGS = ("max.connections", "max.connection.creation.rate", "num.network.threads")
# Dynamic only for single listeners.
LISTENER_ONLY_SETTINGS = frozenset(
    f"ssl.{name}"
    for name in (
        *("key.password", "keystore.certificate.chain", "keystore.key", "keystore.location", "keystore.password"),
        *("keystore.type", "truststore.certificates", "truststore.location", "truststore.password", "truststore.type"),
    )
)


def _is_read_only(name: str) -> bool:
    return name in BrokerSettings.definitions and update_mode(name) is Update.READ_ONLY


def _is_per_broker(name: str) -> bool:
    general = base_name(name)
    if general != name:
        return general not in CLUSTER_LEVEL_LISTENER_SETTINGS
    return update_mode(name) is Update.PER_BROKER
