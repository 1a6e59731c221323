"""The options `kafka.*`: settings of Kafka's clients that this client knows. Pure.

Names and defaults are Kafka's, but for `isolation.level`: records of transactions that were aborted, or may be, are not read
unless somebody asks for them.

Rules: pure. A setting that is not known is an error that lists those that are; a setting that would ask for more than is built
(a Java key store, GSSAPI) says what there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas.spark.client.option_values import (
    SourceOptionError,
    addresses,
    boolean,
    check_names,
    choice,
    integer,
    read,
)
from barnabas.spark.client.security_options import SECURITY, parse_security
from barnabas.spark.client.settings import CLIENT_ID, ClientSettings, ConnectionSettings

PREFIX: Final = "kafka."
KNOWN: Final = (
    *SECURITY, "acks", "batch.size", "bootstrap.servers", "check.crcs", "client.id", "compression.type",
    "default.api.timeout.ms", "fetch.max.bytes", "fetch.max.wait.ms", "isolation.level", "max.request.size",
    "receive.buffer.bytes", "request.timeout.ms", "retry.backoff.ms", "socket.connection.setup.timeout.ms",
    "transaction.timeout.ms",
)  # fmt: skip
"""A read takes those of a write, too, and a write those of a read: people keep one file of settings for both."""


def is_client_option(name: str) -> bool:
    return name.lower().startswith(PREFIX)


def parse_client(options: Mapping[str, str]) -> ClientSettings:
    """The settings among `options`, whose names are in lower case. Raises SourceOptionError."""
    names = [PREFIX + name for name in KNOWN]
    check_names((name for name in options if is_client_option(name)), names, "Option")
    servers = options.get("kafka.bootstrap.servers")
    if servers is None:
        raise SourceOptionError("Option 'kafka.bootstrap.servers' is missing: host:port of one or more brokers")
    defaults = ClientSettings(bootstrap=())
    timeout_ms = read(options, "kafka.default.api.timeout.ms", integer, int(defaults.api_timeout_s * 1000))
    return ClientSettings(
        bootstrap=addresses("kafka.bootstrap.servers", servers),
        connection=_connection(options),
        api_timeout_s=timeout_ms / 1000,
        retry_backoff_s=read(options, "kafka.retry.backoff.ms", integer, 100) / 1000,
        reads_committed=read(
            options, "kafka.isolation.level", choice, True, {"read_committed": True, "read_uncommitted": False}
        ),
        fetch_bytes=read(options, "kafka.fetch.max.bytes", integer, defaults.fetch_bytes, 1, (1 << 31) - 1),
        fetch_wait_ms=read(options, "kafka.fetch.max.wait.ms", integer, defaults.fetch_wait_ms, 0, (1 << 31) - 1),
        checks_crcs=read(options, "kafka.check.crcs", boolean, True),
    )


def _connection(options: Mapping[str, str]) -> ConnectionSettings:
    tls, login = parse_security(options)
    return ConnectionSettings(
        client_id=options.get("kafka.client.id", CLIENT_ID),
        timeout_s=read(options, "kafka.request.timeout.ms", integer, 30_000, 1) / 1000,
        connect_timeout_s=read(options, "kafka.socket.connection.setup.timeout.ms", integer, 10_000, 1) / 1000,
        receive_buffer_bytes=read(options, "kafka.receive.buffer.bytes", integer, 1024 * 1024, 1, (1 << 31) - 1),
        tls=tls,
        login=login,
    )
