"""The settings of a client, from a properties file with Kafka's names into the forms of the client libraries.

Strongest first: an option that names brokers, the file of `--command-config`, the profile (`--profile NAME` or
`BARNABAS_PROFILE`: the file `~/.config/barnabas/NAME.properties`), and `localhost:9092`, where `make run` starts a broker.

Rules: pure but for reading the files that settings name. The names are those of Apache Kafka's clients
(`security.protocol`, `sasl.jaas.config`, `ssl.truststore.location` ...), so that the file of a kafka-*.sh tool works;
`sasl.username` and `sasl.password` are understood as well. Stores are PEM; another type is refused with the command that
converts it. Secrets appear in no message.
Source: Kafka CommonClientConfigs, SaslConfigs, SslConfigs.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from config.sources import read_properties

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
CLIENT_ID = "barnabas"
DEFAULT_SERVER = "localhost:9092"
PROFILE_VARIABLE = "BARNABAS_PROFILE"
_SERVER = re.compile(r"(?:\w+://)?(?:\[[^]\s]+\]|[^][:/\s]+)(?::(?P<port>[0-9]{1,5}))?")
_JAAS_OPTION = re.compile(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')


class SettingsError(ValueError):
    """A setting of the client is missing or cannot be used; the text names it."""


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """How to reach a cluster, and as whom. PEM texts may be None; `checks_host` is whether names in certificates count."""

    bootstrap_servers: str
    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    username: str | None = None
    password: str | None = None
    trusted_pem: str | None = None
    certificate_pem: str | None = None
    key_pem: str | None = None
    key_password: str | None = None
    checks_host: bool = True
    client_id: str = CLIENT_ID
    timeout_ms: int = 10_000
    http_addresses: str = ""
    """Addresses of brokers' HTTP ports, with commas; `barnabas.http` of a profile."""

    @classmethod
    def of(cls, properties: Mapping[str, str], bootstrap_servers: str | None = None) -> ClusterAccess:
        """Return the settings of a properties file; `bootstrap_servers` is stronger. Raises SettingsError."""
        servers = bootstrap_servers or properties.get("bootstrap.servers")
        if not servers:
            raise SettingsError("no cluster is named: give --bootstrap-server HOST:PORT")
        _check_servers(servers)
        protocol = properties.get("security.protocol", "PLAINTEXT").upper()
        if protocol not in PROTOCOLS:
            raise SettingsError(f"security.protocol={protocol} is not one of {', '.join(PROTOCOLS)}")
        mechanism = username = password = None
        if protocol.startswith("SASL"):
            mechanism = properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "GSSAPI")).upper()
            if mechanism not in PASSWORD_MECHANISMS:
                raise SettingsError(f"sasl.mechanism={mechanism} is not one of {', '.join(PASSWORD_MECHANISMS)}")
            username, password = _credentials(properties)
        return cls(
            bootstrap_servers=servers,
            protocol=protocol,
            mechanism=mechanism,
            username=username,
            password=password,
            trusted_pem=_pem(properties, "ssl.truststore", ("ssl.truststore.certificates", "ssl.ca.pem")),
            certificate_pem=_pem(properties, "ssl.keystore", ("ssl.keystore.certificate.chain", "ssl.certificate.pem")),
            key_pem=_pem(properties, "ssl.keystore", ("ssl.keystore.key", "ssl.key.pem")),
            key_password=properties.get("ssl.key.password"),
            checks_host=properties.get("ssl.endpoint.identification.algorithm", "https").strip() != "",
            client_id=properties.get("client.id", CLIENT_ID),
            timeout_ms=_milliseconds(properties, "request.timeout.ms", 10_000),
            http_addresses=properties.get("barnabas.http", ""),
        )

    def for_admin(self) -> dict[str, Any]:
        """Return the arguments of kafka-python's admin client. Raises SettingsError."""
        arguments: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap_servers.split(","),
            "client_id": self.client_id,
            "security_protocol": self.protocol,
            "request_timeout_ms": self.timeout_ms,
            "bootstrap_timeout_ms": self.timeout_ms,
        }
        if self.mechanism is not None:
            arguments |= {
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": self.username,
                "sasl_plain_password": self.password,
            }
        if self.protocol.endswith("SSL"):
            arguments["ssl_context"] = self.ssl_context()
        return arguments

    def for_records(self) -> dict[str, Any]:
        """Return the settings of librdkafka's producer and consumer."""
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap_servers,
            "client.id": self.client_id,
            "security.protocol": self.protocol,
            "log_level": 0,  # commands report errors themselves
        }
        if self.mechanism is not None:
            settings |= {
                "sasl.mechanism": self.mechanism,
                "sasl.username": self.username,
                "sasl.password": self.password,
            }
        if self.protocol.endswith("SSL"):
            settings["ssl.endpoint.identification.algorithm"] = "https" if self.checks_host else "none"
            pems = {
                "ssl.ca.pem": self.trusted_pem,
                "ssl.certificate.pem": self.certificate_pem,
                "ssl.key.pem": self.key_pem,
                "ssl.key.password": self.key_password,
            }
            settings |= {name: value for name, value in pems.items() if value is not None}
        return settings

    def ssl_context(self) -> ssl.SSLContext:
        """Return the context of connections that use TLS. Raises SettingsError."""
        try:
            context = ssl.create_default_context(cadata=self.trusted_pem)
        except ssl.SSLError as error:
            raise SettingsError(f"ssl.truststore.location: it holds no certificate in PEM ({error.reason})") from error
        context.check_hostname = self.checks_host
        if self.certificate_pem is not None:
            _load_own(context, self.certificate_pem, self.key_pem or "", self.key_password)
        return context


