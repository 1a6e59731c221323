"""The brokers of a cluster, and one request to each of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from client.admin.steps import Rows, Steps, ask, everything_at, rows_of
from protocol.errors import KafkaError
from protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.schema import Request, Response
from security.access import Operation

T = TypeVar("T")
K = TypeVar("K")


def cluster() -> Steps[MetadataResponse]:
    """Return id, controller and brokers of the cluster, without topics. Raises KafkaError."""
    response: MetadataResponse = yield from ask(MetadataRequest(topics=[], allow_auto_topic_creation=False))
    return response


def may_describe_cluster() -> Steps[bool]:
    """Return whether this user may describe the cluster, which sizes of logs belong to. Raises KafkaError; a broker before 2.8
    does not know the question."""
    response: DescribeClusterResponse = yield from ask(
        DescribeClusterRequest(include_cluster_authorized_operations=True)
    )
    return bool(response.cluster_authorized_operations >> Operation.DESCRIBE & 1)


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
