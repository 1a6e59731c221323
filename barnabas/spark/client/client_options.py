"""The options `kafka.*`: settings of Kafka's clients that this client knows. Pure.

Connections, TLS and logins are those of `client.settings`, under all names that are known there. The others have Kafka's names
and defaults, but for `isolation.level`: records of transactions that were aborted, or may be, are not read unless somebody asks
for them.

Rules: pure. A setting without an effect is an error that lists those that have one; a setting that would ask for more than is
built (GSSAPI, a Java class) says what there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas.spark.client.option_values import SourceOptionError, boolean, check_names, choice, integer, read
from barnabas.spark.client.settings import CLIENT_ID, SparkClientSettings
from client.settings import values
from client.settings.names import REFUSED, SAME, WITH_EFFECT, WITHOUT_EFFECT
from client.settings.parsing import parse_client as parse_connection
from client.settings.values import SettingsError

PREFIX: Final = "kafka."
OWN: Final = (
    "acks", "batch.size", "check.crcs", "compression.type", "fetch.max.bytes", "fetch.max.wait.ms", "isolation.level",
    "max.request.size", "transaction.timeout.ms",
)  # fmt: skip
"""A read takes those of a write, too, and a write those of a read: people keep one file of settings for both."""
_KNOWN: Final = [PREFIX + name for name in (*WITH_EFFECT, *OWN)]
_ALSO: Final = frozenset(PREFIX + name for name in (*SAME, *REFUSED))
_DEFAULTS: Final = values.ClientSettings(servers=(), client_id=CLIENT_ID)


def is_client_option(name: str) -> bool:
    return name.lower().startswith(PREFIX)


def is_known(name: str) -> bool:
    """Whether an option is one of this client, or another name of one."""
    return name in _KNOWN or name in _ALSO


def has_effect(name: str) -> bool:
    """Whether an option is none of those that Kafka's clients know and that have no effect on this one."""
    plain = name.lower().removeprefix(PREFIX)
    return plain in OWN or plain not in WITHOUT_EFFECT


def by_lower_name(options: Mapping[str, str]) -> dict[str, str]:
    """Options by their names in lower case. Values of `kafka.*` lose the blanks around them, as in Kafka's own clients."""
    return {name.lower(): text.strip() if is_client_option(name) else text for name, text in options.items()}


def parse_client(options: Mapping[str, str]) -> SparkClientSettings:
    """The settings among `options`, whose names are in lower case. Raises SourceOptionError."""
    names = [name for name in options if is_client_option(name)]
    for name in names:
        if not has_effect(name):
            raise SourceOptionError(f"Option {name!r} of Kafka's clients has no effect here: leave it out")
    check_names(names, _KNOWN, "Option", _ALSO)
    try:
        connection = parse_connection(options, _DEFAULTS, prefix=PREFIX)
    except SettingsError as error:
        raise SourceOptionError(str(error)) from None
    defaults = SparkClientSettings(connection)
    return SparkClientSettings(
        connection=connection,
        reads_committed=read(
            options, "kafka.isolation.level", choice, True, {"read_committed": True, "read_uncommitted": False}
        ),
        fetch_bytes=read(options, "kafka.fetch.max.bytes", integer, defaults.fetch_bytes, 1, (1 << 31) - 1),
        fetch_wait_ms=read(options, "kafka.fetch.max.wait.ms", integer, defaults.fetch_wait_ms, 0, (1 << 31) - 1),
        checks_crcs=read(options, "kafka.check.crcs", boolean, True),
    )
