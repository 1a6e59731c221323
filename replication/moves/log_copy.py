"""Copies one log to another directory of this broker, step by step, until both have the same records.

    truncate the copy to where it agrees with the log  ->  read the log behind it  ->  append, wait until written  ->  again

The log may be truncated at any time, also while it follows another broker: then the copy is truncated as far. A start does not
know of earlier truncations, so it compares leader epochs, as between brokers.

Rules: `step` is called by one task at a time. A copy without room raises `NoRoom`, and continues later.
Invariants: the copy is a prefix of the log whenever `step` has returned True; nothing is appended behind what both agree on.
Source: Kafka ReplicaAlterLogDirsThread; KIP-113, KIP-101.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from protocol.errors import KafkaError
from protocol.records.batch import HEADER_BYTES, BatchHeader
from replication.followers.follower import begins_within
from storage.log.partition_log import AppendOrigin
from storage.log.removal.log_truncation import truncate_fully_and_start_at, truncate_to
from storage.log.removal.segment_retention import raise_log_start_offset

if TYPE_CHECKING:
    from replication.followers.follower import FollowedEpochs
    from replication.partition import Partition
    from runtime.clock import Clock
    from storage.log.partition_log import PartitionLog

UNKNOWN_EPOCH = -1


class ComparedLog(Protocol):
    """What two logs are compared by. `storage.log.partition_log.PartitionLog` fits it."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def epochs(self) -> FollowedEpochs: ...


def agreed_end(copy: ComparedLog, log: ComparedLog) -> int:
    """Return where the copy ends, or has to be truncated to agree with the log. Pure.

    After the truncation, the copy may end in an earlier epoch that the log does not know either: then call this again.
    """
    end_offset = min(copy.log_end_offset, log.log_end_offset)
    epoch = copy.epochs.latest_epoch
    if epoch == UNKNOWN_EPOCH:
        return end_offset
    known_epoch, known_end_offset = log.epochs.end_offset_for(epoch)
    if known_epoch == UNKNOWN_EPOCH:
        # Everything in the log is newer: it has no records of the copy.
        return end_offset if log.epochs.latest_epoch == UNKNOWN_EPOCH else min(end_offset, log.log_start_offset)
    if known_epoch != epoch:
        known_end_offset = min(known_end_offset, copy.epochs.end_offset_for(known_epoch)[1])
    return min(end_offset, known_end_offset) if known_end_offset >= 0 else log.log_start_offset


class LogCopy:
    """Copies a partition's log to `copy`, its log in the other directory, which nothing else writes to."""

    __slots__ = ("_clock", "_max_bytes", "copied_bytes", "copy", "partition")

    def __init__(self, partition: Partition, copy: PartitionLog, *, max_bytes: int, clock: Clock) -> None:
        self.partition = partition
        self.copy = copy
        self.copied_bytes = 0
        self._max_bytes = max_bytes
        self._clock = clock

    @property
    def lag(self) -> int:
        return self.partition.log.log_end_offset - self.copy.log_end_offset

    @property
    def lag_bytes(self) -> int:
        """The approximate number of bytes still to be copied."""
        log = self.partition.log
        start_offset = max(self.copy.log_end_offset, log.log_start_offset)
        return log.reading.bytes_between(start_offset, log.log_end_offset)

    async def copy_remaining(self) -> None:
        """Copy until the copy has everything, while the log buffers its appends. Raises KafkaError, NoRoom."""
        while not await self.step():
            pass

    async def step(self) -> bool:
        """Copy a piece; returns whether the copy has everything: the last records of the log may have been compacted away, so
        that there are none although the log ends later. Raises KafkaError, NoRoom."""
        await self._agree()
        log, copy = self.partition.log, self.copy
        offset = copy.log_end_offset
        if offset < log.log_end_offset:
            records = log.reading.read(
                offset, limit_offset=log.log_end_offset, max_bytes=self._max_bytes, at_least_one=True
            )
            if records is None:
                try:
                    records = await log.reading.read_cold(
                        offset, limit_offset=log.log_end_offset, max_bytes=self._max_bytes, at_least_one=True
                    )
                except KafkaError:
                    if log.log_start_offset > offset:
                        return False
                    raise
                if (
                    log.truncation.lowest_offset is not None
                    or agreed_end(copy, log) < offset
                    or log.log_start_offset > offset
                ):
                    return False  # the log was truncated meanwhile, or begins later: the bytes would leave a hole
            if not records:
                self._take_over_offsets()
                return True
            await self._append(bytearray(records))
        self._take_over_offsets()
        return copy.log_end_offset == self.partition.log.log_end_offset

    async def _agree(self) -> None:
        while True:
            log, copy = self.partition.log, self.copy
            cut_offset = log.truncation.lowest_offset
            if cut_offset is not None:
                if cut_offset < copy.log_end_offset:
                    await truncate_to(copy, cut_offset)
                if log.truncation.lowest_offset == cut_offset:
                    log.truncation.lowest_offset = None
                continue
            if copy.log_end_offset < log.log_start_offset or self._is_of_a_log_before():
                await truncate_fully_and_start_at(copy, log.log_start_offset)
                continue  # the log may have been truncated meanwhile
            end_offset = agreed_end(copy, log)
            if end_offset >= copy.log_end_offset:
                return
            await truncate_to(copy, end_offset)

    def _is_of_a_log_before(self) -> bool:
        """Whether the whole copy lies below the log's first file, as when the log was truncated and restarted where the copy
        happens to end: its records, producers and open transactions may differ from those the log had there."""
        first_offset = self.partition.log.segments.first.base_offset
        return self.copy.segments.first.base_offset < first_offset and self.copy.log_end_offset <= first_offset

    async def _append(self, records: bytearray) -> None:
        copy = self.copy
        if len(records) >= HEADER_BYTES:
            first_offset = BatchHeader(records).base_offset
            start_offset = max(copy.log_start_offset, self.partition.log.log_start_offset)
            if begins_within(first_offset, start_offset, copy.log_end_offset):
                await truncate_fully_and_start_at(copy, first_offset)
        failures: list[KafkaError] = []

        def done(error: KafkaError | None) -> None:
            if error is not None:
                failures.append(error)

        copy.append(
            records, leader_epoch=UNKNOWN_EPOCH, origin=AppendOrigin.REPLICA, now_ms=self._clock.wall_ms(), done=done
        )
        await copy.await_appends()
        if failures:
            raise failures[0]
        self.copied_bytes += len(records)

    def _take_over_offsets(self) -> None:
        log, copy = self.partition.log, self.copy
        copy.commit(max(min(log.high_watermark, copy.log_end_offset), copy.log_start_offset))
        raise_log_start_offset(copy, min(log.log_start_offset, copy.log_end_offset))
