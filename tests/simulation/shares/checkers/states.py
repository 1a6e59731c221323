"""The log of the share coordinator: what it has written of share partitions, as whoever loads it reads it.

Each partition has a snapshot, which its updates follow; what a later snapshot replaces may have been deleted, as far as
the log goes. Epochs of snapshots, of states and of leaders only grow, and the start offset does, in one epoch of the
state. Batches of a snapshot are in order and do not overlap, nothing in it lies before the start, and no count is above
the limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from protocol.records.batch import read_header
from protocol.records.record import iter_records
from protocol.share_states import DeliveryState
from protocol.stored.share_state import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    StoredStateBatch,
)
from protocol.stored.stored import stored_version
from tests.simulation.disk_survey import FoundBatch

_MAX_BYTES = 1 << 24
_SNAPSHOT, _UPDATE = 0, 1  # versions of keys
_STORED = frozenset(DeliveryState) - {DeliveryState.ACQUIRED}

SharePartitionName = tuple[str, bytes, int]


@dataclass(slots=True)
class _State:
    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int


def wrong_states(batches: Iterable[FoundBatch], limit_of: Callable[[str], int]) -> Iterator[str]:
    """What is wrong in a partition of __share_group_state, as text; `limit_of` tells the limit of deliveries of a group."""
    states: dict[SharePartitionName, _State] = {}
    lonely: dict[SharePartitionName, int] = {}  # updates whose snapshots are gone
    for batch in batches:
        header = read_header(batch.content, 0)
        for record in iter_records(batch.content, 0, header, _MAX_BYTES):
            assert record.key is not None
            is_snapshot = stored_version(record.key) == _SNAPSHOT
            key = (ShareSnapshotKey if is_snapshot else ShareUpdateKey).decode_stored(record.key)
            name = (key.group_id, key.topic_id, key.partition)
            if record.value is None:
                states.pop(name, None)
                continue
            if is_snapshot:
                lonely.pop(name, None)
            elif name not in states:
                lonely[name] = record.offset
                continue
            where = f"{key.group_id} {key.topic_id.hex()[:8]}-{key.partition} at {record.offset}"
            found = _snapshot(states, name, record.value) if is_snapshot else _update(states, name, record.value)
            value = (ShareSnapshotValue if is_snapshot else ShareUpdateValue).decode_stored(record.value)
            found += _wrong_batches(value.state_batches, limit_of(key.group_id))
            if is_snapshot:
                found += _wrong_order(value.state_batches, value.start_offset)
            yield from (f"{where}: {text}" for text in found)
    yield from (
        f"{group} {topic.hex()[:8]}-{n} has no snapshot, but an update at {at}"
        for (group, topic, n), at in lonely.items()
    )


def _snapshot(states: dict[SharePartitionName, _State], name: SharePartitionName, content: bytes) -> list[str]:
    value, before = ShareSnapshotValue.decode_stored(content), states.get(name)
    states[name] = _State(value.snapshot_epoch, value.state_epoch, value.leader_epoch, value.start_offset)
    if before is None:
        return []
    found = []
    if value.snapshot_epoch <= before.snapshot_epoch:
        found.append(f"snapshot {value.snapshot_epoch} after {before.snapshot_epoch}")
    if value.state_epoch < before.state_epoch:
        found.append(f"state epoch {value.state_epoch} after {before.state_epoch}")
    if value.state_epoch == before.state_epoch:
        found += _wrong_growth(before, value.leader_epoch, value.start_offset)
    return found


def _update(states: dict[SharePartitionName, _State], name: SharePartitionName, content: bytes) -> list[str]:
    value, state = ShareUpdateValue.decode_stored(content), states[name]
    found = []
    if value.snapshot_epoch != state.snapshot_epoch:
        found.append(f"an update of snapshot {value.snapshot_epoch} behind snapshot {state.snapshot_epoch}")
    start_offset = state.start_offset if value.start_offset == -1 else value.start_offset
    found += _wrong_growth(state, value.leader_epoch, start_offset)
    state.leader_epoch, state.start_offset = max(value.leader_epoch, state.leader_epoch), start_offset
    return found


def _wrong_growth(before: _State, leader_epoch: int, start_offset: int) -> list[str]:
    found = []
    if -1 < leader_epoch < before.leader_epoch:
        found.append(f"leader epoch {leader_epoch} after {before.leader_epoch}")
    if start_offset < before.start_offset:
        found.append(f"starts at {start_offset}, after {before.start_offset}")
    return found


def _wrong_batches(batches: Sequence[StoredStateBatch], limit: int) -> list[str]:
    return [
        f"{each.first_offset} to {each.last_offset} in state {each.delivery_state}, delivered {each.delivery_count} times"
        for each in batches
        if each.first_offset > each.last_offset
        or each.delivery_state not in _STORED
        or not 0 <= each.delivery_count <= limit
    ]


def _wrong_order(batches: Sequence[StoredStateBatch], start_offset: int) -> list[str]:
    found, next_offset = [], start_offset
    for each in batches:
        if each.first_offset < next_offset:
            found.append(f"a batch begins at {each.first_offset}, before {next_offset}")
        next_offset = each.last_offset + 1
    return found
