"""How a command connects to a broker, by the settings of an Apache Kafka client: plain, TLS, SASL, or both.

Rules: no IO but of the files that settings name; `config.client_settings` reads them, for all commands.
Source: Kafka ClientUtils, SaslConfigs, SslConfigs.
"""

from __future__ import annotations

from broker.cluster.logins.broker_login import BrokerLogin
from broker.cluster.logins.sasl_network import SaslNetwork
from config.client_settings import ClusterAccess
from runtime.clock import SystemClock
from runtime.network.transport import Network
from runtime.randomness import Randomness
from runtime.tls.network import TlsNetwork
from runtime.tls.stream import InPlace
from security.plain import PlainClient
from security.sasl import PLAIN
from security.scram import MECHANISMS, NONCE_BYTES, SaltedPasswords, ScramClient

TIMEOUT_MS = 15_000


def client_network(network: Network, settings: ClusterAccess, randomness: Randomness) -> Network:
    """Return the network of a client's connections. Raises SettingsError."""
    if settings.protocol.endswith("SSL"):
        network = TlsNetwork(network, settings.ssl_context())
    if settings.mechanism is not None:
        network = SaslNetwork(
            network, _login(settings, randomness), client_id=settings.client_id, clock=SystemClock(),
            randomness=randomness, work=InPlace(), timeout_ms=TIMEOUT_MS,
        )  # fmt: skip
    return network


def _login(settings: ClusterAccess, randomness: Randomness) -> BrokerLogin:
    username, password = settings.username or "", settings.password or ""
    if settings.mechanism == PLAIN:
        return BrokerLogin(PLAIN, lambda: PlainClient(username, password), 1)
    mechanism = MECHANISMS[settings.mechanism or ""]
    passwords = SaltedPasswords(mechanism, password)
    return BrokerLogin(
        mechanism.name,
        lambda: ScramClient(mechanism, username, passwords, randomness.randbytes(NONCE_BYTES).hex()),
        1,
    )
