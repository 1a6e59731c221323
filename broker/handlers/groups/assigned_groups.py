"""What the handlers of consumer groups and share groups have in common: whether share groups are served, and the rights on
topics that members name or have.

Source: Kafka KafkaApis.handleConsumerGroupHeartbeat, handleShareGroupHeartbeat, handleConsumerGroupDescribe,
handleShareGroupDescribe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from broker.handlers.authorized_operations import authorized_operations
from broker.network.request_context import RequestContext, Rights
from protocol.errors import ErrorCode, KafkaError
from security.access import ResourceType

MEMBER_ID_UNITS_MAX = 36
"""In a share group; units of UTF-16."""
HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


class DescribedGroup(Protocol):
    error_code: int
    authorized_operations: int


G = TypeVar("G", bound=DescribedGroup)


def check_shares_are_served(context: RequestContext) -> None:
    """Raises: KafkaError (UNSUPPORTED_VERSION) while `share.version` is 0."""
    if not context.services.serves_share_groups():
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)


def check_share_member_id(member_id: str | None) -> None:
    """Raises: KafkaError (INVALID_REQUEST) for no id, or one longer than a UUID in text."""
    if not member_id or len(member_id.encode("utf-16-be", "surrogatepass")) // 2 > MEMBER_ID_UNITS_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST)


async def check_subscription(context: RequestContext, names: Sequence[str] | None, may_describe: Rights) -> None:
    """Raises: KafkaError (TOPIC_AUTHORIZATION_FAILED) for a topic that the client may not describe."""
    if not names or may_describe.are_open:
        return
    async with context.services.serial_queue.begin(len(names)) as slices:
        async for name in slices.over(names):
            if not may_describe(name):
                raise may_describe.denial(name)


async def described_groups(
    group_ids: Sequence[str],
    context: RequestContext,
    may_describe: Rights,
    may_describe_topic: Rights,
    describe: Callable[[str], G] | None,
    topics_of: Callable[[G], Iterable[str]],
    without_members: Callable[[str, KafkaError], G],
    *,
    with_operations: bool,
) -> list[G]:
    """Describe each group by `describe`, which is None when groups of this kind are not served. A group with a topic of
    `topics_of` that the client may not describe is refused."""
    groups: list[G] = []
    topic_rights = None if may_describe_topic.are_open else may_describe_topic.unlogged()
    async with context.services.serial_queue.begin(len(group_ids) if describe is None else None) as slices:
        async for group_id in slices.over(group_ids):
            if describe is None:
                groups.append(without_members(group_id, KafkaError(ErrorCode.UNSUPPORTED_VERSION)))
                continue
            if not may_describe(group_id):
                groups.append(without_members(group_id, may_describe.denial(group_id)))
                continue
            group = describe(group_id)
            if topic_rights is not None and not all(map(topic_rights, topics_of(group))):
                group = without_members(group_id, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, HIDDEN_TOPICS))
            if with_operations and group.error_code == ErrorCode.NONE:
                group.authorized_operations = authorized_operations(context, ResourceType.GROUP, group_id)
            groups.append(group)
    return groups
