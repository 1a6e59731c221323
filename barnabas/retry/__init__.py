"""Process records, and try again later what fails: the client's side of retries, over confluent-kafka, on any Kafka cluster.

    from barnabas.retry import Retries

    with Retries({"bootstrap.servers": "localhost:9092", "group.id": "billing"}, ["orders"], "billing-retry") as messages:
        for message in messages:
            with message:
                bill(message.value())

A message whose `with` block raises goes to the retry topic, with the reason, the place where it failed and the number of its
attempts; nothing waits for it. The relay (`barnabas relay`) brings it back after the delays of its rule, and to the dead
letters in the end. Needs confluent-kafka: `pip install ".[cli]"` in a clone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas import private_imports

if TYPE_CHECKING:
    from barnabas.retry.retries import ReceivedMessage, Retries, UnsettledMessageError

__all__ = ["ReceivedMessage", "Retries", "UnsettledMessageError"]

private_imports.install()


def __getattr__(name: str) -> Any:
    """Load it when it is used, after the imports above are mapped."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from barnabas.retry import retries  # noqa: PLC0415  see above

    return getattr(retries, name)
