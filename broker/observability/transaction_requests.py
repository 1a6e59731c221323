"""One log line for each client that asks for transactions, which no broker of this kind coordinates yet.

Rules: each client id is named once, with the address it came from; a line says when no further ones are named.
Invariants: at most MAX_CLIENTS client ids are remembered, each cut to MAX_CLIENT_ID_CHARS, whatever clients send.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.network.request_context import RequestContext

logger = logging.getLogger(__name__)

MAX_CLIENTS = 1_000
MAX_CLIENT_ID_CHARS = 200


class TransactionRequests:
    """Remembers which clients were named since the start of the broker."""

    def __init__(self) -> None:
        self._named: set[str] = set()

    def refused(self, api: str, context: RequestContext) -> None:
        """Log that a transactional request was refused, unless this client id was named before."""
        client_id = (context.client_id or "")[:MAX_CLIENT_ID_CHARS]
        if client_id in self._named or len(self._named) >= MAX_CLIENTS:
            return
        self._named.add(client_id)
        peer = context.connection.peer
        logger.warning(
            "client asks for a transaction, and transactions are not coordinated yet: client_id=%r "
            "address=%s:%d api=%s",
            client_id,
            peer.host,
            peer.port,
            api,
        )
        if len(self._named) == MAX_CLIENTS:
            logger.warning("further clients that ask for a transaction are not logged: clients=%d", MAX_CLIENTS)
