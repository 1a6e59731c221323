"""Decodes keys and values of Kafka's internal topics to JSON. Pure.

Rules: a key says by its version which kind of record it is, and so how its value is read. What cannot be decoded, as
it is of a newer version, is shown as its bytes.
Source: Kafka GroupCoordinatorRecordSerde, TransactionLog, ShareCoordinatorRecordSerde.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from protocol.primitives import DecodeError
from protocol.stored import consumer_group as consumer
from protocol.stored import share_group as share
from protocol.stored.group_metadata import GroupMetadataKey, GroupMetadataValue
from protocol.stored.json_form import message_fields, open_members
from protocol.stored.offset_commit import OffsetCommitKey, OffsetCommitValue
from protocol.stored.share_state import ShareSnapshotKey, ShareSnapshotValue, ShareUpdateKey, ShareUpdateValue
from protocol.stored.stored import Stored, stored_version
from protocol.stored.transaction_log import TransactionLogKey, TransactionLogValue
from web.messages.shown import Decoded

KIND: Final = "internal"
_Classes = tuple[type[Stored], type[Stored]]
_TOPICS: Final[Mapping[str, Mapping[int, _Classes]]] = {
    "__consumer_offsets": {
        0: (OffsetCommitKey, OffsetCommitValue),
        1: (OffsetCommitKey, OffsetCommitValue),
        2: (GroupMetadataKey, GroupMetadataValue),
        3: (consumer.ConsumerGroupMetadataKey, consumer.ConsumerGroupMetadataValue),
        4: (consumer.ConsumerGroupPartitionMetadataKey, consumer.ConsumerGroupPartitionMetadataValue),
        5: (consumer.ConsumerGroupMemberMetadataKey, consumer.ConsumerGroupMemberMetadataValue),
        6: (consumer.ConsumerGroupTargetAssignmentMetadataKey, consumer.ConsumerGroupTargetAssignmentMetadataValue),
        7: (consumer.ConsumerGroupTargetAssignmentMemberKey, consumer.ConsumerGroupTargetAssignmentMemberValue),
        8: (consumer.ConsumerGroupCurrentMemberAssignmentKey, consumer.ConsumerGroupCurrentMemberAssignmentValue),
        10: (share.ShareGroupMemberMetadataKey, share.ShareGroupMemberMetadataValue),
        11: (share.ShareGroupMetadataKey, share.ShareGroupMetadataValue),
        12: (share.ShareGroupTargetAssignmentMetadataKey, share.ShareGroupTargetAssignmentMetadataValue),
        13: (share.ShareGroupTargetAssignmentMemberKey, share.ShareGroupTargetAssignmentMemberValue),
        14: (share.ShareGroupCurrentMemberAssignmentKey, share.ShareGroupCurrentMemberAssignmentValue),
        15: (share.ShareGroupStatePartitionMetadataKey, share.ShareGroupStatePartitionMetadataValue),
        16: (consumer.ConsumerGroupRegularExpressionKey, consumer.ConsumerGroupRegularExpressionValue),
    },
    "__transaction_state": {0: (TransactionLogKey, TransactionLogValue)},
    "__share_group_state": {0: (ShareSnapshotKey, ShareSnapshotValue), 1: (ShareUpdateKey, ShareUpdateValue)},
}


def is_internal(topic: str) -> bool:
    """Whether the form of its records is known."""
    return topic in _TOPICS


def decode_key(topic: str, key: bytes | None) -> Decoded | None:
    """Return the key as JSON; None where it has none. The topic is an internal one."""
    if key is None:
        return None
    try:
        classes, version = _classes(topic, key)
        return _decoded(classes[0], key, version)
    except DecodeError as error:
        return Decoded(KIND, None, note=f"the key cannot be decoded: {error}")


def decode_value(topic: str, key: bytes | None, value: bytes | None) -> Decoded | None:
    """Return the value as JSON; None where it has none."""
    if key is None or value is None:
        return None
    try:
        return _decoded(_classes(topic, key)[0][1], value, stored_version(value))
    except DecodeError as error:
        return Decoded(KIND, None, note=f"the value cannot be decoded: {error}")


def _classes(topic: str, key: bytes) -> tuple[_Classes, int]:
    """Raises DecodeError."""
    version = stored_version(key)
    found = _TOPICS[topic].get(version)
    if found is None:
        raise DecodeError(f"a record of kind {version} is not known")
    return found, version


def _decoded(kind: type[Stored], data: bytes, version: int) -> Decoded:
    fields = message_fields(kind.decode_stored(data), version)
    if kind is GroupMetadataValue:
        open_members(fields)
    name = kind.__name__
    return Decoded(KIND, json.dumps({"type": name, "version": version, "data": fields}, ensure_ascii=False))
