"""What a heartbeat has to be like, and whether it comes from a member that the group knows in this epoch.

Rules: no IO. Every function raises a KafkaError with the text that Apache Kafka 4.3 gives, and returns otherwise; the order of
the checks matters, because a client gets the first error.
Source: Kafka GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid, GroupMetadataManager.throwIf...,
ConsumerGroup.validateOffsetCommit and validateOffsetFetch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from coordinator.group.assigned.topics import GroupTopics
from coordinator.group.assigned.validation import check_known, check_text, invalid_request
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    CurrentAssignment,
    PartitionEpochs,
)
from coordinator.group.consumer.reconciliation import Reported
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.topic_partition import TopicPartition

# From this version on the client makes the member's id (KIP-1082).
MEMBER_ID_OF_CLIENT_SINCE = 1
# From this version on OffsetCommit has member epochs.
COMMIT_WITH_EPOCH_SINCE = 9

_REJOIN = "The member must abandon all its partitions and rejoin."


def check_heartbeat(request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: Sequence[str]) -> None:
    """Check a request by itself. Raises: KafkaError (INVALID_REQUEST, UNSUPPORTED_ASSIGNOR)."""
    epoch = request.member_epoch
    if api_version >= MEMBER_ID_OF_CLIENT_SINCE or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH:
        check_text(request.member_id, "MemberId")
    check_text(request.group_id, "GroupId")
    check_text(request.instance_id, "InstanceId")
    check_text(request.rack_id, "RackId")
    if epoch == JOIN_EPOCH:
        if request.rebalance_timeout_ms == -1:
            raise invalid_request("RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            raise invalid_request("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise invalid_request(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
            )
    elif epoch == STATIC_LEAVE_EPOCH:
        if request.instance_id is None:
            raise invalid_request("InstanceId can't be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise invalid_request("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def check_epoch(current: CurrentAssignment, received: int, reported: Reported) -> None:
    """Check the epoch that a member sends. That before its present one is allowed when it reports no more than it owns: it may
    not have got the last response. Raises: KafkaError (FENCED_MEMBER_EPOCH)."""
    epoch = current.member_epoch
    if received in (JOIN_EPOCH, epoch):
        return
    if received < epoch and received == current.previous_epoch and _is_part_of(reported, current.assigned):
        return
    size = "greater" if received > epoch else "smaller"
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {size} member epoch ({received}) than the one known by the group coordinator "
        f"({epoch}). {_REJOIN}",
    )


def check_instance_known(owner: str | None, instance_id: str) -> str:
    """The member that has the instance id. Raises: KafkaError (UNKNOWN_MEMBER_ID)."""
    if owner is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    return owner


def check_instance_owner(owner: str, member_id: str, instance_id: str) -> None:
    """Raises: KafkaError (FENCED_INSTANCE_ID) when another member has the instance id."""
    if owner != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {owner}.",
        )


def check_instance_released(group: ConsumerGroup, owner: str, member_id: str, instance_id: str) -> None:
    """Raises: KafkaError (UNRELEASED_INSTANCE_ID) unless `owner`, which has the instance id, has left for a while."""
    if group.current(owner).member_epoch != STATIC_LEAVE_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id is "
            f"owned by {owner} member.",
        )


def check_commit(
    group: ConsumerGroup,
    topics: GroupTopics,
    member_id: str,
    instance_id: str | None,
    received: int,
    places: Iterable[TopicPartition],
    api_version: int,
    *,
    is_transactional: bool,
) -> None:
    """Check a commit of `places`. A member may commit in an epoch that is over what it has owned since that epoch; without
    members anybody may who claims no epoch. `api_version` is that of OffsetCommit.

    Raises: KafkaError (UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, UNSUPPORTED_VERSION; ILLEGAL_GENERATION for a classic member).
    """
    if received < 0 and not group.subscriptions:
        return
    if is_transactional and received == -1 and not member_id and instance_id is None:
        return
    check_known(group, member_id)
    is_classic = group.subscriptions[member_id].classic is not None
    if not is_transactional and not is_classic and api_version < COMMIT_WITH_EPOCH_SINCE:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "OffsetCommit version 9 or above must be used by members using the consumer group protocol",
        )
    current = group.current(member_id)
    if received == current.member_epoch:
        return
    stale = ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH
    noun = "generation id" if is_classic else "member epoch"
    if received > current.member_epoch:
        raise KafkaError(
            stale, f"Received {noun} {received} is newer than current member epoch {current.member_epoch}."
        )
    for name, partition in places:
        topic = topics.names().get(name)
        epoch = None if topic is None else current.epoch_of(topic.topic_id, partition)
        if epoch is None:
            raise KafkaError(stale, f"Partition {name}-{partition} is not assigned or pending revocation for member.")
        if received < epoch:
            raise KafkaError(
                stale,
                f"Received {noun} {received} is older than assignment epoch {epoch} for partition {name}-{partition}.",
            )


def check_fetch(group: ConsumerGroup, member_id: str | None, received: int) -> None:
    """Check who fetches offsets. Raises: KafkaError (UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, ILLEGAL_GENERATION)."""
    if member_id is None and received < 0:
        return
    check_known(group, member_id or "")
    epoch = group.current(member_id or "").member_epoch
    if received != epoch:
        is_classic = group.subscriptions[member_id or ""].classic is not None
        raise KafkaError(
            ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH,
            f"The received {'generation id' if is_classic else 'member epoch'} {received} does not match the expected "
            f"member epoch {epoch}.",
        )


def _is_part_of(reported: Reported, assigned: PartitionEpochs) -> bool:
    if reported is None:
        return False
    return all(
        topic_id in assigned and all(partition in assigned[topic_id] for partition in partitions)
        for topic_id, partitions in reported.items()
    )
