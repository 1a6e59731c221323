"""How this broker connects to other brokers: the network of their listener, whatever its security protocol.

Rules: all connections to brokers go through it: followers' fetches, the controller's requests, requests to the controller,
markers, verification. Each layer is a `Network` over another one and calls the handler's `connected` when it is ready: with
TLS after the handshake, with SASL after the authentication.
Source: Kafka ChannelBuilders.clientChannelBuilder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.network.listeners import ListenerPlan
    from runtime.transport import Network


def brokers_network(network: Network, plans: Sequence[ListenerPlan]) -> Network:
    """Return the network for connections to the inter-broker listener of other brokers."""
    plan = next(plan for plan in plans if plan.is_inter_broker)
    assert plan.security_protocol in ("PLAINTEXT", "SASL_PLAINTEXT"), plan  # with SASL the broker is alone
    return network
