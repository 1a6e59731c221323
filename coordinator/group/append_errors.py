"""The error codes that clients get when the records of a group could not be appended.

Rules: values only.
Source: Kafka GroupMetadataManager (conversion of append errors), CoordinatorOperationExceptionHelper.
"""

from __future__ import annotations

from protocol.errors import ErrorCode

_NOT_AVAILABLE = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND}
)
_NOT_COORDINATOR = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR})
# The coordinator of a transaction could not be asked: this code makes clients of every version retry without a new lookup.
_NOT_VERIFIED = ErrorCode.NETWORK_EXCEPTION
_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE})


def group_append_error(error: ErrorCode) -> ErrorCode:
    """The error code of JoinGroup and SyncGroup when group metadata could not be stored."""
    if error in _NOT_AVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in _NOT_COORDINATOR:
        return ErrorCode.NOT_COORDINATOR
    if error is ErrorCode.REQUEST_TIMED_OUT:
        return ErrorCode.REBALANCE_IN_PROGRESS
    if error in _TOO_LARGE:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return error


def offset_append_error(error: ErrorCode) -> ErrorCode:
    """The error code of a commit or deletion when its records could not be stored, or its transaction not be verified."""
    if error is _NOT_VERIFIED:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if error in _NOT_AVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in _NOT_COORDINATOR:
        return ErrorCode.NOT_COORDINATOR
    if error in _TOO_LARGE:
        return ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    return error


def consumer_append_error(error: ErrorCode) -> ErrorCode:
    """The error code of ConsumerGroupHeartbeat when the records of the group could not be stored."""
    if error in _NOT_AVAILABLE or error is ErrorCode.REQUEST_TIMED_OUT:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in _NOT_COORDINATOR:
        return ErrorCode.NOT_COORDINATOR
    return ErrorCode.UNKNOWN_SERVER_ERROR if error in _TOO_LARGE else error
