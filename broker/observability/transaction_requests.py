"""One log line for each client that asks for transactions, which this broker does not coordinate yet.

Rules: each client id is logged once, with its address; a last line says that further ones are not logged.
Invariants: at most MAX_CLIENTS client ids are kept, each truncated to MAX_CLIENT_ID_CHARS, whatever clients send.
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
    """Keeps the clients that were logged since the start of the broker."""

    def __init__(self) -> None:
        self._named: set[str] = set()

    def refused(self, api: str, context: RequestContext) -> None:
        """Log that a transactional request was refused, unless this client id was logged before."""
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
