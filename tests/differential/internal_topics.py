"""What a coordinator has stored of a group or of a transactional id: its records in `__consumer_offsets` and
`__transaction_state`, decoded and as bytes.

In the bytes, what differs between two plays is masked: the run's prefix, the ids of topics and producers, and moments of
this hour. What is left must be equal, byte by byte.
"""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

from coordinator.runtime.partitioner import partition_for
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.records.batch import iter_headers
from protocol.records.record import Record, iter_records
from protocol.schema import Message
from protocol.stored import consumer_group, group_metadata, offset_commit, share_group, share_state, transaction_log
from protocol.stored.stored import Stored, stored_version
from tests.differential.normal import Names, normalised
from tests.differential.play import Run

OFFSETS, TRANSACTIONS, SHARES = "__consumer_offsets", "__transaction_state", "__share_group_state"
PARTITIONS = 5

_GROUP_KINDS: dict[int, tuple[type[Stored], type[Stored]]] = {
    0: (offset_commit.OffsetCommitKey, offset_commit.OffsetCommitValue),
    1: (offset_commit.OffsetCommitKey, offset_commit.OffsetCommitValue),
    2: (group_metadata.GroupMetadataKey, group_metadata.GroupMetadataValue),
    3: (consumer_group.ConsumerGroupMetadataKey, consumer_group.ConsumerGroupMetadataValue),
    4: (consumer_group.ConsumerGroupPartitionMetadataKey, consumer_group.ConsumerGroupPartitionMetadataValue),
    5: (consumer_group.ConsumerGroupMemberMetadataKey, consumer_group.ConsumerGroupMemberMetadataValue),
    6: (
        consumer_group.ConsumerGroupTargetAssignmentMetadataKey,
        consumer_group.ConsumerGroupTargetAssignmentMetadataValue,
    ),
    7: (consumer_group.ConsumerGroupTargetAssignmentMemberKey, consumer_group.ConsumerGroupTargetAssignmentMemberValue),
    8: (
        consumer_group.ConsumerGroupCurrentMemberAssignmentKey,
        consumer_group.ConsumerGroupCurrentMemberAssignmentValue,
    ),
    10: (share_group.ShareGroupMemberMetadataKey, share_group.ShareGroupMemberMetadataValue),
    11: (share_group.ShareGroupMetadataKey, share_group.ShareGroupMetadataValue),
    12: (share_group.ShareGroupTargetAssignmentMetadataKey, share_group.ShareGroupTargetAssignmentMetadataValue),
    13: (share_group.ShareGroupTargetAssignmentMemberKey, share_group.ShareGroupTargetAssignmentMemberValue),
    14: (share_group.ShareGroupCurrentMemberAssignmentKey, share_group.ShareGroupCurrentMemberAssignmentValue),
    15: (share_group.ShareGroupStatePartitionMetadataKey, share_group.ShareGroupStatePartitionMetadataValue),
    16: (consumer_group.ConsumerGroupRegularExpressionKey, consumer_group.ConsumerGroupRegularExpressionValue),
}
_TRANSACTION_KINDS: dict[int, tuple[type[Stored], type[Stored]]] = {
    0: (transaction_log.TransactionLogKey, transaction_log.TransactionLogValue),
}
_SHARE_KINDS: dict[int, tuple[type[Stored], type[Stored]]] = {
    0: (share_state.ShareSnapshotKey, share_state.ShareSnapshotValue),
    1: (share_state.ShareUpdateKey, share_state.ShareUpdateValue),
}


def note_group_records(run: Run, group: str, pick: Callable[[list[Any]], list[Any]] = list) -> None:
    """Keep what is stored of a group, oldest first, or what `pick` makes of it."""
    run.note(pick([_shown(record, _GROUP_KINDS, run.names) for record in _records_of(run, OFFSETS, group)]))


