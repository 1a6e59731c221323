"""Which address a client is told for a broker: the registered one, or where it came in itself.

Rules: pure. Only our own wildcard listeners without `advertised.listeners` answer the client's local address: it works
from wherever the client stands, inside a container network or outside.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.network.listeners import ListenerPlan, endpoint_for
from metadata.image import BrokerEndpoint, ClusterImage
from runtime.transport import Address


class AdvertisedAddresses:
    """Owner: the broker. `endpoint` is asked for each broker in Metadata, FindCoordinator, DescribeCluster and hints."""

    def __init__(self, broker_id: int, plans: Iterable[ListenerPlan]) -> None:
        self._broker_id = broker_id
        self._following = {plan.name: plan for plan in plans if plan.advertised is None}

    def endpoint(self, image: ClusterImage, broker_id: int, listener: str, local: Address) -> BrokerEndpoint | None:
        """None when the broker is not alive or has no such listener. `local` is the client connection's near end."""
        registered = image.endpoint(broker_id, listener)
        if registered is None or broker_id != self._broker_id or listener not in self._following:
            return registered
        address = endpoint_for(self._following[listener], Address(registered.host, registered.port), local)
        return BrokerEndpoint(address.host, address.port, registered.security_protocol)
