"""The settings a transaction shard needs, under their own names and units.

Rules: an immutable value; none of the settings is dynamic in Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """Defaults are Kafka's, which has no `completion_retry_ms`: the time after which a completion that could not be
    appended is retried; and no `ids_max`: the transactional ids of one shard, beyond which new ones are refused."""

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 7 * 24 * 3_600_000
    completion_retry_ms: int = 100
    ids_max: int = 100_000
