"""How a command reaches a cluster, and as whom: its options and files, for records in the form of librdkafka.

Rules: for records, keys and certificates of every format become PEM, and bearer tokens a callback. What the library cannot do
is refused by name.
Source: librdkafka CONFIGURATION.md, confluent-kafka `oauth_cb`.
"""

from __future__ import annotations

import functools
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from client.settings.bearer_tokens import BearerTokens
from client.settings.command_line import DEFAULTS, client_properties
from client.settings.files import read_tls
from client.settings.parsing import parse_client, warnings_about
from client.settings.values import BearerSettings, ClientSettings, LoginSettings, SettingsError, TlsSettings

HTTP_ADDRESSES = "barnabas.http"
"""A property that a profile may have: addresses of brokers' HTTP ports, with commas."""


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """The settings of a command's clients. `warnings` are to be told once."""

    client: ClientSettings
    http_addresses: str = ""
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, properties: Mapping[str, str], bootstrap_servers: str | None = None) -> ClusterAccess:
        """Return the settings of a properties file; `bootstrap_servers` is stronger. Raises SettingsError."""
        return cls(
            parse_client(properties, DEFAULTS, servers=bootstrap_servers),
            properties.get(HTTP_ADDRESSES, ""),
            warnings_about(properties, (HTTP_ADDRESSES,)),
        )

    @classmethod
    def read(cls, command_config: str | None, profile: str | None, bootstrap_servers: str | None) -> ClusterAccess:
        """Return the settings that options of a command name. Raises SettingsError."""
        return cls.of(client_properties(command_config, profile), bootstrap_servers)

    @property
    def bootstrap_servers(self) -> str:
        return self.client.bootstrap_servers

    @property
    def timeout_ms(self) -> int:
        return self.client.request_timeout_ms

    def for_records(self) -> dict[str, Any]:
        """Return the settings of librdkafka's producer, consumer and admin client. Raises SettingsError."""
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap_servers,
            "client.id": self.client.client_id,
            "security.protocol": self.client.protocol,
            "log_level": 0,  # commands report errors themselves
        }
        login = _checked(self.client.login)
        if login is not None:
            settings["sasl.mechanism"] = login.mechanism
            if login.bearer is None:
                settings |= {"sasl.username": login.username, "sasl.password": login.password}
            else:
                settings["oauth_cb"] = functools.partial(_new_token, login.bearer)
        if self.client.tls is not None:
            settings |= _librdkafka_tls(self.client.tls)
        return settings


def _librdkafka_tls(tls: TlsSettings) -> dict[str, Any]:
    """Raises SettingsError."""
    material = read_tls(tls)
    settings: dict[str, Any] = {
        "ssl.endpoint.identification.algorithm": "https" if tls.checks_host else "none",
        "enable.ssl.certificate.verification": tls.checks_certificate,
    }
    if material.trusted is not None:
        settings["ssl.ca.pem"] = "".join(map(ssl.DER_cert_to_PEM_cert, material.trusted))
    if material.keys is not None:
        keys = material.keys.decode()
        settings |= {"ssl.certificate.pem": keys, "ssl.key.pem": keys}
    if material.ciphers is not None:
        settings["ssl.cipher.suites"] = material.ciphers
    return settings


def _checked(login: LoginSettings | None) -> LoginSettings | None:
    """Raises SettingsError."""
    if login is not None and login.is_token:
        raise SettingsError(
            "sasl.jaas.config has tokenauth=true, a delegation token, which the library for records does not take"
        )
    return login


def _new_token(bearer: BearerSettings, _config: str) -> tuple[str, float, str, dict[str, str]]:
    """Return what librdkafka wants: the token, when it ends in seconds, a name that nobody reads, and the extensions."""
    token = _tokens.current(bearer)
    return token.text, token.expires_ms / 1000, "", dict(bearer.extensions)


_tokens = BearerTokens()
"""Of this process."""