def note_transaction_records(run: Run, transactional_id: str) -> None:
    """Keep what is stored of a transactional id, oldest first."""
    found = _records_of(run, TRANSACTIONS, transactional_id)
    run.note([_shown(record, _TRANSACTION_KINDS, run.names) for record in found])


def note_share_records(run: Run, group: str, partition: int) -> None:
    """Keep what is stored of the share partitions of a group in one partition of their topic, oldest first."""
    found = _records_of(run, SHARES, group, partition)
    run.note([_shown(record, _SHARE_KINDS, run.names) for record in found])


def _records_of(run: Run, topic: str, owner: str, partition: int | None = None) -> Iterator[Record]:
    """The records whose key begins with `owner`, which every kind of key does."""
    stem = struct.pack(">h", len(owner)) + owner.encode()
    for record in _all_records(run, topic, partition_for(owner, PARTITIONS) if partition is None else partition):
        assert record.key is not None
        if record.key[2:].startswith(stem):
            yield record


def _all_records(run: Run, topic: str, partition: int) -> Iterator[Record]:
    """Without those of control batches."""
    offset = 0
    while True:
        wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 25)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic=topic, partitions=[wanted])], forgotten_topics_data=[]
        )
        (answer,) = run.do(request).responses[0].partitions
        assert answer.error_code == 0, answer
        data = bytes(answer.records or b"")
        for position, header in iter_headers(data):
            if not header.is_control:
                yield from iter_records(data, position, header, 1 << 25)
            offset = header.last_offset + 1
        if offset >= answer.high_watermark:
            return


def _shown(record: Record, kinds: dict[int, tuple[type[Stored], type[Stored]]], names: Names) -> dict[str, Any]:
    assert record.key is not None
    kind = stored_version(record.key)
    key_class, value_class = kinds[kind]
    shown: dict[str, Any] = {"kind": f"{kind} {key_class.__name__.removesuffix('Key')}"}
    shown["key"] = normalised(key_class.decode_stored(record.key), kind, names)
    if record.value is None:
        return {**shown, "value": None}
    version = stored_version(record.value)
    value = value_class.decode_stored(record.value)
    assert value.encode_stored(version) == record.value, "the record has something that its class does not show"
    if isinstance(value, consumer_group.ConsumerGroupRegularExpressionValue):
        value.version = 0  # an offset of the metadata log, or what a broker has instead
    shown |= {"version": version, "value": normalised(value, version, names)}
    if isinstance(value, transaction_log.TransactionLogValue):
        for name in ("producer_id", "previous_producer_id", "next_producer_id"):
            if getattr(value, name) in names.known("producer"):  # a small number could stand anywhere in the bytes
                setattr(value, name, 0)
    if has_an_order(value):
        return {**shown, "size": len(record.value)}
    return {**shown, "bytes": masked(value.encode_stored(version), names).hex()}


def has_an_order(value: Stored) -> bool:
    """Whether the bytes also tell in which order a hash map had its topics."""
    arrays = [getattr(value, field.name) for field in value.__fields__ if field.kind == "array"]
    return any(len(array) > 1 and isinstance(array[0], Message) for array in arrays if array)


def masked(data: bytes, names: Names) -> bytes:
    """The bytes without what another play would have otherwise; of the same length."""
    for known in [*names.topic_ids, *names.known("hash"), *names.known("member"), *names.known("uuid")]:
        if isinstance(known, int):
            known = struct.pack(">q", known)
        elif isinstance(known, str):
            known = known.encode()
        if any(known):
            data = data.replace(known, bytes(len(known)))
    data = re.sub(re.escape(names.prefix.encode()), lambda found: b"-" * len(found[0]), data)
    now_ms = time.time() * 1000
    out = bytearray(data)
    for position in range(len(data) - 7):
        (number,) = struct.unpack_from(">q", data, position)
        if abs(number - now_ms) < 3_600_000:
            out[position : position + 8] = bytes(8)
    return bytes(out)
