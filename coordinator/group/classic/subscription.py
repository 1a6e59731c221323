"""Which topics the members of a consumer group subscribe to, read from their join metadata.

The coordinator treats member metadata as opaque bytes, except here: it must know the topics so as not to expire or
delete offsets in use. Only the start of the metadata is read (version, topic names), which all versions share.

Rules: no IO. Metadata that does not parse makes the result None (unknown), never an error: it is the client's own format.
Source: Kafka GroupMetadata.computeSubscribedTopics (KIP-211, KIP-496), ConsumerProtocolSubscription version 0.
"""

from __future__ import annotations

import struct
from collections.abc import Collection

from coordinator.group.classic.member import Member
from protocol.java_text import AS_JAVA

_CONSUMER_PROTOCOL_TYPE = "consumer"
_HEAD = struct.Struct(">hi")  # version, number of topics
_LENGTH = struct.Struct(">h")


def subscribed_topics(
    protocol_type: str | None, protocol_name: str | None, members: Collection[Member]
) -> frozenset[str] | None:
    """The topics of all members; None when this is no consumer group or one member's metadata cannot be read."""
    if protocol_type != _CONSUMER_PROTOCOL_TYPE:
        return None
    if not members:
        return frozenset()
    if protocol_name is None:
        return None
    topics: set[str] = set()
    for member in members:
        of_member = _topics_of(member.metadata(protocol_name))
        if of_member is None:
            return None
        topics |= of_member
    return frozenset(topics)


def _topics_of(metadata: bytes) -> set[str] | None:
    topics = set()
    try:
        version, count = _HEAD.unpack_from(metadata)
        position = _HEAD.size
        if version < 0 or not 0 <= count <= len(metadata):
            return None
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(metadata, position)
            position += _LENGTH.size
            if not 0 <= length <= len(metadata) - position:
                return None
            topics.add(str(metadata[position : position + length], "utf-8", AS_JAVA))
            position += length
    except struct.error:
        return None
    return topics
