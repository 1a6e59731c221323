"""Versions of requests that every broker of the tests serves: those of Apache Kafka 3.9.1."""

from __future__ import annotations

from broker.network.newer_versions import NEWER
from protocol.schema import Request, Response


def newest_version(api: type[Request | Response] | Request) -> int:
    """Return the newest version of an API that Apache Kafka 3.9.1 serves."""
    newer = NEWER.get(api.api_key)
    return api.max_version if newer is None else newer.last_in_3_9
