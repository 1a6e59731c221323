"""Warnings about what a client does wrong again and again: one line for each client, not for each request. Pure.

Rules: a client is its address and client id. At most CLIENTS_MAX clients are remembered. A client is forgotten for a new one
only when its warning is an hour old; until then the requests of new clients are counted instead. So memory is bounded, and so
are the lines that clients with ever new names can cause.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.network.connections.client_connection import RequestFacts
    from runtime.clock import Clock

logger = logging.getLogger(__name__)

CLIENTS_MAX = 1000
REMEMBERED_MS = 3_600_000
NAME_CHARACTERS_MAX = 256
"""A longer name, which only a hostile client has, is cut."""


class ClientWarnings:
    """One object for one kind of mistake."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # When each client was warned about, in monotonic milliseconds, the oldest first.
        self._warned_ms: dict[tuple[str, str | None], int] = {}
        self._hidden_count = 0

    def unserved_group_protocol(self, context: RequestFacts, group: str) -> None:
        """A member of a group speaks the protocol of KIP-848, which this broker refuses."""
        if not self._is_first(context):
            return
        software = "unknown" if context.software is None else "/".join(context.software)
        logger.warning(
            "group protocol of KIP-848 not served: group=%s client_id=%r software=%s address=%s listener=%s resolution=%s",
            group[:NAME_CHARACTERS_MAX],
            (context.client_id or "")[:NAME_CHARACTERS_MAX],
            software[:NAME_CHARACTERS_MAX],
            context.client_host,
            context.listener,
            "set group.protocol=classic for this consumer",
        )

    def _is_first(self, context: RequestFacts) -> bool:
        """Return whether there is a line for this client; it is remembered then."""
        client = context.client_host, context.client_id and context.client_id[:NAME_CHARACTERS_MAX]
        if client in self._warned_ms:
            return False
        now_ms = self._clock.monotonic_ms()
        if len(self._warned_ms) == CLIENTS_MAX:
            oldest = next(iter(self._warned_ms))
            if now_ms - self._warned_ms[oldest] < REMEMBERED_MS:
                self._hidden_count += 1
                return False
            del self._warned_ms[oldest]
            if self._hidden_count:
                logger.warning(
                    "more clients use the group protocol of KIP-848, not shown: requests=%d", self._hidden_count
                )
                self._hidden_count = 0
        self._warned_ms[client] = now_ms
        return True
