"""Logs a leader's refusals of its followers: one line for each reason, however many partitions it concerns.

After an election or a creation it may concern all of them, because leader and follower are notified at different moments: that
is over with the next attempt.

Rules: the fetcher notes refusals while it processes a response, and logs them at its end. What is usual for a moment is a line
at DEBUG; when the same partition is refused again for the same reason, at INFO.
Bounds: of each reason a count and the first partition are kept, and the first one of the time before.
"""

from __future__ import annotations

import logging

from protocol.errors import ErrorCode
from protocol.topic_partition import TopicPartition
from replication.followers.follower import Step, Stopped

logger = logging.getLogger(__name__)

_USUAL = frozenset(
    (
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
)
"""Between two notifications of one change."""


class Refusals:
    """The refusals of one source broker."""

    def __init__(self, source_id: int) -> None:
        self._source_id = source_id
        # (requested step, its error): how often, and the first partition.
        self._noted: dict[tuple[type[Step], ErrorCode], tuple[int, TopicPartition]] = {}
        self._seen: dict[tuple[type[Step], ErrorCode], TopicPartition] = {}

    def note(self, key: TopicPartition, asked: Step, error: ErrorCode) -> None:
        """Count an error that the leader returned for `asked`. `Stopped`: nothing is requested until the next assignment."""
        count, first = self._noted.get((type(asked), error), (0, key))
        self._noted[type(asked), error] = (count + 1, first)

    def log(self) -> None:
        if not self._noted:
            return
        noted, self._noted = self._noted, {}
        for (asked, error), (count, first) in noted.items():
            is_usual = error in _USUAL and self._seen.get((asked, error)) != first
            self._seen[asked, error] = first
            if asked is not Stopped:
                logger.log(
                    logging.DEBUG if is_usual else logging.INFO,
                    "leader refused requests of a follower: broker=%d step=%s partitions=%d example=%s-%d error=%s",
                    self._source_id, asked.__name__, count, *first, error.name,
                )  # fmt: skip
                continue
            # A leader in a later epoch is usual: its LeaderAndIsr came first, and the follower's is on its way.
            logger.log(
                logging.DEBUG if error is ErrorCode.FENCED_LEADER_EPOCH else logging.ERROR,
                "replica fetching stopped until the next LeaderAndIsr: broker=%d partitions=%d "
                "example=%s-%d error=%s",
                self._source_id, count, *first, error.name,
            )  # fmt: skip
