"""One partition that is copied from its leader: carries out in the log what its `FollowerState` decides.

Rules: `truncate` and `take` are called by the partition's fetcher, one at a time; `settle` by whoever wants the log next,
after the fetcher has let go of the partition.
Invariants: while the log is being cut nothing is appended to it; a fetch offset moves only when the records below it are
written.
Source: Kafka ReplicaFetcherThread.processPartitionData, Partition.appendRecordsToFollowerOrFutureReplica.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from protocol.errors import ErrorCode, KafkaError
from protocol.records.batch import HEADER_BYTES, MAGIC_V2, BatchHeader
from replication.follower import Fetch, FollowerState, RestartAt, TruncateTo
from runtime.clock import Clock
from runtime.filesystem import Buffer
from storage.free_space import NoRoom

if TYPE_CHECKING:
    from protocol.messages.fetch import PartitionData
    from replication.partition import Partition

logger = logging.getLogger(__name__)


class FollowedPartition:
    """Lives as long as the leader leads in one epoch, and the log is the partition's. `is_writing`: the last answer is on its
    way to the disk, and `on_written` is due."""

    __slots__ = ("_clock", "_cut", "_leader_high_watermark", "_log", "is_writing", "key", "partition", "state")

    def __init__(self, partition: Partition, state: FollowerState, clock: Clock) -> None:
        self.key = (partition.topic, partition.partition)
        self.partition = partition
        self.state = state
        # What `state` asks. Another one takes its place when it moves to another directory.
        self._log = partition.log
        self._clock = clock
        # Done when the cut that is under way is.
        self._cut: asyncio.Future[None] | None = None
        # What the leader said with the last answer.
        self._leader_high_watermark = 0
        self.is_writing = False

    def is_for(self, partition: Partition, leader_epoch: int) -> bool:
        """Whether this is how `partition`, as it is now, is copied in that epoch."""
        return self.partition is partition and self.state.leader_epoch == leader_epoch and self._log is partition.log

    async def await_idle(self) -> None:
        """Return when nothing is under way in the log."""
        if self._cut is not None:
            await asyncio.shield(self._cut)
        await self.partition.log.await_appends()

    # --- cutting ---

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
        self._cut = cut = asyncio.get_running_loop().create_future()
        try:
            if restart:
                await log.truncate_fully_and_start_at(offset)
            else:
                await log.truncate_to(offset)
        finally:
            self._cut = None
            cut.set_result(None)
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
        """Append an answer to Fetch that is no error; how many bytes it had. See `is_writing` before the next fetch."""
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
        if self.partition.log.log_end_offset == self.partition.log.next_offset:
            self.on_written()
        return len(records)

    @property
    def is_waiting_for_room(self) -> bool:
        """There is no room for what it would fetch next."""
        return isinstance(self.state.step, Fetch) and not self.partition.log.has_room

    def wait_for_room(self) -> None:
        self.state.on_no_room(self._clock.monotonic_ms())

    def on_written(self) -> None:
        """Nothing of what `take` appended is under way any more."""
        self.is_writing = False
        failure = self.partition.log.failure
        if failure is None:
            self.state.on_appended(self._leader_high_watermark)
        else:
            self.state.on_append_failed(failure.code, self._clock.monotonic_ms())

    def on_refused(self, error: ErrorCode) -> None:
        """The leader answered the step with an error."""
        self.state.on_error(error, self._clock.monotonic_ms())


def _first_batch(records: Buffer) -> tuple[int, int]:
    """(first, last) offset of the first batch if it is there as a whole; else (-1, -1)."""
    if len(records) < HEADER_BYTES:
        return -1, -1
    header = BatchHeader(records)
    if header.magic != MAGIC_V2 or header.size_bytes > len(records):
        return -1, -1
    return header.base_offset, header.last_offset
