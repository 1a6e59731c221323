"""The log of a group: what the coordinator has written of it, as whoever loads it reads it. Epochs of the group, of its
target and of its members only grow, a member is never ahead of the group, and no partition is at two members, also while
one still lets go of it.

Records of one batch count together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from protocol.records.batch import read_header
from protocol.records.record import iter_records
from protocol.stored.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from protocol.stored.stored import stored_version
from tests.simulation.disk_survey import FoundBatch

_MAX_BYTES = 1 << 24
_GROUP, _TARGET, _MEMBER = 3, 6, 8  # versions of keys

Partition = tuple[bytes, int]


@dataclass(slots=True)
class _Group:
    epoch: int = 0
    target_epoch: int = 0
    epochs: dict[str, int] = field(default_factory=dict)
    held: dict[str, set[Partition]] = field(default_factory=dict)


def wrong_records(batches: Iterable[FoundBatch]) -> Iterator[str]:
    """What is wrong in a partition of __consumer_offsets, as text."""
    groups: dict[str, _Group] = {}
    for batch in batches:
        header = read_header(batch.content, 0)
        if header.is_transactional:
            continue
        changed: set[str] = set()
        for record in iter_records(batch.content, 0, header, _MAX_BYTES):
            assert record.key is not None
            kind = stored_version(record.key)
            if kind == _GROUP:
                group_id = ConsumerGroupMetadataKey.decode_stored(record.key).group_id
                if record.value is None:
                    groups.pop(group_id, None)
                else:
                    group = groups.setdefault(group_id, _Group())
                    epoch = ConsumerGroupMetadataValue.decode_stored(record.value).epoch
                    yield from _grown(f"{group_id} at {batch.base_offset}: group", group.epoch, epoch)
                    group.epoch = epoch
            elif kind == _TARGET:
                group_id = ConsumerGroupTargetAssignmentMetadataKey.decode_stored(record.key).group_id
                if record.value is not None:
                    group = groups.setdefault(group_id, _Group())
                    epoch = ConsumerGroupTargetAssignmentMetadataValue.decode_stored(record.value).assignment_epoch
                    yield from _grown(f"{group_id} at {batch.base_offset}: target", group.target_epoch, epoch)
                    group.target_epoch = epoch
            elif kind == _MEMBER:
                key = ConsumerGroupCurrentMemberAssignmentKey.decode_stored(record.key)
                group = groups.setdefault(key.group_id, _Group())
                changed.add(key.group_id)
                if record.value is None:
                    group.held.pop(key.member_id, None)
                    group.epochs.pop(key.member_id, None)
                else:
                    value = ConsumerGroupCurrentMemberAssignmentValue.decode_stored(record.value)
                    yield from _member(f"{key.group_id} at {batch.base_offset}", group, key.member_id, value)
        for group_id in changed & groups.keys():
            group = groups[group_id]
            yield from (f"{group_id} at {batch.base_offset}: {text}" for text in _judged(group))


def _grown(what: str, before: int, after: int) -> Iterator[str]:
    if after < before:
        yield f"{what} epoch {after} after {before}"


def _member(
    where: str, group: _Group, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue
) -> Iterator[str]:
    if value.member_epoch >= 0:  # a static member that is to come back has -2
        yield from _grown(f"{where}: {member_id}:", group.epochs.get(member_id, 0), value.member_epoch)
        group.epochs[member_id] = value.member_epoch
    rows = (*value.assigned_partitions, *value.partitions_pending_revocation)
    group.held[member_id] = {(row.topic_id, partition) for row in rows for partition in row.partitions}


def _judged(group: _Group) -> Iterator[str]:
    holders: dict[Partition, str] = {}
    for member_id, held in group.held.items():
        for partition in held:
            other = holders.setdefault(partition, member_id)
            if other != member_id:
                yield f"{partition[0].hex()}-{partition[1]} is at {other} and at {member_id}"
    ahead = [member_id for member_id, epoch in group.epochs.items() if epoch > max(group.target_epoch, group.epoch)]
    if ahead and group.epoch:
        yield f"{ahead[0]} has epoch {group.epochs[ahead[0]]}, the group {group.epoch}"
