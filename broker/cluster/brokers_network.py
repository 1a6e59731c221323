"""How this broker connects to other brokers: the network of their listener, whatever its security protocol.

Rules: all connections to brokers go through it: followers' fetches, the controller's requests, requests to the controller,
markers, verification. Each layer is a `Network` over another one and calls the handler's `connected` when it is ready: with
TLS after the handshake, with SASL after the authentication.
Source: Kafka ChannelBuilders.clientChannelBuilder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker.cluster.logins.sasl_network import SaslNetwork
from broker.network.listening.tls_listeners import TLS_PROTOCOLS
from runtime.tls.network import TlsNetwork

if TYPE_CHECKING:
    from broker.cluster.logins.broker_login import BrokerLogin
    from broker.dependencies import Dependencies
    from broker.network.listening.listeners import ListenerPlan
    from broker.network.listening.tls_listeners import TlsListeners
    from runtime.network.transport import Network


def brokers_network(
    dependencies: Dependencies,
    plans: Sequence[ListenerPlan],
    tls: TlsListeners,
    login: BrokerLogin | None,
    *,
    client_id: str,
    timeout_ms: int,
) -> Network:
    """Return the network for connections to the inter-broker listener of other brokers. `tls` has the certificate that this
    broker shows to them, `login` its name and password; None where the listener has no SASL. Within `timeout_ms` the other
    broker must have accepted it."""
    network, plan = dependencies.network, next(plan for plan in plans if plan.is_inter_broker)
    if plan.security_protocol in TLS_PROTOCOLS:
        secured = TlsNetwork(network, tls.brokers_context(), dependencies.tls_work)
        tls.keep_current(secured)
        network = secured
    if login is not None:
        network = SaslNetwork(
            network,
            login,
            client_id=client_id,
            clock=dependencies.clock,
            randomness=dependencies.randomness,
            work=dependencies.tls_work.handshakes,
            timeout_ms=timeout_ms,
        )
    return network
