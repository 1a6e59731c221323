"""From given settings to their values. Pure.

Strict where a slip would make the client another one: what cannot be used, and a login or a store without a security protocol,
is refused. An unknown name has no effect, and a warning that names the nearest one.
Source: Kafka CommonClientConfigs, ClientUtils; librdkafka CONFIGURATION.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from client.settings.given import Given
from client.settings.logins import parse_login
from client.settings.names import LOGIN, STORES, is_known, nearest
from client.settings.tls import parse_tls
from client.settings.values import ClientSettings, SettingsError
from config.providers import is_of_providers

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SERVERS, PROTOCOL = "bootstrap.servers", "security.protocol"
DEFAULT_PORT = 9092
_SERVER = re.compile(r"(?:\w+://)?(?:\[(?P<v6>[^]\s]+)\]|(?P<host>[^][:/\s]+))(?::(?P<port>[0-9]{1,5}))?")
_INT_MAX = (1 << 31) - 1


def parse_client(
    properties: Mapping[str, str],
    defaults: ClientSettings | None = None,
    *,
    servers: str | None = None,
    prefix: str = "",
    needs_user: bool = True,
) -> ClientSettings:
    """Return the settings among `properties`, each of whose names has `prefix`. `servers` comes before those that they name.
    Without `needs_user` the login may be a mechanism alone. Raises SettingsError."""
    given = Given(properties, prefix)
    usual = defaults or ClientSettings(servers=())
    protocol = _protocol(given)
    reconnect_ms = given.number("reconnect.backoff.ms", usual.reconnect_backoff_ms)
    servers = servers or given.text(SERVERS)
    if servers is None and not usual.servers:
        raise SettingsError(f"{given.shown(SERVERS)} is missing: HOST:PORT of one or more brokers")
    return replace(
        usual,
        servers=usual.servers if servers is None else addresses(given.shown(SERVERS), servers),
        client_id=given.text("client.id") or usual.client_id,
        tls=parse_tls(given) if protocol.endswith("SSL") else None,
        login=parse_login(given, needs_user=needs_user) if protocol.startswith("SASL") else None,
        request_timeout_ms=given.number("request.timeout.ms", usual.request_timeout_ms, 1),
        connect_timeout_ms=given.number("socket.connection.setup.timeout.ms", usual.connect_timeout_ms, 1),
        api_timeout_ms=given.number("default.api.timeout.ms", usual.api_timeout_ms),
        retry_backoff_ms=given.number("retry.backoff.ms", usual.retry_backoff_ms),
        retry_backoff_max_ms=given.number("retry.backoff.max.ms", usual.retry_backoff_max_ms),
        reconnect_backoff_ms=reconnect_ms,
        reconnect_backoff_max_ms=given.number(
            "reconnect.backoff.max.ms",
            reconnect_ms if given.has("reconnect.backoff.ms") else usual.reconnect_backoff_max_ms,
        ),
        receive_buffer_bytes=given.number("receive.buffer.bytes", usual.receive_buffer_bytes, 1, _INT_MAX),
    )


def addresses(setting: str, text: str) -> tuple[tuple[str, int], ...]:
    """Return the hosts and ports of "host:port,host:port"; an IPv6 address is in brackets. Raises SettingsError."""
    found = []
    for word in text.rstrip().rstrip(",").split(","):
        match = _SERVER.fullmatch(word.strip())
        port = DEFAULT_PORT if match is None or match["port"] is None else int(match["port"])
        if match is None or not 0 < port < 1 << 16:
            raise SettingsError(f"{setting}={text}: {word.strip()!r} is not of the form HOST:PORT")
        found.append((match["v6"] or match["host"], port))
    return tuple(dict.fromkeys(found))


def warnings_about(properties: Mapping[str, str], also: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the warnings about properties that have no effect: unknown names, but for those in `also`, and
    settings of a security that the protocol does not have."""
    found = []
    for name in properties:
        if not (is_known(name) or name in also or is_of_providers(name)):
            near = nearest(name)
            found.append(f"unknown property {name}" + (f" (is {near} meant?)" if near else ""))
    protocol = properties.get(PROTOCOL, "").strip().upper()
    given = Given(properties)
    for names, is_used in ((STORES, protocol.endswith("SSL")), (LOGIN, protocol.startswith("SASL"))):
        unused = given.first_of(names)
        if unused is not None and not is_used:
            found.append(f"{unused} has no effect with {PROTOCOL}={protocol}")
    return tuple(found)


def _protocol(given: Given) -> str:
    protocol = given.choice(PROTOCOL, PROTOCOLS)
    if protocol is None:
        for names, valid in ((STORES, "SSL or SASL_SSL"), (LOGIN, "SASL_SSL or SASL_PLAINTEXT")):
            unused = given.first_of(names)
            if unused is not None:
                raise SettingsError(f"{unused} needs {given.shown(PROTOCOL)}={valid}")
    return protocol or PROTOCOLS[0]
