"""Notifies the controller that a log directory of this broker has failed: a node under `/log_dir_event_notification`.

The controller then sends this broker a LeaderAndIsr, learns which replicas are offline, and elects other leaders.
Rules: retried until the node is written; one node for all directories that fail meanwhile.
Source: Kafka ReplicaManager.handleLogDirFailure, KafkaZkClient.propagateLogDirEvent; KIP-112.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from metadata.store import znodes
from metadata.store.port import StoreError

if TYPE_CHECKING:
    from metadata.store.port import Store
    from runtime.tasks import TaskScope

logger = logging.getLogger(__name__)

RETRY_PAUSE_S = 1.0


class LogDirectoryEvents:
    """Writes the notifications, by one task at a time."""

    def __init__(self, broker_id: int, store: Store, tasks: TaskScope) -> None:
        self._broker_id = broker_id
        self._store = store
        self._tasks = tasks
        self._is_pending = False

    def notify(self) -> None:
        """Start to notify the controller. Returns immediately."""
        if not self._is_pending and not self._tasks.is_closed:
            self._is_pending = True
            self._tasks.spawn(self._notify(), name="report a failed log directory")

    async def _notify(self) -> None:
        data = znodes.encode_log_dir_event(self._broker_id)
        while True:
            self._is_pending = False  # a directory that fails from now on needs another notification
            try:
                await self._store.create(znodes.log_dir_event_path(), data, sequential=True)
            except StoreError as error:
                logger.warning(
                    "failed log directory not reported to the controller yet, retrying: error=%s", type(error).__name__
                )
                self._is_pending = True
                await asyncio.sleep(RETRY_PAUSE_S)
            else:
                return
