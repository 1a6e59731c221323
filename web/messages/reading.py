"""Reads ranges of the partitions of one topic in batches, within the budget, however brokers come and go meanwhile.

    async with RangeReading(cluster, topic, progress, ...) as reading:
        while not progress.is_done:
            for fetched in await reading.poll(250):
                ...                                      look at the batches
                progress.ranges[fetched.partition].pass_to(fetched.next_offset)

Rules: at most `WINDOW` partitions are read at a time, the next when one of them is done; one fetch is under way to
each leader. Where reading has come is the caller's to say. Records that were deleted meanwhile, and a log that ends
earlier than it did, are said in the note of the partition, and reading goes on.
Errors: KafkaError for what does not pass: the topic is gone, the user may not read it.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final, Self

from client.admin.offsets import NO_OFFSET, offsets
from client.committing import OffsetAndMetadata
from client.reading.positions import Reset
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.list_offsets import EARLIEST, LATEST
from web.errors import HttpProblem

if TYPE_CHECKING:
    from collections.abc import Iterable, Set
    from types import TracebackType

    from client.event_loop.reader import PartitionReader
    from client.reading.positions import FetchedBatches
    from runtime.clock import Clock
    from web.cluster.user_cluster import UserCluster
    from web.messages.budget import ReadBudget
    from web.messages.progress import PartitionRange, Progress

WINDOW: Final = 64
FETCH_BYTES: Final = 1 << 20
_MAX_WAIT_MS: Final = 250
_CHECK_MS: Final = 2_000
NO_LEADER: Final = "waits for a leader"
NO_ANSWER: Final = "waits for its leader's answer"


class RangeReading:
    """`clock` tells how long brokers are waited for."""

    def __init__(
        self,
        cluster: UserCluster,
        topic: str,
        progress: Progress,
        *,
        is_committed: bool,
        budget: ReadBudget,
        clock: Clock,
        fetch_bytes: int = FETCH_BYTES,
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._progress = progress
        self._is_committed = is_committed
        self._budget = budget
        self._clock = clock
        self._fetch_bytes = fetch_bytes
        self._open = AsyncExitStack()
        self._reader: PartitionReader | None = None
        self._window: set[int] = set()
        self._waiting: set[int] = set()
        # Silence is counted in time in which brokers were waited for: who reads slowly makes none of them silent.
        self._waited_ms = 0
        self._checked_ms = 0
        self._heard_ms: dict[int, int] = {}  # by partition

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._open.aclose()

    def begin(self, progress: Progress) -> None:
        """Read other ranges from now on, over the same connections."""
        if self._reader is not None:
            self._reader.drop((self._topic, each) for each in self._window)
        self._window.clear()
        self._waiting.clear()
        self._heard_ms.clear()
        self._progress = progress

    async def poll(self, timeout_ms: int) -> list[FetchedBatches]:
        """Return what has come, or nothing when the time is over. Raises KafkaError, InvalidBatch, HttpProblem when the
        user has logged out meanwhile."""
        if self._cluster.is_closed:
            raise HttpProblem(401, "the user has logged out", code="NOT_LOGGED_IN", next_step="log in again")
        reader = await self._moved_window()
        if not self._window:
            return []
        since_ms = self._clock.monotonic_ms()
        try:
            fetched = await reader.poll_batches(timeout_ms)
        except KafkaError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            await self._relocate()
            return []
        self._waited_ms += self._clock.monotonic_ms() - since_ms
        self._hear(fetched)
        silent = {each for each in self._window if self._waited_ms - self._heard_ms[each] >= _CHECK_MS}
        if silent and self._waited_ms - self._checked_ms >= _CHECK_MS:
            await self._check_topic(silent)
            self._checked_ms = self._waited_ms
        size_bytes = sum(len(each.buffer) for each in fetched)
        self._progress.bytes_read += size_bytes
        await self._budget.take(size_bytes)
        return [each for each in fetched if each.partition in self._window]

    def move(self, partition: int, offset: int) -> None:
        """Go on reading a partition at this offset."""
        assert self._reader is not None
        self._progress.ranges[partition].at = offset
        self._reader.assign({(self._topic, partition): OffsetAndMetadata(offset)})

    async def _moved_window(self) -> PartitionReader:
        ranges = self._progress.ranges
        done = {each for each in self._window if ranges[each].is_done}
        self._window -= done
        reader = self._reader
        if reader is None:
            reader = self._reader = await self._open.enter_async_context(
                self._cluster.reading(
                    {},
                    is_committed=self._is_committed,
                    reset=Reset.NONE,
                    max_wait_ms=_MAX_WAIT_MS,
                    max_bytes=self._fetch_bytes,
                )
            )
        if done:
            reader.drop((self._topic, each) for each in done)
        if len(self._window) < WINDOW:
            self._widen(reader)
        return reader

    def _widen(self, reader: PartitionReader) -> None:
        new: list[PartitionRange] = []
        for each in self._progress:
            if len(self._window) + len(new) >= WINDOW:
                break
            if not each.is_done and each.partition not in self._window:
                new.append(each)
        self._window.update(each.partition for each in new)
        self._heard_ms.update((each.partition, self._waited_ms) for each in new)
        reader.assign({(self._topic, each.partition): OffsetAndMetadata(each.at) for each in new})

    def _hear(self, fetched: Iterable[FetchedBatches]) -> None:
        for each in fetched:
            row = self._progress.ranges[each.partition]
            self._heard_ms[each.partition] = self._waited_ms
            if each.partition in self._waiting and not row.has_gaps:
                self._waiting.discard(each.partition)
                row.note = ""
            if row.end is None:
                self._progress.last_seen[each.partition] = each.end_offset
            elif not each.batches and each.next_offset >= each.end_offset >= 0 and each.end_offset < row.end:
                row.note = f"the log ends at {each.end_offset}, and not any more at {row.end}"
                row.end, row.has_gaps = max(each.end_offset, row.at), True

    async def _relocate(self) -> None:
        """Go on where the logs begin or end now. Raises KafkaError, OSError."""
        await self._open.aclose()
        self._reader = None
        found = await self._offsets(self._window, EARLIEST), await self._offsets(self._window, LATEST)
        for partition in self._window:
            first, end = (each.get(partition, NO_OFFSET) for each in found)
            row = self._progress.ranges[partition]
            if first > row.at:
                row.note = f"the records from {row.at} to {first - 1} were deleted meanwhile"
                row.at, row.has_gaps = (first if row.end is None else min(first, row.end)), True
            elif NO_OFFSET < end < row.at:
                row.note = f"the log ends at {end}, and records from there on are lost"
                row.at, row.end, row.has_gaps = end, None if row.end is None else end, True
        self._window.clear()

    async def _offsets(self, partitions: Iterable[int], time: int) -> dict[int, int]:
        found = await self._cluster.run(
            offsets({(self._topic, each): time for each in partitions}, is_committed_only=self._is_committed)
        )
        return {key[1]: each for key, each in found.items() if not isinstance(each, KafkaError)}

    async def _check_topic(self, silent: Set[int]) -> None:
        """Look why nothing comes of these partitions. Raises KafkaError when the topic is gone."""
        leaders: dict[int, int] = {}
        try:
            topics = await self._cluster.topics([self._topic])
        except OSError:
            pass  # no broker answers, which is what the notes say
        else:
            if self._topic not in topics:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the topic {self._topic} does not exist any more"
                )
            leaders = {each: row.leader_id for each, row in topics[self._topic].partitions.items()}
        answering = {leaders.get(each) for each in self._window - silent}
        for partition in silent:
            row, leader = self._progress.ranges[partition], leaders.get(partition)
            if row.has_gaps or (leader is not None and leader in answering):
                continue  # it comes after others of its leader
            row.note = NO_LEADER if leader is not None and leader < 0 else NO_ANSWER
            self._waiting.add(partition)
