"""Settings of the relay: `barnabas.relay.*`. What is a client's (`bootstrap.servers`, `security.protocol`, `ssl.*`) stands in
the same file, and is read by `client.settings.parsing`.

A broker's file may have them, too: `config.companion` says how.

Rules: pure. An unknown name that begins with `barnabas.relay.` is an error: a slip could leave records waiting where nobody
looks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from config.acl_settings import AclSettings, super_users_of
from config.definition import BOOLEAN, HOUR_MS, INT, LIST, LONG, STRING, SettingTable, setting
from config.errors import ConfigError, invalid_value
from config.validators import LOG_LEVELS, at_least, between, one_of
from runtime.suggestions import did_you_mean

PREFIX = "barnabas.relay."
CLIENT_PREFIX = "barnabas.relay.client."
"""In a broker's settings: behind it is the name of a client's setting, by which the process reaches the cluster."""
DEFAULT_NAME = "barnabas-relay"
NAME_LENGTH_MAX = 200
"""What a topic's name may have, 249, less what the relay puts behind it."""
PORT_MAX = 65_535
SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
DAY_MS = 24 * HOUR_MS
DELAY_MAX_MS = 366 * DAY_MS
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")


class RelayName:
    """A validator: a name with which names of topics begin."""

    def __str__(self) -> str:
        return f"1 to {NAME_LENGTH_MAX} of letters, digits, '.', '_' and '-'"

    def __call__(self, name: str, value: object) -> None:
        assert isinstance(value, str)
        if not _LEGAL_NAME.fullmatch(value) or len(value) > NAME_LENGTH_MAX:
            raise invalid_value(name, value, f"must be {self}")


class SuperUsers:
    """A validator: users as in the brokers' setting."""

    def __str__(self) -> str:
        return "users like User:alice, separated by semicolons"

    def __call__(self, name: str, value: object) -> None:
        try:
            super_users_of(str(value))
        except ConfigError:
            raise invalid_value(name, value, f"must be {self}") from None