def _check_servers(servers: str) -> None:
    """Raises SettingsError: one client library would take what cannot be reached, another fail."""
    for server in servers.rstrip(",").split(","):
        found = _SERVER.fullmatch(server.strip())
        if found is None or not 0 < int(found["port"] or 9092) < 1 << 16:
            raise SettingsError(f"bootstrap.servers={servers}: {server.strip()!r} is not of the form HOST:PORT")


def client_properties(command_config: str | None, profile: str | None) -> dict[str, str]:
    """Return the properties of a file or of a profile, the file is stronger. Raises SettingsError."""
    path = command_config or (profile_path(profile) if profile else None)
    if path is None:
        return {"bootstrap.servers": DEFAULT_SERVER}
    try:
        with open(path, encoding="latin-1") as file:
            properties = dict(read_properties(file.read()))
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise SettingsError(f"cannot read {path}: {error}") from error
    return {"bootstrap.servers": DEFAULT_SERVER} | properties


def profile_path(name: str) -> str:
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(home, "barnabas", f"{name}.properties")


def _load_own(context: ssl.SSLContext, certificate_pem: str, key_pem: str, password: str | None) -> None:
    """Load certificate and key, which OpenSSL takes from a file only: one that is in memory. Raises SettingsError."""
    descriptor = os.memfd_create("client-certificate")
    try:
        with os.fdopen(os.dup(descriptor), "w") as file:
            file.write(f"{certificate_pem}\n{key_pem}\n")
        try:
            context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=password or "")
        except ssl.SSLError as error:
            raise SettingsError(f"the client's certificate and key cannot be used: {error.reason}") from error
    finally:
        os.close(descriptor)


def _milliseconds(properties: Mapping[str, str], name: str, default: int) -> int:
    """Raises SettingsError."""
    text = properties.get(name, str(default))
    if not (text.isascii() and text.isdigit()):
        raise SettingsError(f"{name}={text} is no number of milliseconds")
    return int(text)


def _credentials(properties: Mapping[str, str]) -> tuple[str, str]:
    """Return user and password, of the JAAS line or under librdkafka's names. Raises SettingsError."""
    options = dict(_JAAS_OPTION.findall(properties.get("sasl.jaas.config", "")))
    username = options.get("username", properties.get("sasl.username"))
    password = options.get("password", properties.get("sasl.password"))
    if username is None or password is None:
        raise SettingsError('sasl.jaas.config must name username="..." and password="..."')
    return username, re.sub(r"\\(.)", r"\1", password)


def _pem(properties: Mapping[str, str], store: str, names: tuple[str, ...]) -> str | None:
    """Return the PEM text of a store, which is there in line or as a file. Raises SettingsError."""
    for name in names:
        if name in properties:
            return properties[name]
    location = properties.get(f"{store}.location")
    if location is None:
        return None
    store_type = properties.get(f"{store}.type", "JKS").upper()
    if store_type != "PEM" and not location.endswith(".pem"):
        raise SettingsError(
            f"{store}.type={store_type} is not read here, only PEM: `keytool -importkeystore -srckeystore {location} "
            f"-destkeystore store.p12 -deststoretype PKCS12` and `openssl pkcs12 -in store.p12 -out store.pem` convert it"
        )
    try:
        with open(location, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise SettingsError(f"{store}.location={location}: {error.strerror}") from error
