"""Carries out in the log of a followed partition what its `FollowerState` decides.

Rules: the partition's fetcher calls `truncate` and `append`, one at a time; `await_idle` is called before anything else uses
the log, after the fetcher has stopped following the partition.
Invariants: nothing is appended to a log during its truncation; a fetch offset moves only when the records below it are
written.
Source: Kafka ReplicaFetcherThread.processPartitionData, Partition.appendRecordsToFollowerOrFutureReplica.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from protocol.errors import ErrorCode, KafkaError
from protocol.records.batch import HEADER_BYTES, MAGIC_V2, BatchHeader
from replication.followers.follower import Fetch, FollowerState, RestartAt, TruncateTo
from runtime.clock import Clock
from runtime.disk.filesystem import Buffer
from storage.free_space import NoRoom
from storage.log.removal.log_truncation import truncate_fully_and_start_at, truncate_to

if TYPE_CHECKING:
    from protocol.messages.fetch import PartitionData
    from replication.partition import Partition

logger = logging.getLogger(__name__)


class FollowedPartition:
    """A followed partition, for one leader epoch and one log. `is_writing`: records of the last response are being written, and
    `on_written` is due."""

    __slots__ = ("_clock", "_leader_high_watermark", "_log", "_truncation", "is_writing", "key", "partition", "state")

    def __init__(self, partition: Partition, state: FollowerState, clock: Clock) -> None:
        self.key = (partition.topic, partition.partition)
        self.partition = partition
        self.state = state
        # The log that `state` reads. A move to another directory replaces the partition's log.
        self._log = partition.log
        self._clock = clock
        # Done when the truncation in progress has ended.
        self._truncation: asyncio.Future[None] | None = None
        # The leader's high watermark in the last response.
        self._leader_high_watermark = 0
        self.is_writing = False

    def is_for(self, partition: Partition, leader_epoch: int) -> bool:
        """Whether this object copies `partition`, with its present log, in that epoch."""
        return self.partition is partition and self.state.leader_epoch == leader_epoch and self._log is partition.log

    async def await_idle(self) -> None:
        """Return when no work on the log is in progress."""
        if self._truncation is not None:
            await asyncio.shield(self._truncation)
        await self.partition.log.await_appends()

    # --- truncating ---

    async def truncate(self) -> None:
        """Carry out TruncateTo or RestartAt."""
        step, log = self.state.step, self.partition.log
        assert isinstance(step, TruncateTo | RestartAt)
        if step.offset < log.high_watermark:
            logger.warning(
                "log truncated below its high watermark: topic=%s partition=%d end_offset=%d high_watermark=%d",
                *self.key, step.offset, log.high_watermark,
            )  # fmt: skip
        try:
            await self._truncate_log(step.offset, restart=isinstance(step, RestartAt))
        except NoRoom:
            self.state.on_no_room(self._clock.monotonic_ms())
        except KafkaError as error:
            self.state.on_truncation_failed(error.code)
        else:
            self.state.on_truncated(self._clock.monotonic_ms())

    async def _truncate_log(self, offset: int, *, restart: bool) -> None:
        """Raises KafkaError."""
        log = self.partition.log
        log_end_offset = log.log_end_offset
        self._truncation = truncation = asyncio.get_running_loop().create_future()
        try:
            if restart:
                await truncate_fully_and_start_at(log, offset)
            else:
                await truncate_to(log, offset)
        finally:
            self._truncation = None
            truncation.set_result(None)
        if log.log_end_offset != log_end_offset:
            logger.info(
                "log truncated: topic=%s partition=%d previous_end_offset=%d end_offset=%d",
                *self.key,
                log_end_offset,
                offset,
            )
            self.partition.truncated()

    # --- copying ---

    async def append(self, row: PartitionData) -> int:
        """Append the records of a Fetch response without an error; returns their size in bytes. Check `is_writing` before the
        next fetch."""
        records: Buffer = b"" if row.records is None else row.records
        place = self.state.on_fetched(*_first_batch(records), row.log_start_offset)
        if place.restart_at is not None:
            try:
                await self._truncate_log(place.restart_at, restart=True)
            except NoRoom:
                self.state.on_no_room(self._clock.monotonic_ms())
                return 0
            except KafkaError as error:
                self.state.on_truncation_failed(error.code)
                return 0
        try:
            self.partition.append_as_follower(
                records,
                leader_high_watermark=row.high_watermark,
                leader_log_start_offset=row.log_start_offset,
                now_ms=self._clock.wall_ms(),
            )
        except NoRoom:
            self.state.on_no_room(self._clock.monotonic_ms())
            return 0
        except KafkaError as error:
            logger.warning("records of the leader not appended: topic=%s partition=%d error=%s", *self.key, error)
            self.state.on_append_failed(error.code, self._clock.monotonic_ms())
            return 0
        self._leader_high_watermark = row.high_watermark
        self.is_writing = True
        if self.partition.log.log_end_offset == self.partition.log.offsets.next_offset:
            self.on_written()
        return len(records)

    @property
    def is_waiting_for_room(self) -> bool:
        """Whether the disk has no room for the next fetch."""
        return isinstance(self.state.step, Fetch) and not self.partition.log.has_room

    def wait_for_room(self) -> None:
        self.state.on_no_room(self._clock.monotonic_ms())

    def on_written(self) -> None:
        """Note that everything from `append` is written or refused."""
        self.is_writing = False
        failure = self.partition.log.failure
        if failure is None:
            self.state.on_appended(self._leader_high_watermark)
        else:
            self.state.on_append_failed(failure.code, self._clock.monotonic_ms())

    def on_refused(self, error: ErrorCode) -> None:
        """Note that the leader refused the step with an error."""
        self.state.on_error(error, self._clock.monotonic_ms())


def _first_batch(records: Buffer) -> tuple[int, int]:
    """Return the (first, last) offset of the first batch if it is complete, else (-1, -1)."""
    if len(records) < HEADER_BYTES:
        return -1, -1
    header = BatchHeader(records)
    if header.magic != MAGIC_V2 or header.size_bytes > len(records):
        return -1, -1
    return header.base_offset, header.last_offset
