"""What the share coordinator reports to the outside: one log line a fact, and counters.

Rules: what happens in ordinary operation is counted and not logged. A leader that was replaced may have many requests on
their way, and a full disk refuses each one: such lines are rare (`RareLines`).
"""

from __future__ import annotations

import logging

from coordinator.runtime.contract import ShardEvent
from coordinator.share.events import (
    ShareRecordSkipped,
    ShareStateRefused,
    ShareStatesRemoved,
    StateNotStored,
    StateWritten,
)
from coordinator.share.state import ShareKey
from protocol.errors import ErrorCode
from protocol.primitives import uuid_to_text
from runtime.clock import Clock
from runtime.rare_lines import RareLines

logger = logging.getLogger(__name__)


class ShareObserver:
    """Receives the events of all shards. `writes_count` are the changes that were asked for."""

    def __init__(self, clock: Clock) -> None:
        self.writes_count = 0
        self._lines = RareLines(clock)

    def observe(self, event: ShardEvent) -> None:
        match event:
            case StateWritten():
                self.writes_count += 1
            case ShareStateRefused(key, operation, error, recorded, requested):
                left_out = self._lines.left_out((operation, error))
                if left_out is not None:
                    logger.info(
                        "request of a replaced leader or group refused: group=%s topic_id=%s partition=%d change=%s "
                        "recorded_epoch=%d requested_epoch=%d left_out=%d error=%s",
                        *_named(key), operation, recorded, requested, left_out, error.name,
                    )  # fmt: skip
            case StateNotStored(key, operation, error):
                left_out = self._lines.left_out((operation, error))
                if left_out is not None:
                    # Of a leadership that is over the next coordinator knows what was stored.
                    is_usual = error is ErrorCode.NOT_LEADER_OR_FOLLOWER
                    logger.log(
                        logging.INFO if is_usual else logging.WARNING,
                        "state of a share partition not stored: group=%s topic_id=%s partition=%d change=%s "
                        "left_out=%d error=%s",
                        *_named(key), operation, left_out, error.name,
                    )  # fmt: skip
            case ShareStatesRemoved(partition, count):
                logger.info("states of deleted topics removed: partition=%d share_partitions=%d", partition, count)
            case ShareRecordSkipped(partition, offset, why):
                logger.warning("share state record skipped: partition=%d offset=%d reason=%s", partition, offset, why)
            case _:
                raise AssertionError(f"not an event of a share partition: {event}")


def _named(key: ShareKey) -> tuple[str, str, int]:
    return key.group_id, uuid_to_text(key.topic_id), key.partition
