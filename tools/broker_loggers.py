"""The levels of a broker's loggers, read and changed over the wire: they hold until the broker stops.

Source: KIP-412; kafka-configs.sh --entity-type broker-loggers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tools.failures import Failure, with_hint

if TYPE_CHECKING:
    from tools.cluster import Cluster

_BROKER_LOGGER = 8
_SET, _DELETE = 0, 1


def levels(cluster: Cluster, broker_id: int) -> dict[str, str]:
    """Return the level of each logger. Raises Failure, and the client's errors."""
    from kafka.protocol.admin import DescribeConfigsRequest  # noqa: PLC0415

    request = DescribeConfigsRequest(resources=[(_BROKER_LOGGER, str(broker_id), None)], include_synonyms=False)
    (result,) = _ask(cluster, request, broker_id).results
    _check(result)
    return {entry.name: entry.value for entry in result.configs}


def alter(cluster: Cluster, broker_id: int, changes: Mapping[str, str | None], *, validate_only: bool) -> None:
    """Set levels; None removes one, so that the parent's applies. Raises Failure, and the client's errors."""
    from kafka.protocol.admin import IncrementalAlterConfigsRequest  # noqa: PLC0415

    entries = [(name, _DELETE if level is None else _SET, level) for name, level in changes.items()]
    request = IncrementalAlterConfigsRequest(
        resources=[(_BROKER_LOGGER, str(broker_id), entries)], validate_only=validate_only
    )
    (result,) = _ask(cluster, request, broker_id).responses
    _check(result)


def _ask(cluster: Cluster, request: Any, broker_id: int) -> Any:
    """Ask the broker itself: no other knows its loggers."""
    known = {
        broker.id for broker in cluster.admin.list_topics(timeout=cluster.settings.timeout_ms / 1000).brokers.values()
    }
    if broker_id not in known:
        raise Failure(f"there is no broker {broker_id} in this cluster (`barnabas brokers list` shows them)")
    manager = cluster.other_admin._manager  # noqa: SLF001  the client has these messages, and hides their errors
    return manager.run(manager.send, request, broker_id)


def _check(result: Any) -> None:
    """Raises Failure."""
    if result.error_code:
        from kafka.errors import for_code  # noqa: PLC0415

        raise Failure(with_hint(str(for_code(result.error_code).message), result.error_message))
