"""How many replicas internal and auto-created topics get. Pure.

Source: Kafka DefaultAutoTopicCreationManager; KIP-115.
"""

from __future__ import annotations

import logging
from typing import Protocol

logger = logging.getLogger(__name__)


class ReplicationPolicy(Protocol):
    """The replication factor of internal and auto-created topics."""

    def replication_factor(self, topic: str, wanted: int, live_brokers: int) -> int: ...


class StrictReplication:
    """The configured number: with too few brokers the creation fails (KIP-115)."""

    def replication_factor(self, topic: str, wanted: int, live_brokers: int) -> int:
        return wanted


class FallBackToOneReplica:
    """One replica if there are too few brokers; this is logged once."""

    def __init__(self) -> None:
        self._is_logged = False

    def replication_factor(self, topic: str, wanted: int, live_brokers: int) -> int:
        if wanted <= live_brokers or live_brokers == 0:
            return wanted
        if not self._is_logged:
            self._is_logged = True
            logger.warning(
                "internal topic gets one replica, there are too few brokers: topic=%s replication_factor=%d brokers=%d",
                topic,
                wanted,
                live_brokers,
            )
        return 1
