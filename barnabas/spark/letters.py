"""The names of the headers of dead letters, for the jobs: they load no package of the server by its name."""

from __future__ import annotations

from client.letters.headers import (
    ATTEMPT,
    PLACE,
    REASON,
    SOURCE_OFFSET,
    SOURCE_PARTITION,
    SOURCE_TIMESTAMP,
    SOURCE_TOPIC,
)

__all__ = ["ATTEMPT", "PLACE", "REASON", "SOURCE_OFFSET", "SOURCE_PARTITION", "SOURCE_TIMESTAMP", "SOURCE_TOPIC"]