class RelaySettings(SettingTable):
    """The values of one process. Every process of one relay has the same ones."""

    barnabas_log_format: str = setting(
        "barnabas.log.format", STRING, "auto", one_of("auto", "terminal", "text", "json"),
        doc="The form of log lines on standard error, as a broker's.")  # fmt: skip
    barnabas_log_level: tuple[str, ...] = setting(
        "barnabas.log.level", LIST, ("INFO",), LOG_LEVELS,
        doc="The least level that is logged, and LOGGER=LEVEL for single loggers, separated by commas.")  # fmt: skip
    barnabas_relay_allow_everyone_if_no_acl_found: bool = setting(
        "barnabas.relay.allow.everyone.if.no.acl.found", BOOLEAN, False,
        doc="As the brokers have it: whether the principals of rules may use a topic for which there is no ACL at all. Brokers "
        "do not tell it.")  # fmt: skip
    barnabas_relay_delay_max_ms: int = setting(
        "barnabas.relay.delay.max.ms", LONG, DELAY_MAX_MS, between(0, DELAY_MAX_MS),
        doc="How far ahead a record may be due, in milliseconds; one that is due later goes to the dead letters.")  # fmt: skip
    barnabas_relay_ids_max: int = setting(
        "barnabas.relay.ids.max", INT, 1_000_000, at_least(0),
        doc="How many ids of delivered records a process remembers at most, beyond those of records that wait.")  # fmt: skip
    barnabas_relay_ids_ms: int = setting(
        "barnabas.relay.ids.ms", LONG, HOUR_MS, between(0, 7 * DAY_MS),
        doc="How long the id of a delivered record is remembered: one with the same id is not delivered again.")  # fmt: skip
    barnabas_relay_metrics_host: str = setting(
        "barnabas.relay.metrics.host", STRING, "localhost",
        doc="The address on which barnabas.relay.metrics.port is opened.")  # fmt: skip
    barnabas_relay_metrics_port: int | None = setting(
        "barnabas.relay.metrics.port", INT, None, between(0, PORT_MAX, optional=True),
        doc="The port that serves /metrics, /ready and /live; 0 picks a free one. Unset: there is none.")  # fmt: skip
    barnabas_relay_name: str = setting(
        "barnabas.relay.name", STRING, DEFAULT_NAME, RelayName(),
        doc="The name of the relay. Its group has this name; its topics and its transactional ids begin with it, so that one "
        "prefixed ACL covers them.")  # fmt: skip
    barnabas_relay_near_ms: int = setting(
        "barnabas.relay.near.ms", INT, MINUTE_MS, between(0, HOUR_MS),
        doc="A record that is due later than this is copied into a topic of the relay, where it waits without retention; one "
        "that is due sooner waits where it was produced.")  # fmt: skip
    barnabas_relay_partitions: int = setting(
        "barnabas.relay.partitions", INT, 16, between(1, 1_000),
        doc="Partitions of the topics that the relay creates for itself. Those that exist are used as they are.")  # fmt: skip
    barnabas_relay_replication_factor: int = setting(
        "barnabas.relay.replication.factor", INT, -1, at_least(1, also=-1),
        doc="Replicas of the topics that the relay creates; -1: three, or one a broker if there are fewer.")  # fmt: skip
    barnabas_relay_rules_interval_ms: int = setting(
        "barnabas.relay.rules.interval.ms", INT, MINUTE_MS, at_least(SECOND_MS),
        doc="Time between two checks of the rights of those who made the rules.")  # fmt: skip
    barnabas_relay_session_timeout_ms: int = setting(
        "barnabas.relay.session.timeout.ms", INT, 10 * SECOND_MS, at_least(SECOND_MS),
        doc="How long a process may be silent before the others take over what it had. The brokers bound it.")  # fmt: skip
    barnabas_relay_super_users: str = setting(
        "barnabas.relay.super.users", STRING, "", SuperUsers(),
        doc="The super.users of the brokers, separated by semicolons: rules in their names need no ACLs. Brokers do not tell "
        "them.")  # fmt: skip
    barnabas_relay_target_timeout_ms: int = setting(
        "barnabas.relay.target.timeout.ms", LONG, MINUTE_MS, at_least(0),
        doc="For how long a target may be missing, or forbidden to the relay, before its records go to the dead "
        "letters.")  # fmt: skip
    barnabas_relay_transaction_timeout_ms: int = setting(
        "barnabas.relay.transaction.timeout.ms", INT, 10 * SECOND_MS, at_least(SECOND_MS),
        doc="How long a transaction of a process that has died keeps the others from taking over what it had.")  # fmt: skip

    def __init__(self, given: Mapping[str, str]) -> None:
        """Raises ConfigError, also for an unknown name."""
        super().__init__({name: value for name, value in given.items() if name in self.definitions})
        for name in given:
            if name.startswith(PREFIX) and name not in self.definitions and not name.startswith(CLIENT_PREFIX):
                raise ConfigError(f"unknown setting {name}{did_you_mean(name, self.definitions)}")

    @property
    def acls(self) -> AclSettings:
        """What the brokers' authorizer has beside ACLs."""
        return AclSettings(
            super_users_of(self.barnabas_relay_super_users), self.barnabas_relay_allow_everyone_if_no_acl_found
        )


def require_login(given: Mapping[str, str], listener_protocol: str) -> None:
    """Refuse a relay beside a broker that could not log in. `given` are the broker's settings, and `listener_protocol` is that
    of its first listener. Raises ConfigError."""
    protocol = given.get(f"{CLIENT_PREFIX}security.protocol", listener_protocol).strip().upper()
    own = {name for name in given if name.startswith(f"{CLIENT_PREFIX}sasl.")} - {f"{CLIENT_PREFIX}sasl.mechanism"}
    if protocol.startswith("SASL") and not own:
        raise ConfigError(
            f"barnabas.relay.enable=true with {protocol} needs who the relay is to the brokers: {CLIENT_PREFIX}sasl.username "
            f"and {CLIENT_PREFIX}sasl.password, or {CLIENT_PREFIX}sasl.jaas.config"
        )
