"""How this broker connects to other brokers: the network of their listener, whatever its security protocol.

Rules: all connections to brokers go through it: followers' fetches, the controller's requests, requests to the controller,
markers, verification. Each layer is a `Network` over another one and calls the handler's `connected` when it is ready: with
TLS after the handshake, with SASL after the authentication.
Source: Kafka ChannelBuilders.clientChannelBuilder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker.network.tls_listeners import TLS_PROTOCOLS
from runtime.tls import TlsNetwork

if TYPE_CHECKING:
    from broker.network.listeners import ListenerPlan
    from broker.network.tls_listeners import TlsListeners
    from runtime.tls_stream import TlsWork
    from runtime.transport import Network


def brokers_network(network: Network, plans: Sequence[ListenerPlan], tls: TlsListeners, work: TlsWork) -> Network:
    """Return the network for connections to the inter-broker listener of other brokers. `tls` has the certificate that this
    broker shows to them."""
    plan = next(plan for plan in plans if plan.is_inter_broker)
    if plan.security_protocol in TLS_PROTOCOLS:
        secured = TlsNetwork(network, tls.brokers_context(), work)
        tls.keep_current(secured)
        network = secured
    return network
