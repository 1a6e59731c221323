"""Barnabas, a Kafka-compatible broker: its public interface.

    with EmbeddedBroker(topics={"orders": 3}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

The broker itself runs in a process of its own; nothing of it is imported here.
"""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from barnabas.embedded import BrokerRequestError, BrokerStartError, EmbeddedBroker, UnknownUserError

__all__ = ["BrokerRequestError", "BrokerStartError", "EmbeddedBroker", "UnknownUserError"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Load the embedded form at its first use: the command imports this module, too, and must start quickly."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from barnabas import embedded  # noqa: PLC0415  see above

    return getattr(embedded, name)
