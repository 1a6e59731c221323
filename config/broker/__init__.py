"""Settings of a broker: one table, in modules by topic, and the checks between rows.

Kafka's own settings keep Kafka's names, types, defaults and ranges; where a default differs on purpose the row says
`kafka_default`. Rules: pure; a `BrokerSettings` is immutable: a dynamic change makes another one.
Source: Kafka KafkaConfig and its *Config(s) classes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property

from config.acl_settings import READ_BY_AUTHORIZER, AclSettings, acl_settings
from config.address_limits import address_limits
from config.broker.barnabas import OwnSettings
from config.broker.coordination import CoordinationSettings
from config.broker.general import GeneralSettings
from config.broker.groups import ConsumerGroupSettings
from config.broker.log import LogSettings
from config.broker.network import NetworkSettings
from config.broker.observation import ObservationSettings
from config.broker.remote import RemoteStorageSettings
from config.broker.replication import ReplicationSettings
from config.broker.security import SecuritySettings
from config.broker.share_groups import ShareGroupSettings
from config.broker.transactions import TransactionStateSettings
from config.companion import COMPANIONS, RELAY, WEB, Companion
from config.definition import HOUR_MS, MiB
from config.errors import ConfigError
from config.java_classes import refused_java_classes
from config.providers import NoFiles, Provided, ProviderFiles, known_provider_settings, resolve
from config.relay import RelaySettings
from config.sources import settings_in_environment
from config.web import WebSettings

MINUTE_MS = 60_000
UNLIMITED = -1
_NOTHING = Provided()
# listener.name.<listener>.<setting>: a setting for one listener only.
LISTENER_PREFIX = re.compile(r"listener\.name\.[^.]*\.(.*)")
# Those that may have a SASL mechanism between: listener.name.<listener>.<mechanism>.<setting>.
_MECHANISM_SETTINGS = (
    "sasl.jaas.config",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
    *(name for name in SecuritySettings.definitions if name.startswith(("sasl.oauthbearer.", "sasl.login."))),
)
# Those that have an effect as a listener's own, or as one of its mechanisms'.
SASL_LISTENER_SETTINGS = frozenset((*_MECHANISM_SETTINGS, "sasl.enabled.mechanisms", "sasl.server.max.receive.size"))
# Those that have an effect as a listener's own, beside `ssl.`.
LISTENER_SETTINGS = SASL_LISTENER_SETTINGS | {"max.connections", "max.connection.creation.rate"}


class BrokerSettings(
    GeneralSettings, NetworkSettings, LogSettings, ReplicationSettings, ConsumerGroupSettings, ShareGroupSettings,
    TransactionStateSettings, CoordinationSettings, SecuritySettings, ObservationSettings, RemoteStorageSettings, OwnSettings,
):  # fmt: skip
    """The settings of a broker, as attributes: the wire name with underscores for dots."""

    @classmethod
    def from_sources(
        cls,
        properties: Mapping[str, str],
        environment: Mapping[str, str],
        overrides: Mapping[str, str],
        files: ProviderFiles | None = None,
    ) -> BrokerSettings:
        """Overrides win over the environment's KAFKA_ variables, and those over the properties file. References in any of
        them are resolved by the config providers, which read `files`.

        Raises ConfigError for the first invalid value, in the order of names.
        """
        given, provided = cls.resolved(properties, environment, overrides, files)
        try:
            cls._check_provided(given, provided)
            settings = cls(given)
            settings.check()
        except ConfigError as error:
            raise ConfigError(provided.hide(str(error)), valid=error.valid) from None
        settings.__dict__["_provided"] = provided
        return settings

    @classmethod
    def resolved(
        cls,
        properties: Mapping[str, str],
        environment: Mapping[str, str],
        overrides: Mapping[str, str],
        files: ProviderFiles | None = None,
    ) -> tuple[dict[str, str], Provided]:
        """Return the texts of the same sources, in the order of names, and what the config providers did. Raises ConfigError
        for an invalid provider, and for a file that cannot be read."""
        given = {**properties, **settings_in_environment(environment, cls.definitions), **overrides}
        given, provided = resolve(given, environment, files or NoFiles(), cls._is_secret)
        for name, other in (("broker.id", "node.id"), ("node.id", "broker.id")):
            if name in given:  # two names of one setting
                given.setdefault(other, given[name])
        return dict(sorted(given.items())), provided

    @classmethod
    def _is_secret(cls, name: str) -> bool:
        row = cls.definitions.get(base_name(name))
        return row is None or row.is_sensitive

    @classmethod
    def _check_provided(cls, given: Mapping[str, str], provided: Provided) -> None:
        """Check the values from providers first: their errors must not contain the value."""
        for name, references in provided.references.items():
            row = cls.definitions.get(name)
            if row is not None:
                try:
                    row.parse(given[name])
                except ConfigError as error:
                    names = ", ".join(references)
                    message = f"Invalid value for configuration {name}, given by {names}, not shown"
                    raise ConfigError(message, valid=error.valid) from None

    @property
    def provided(self) -> Provided:
        """The result of the config providers."""
        found: Provided = self.__dict__.get("_provided", _NOTHING)
        return found

    @property
    def names_of_others(self) -> frozenset[str]:
        """The names that config providers, the authorizer and the processes beside the broker read: no rows of this table, and
        known all the same."""
        of_authorizer = READ_BY_AUTHORIZER if self.authorizer_class_name else frozenset()
        of_companions = {name for each in COMPANIONS for name in (*each.table.definitions, *each.among(self.given))}
        return frozenset(known_provider_settings(self.given) | of_authorizer | of_companions)

    @cached_property
    def web_settings(self) -> WebSettings:
        """The settings of the web process that stand among these. Raises ConfigError, but not after `check` with
        `barnabas.web.enable`."""
        return WebSettings(WEB.among(self.given))

    @cached_property
    def relay_settings(self) -> RelaySettings:
        """Likewise those of the relay."""
        return RelaySettings(RELAY.among(self.given))

    @property
    def companions(self) -> tuple[Companion, ...]:
        """The processes that are started beside the broker."""
        return tuple(each for each in COMPANIONS if self.value(each.enable))

    @property
    def without_effect(self) -> tuple[str, ...]:
        """The names, in order, that were set to another value than the default and have no effect; each gets a warning.
        Most settings of single listeners have none."""
        return tuple(
            name
            for name in sorted(self.given)
            if (row := self.definitions.get(base_name(name))) is not None
            and (
                not (row.effective and (base_name(name) in LISTENER_SETTINGS or row.name.startswith("ssl.")))
                if name not in self.definitions
                else not row.effective and self.value(name) != row.default
            )
        )

    # --- derived from several rows ---

    @property
    def effective_broker_id(self) -> int:
        """`broker.id`, or `node.id` under its other name; -1 when the store chooses it."""
        return self.broker_id if self.broker_id >= 0 else self.node_id

    @cached_property
    def log_directories(self) -> tuple[str, ...]:
        named = self.log_dirs if self.log_dirs is not None else self.log_dir
        return tuple(directory for text in named.split(",") if (directory := text.strip()))

    @property
    def log_retention_effective_ms(self) -> int:
        if self.log_retention_ms is not None:
            retention_ms = self.log_retention_ms
        elif self.log_retention_minutes is not None:
            retention_ms = self.log_retention_minutes * MINUTE_MS
        else:
            retention_ms = self.log_retention_hours * HOUR_MS
        return max(retention_ms, UNLIMITED)

    @property
    def log_roll_effective_ms(self) -> int:
        return self.log_roll_hours * HOUR_MS if self.log_roll_ms is None else self.log_roll_ms

    @property
    def log_roll_jitter_effective_ms(self) -> int:
        return self.log_roll_jitter_hours * HOUR_MS if self.log_roll_jitter_ms is None else self.log_roll_jitter_ms

    @property
    def log_flush_effective_ms(self) -> int:
        interval_ms = self.log_flush_interval_ms
        return self.log_flush_scheduler_interval_ms if interval_ms is None else interval_ms

    @cached_property
    def limits_by_address(self) -> Mapping[str, int]:
        """The parsed limits. Raises ConfigError, but not after `check`."""
        return address_limits("max.connections.per.ip.overrides", self.max_connections_per_ip_overrides)

    @cached_property
    def acl_settings(self) -> AclSettings | None:
        """The settings of the authorizer; None without one. Raises ConfigError, but not after `check`."""
        return acl_settings(self.authorizer_class_name, self.given)

    # --- checks between rows ---

    def check(self) -> None:
        """Check values that depend on each other. Raises ConfigError."""
        for error in self.contradictions():
            raise error

    def contradictions(self) -> Iterator[ConfigError]:
        """Yield an error for each group of settings whose values contradict each other, or need Java."""
        checks = (
            self._check_identity, self._check_logs, self._check_replication, self._check_acls, self._check_connections,
            self._check_companions,
        )  # fmt: skip
        for check in checks:
            try:
                check()
            except ConfigError as error:
                yield error
        yield from refused_java_classes(self.given)

    def _check_acls(self) -> None:
        _ = self.acl_settings  # refuses invalid values

    def _check_connections(self) -> None:
        limits_by_address = self.limits_by_address  # likewise
        if self.max_connections_per_ip == 0 and not limits_by_address:
            raise ConfigError(
                "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
                is_requirement=True,
            )
        delay_ms, idle_ms = self.connection_failed_authentication_delay_ms, self.connections_max_idle_ms
        if 0 <= idle_ms <= delay_ms:
            raise ConfigError(
                f"connection.failed.authentication.delay.ms={delay_ms} should always be less than "
                f"connections.max.idle.ms={idle_ms} to prevent failed authentication responses from timing out"
            )

    def _check_companions(self) -> None:
        for each in self.companions:
            each.table(each.among(self.given))  # refuses invalid values

    def _check_identity(self) -> None:
        broker_id = self.effective_broker_id
        if {"broker.id", "node.id"} <= self.given.keys() and self.broker_id != self.node_id:
            raise ConfigError(
                f"You must set `node.id` to the same value as `broker.id`, not {self.node_id} and {self.broker_id}."
            )
        if not self.broker_id_generation_enable and broker_id < 0:
            raise ConfigError("broker.id must be greater than or equal to 0", valid="[0,...]")
        if self.broker_id_generation_enable and not -1 <= broker_id <= self.reserved_broker_max_id:
            raise ConfigError(
                "broker.id must be greater than or equal to -1 and not greater than reserved.broker.max.id; for data "
                "of a broker whose number was generated, leave broker.id unset, or -1",
                valid=f"[-1,...,{self.reserved_broker_max_id}]",
            )
        if self.process_roles:
            raise ConfigError("process.roles must be empty: this broker has no quorum controller.")

    def _check_logs(self) -> None:
        if not self.log_directories:
            raise ConfigError("At least one log directory must be defined via log.dirs or log.dir.")
        if self.log_roll_effective_ms < 1:
            raise ConfigError("log.roll.ms must be greater than or equal to 1", valid="[1,...]", is_requirement=True)
        if self.log_roll_jitter_effective_ms < 0:
            raise ConfigError(
                "log.roll.jitter.ms must be greater than or equal to 0", valid="[0,...]", is_requirement=True
            )
        if self.log_retention_effective_ms == 0:
            raise ConfigError(
                "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
                valid="-1 or [1,...]",
                is_requirement=True,
            )
        if self.log_cleaner_threads > 0 and self.log_cleaner_dedupe_buffer_size // self.log_cleaner_threads <= MiB:
            raise ConfigError(
                "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.", is_requirement=True
            )

    def _check_replication(self) -> None:
        if self.replica_fetch_wait_max_ms > self.replica_socket_timeout_ms:
            raise ConfigError(
                "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms "
                "to prevent unnecessary socket timeouts"
            )
        if self.replica_fetch_wait_max_ms > self.replica_lag_time_max_ms:
            raise ConfigError(
                "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms "
                "to prevent frequent changes in ISR"
            )
        if not -1 <= self.offsets_commit_required_acks <= self.offsets_topic_replication_factor:
            raise ConfigError(
                "offsets.commit.required.acks must be greater or equal -1 and less or equal to "
                "offsets.topic.replication.factor"
            )


def is_listener_setting(name: str) -> bool:
    """Whether `name` sets a known setting for one listener, or for one SASL mechanism of it."""
    match = LISTENER_PREFIX.fullmatch(name)
    return match is not None and base_name(name) in BrokerSettings.definitions


def base_name(name: str) -> str:
    """The setting behind a listener's own: `listener.name.internal.ssl.keystore.location` -> `ssl.keystore.location`.

    There may be a SASL mechanism between the two: `listener.name.internal.plain.sasl.jaas.config` -> `sasl.jaas.config`.
    """
    match = LISTENER_PREFIX.fullmatch(name)
    if match is None:
        return name
    scoped: str = match.group(1)
    if scoped in BrokerSettings.definitions:
        return scoped
    return next((name for name in _MECHANISM_SETTINGS if scoped.endswith(f".{name}")), scoped)


__all__ = ["SASL_LISTENER_SETTINGS", "BrokerSettings", "base_name", "is_listener_setting"]
