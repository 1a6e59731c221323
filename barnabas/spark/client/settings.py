"""The settings of the source and the sink: values alone, which options are parsed into and which travel to executors. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from client.settings.values import ClientSettings

CLIENT_ID = "barnabas-spark"


@dataclass(frozen=True, slots=True)
class SparkClientSettings:
    """How the cluster is reached, and how records are read."""

    connection: ClientSettings
    reads_committed: bool = True
    """Isolation level read_committed."""
    fetch_bytes: int = 16 * 1024 * 1024
    """Of one response (fetch.max.bytes); the first batch comes whole, however large it is."""
    fetch_wait_ms: int = 500
    checks_crcs: bool = True
