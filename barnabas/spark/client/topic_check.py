"""Asks the cluster whether topics are there, before Spark starts.

Errors: SourceOptionError, SettingsError; OSError when no broker answers in time, or the login is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas.spark.client.client_options import parse_client
from client.blocking.cluster_client import ClusterClient
from client.errors import LoginRefused
from protocol.errors import KafkaError
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse


def topic_codes(options: Mapping[str, str], names: Sequence[str], *, creates: bool, timeout_s: float) -> dict[str, int]:
    """The error code of each topic, 0 for one that exists; with `creates` brokers that create topics are asked to. `options`
    are those of a read. Raises what the module says."""
    limit_ms = str(int(timeout_s * 1000))
    given = {name.lower(): value for name, value in options.items()} | {
        "kafka.default.api.timeout.ms": limit_ms,
        "kafka.request.timeout.ms": limit_ms,
        "kafka.socket.connection.setup.timeout.ms": limit_ms,
    }
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=creates
    )
    try:
        with ClusterClient(parse_client(given).connection) as client:
            response = client.ask_any(request, MetadataResponse)
    except (KafkaError, LoginRefused) as error:
        raise ConnectionError(str(error)) from error
    return {topic.name: topic.error_code for topic in response.topics if topic.name is not None}
