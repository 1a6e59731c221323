"""The headers of dead letters in Spark's SQL. Pure.

A dead letter is the record as it was, with headers that say why it is one (`client.letters.headers`): reason, source topic,
partition, offset and timestamp, and the number of the attempt that failed, which counts on from one that the record has.

Rules: pure. Texts of headers are UTF-8; numbers are decimal.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.pipeline.rules import header_sql, literal
from barnabas.spark.letters import (
    ATTEMPT,
    PLACE,
    REASON,
    SOURCE_OFFSET,
    SOURCE_PARTITION,
    SOURCE_TIMESTAMP,
    SOURCE_TOPIC,
)


def attempt_sql() -> str:
    """Return the number of attempts that a record has had as SQL, 0 for a record that never failed."""
    return f"COALESCE(TRY_CAST(CAST({header_sql(ATTEMPT)} AS STRING) AS INT), 0)"


def dead_letter_headers_sql(reason: str) -> str:
    """Return the headers of a record that becomes a dead letter as SQL. `reason` is SQL, too."""
    values = {
        REASON: reason,
        SOURCE_TOPIC: "topic",
        SOURCE_PARTITION: "CAST(partition AS STRING)",
        SOURCE_OFFSET: "CAST(offset AS STRING)",
        SOURCE_TIMESTAMP: "CAST(UNIX_MILLIS(timestamp) AS STRING)",
        ATTEMPT: f"CAST({attempt_sql()} + 1 AS STRING)",
    }
    added = ", ".join(
        f"STRUCT({literal(name)} AS key, CAST({value} AS BINARY) AS value)" for name, value in values.items()
    )
    return f"CONCAT({headers_without_sql((*PLACE, ATTEMPT))}, ARRAY({added}))"


def headers_without_sql(names: Iterable[str]) -> str:
    """Return the headers of a record without those of these names as SQL."""
    left_out = ", ".join(literal(name) for name in names)
    return f"FILTER(COALESCE(headers, ARRAY()), h -> h.key NOT IN ({left_out}))"
