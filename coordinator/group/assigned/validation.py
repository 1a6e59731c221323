"""Checks that are the same in all groups with broker-side assignment.

Rules: no IO. Every function raises a KafkaError with the text that Apache Kafka 4.3 gives, and returns otherwise.
Source: Kafka GroupCoordinatorService.throwIfEmptyString, ConsumerGroup and ShareGroup.getOrMaybeCreateMember.
"""

from __future__ import annotations

from typing import Any

from coordinator.group.assigned.group import AssignedGroup
from protocol.errors import ErrorCode, KafkaError


def check_text(text: str | None, what: str) -> None:
    """Raises: KafkaError (INVALID_REQUEST) for a text of blanks alone."""
    if text is not None and not text.strip():
        raise invalid_request(f"{what} can't be empty.")


def invalid_request(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def check_known(group: AssignedGroup[Any, Any], member_id: str) -> None:
    """Raises: KafkaError (UNKNOWN_MEMBER_ID)."""
    if member_id not in group.subscriptions:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")


def check_room(group: AssignedGroup[Any, Any], member_id: str, max_size: int) -> None:
    """Raises: KafkaError (GROUP_MAX_SIZE_REACHED) for a new member of a group that is full."""
    if len(group.subscriptions) >= max_size and (not member_id or member_id not in group.subscriptions):
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The {group.kinds.name} group has reached its maximum capacity of {max_size} members.",
        )
