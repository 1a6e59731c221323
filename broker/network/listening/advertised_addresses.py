"""The address of a broker that a client receives: the registered one, or the local end of its own connection.

Rules: pure. Only wildcard listeners of this broker without `advertised.listeners` give the client the local address of its
connection, which it can reach, inside a container network or outside.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.network.listening.listeners import ListenerPlan, endpoint_for
from metadata.image import BrokerEndpoint, ClusterImage
from runtime.network.transport import Address


class AdvertisedAddresses:
    """Owned by the broker. Metadata, FindCoordinator, DescribeCluster and hints of the leader take addresses from it."""

    def __init__(self, broker_id: int, plans: Iterable[ListenerPlan]) -> None:
        self._broker_id = broker_id
        self._following = {plan.name: plan for plan in plans if plan.advertised is None}

    def endpoint(self, image: ClusterImage, broker_id: int, listener: str, local: Address) -> BrokerEndpoint | None:
        """Return None when the broker is not alive or has no such listener. `local` is this broker's end of the connection."""
        registered = image.endpoint(broker_id, listener)
        if registered is None or broker_id != self._broker_id or listener not in self._following:
            return registered
        address = endpoint_for(self._following[listener], Address(registered.host, registered.port), local)
        return BrokerEndpoint(address.host, address.port, registered.security_protocol)
