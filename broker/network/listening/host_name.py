"""The name of this machine, as far as a listener needs it.

Rules: blocks for as long as the look-up takes, so it is called at the start only, where a listener advertises the name.
Source: Java's InetAddress.getLocalHost().getCanonicalHostName(), which Apache Kafka registers.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from broker.composition import listener_plans
from broker.network.listening.listeners import needs_host_name

if TYPE_CHECKING:
    from config.broker import BrokerSettings

LOCAL = "localhost"


def own_host_name(settings: BrokerSettings) -> str:
    """The name for `Doors.host_name`. Raises ConfigError."""
    has_others = settings.zookeeper_connect is not None
    return socket.getfqdn() if needs_host_name(listener_plans(settings), has_others=has_others) else LOCAL
