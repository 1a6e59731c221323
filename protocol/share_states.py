"""What share groups say of a record: its delivery state, how a member acknowledges it, and which key its partition has. Pure.

Source: KIP-932, KIP-1222; Kafka RecordState, AcknowledgeType, SharePartitionKey, PartitionFactory.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple

from protocol.primitives import DecodeError, uuid_from_text, uuid_to_text

KEPT_KEYS: Final = 2_048
"""The texts of keys that are kept: each acknowledgement asks for one."""
INT_MAX: Final = (1 << 31) - 1
_PARTITION: Final = re.compile(r"[+-]?[0-9]+")

NO_START_OFFSET: Final = -1
"""Stored while a share partition has not been read: `share.auto.offset.reset` decides where it begins."""
NO_DELIVERY_COMPLETE_COUNT: Final = -1
"""Stored by brokers before 4.2, which did not count."""
NO_LEADER_EPOCH: Final = -1
"""Of a reader that does not lead the partition: it fences nobody."""


class DeliveryState(IntEnum):
    """The state of a record in a share partition; the value is that on the wire and in stored records."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


class AcknowledgeType(IntEnum):
    """What a member says of a record that it acquired."""

    GAP = 0
    """There is no record at this offset."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    """Keep it locked for another lock duration."""


class ShareAcquireMode(IntEnum):
    """How many records a fetch may acquire."""

    BATCH_OPTIMIZED = 0
    """Whole record batches, also where this is more records than asked for."""
    RECORD_LIMIT = 1
    """Never more records than asked for."""


class StateBatch(NamedTuple):
    """Offsets `first_offset` to `last_offset`, both included, which have one state and one delivery count."""

    first_offset: int
    last_offset: int
    delivery_state: DeliveryState
    delivery_count: int


@lru_cache(maxsize=KEPT_KEYS)
def share_key(group_id: str, topic_id: bytes, partition: int) -> str:
    """Return the text whose hash chooses the partition of __share_group_state that keeps a share partition."""
    return f"{group_id}:{uuid_to_text(topic_id)}:{partition}"


def share_key_of(text: str) -> tuple[str, bytes, int]:
    """Return the group, the topic id and the partition of a key, of which the group may have colons. Raises ValueError."""
    parts = text.split(":")
    while parts and not parts[-1]:
        parts.pop()
    if len(parts) < 3:
        raise ValueError("a key is GROUP:TOPIC-ID:PARTITION")
    *group, topic_id, partition = parts
    group_id = ":".join(group)
    if not group_id.strip():
        raise ValueError("the group id is empty")
    if not _PARTITION.fullmatch(partition) or int(partition) > INT_MAX:
        raise ValueError(f"the partition {partition!r} is no number")
    try:
        return group_id, uuid_from_text(topic_id), int(partition)
    except DecodeError as error:
        raise ValueError(str(error)) from error
