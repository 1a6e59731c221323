"""What is stored of one share partition, and how its records change it. Pure.

Rules: immutable. A snapshot is everything; an update changes the start offset, the leader epoch and the batches of the snapshot
that it follows. -1 in an update leaves the start offset or the leader epoch as it is.
Source: Kafka ShareGroupOffset, ShareCoordinatorShard (handleShareSnapshot, handleShareUpdate, merge).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from coordinator.share.batches import KeptBatch, Loose, loose_of, spliced
from protocol.share_states import NO_DELIVERY_COMPLETE_COUNT, NO_LEADER_EPOCH, NO_START_OFFSET

FIRST_EPOCH: Final = 0
"""Of snapshots, and of the leader of a share partition that none has read."""
NO_EPOCH: Final = -1
"""In a request: the sender does not know the state epoch, or is not fenced by it."""


class ShareKey(NamedTuple):
    group_id: str
    topic_id: bytes
    partition: int


class Snapshot(NamedTuple):
    """The state as a snapshot has it. `create_timestamp_ms` is of its content, `write_timestamp_ms` of its record."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[KeptBatch, ...]
    create_timestamp_ms: int
    write_timestamp_ms: int

    @property
    def is_cold(self) -> bool:
        """Whether it was written again because nothing had changed for long."""
        return self.create_timestamp_ms != self.write_timestamp_ms


class StateUpdate(NamedTuple):
    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[KeptBatch, ...]


class ShareState(NamedTuple):
    """`updates_count` are those since a snapshot was due. The fences are the highest epochs that any record had. `loose` is
    about the batches of the snapshot."""

    snapshot: Snapshot
    updates_count: int
    fence_leader_epoch: int
    fence_state_epoch: int
    loose: Loose

    def with_snapshot(self, snapshot: Snapshot, updates_per_snapshot: int) -> ShareState:
        return ShareState(
            snapshot,
            0 if self.updates_count >= updates_per_snapshot else self.updates_count,
            max(self.fence_leader_epoch, snapshot.leader_epoch),
            max(self.fence_state_epoch, snapshot.state_epoch),
            loose_of(snapshot.batches),
        )

    def with_update(self, update: StateUpdate) -> ShareState:
        known = self.snapshot
        start_offset = known.start_offset if update.start_offset == NO_START_OFFSET else update.start_offset
        batches, loose = spliced(known.batches, self.loose, update.batches, start_offset)
        return ShareState(
            known._replace(
                leader_epoch=known.leader_epoch if update.leader_epoch == NO_LEADER_EPOCH else update.leader_epoch,
                start_offset=start_offset,
                delivery_complete_count=update.delivery_complete_count,
                batches=batches,
            ),
            self.updates_count + 1,
            max(self.fence_leader_epoch, update.leader_epoch),
            self.fence_state_epoch,
            loose,
        )


def first_state(snapshot: Snapshot) -> ShareState:
    """Return the state of a share partition that had none."""
    return ShareState(snapshot, 0, snapshot.leader_epoch, snapshot.state_epoch, loose_of(snapshot.batches))


def state_of_update(update: StateUpdate) -> ShareState:
    """Return the state that an update without its snapshot leaves, as Apache Kafka takes it: the log has lost the snapshot."""
    snapshot = Snapshot(
        update.snapshot_epoch,
        FIRST_EPOCH,
        update.leader_epoch,
        update.start_offset,
        update.delivery_complete_count,
        update.batches,
        0,
        0,
    )
    return ShareState(snapshot, 1, update.leader_epoch, NO_EPOCH, loose_of(snapshot.batches))


def initial_snapshot(known: ShareState | None, state_epoch: int, start_offset: int, now_ms: int) -> Snapshot:
    """Return the snapshot with which a share partition begins, or begins anew."""
    return Snapshot(
        FIRST_EPOCH if known is None else known.snapshot.snapshot_epoch + 1,
        state_epoch,
        FIRST_EPOCH,
        start_offset,
        NO_DELIVERY_COMPLETE_COUNT if start_offset == NO_START_OFFSET else 0,
        (),
        now_ms,
        now_ms,
    )
