"""The settings of a client: values alone, which options are parsed into and which travel to executors. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from client.settings.values import LoginSettings, TlsSettings

CLIENT_ID = "barnabas-spark"


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """How connections are made."""

    client_id: str = CLIENT_ID
    timeout_s: float = 30.0
    """How long a response may take (request.timeout.ms)."""
    connect_timeout_s: float = 10.0
    """How long connecting may take (socket.connection.setup.timeout.ms)."""
    first_answer_timeout_s: float | None = None
    """How long connecting may take, and then the first response of the new connection, when that is less. None: no less."""
    receive_buffer_bytes: int = 1024 * 1024
    tls: TlsSettings | None = None
    """None: nothing is encrypted."""
    login: LoginSettings | None = None
    """None: nobody asks who this client is, or its certificate says it."""


@dataclass(frozen=True, slots=True)
class SparkClientSettings:
    """Where the cluster is, and how long to try."""

    bootstrap: tuple[tuple[str, int], ...]
    connection: ConnectionSettings = field(default_factory=ConnectionSettings)
    api_timeout_s: float = 60.0
    """How long to ask again (default.api.timeout.ms)."""
    retry_backoff_s: float = 0.1
    reads_committed: bool = True
    """Isolation level read_committed."""
    fetch_bytes: int = 16 * 1024 * 1024
    """Of one response (fetch.max.bytes); the first batch comes whole, however large it is."""
    fetch_wait_ms: int = 500
    checks_crcs: bool = True
