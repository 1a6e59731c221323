"""How a command connects to a broker, by the settings of an Apache Kafka client: plain, TLS, SASL, or both.

Source: Kafka ClientUtils, SaslConfigs, SslConfigs.
"""

from __future__ import annotations

from broker.cluster.logins.broker_login import BrokerLogin
from broker.cluster.logins.sasl_network import SaslNetwork
from client.settings.bearer_tokens import BearerTokens, LoginRefused
from client.settings.files import context_of
from client.settings.mechanisms import exchanges_of
from client.settings.values import BearerSettings, ClientSettings
from runtime.clock import SystemClock
from runtime.network.transport import Network
from runtime.randomness import Randomness
from runtime.tls.network import TlsNetwork
from runtime.tls.stream import InPlace
from security.sasl import AuthenticationFailed
from security.scram import NONCE_BYTES

TIMEOUT_MS = 15_000


def client_network(network: Network, settings: ClientSettings, randomness: Randomness) -> Network:
    """Return the network of a client's connections. Raises SettingsError."""
    login = settings.login
    if settings.tls is not None:
        network = TlsNetwork(network, context_of(settings.tls))
    if login is not None:
        bearer = login.bearer or BearerSettings()
        exchanges = exchanges_of(login, lambda: randomness.randbytes(NONCE_BYTES).hex(), lambda: _token(bearer))
        network = SaslNetwork(
            network, BrokerLogin(login.mechanism, exchanges, 1), client_id=settings.client_id, clock=SystemClock(),
            randomness=randomness, work=InPlace(), timeout_ms=TIMEOUT_MS,
        )  # fmt: skip
    return network


def _token(bearer: BearerSettings) -> str:
    """Raises AuthenticationFailed, OSError."""
    try:
        return _tokens.current(bearer).text
    except LoginRefused as error:
        raise AuthenticationFailed(str(error)) from error


_tokens = BearerTokens()
"""Of this process."""
