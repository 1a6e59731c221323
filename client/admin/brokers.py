"""The brokers of a cluster, and one request to each of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from client.admin.steps import Rows, Steps, ask, everything_at, rows_of
from protocol.errors import KafkaError
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.schema import Request, Response

T = TypeVar("T")
K = TypeVar("K")


def cluster() -> Steps[MetadataResponse]:
    """Return id, controller and brokers of the cluster, without topics. Raises KafkaError."""
    response: MetadataResponse = yield from ask(MetadataRequest(topics=[], allow_auto_topic_creation=False))
    return response


def each_broker(request: Request, brokers: Iterable[int] | None = None) -> Steps[dict[int, Any]]:
    """Return for each of these brokers, or of all, its response, or the KafkaError in its place. Raises KafkaError when the
    brokers cannot be had."""
    asked = [broker.node_id for broker in (yield from cluster()).brokers] if brokers is None else list(brokers)

    def read(response: Response) -> Rows[int, Response]:
        return ((broker, 0, None, response) for broker in asked)

    return (yield from rows_of(asked, everything_at(lambda broker: broker), lambda _: request, read))


def checked(found: Mapping[K, T | KafkaError]) -> dict[K, T]:
    """Return values. Raises the first KafkaError that there is instead of one."""
    for each in found.values():
        if isinstance(each, KafkaError):
            raise each
    return dict(found)  # type: ignore[arg-type]
