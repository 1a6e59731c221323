"""How a command connects to a broker, by the settings of an Apache Kafka client: plain, TLS, SASL, or both.

Rules: no IO but of the files that settings name. PLAIN and SCRAM; trusted certificates in PEM. Every mistake is a ConfigError
that names the setting, and none has a secret in its text.
Source: Kafka ClientUtils, SaslConfigs, SslConfigs.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass

from broker.cluster.broker_login import BrokerLogin
from broker.cluster.sasl_network import SaslNetwork
from config.errors import ConfigError
from runtime.clock import SystemClock
from runtime.randomness import Randomness
from runtime.tls import TlsFiles, TlsNetwork, client_context
from runtime.tls_stream import InPlace
from runtime.transport import Network
from security.jaas import parse_login_modules
from security.plain import PlainClient
from security.sasl import PLAIN
from security.scram import MECHANISMS, NONCE_BYTES, SaltedPasswords, ScramClient

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
CLIENT_ID = "barnabas"
TIMEOUT_MS = 15_000


@dataclass(frozen=True, slots=True)
class AdminClientSettings:
    """`options` are those of the login module, with secrets among them."""

    protocol: str
    mechanism: str
    options: Mapping[str, str]
    trusted: str | None
    checks_host: bool

    @classmethod
    def of(cls, given: Mapping[str, str]) -> AdminClientSettings:
        """Raises ConfigError."""
        protocol = given.get("security.protocol", "PLAINTEXT").strip().upper()
        if protocol not in PROTOCOLS:
            raise ConfigError(f"security.protocol={protocol} is none of {', '.join(PROTOCOLS)}")
        mechanism = given.get("sasl.mechanism", "GSSAPI").strip()
        options: Mapping[str, str] = {}
        if protocol.startswith("SASL"):
            if mechanism not in (PLAIN, *MECHANISMS):
                raise ConfigError(f"sasl.mechanism={mechanism}: there are {', '.join((PLAIN, *MECHANISMS))}")
            options = _login_options(given)
        if given.get("ssl.truststore.type", "PEM") != "PEM":
            raise ConfigError("ssl.truststore.type: only PEM is read")
        return cls(
            protocol,
            mechanism,
            options,
            given.get("ssl.truststore.location"),
            checks_host=given.get("ssl.endpoint.identification.algorithm", "https") != "",
        )


def _login_options(given: Mapping[str, str]) -> Mapping[str, str]:
    try:
        modules = parse_login_modules(given.get("sasl.jaas.config", ""))
    except ValueError as error:
        raise ConfigError(f"sasl.jaas.config: {error}") from None
    if len(modules) != 1 or not {"username", "password"} <= modules[0].options.keys():
        raise ConfigError("sasl.jaas.config: one login module with username and password is needed")
    return modules[0].options


def client_network(network: Network, settings: AdminClientSettings, randomness: Randomness) -> Network:
    """Return the network of a client's connections. Raises ConfigError."""
    if settings.protocol.endswith("SSL"):
        try:
            context = client_context(
                TlsFiles(settings.trusted),
                min_version=ssl.TLSVersion.TLSv1_2,
                max_version=ssl.TLSVersion.TLSv1_3,
                checks_host=settings.checks_host,
            )
        except OSError as error:
            raise ConfigError(f"ssl.truststore.location={settings.trusted}: {error.strerror or error}") from error
        network = TlsNetwork(network, context)
    if settings.protocol.startswith("SASL"):
        network = SaslNetwork(
            network, _login(settings, randomness), client_id=CLIENT_ID, clock=SystemClock(), randomness=randomness,
            work=InPlace(), timeout_ms=TIMEOUT_MS,
        )  # fmt: skip
    return network


def _login(settings: AdminClientSettings, randomness: Randomness) -> BrokerLogin:
    username, password = settings.options["username"], settings.options["password"]
    if settings.mechanism == PLAIN:
        return BrokerLogin(PLAIN, lambda: PlainClient(username, password), 1)
    mechanism = MECHANISMS[settings.mechanism]
    passwords = SaltedPasswords(mechanism, password)
    return BrokerLogin(
        mechanism.name,
        lambda: ScramClient(mechanism, username, passwords, randomness.randbytes(NONCE_BYTES).hex()),
        1,
    )
