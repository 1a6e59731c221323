"""Settings that librdkafka has no call for: the dynamic settings of all brokers, and the levels of a broker's loggers, which
hold until it stops.

Rules: the levels are known to the broker itself, all brokers' settings to any.
Source: KIP-226, KIP-412; kafka-configs.sh --entity-type brokers --entity-default, --entity-type broker-loggers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tools.failures import Failure, with_hint

if TYPE_CHECKING:
    from tools.cluster import Cluster

BROKER, BROKER_LOGGER = 4, 8
"""Types of resources on the wire."""
_SET, _DELETE = 0, 1
_ALL_BROKERS = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """As librdkafka's client has them. `source` is a number of ConfigSource; the value of a sensitive one is None."""

    name: str
    value: str | None
    source: int
    is_read_only: bool
    is_sensitive: bool


def levels(cluster: Cluster, broker_id: int) -> dict[str, str]:
    """Return the level of each logger. Raises Failure, and the client's errors."""
    return {entry.name: entry.value for entry in _described(cluster, BROKER_LOGGER, str(broker_id), broker_id)}


def alter_levels(cluster: Cluster, broker_id: int, changes: Mapping[str, str | None], *, validate_only: bool) -> None:
    """Set levels; None removes one, so that the parent's applies. Raises Failure, and the client's errors."""
    _alter(cluster, (BROKER_LOGGER, str(broker_id)), changes, broker_id, validate_only=validate_only)


def broker_defaults(cluster: Cluster) -> list[Setting]:
    """Return the dynamic settings of all brokers, by name. Raises Failure, and the client's errors."""
    found = [
        Setting(entry.name, entry.value, entry.config_source, entry.read_only, entry.is_sensitive)
        for entry in _described(cluster, BROKER, _ALL_BROKERS, None)
    ]
    return sorted(found, key=lambda each: each.name)


def alter_broker_defaults(cluster: Cluster, changes: Mapping[str, str | None], *, validate_only: bool) -> None:
    """Set them; None removes one. Raises Failure, and the client's errors."""
    _alter(cluster, (BROKER, _ALL_BROKERS), changes, None, validate_only=validate_only)


def _described(cluster: Cluster, kind: int, name: str, broker_id: int | None) -> list[Any]:
    from kafka.protocol.admin import DescribeConfigsRequest  # noqa: PLC0415

    request = DescribeConfigsRequest(resources=[(kind, name, None)], include_synonyms=False)
    (result,) = _ask(cluster, request, broker_id).results
    _check(result)
    return list(result.configs)


def _alter(
    cluster: Cluster,
    resource: tuple[int, str],
    changes: Mapping[str, str | None],
    broker_id: int | None,
    *,
    validate_only: bool,
) -> None:
    from kafka.protocol.admin import IncrementalAlterConfigsRequest  # noqa: PLC0415

    entries = [(name, _DELETE if value is None else _SET, value) for name, value in changes.items()]
    request = IncrementalAlterConfigsRequest(resources=[(*resource, entries)], validate_only=validate_only)
    (result,) = _ask(cluster, request, broker_id).responses
    _check(result)


def _ask(cluster: Cluster, request: Any, broker_id: int | None) -> Any:
    """Ask this broker, or any. Raises Failure for one that is not there."""
    known = {
        broker.id for broker in cluster.admin.list_topics(timeout=cluster.settings.timeout_ms / 1000).brokers.values()
    }
    if broker_id is not None and broker_id not in known:
        raise Failure(f"there is no broker {broker_id} in this cluster (`barnabas brokers list` shows them)")
    manager = cluster.other_admin._manager  # noqa: SLF001  the client has these messages, and hides their errors
    return manager.run(manager.send, request, broker_id)


def _check(result: Any) -> None:
    """Raises Failure."""
    if result.error_code:
        from kafka.errors import for_code  # noqa: PLC0415

        raise Failure(with_hint(str(for_code(result.error_code).message), result.error_message))
