"""What opens connections by the settings of a client, and a client of the cluster, for commands and services.

Errors: SettingsError for stores that cannot be used.
"""

from __future__ import annotations

from client.event_loop.cluster_client import AsyncClusterClient
from client.event_loop.connector import Connector, LoginTerms
from client.mechanisms import exchanges_of
from client.opening import Login
from client.settings.bearer_tokens import BearerTokens
from client.settings.files import context_of
from client.settings.values import BearerSettings, ClientSettings
from runtime.network.transport import Address, Network
from runtime.randomness import Randomness
from runtime.tls.network import TlsNetwork
from runtime.tls.stream import InPlace, Offload, TlsWork
from security.sasl.scram import NONCE_BYTES


def connector_of(
    settings: ClientSettings, network: Network, randomness: Randomness, work: Offload | None = None
) -> Connector:
    """Return what opens connections over `network`. `work` does what takes milliseconds, and reads bearer tokens; without it
    the loop waits for them. Raises SettingsError."""
    work = work or InPlace()
    if settings.tls is not None:
        network = TlsNetwork(network, context_of(settings.tls), TlsWork(work, work))
    login = settings.login
    if login is None:
        return Connector(network)
    tokens, bearer = BearerTokens(), login.bearer or BearerSettings()
    exchanges = exchanges_of(
        login, lambda: randomness.randbytes(NONCE_BYTES).hex(), lambda: tokens.current(bearer).text
    )
    return Connector(
        network, LoginTerms(Login(login.mechanism, exchanges), randomness, work, settings.request_timeout_ms)
    )


def cluster_client_of(
    settings: ClientSettings, connector: Connector, randomness: Randomness, client_id: str | None = None
) -> AsyncClusterClient:
    """Return a client with connections of its own, which the caller closes. Its id is that of the settings, unless another is
    given."""
    return AsyncClusterClient(
        connector,
        [Address(host, port) for host, port in settings.servers],
        client_id or settings.client_id,
        randomness,
        request_timeout_ms=settings.request_timeout_ms,
        api_timeout_ms=settings.api_timeout_ms,
    )
