"""Subscriptions and assignments inside the requests of members of the classic protocol."""

from __future__ import annotations

import pytest

from client.membership.assignors import decode_assignment, encode_assignment
from coordinator.group.assigned.topics import GroupTopics
from coordinator.group.consumer.embedded_protocol import (
    CustomAssignorError,
    read_assignment,
    read_subscription,
    write_assignment,
)
from protocol.primitives import DecodeError
from protocol.stored.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from tests.coordinator.group.consumer.members import image, topic_id

TOPICS = GroupTopics(image(t=3, u=1))


@pytest.mark.parametrize(
    ("metadata", "version"),
    [(b"\0\0", 0), (b"\0\1", 1), (b"\0\3", 3), (b"\0\x09", 3), (b"", 0), (b"\0", 0), (b"\xff\xff", 0)],
)
def test_an_assignment_has_the_version_of_the_subscription(metadata: bytes, version: int) -> None:
    written = write_assignment({topic_id("u"): {0}, topic_id("t"): {2, 0}, topic_id("gone"): {1}}, TOPICS, metadata)
    assert int.from_bytes(written[:2]) == version
    assert decode_assignment(written) == [("t", 0), ("t", 2), ("u", 0)]


def test_an_assignment_is_read_by_topic_id() -> None:
    read = read_assignment(encode_assignment([("t", 0), ("t", 2), ("gone", 1)]), TOPICS)
    assert read == {topic_id("t"): {0, 2}}
    assert read_assignment(b"", TOPICS) == {}
    custom = ConsumerProtocolAssignment(assigned_partitions=[], user_data=b"x").encode_stored(0)
    with pytest.raises(CustomAssignorError):
        read_assignment(custom, TOPICS)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 9])
def test_a_newer_subscription_is_read_as_the_newest_known(version: int) -> None:
    encoded = ConsumerProtocolSubscription(topics=["t"]).encode_stored(min(version, 3))
    assert read_subscription(version.to_bytes(2) + encoded[2:]).topics == ["t"]


@pytest.mark.parametrize("metadata", [b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\0\0\0\0\7"])
def test_a_subscription_that_cannot_be_read(metadata: bytes) -> None:
    with pytest.raises(DecodeError):
        read_subscription(metadata)
