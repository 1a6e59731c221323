"""What a heartbeat of a share group has to be like, and whether it comes from a member that the group knows in this epoch.

Rules: no IO. Every function raises a KafkaError with the text that Apache Kafka 4.3 gives, and returns otherwise.
Source: Kafka GroupCoordinatorService.throwIfShareGroupHeartbeatRequestIsInvalid, GroupMetadataManager.throwIfShareGroup...
"""

from __future__ import annotations

from coordinator.group.assigned.validation import check_text, invalid_request
from coordinator.group.share.group import ShareGroup
from coordinator.group.share.member import JOIN_EPOCH, LEAVE_EPOCH, ShareAssignment
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest


def check_heartbeat(request: ShareGroupHeartbeatRequest) -> None:
    """Check a request by itself. Raises: KafkaError (INVALID_REQUEST)."""
    check_text(request.member_id, "MemberId")
    check_text(request.group_id, "GroupId")
    check_text(request.rack_id, "RackId")
    if request.member_epoch == JOIN_EPOCH:
        if not request.subscribed_topic_names:
            raise invalid_request("SubscribedTopicNames must be set in first request.")
    elif request.member_epoch < LEAVE_EPOCH:
        raise invalid_request("MemberEpoch is invalid.")


def check_epoch(current: ShareAssignment, received: int) -> None:
    """Check the epoch that a member sends. That before its present one is allowed: it may not have got the last response.

    Raises: KafkaError (FENCED_MEMBER_EPOCH).
    """
    epoch, previous = current.member_epoch, current.previous_epoch
    if received in (JOIN_EPOCH, epoch, previous):
        return
    if received > epoch:
        problem = f"a greater member epoch ({received}) than the one known by the group coordinator ({epoch})."
    else:
        problem = (
            f"a smaller member epoch ({received}) than the one known by the group coordinator ({epoch}), and it does not "
            f"match the previous member epoch ({previous})."
        )
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has {problem} The member must abandon all its partitions and rejoin.",
    )


def check_empty(group: ShareGroup) -> None:
    """Raises: KafkaError (NON_EMPTY_GROUP)."""
    if group.subscriptions:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
