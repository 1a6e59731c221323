"""Reads what is not in the page cache: repeats an attempt until nothing that it needs is cold.

An attempt is a function over a `SegmentReader`, which raises `Cold` where it would wait for the disk. The missing piece is
read in a reader thread, or its segment opened, and the attempt begins again with it.

Rules: runs on the event loop; only raw reads, opening and closing run in threads. Meanwhile the log may roll, be cleaned,
truncated, or shortened by retention: bytes of a file that no longer belongs to the log never reach an attempt.
Invariants: a segment whose bytes a thread reads is pinned; a caller that gets SegmentReplaced looks up its segments again.
Source: ours, as an event loop must not wait; Kafka's LazyIndex opens what is touched, and its request threads wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeVar

from protocol.errors import ErrorCode, KafkaError
from runtime.error_texts import reason_of
from storage.log.end_check import check_end
from storage.log.log_environment import LogEnvironment
from storage.log.log_offsets import LogOffsets
from storage.segments.index import CorruptIndex
from storage.segments.segment import Cold, OpenedSegment, Segment, SegmentReader
from storage.segments.segment_age import segment_ages
from storage.segments.segment_files import LOG_SUFFIX
from storage.segments.segment_list import Segments
from storage.segments.segment_scan import open_segment, write_indexes

logger = logging.getLogger(__name__)

T = TypeVar("T")


class SegmentReplaced(KafkaError):
    """Raised when the caller must look up its segment again: it was replaced by a cleaned one, or the log was truncated."""


class ColdReading:
    """Runs the reads of one log that have to wait for the disk; shares the log's segments and offsets."""

    __slots__ = (
        "_environment",
        "_filesystem",
        "_index_interval_bytes",
        "_offsets",
        "_open_segments",
        "_queue",
        "_readers",
        "_segments",
        "_truncation",
        "truncations",
    )

    def __init__(
        self,
        segments: Segments,
        environment: LogEnvironment,
        index_interval_bytes: int,
        offsets: LogOffsets,
    ) -> None:
        self._segments = segments
        self._environment = environment
        self._filesystem = environment.filesystem
        self._queue = environment.queue
        self._readers = environment.readers
        self._open_segments = environment.open_segments
        self._index_interval_bytes = index_interval_bytes
        self._offsets = offsets
        # Done when the truncation in progress has ended; None without one.
        self._truncation: asyncio.Future[None] | None = None
        # Counts the starts and ends of truncations: bytes read from the files before may not be in them any more.
        self.truncations = 0

    @contextmanager
    def while_truncating(self) -> Iterator[None]:
        """Mark a truncation as in progress: the files of the active segment become shorter in the block, its indexes in memory
        at the end."""
        assert self._truncation is None
        truncation = self._truncation = asyncio.get_running_loop().create_future()
        self.truncations += 1
        try:
            yield
        finally:
            self._truncation = None
            self.truncations += 1
            truncation.set_result(None)

    async def run(self, attempt: Callable[[SegmentReader], T]) -> T:
        """Run `attempt` until nothing it needs is cold; what it needed is read once, in reader threads.

        Raises SegmentReplaced, KAFKA_STORAGE_ERROR.
        """
        reader = SegmentReader(self._filesystem, {})
        truncations = self.truncations
        segment: Segment | None = None
        while True:
            try:
                return attempt(reader)
            except Cold as cold:
                segment, key, job = cold.segment, cold.key, cold.job
            except CorruptIndex as error:
                assert segment is not None, "an index in memory is sound"
                raise await self._corruption_error(segment, truncations, error) from error
            except OSError as error:  # a read that did not have to wait
                self._environment.note_read_error(self._segments.active.directory, error)
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Cannot read: {reason_of(error)}") from error
            if job is None:
                await self.open(segment)
                continue
            segment.pins += 1
            try:
                assert reader.fetched is not None
                reader.fetched[key] = await self._readers.run(job)
                self._raise_if_replaced(segment)  # a file of the same name may be what was read
            except OSError as error:
                self._raise_if_replaced(segment)
                self._environment.note_read_error(segment.directory, error)
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Cannot read {segment}: {reason_of(error)}") from error
            finally:
                segment.pins -= 1
                self._open_segments.unpinned(segment)
            self.raise_if_truncated_since(truncations)

    async def retry_when_replaced(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Run `attempt`, which looks up its segments by itself, until none of them was replaced or truncated meanwhile."""
        while True:
            with suppress(SegmentReplaced):
                return await attempt()

    async def _corruption_error(self, segment: Segment, truncations: int, error: CorruptIndex) -> KafkaError:
        """Return the error to raise when the file of an index does not match what its segment has in memory."""
        if self._truncation is not None:
            await asyncio.shield(self._truncation)
        self.raise_if_truncated_since(truncations)
        self._raise_if_removed(segment)
        logger.warning("index is damaged: path=%s error=%s", segment.path(LOG_SUFFIX), str(error))
        if segment is not self._segments.active:
            self._open_segments.close(segment)  # the next read opens it again and trusts the files
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"An index of {segment} is damaged: {error}")

    def raise_if_truncated_since(self, truncations: int) -> None:
        """Raise SegmentReplaced unless `truncations` still equals `self.truncations`: no truncation since the read began."""
        if truncations != self.truncations:
            raise SegmentReplaced(ErrorCode.KAFKA_STORAGE_ERROR, "The log was truncated while it was read.")

    def _raise_if_replaced(self, segment: Segment) -> None:
        """Raise SegmentReplaced if the log still has what `segment` was opened for."""
        holder = self._segments.at_or_before(segment.base_offset)
        if segment.is_removed and not holder.is_removed and holder.base_offset <= segment.base_offset:
            raise SegmentReplaced(ErrorCode.KAFKA_STORAGE_ERROR, f"{segment} was cleaned while it was read.")

    def _raise_if_removed(self, segment: Segment) -> None:
        """Raises SegmentReplaced, KAFKA_STORAGE_ERROR."""
        if segment.is_removed:
            self._raise_if_replaced(segment)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{segment} was removed while it was read.")

    async def ensure_timestamps_known(self, segment: Segment) -> None:
        """Return once the segment's `max_timestamp` is known. Raises SegmentReplaced, KAFKA_STORAGE_ERROR."""
        while not segment.knows_timestamps:
            if segment is self._segments.active or segment.is_awaited:
                await self.open(segment)
            else:
                await self._load_age(segment)

    async def _load_age(self, segment: Segment) -> None:
        """Read the timestamps of a closed segment from the last entries of its indexes; most searches skip such segments."""
        truncations = self.truncations
        self._raise_if_removed(segment)
        job = partial(segment_ages, self._filesystem, [segment], self._index_interval_bytes)
        try:
            (age,) = await self._readers.run(job)
        except OSError as error:
            self._raise_if_replaced(segment)
            self._environment.note_read_error(segment.directory, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Cannot read {segment}: {reason_of(error)}") from error
        self._raise_if_removed(segment)
        self.raise_if_truncated_since(truncations)
        segment.learn_age(age)

    async def open(self, segment: Segment) -> None:
        """Open a closed segment, in a reader thread. Raises KAFKA_STORAGE_ERROR."""
        if segment.is_awaited:
            await self._queue.drain()
            return
        self._raise_if_removed(segment)
        try:
            opened = await self._readers.run(
                partial(
                    open_segment, self._filesystem, segment.directory, segment.base_offset, self._index_interval_bytes
                )
            )
        except OSError as error:
            self._raise_if_replaced(segment)
            self._environment.note_read_error(segment.directory, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Cannot open {segment}: {reason_of(error)}") from error
        if opened.has_new_indexes and segment.file is None and not (segment.is_removed or segment.is_awaited):
            await self._keep_indexes(segment, opened)
        if segment.is_removed:
            await self._readers.run(opened.file.close)
            self._raise_if_removed(segment)
        if segment.file is not None or segment.is_awaited:
            await self._readers.run(opened.file.close)  # another task opened it first
            return
        segment.install(opened)
        if segment is self._segments.active:
            check_end(self._offsets, segment.directory, opened)
        if opened.problem is not None:
            logger.warning("segment is damaged: path=%s error=%s", segment.path(LOG_SUFFIX), opened.problem)
        if segment is not self._segments.active:
            self._open_segments.touch(segment)

    async def _keep_indexes(self, segment: Segment, opened: OpenedSegment) -> None:
        """Write rebuilt indexes in the directory's queue, after the jobs that give the segment's files their present names, and
        before jobs that rename them."""
        try:
            await self._queue.run(
                partial(write_indexes, self._filesystem, segment.directory, segment.base_offset, opened)
            )
        except OSError as error:  # reads only need the indexes in memory
            logger.warning("indexes not written: path=%s error=%s", segment.path(LOG_SUFFIX), error)
