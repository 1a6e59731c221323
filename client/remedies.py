"""What a client does about an error code: one table. Pure.

    FAIL                it stays: whoever asked is told
    RETRY               the same request, to the same broker, after a pause
    REFRESH_METADATA    ask for the metadata of the topic first: another broker leads the partition, or it is not known here yet
    FIND_COORDINATOR    ask for the coordinator first
    FIND_CONTROLLER     ask for the controller first

Rules: whether an error passes is `protocol.errors.ErrorCode.retriable`.
Source: Kafka Errors, RetriableException, InvalidMetadataException; CoordinatorStrategy, KafkaAdminClient.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from protocol.errors import ErrorCode


class Remedy(Enum):
    NONE = auto()
    """There is no error."""
    FAIL = auto()
    RETRY = auto()
    REFRESH_METADATA = auto()
    FIND_COORDINATOR = auto()
    FIND_CONTROLLER = auto()


_FIRST: Final = {
    **dict.fromkeys(
        (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.REPLICA_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION, ErrorCode.KAFKA_STORAGE_ERROR,
            ErrorCode.LISTENER_NOT_FOUND, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.INCONSISTENT_TOPIC_ID,
        ),
        Remedy.REFRESH_METADATA,
    ),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Remedy.FIND_COORDINATOR,
    ErrorCode.NOT_COORDINATOR: Remedy.FIND_COORDINATOR,
    ErrorCode.NOT_CONTROLLER: Remedy.FIND_CONTROLLER,
}  # fmt: skip
"""What comes before another attempt, where it is more than a pause."""


def remedy_of(code: int) -> Remedy:
    """Return what `code` calls for; one that nobody knows stays."""
    if code == ErrorCode.NONE:
        return Remedy.NONE
    known = ErrorCode.of(code)
    return _FIRST.get(known, Remedy.RETRY) if known.retriable else Remedy.FAIL
