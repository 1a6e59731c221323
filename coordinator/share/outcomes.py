"""The outcome of one operation on one share partition, and Kafka's texts of the errors. Pure.

Source: Kafka ShareCoordinatorShard, ShareCoordinatorService, CoordinatorOperationExceptionHelper.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from coordinator.share.state import Snapshot
from protocol.errors import ErrorCode

NEGATIVE_PARTITION = "The partition id cannot be a negative number."
WRITE_UNINITIALIZED = "Write operation on uninitialized share partition not allowed."
READ_UNINITIALIZED = "Read operation on uninitialized share partition not allowed."
NOT_AVAILABLE = "Share coordinator is not available."

_NOT_AVAILABLE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
_NOT_COORDINATOR = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR})
_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE})


class ShareOperation(Enum):
    """What is done with the state of a share partition; the value is Kafka's text."""

    INITIALIZE = "initialize share group state"
    READ = "read share group state"
    SUMMARY = "read share group state summary"
    WRITE = "write share group state"
    DELETE = "delete share group state"


class ShareOutcome(NamedTuple):
    """`snapshot` is the state that a read found, None for one that found none, and for other operations."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    snapshot: Snapshot | None = None


DONE = ShareOutcome()


def refused(error: ErrorCode, message: str | None = None) -> ShareOutcome:
    """Return an outcome with an error; without a `message` of its own it has that of the code."""
    return ShareOutcome(error, error.message if message is None else message)


def not_done(operation: ShareOperation, cause: ErrorCode) -> ShareOutcome:
    """Return the outcome of an operation that could not be run, or whose records could not be stored."""
    error = cause
    if cause is ErrorCode.NETWORK_EXCEPTION:
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    elif cause in _NOT_AVAILABLE:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    elif cause in _NOT_COORDINATOR:
        error = ErrorCode.NOT_COORDINATOR
    elif cause in _TOO_LARGE:
        error = ErrorCode.UNKNOWN_SERVER_ERROR
    return ShareOutcome(error, f"Unable to {operation.value}: {cause.message}")
