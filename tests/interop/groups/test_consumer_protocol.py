"""Real clients of the consumer protocol (KIP-848): members join, share, leave, and move from the classic protocol and back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.groups.conftest import GroupOf
from tests.interop.groups.members import CLASSIC, CONSUMER, Group, Numbers

pytestmark = pytest.mark.interop

Fresh = Callable[[str], str]
PARTITIONS = 6


def created(bootstrap: str, topic: str) -> str:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(60)
    return topic


@pytest.fixture(params=["librdkafka", "Java", pytest.param("franz-go", marks=pytest.mark.long)])
def group(request: pytest.FixtureRequest, newer: str, fresh: Fresh, group_of: GroupOf) -> tuple[Group, str]:
    """A group without members, and the topic that they will read."""
    topic = created(newer, fresh("t"))
    return group_of(request.param, newer, topic, PARTITIONS), topic


def test_members_join_share_and_leave(newer: str, group: tuple[Group, str]) -> None:
    members, topic = group
    with members:
        with Numbers(newer, topic) as numbers:
            first = members.join(CONSUMER)
            members.wait_until_shared()
            members.join(CONSUMER)
            members.join(CONSUMER)
            members.wait_until_shared()
            members.leave(first)
            members.wait_until_shared()
        members.wait_until_read(numbers.acknowledged)
    assert members.read() == dict.fromkeys(numbers.acknowledged, 1)


def test_a_group_changes_its_protocol_member_by_member_and_back(newer: str, group: tuple[Group, str]) -> None:
    members, topic = group
    with members:
        with Numbers(newer, topic) as numbers:
            for _ in range(2):
                members.join(CLASSIC)
            members.wait_until_shared()
            for protocol in (CONSUMER, CLASSIC):
                for old in list(members.members):
                    members.leave(old)
                    members.join(protocol)
                    members.wait_until_shared()
        members.wait_until_read(numbers.acknowledged)
    assert members.read() == dict.fromkeys(numbers.acknowledged, 1)
