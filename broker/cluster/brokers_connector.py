"""How this broker connects to other brokers: to their listener, whatever its security protocol.

Rules: all connections to brokers are opened by it: followers' fetches, the controller's requests, requests to the controller,
markers, verification.
Source: Kafka ChannelBuilders.clientChannelBuilder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker.network.listening.tls_listeners import TLS_PROTOCOLS
from client.event_loop.connector import Connector, LoginTerms
from runtime.tls.network import TlsNetwork

if TYPE_CHECKING:
    from broker.dependencies import Dependencies
    from broker.network.listening.listeners import ListenerPlan
    from broker.network.listening.tls_listeners import TlsListeners
    from client.opening import Login
    from runtime.network.transport import Network


def brokers_connector(
    dependencies: Dependencies,
    plans: Sequence[ListenerPlan],
    tls: TlsListeners,
    login: Login | None,
    *,
    timeout_ms: int,
) -> Connector:
    """Return what connects to the inter-broker listener of other brokers. `tls` has the certificate that this broker shows to
    them, `login` its name and password; None where the listener has no SASL. Within `timeout_ms` the other broker must have
    accepted it."""
    network: Network = dependencies.network
    plan = next(plan for plan in plans if plan.is_inter_broker)
    if plan.security_protocol in TLS_PROTOCOLS:
        secured = TlsNetwork(network, tls.brokers_context(), dependencies.tls_work)
        tls.keep_current(secured)
        network = secured
    if login is None:
        return Connector(network)
    return Connector(network, LoginTerms(login, dependencies.randomness, dependencies.tls_work.handshakes, timeout_ms))
