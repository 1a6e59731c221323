"""What of one log is not finished yet: writes in the queue, batches that wait for a segment to open, jobs.

    append --> awaiting_open --segment open--> in_flight --written--> reported

While another log is about to replace this one, appends are buffered: they stay in `awaiting_open`, and are passed to that log.

Rules: runs on the event loop and touches no file.
Invariants: the order of both lists is that of the offsets, and everything in `in_flight` is before everything in
`awaiting_open`; whoever takes an entry calls its `done` once.
Source: none in Kafka, whose threads write while they hold the log's lock; Partition.maybeReplaceCurrentWithFutureReplica
for the buffering.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from protocol.errors import KafkaError
from protocol.records.batch import BatchHeader
from runtime.disk.filesystem import Buffer
from storage.segments.segment import Segment
from storage.segments.txn_index import AbortedTxn

Done = Callable[[KafkaError | None], None]


class PendingWrite:
    """Batches with offsets that are not written yet."""

    __slots__ = (
        "aborted",
        "done",
        "headers",
        "max_timestamp",
        "next_offset",
        "now_ms",
        "offset_of_max_timestamp",
        "records",
    )

    def __init__(
        self,
        records: Buffer,
        next_offset: int,
        max_timestamp: int,
        offset_of_max_timestamp: int,
        now_ms: int,
        done: Done,
        aborted: Sequence[AbortedTxn] = (),
        headers: Sequence[BatchHeader] = (),
    ) -> None:
        self.records = records
        self.next_offset = next_offset
        self.max_timestamp = max_timestamp
        self.offset_of_max_timestamp = offset_of_max_timestamp
        self.now_ms = now_ms
        self.done = done
        self.aborted = aborted
        self.headers = headers
        """Those of several batches."""


class PendingWrites:
    """The unfinished writes and jobs of one log."""

    __slots__ = ("awaiting_open", "idle_waiters", "in_flight", "is_buffering", "jobs_count")

    def __init__(self) -> None:
        # (segment, end of the bytes in it, next offset, done) of each write that was queued and not reported yet. Lists:
        # they are short or empty, and an empty deque takes 760 bytes, in ten thousand logs.
        self.in_flight: list[tuple[Segment, int, int, Done]] = []
        self.awaiting_open: list[PendingWrite] = []
        self.is_buffering = False
        self.jobs_count = 0
        """Jobs that were started and not reported yet."""
        self.idle_waiters: list[asyncio.Future[None]] = []
        """Callers that wait until all of these have ended."""

    # --- until all have ended ---

    @property
    def is_busy(self) -> bool:
        """Whether a write or job is under way. Buffered appends do not count."""
        return bool(self.in_flight or self.jobs_count or (self.awaiting_open and not self.is_buffering))

    async def await_idle(self) -> None:
        """Return when no write or job of this log is pending. Buffered appends do not count."""
        while self.is_busy:
            idle = asyncio.get_running_loop().create_future()
            self.idle_waiters.append(idle)
            await idle

    def wake_if_idle(self) -> None:
        """Wake those who wait, unless something is still pending."""
        if not self.is_busy:
            waiters, self.idle_waiters = self.idle_waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    def job_begun(self) -> None:
        self.jobs_count += 1

    def job_ended(self) -> None:
        self.jobs_count -= 1
        if self.idle_waiters:
            self.wake_if_idle()

    # --- outcomes ---

    def report_with(self, end_offset: int, done: Done) -> bool:
        """Have `done` called with the pending write that reaches `end_offset`. Returns False when no write is pending."""
        if not (self.in_flight or self.awaiting_open):
            return False
        if self.in_flight and end_offset <= self.in_flight[-1][2]:  # also while appends are buffered
            segment, end_bytes, next_offset, first = self.in_flight[-1]
            self.in_flight[-1] = (segment, end_bytes, next_offset, _both(first, done))
        else:
            last = self.awaiting_open[-1]
            last.done = _both(last.done, done)
        return True

    def drop_all(self) -> list[Done]:
        """Forget everything, because nothing more is written; returns what the writes have to report to."""
        self.is_buffering = False
        dropped = [entry[3] for entry in self.in_flight] + [each.done for each in self.awaiting_open]
        self.in_flight.clear()
        self.awaiting_open.clear()
        return dropped

    def take_awaiting(self) -> list[PendingWrite]:
        """Return the batches whose segment is open now."""
        waiting, self.awaiting_open = self.awaiting_open, []
        return waiting

    # --- replacement by another log ---

    def begin_buffering(self, log_end_offset: int) -> None:
        """Keep new appends in memory, until `take_buffered`. Nothing may wait for a segment to open."""
        assert not self.awaiting_open
        self.is_buffering = True
        # The writer checks this list anyway, so it needs no other check.
        self.awaiting_open.append(PendingWrite(b"", log_end_offset, -1, log_end_offset, 0, ignore_result))

    def take_buffered(self) -> list[PendingWrite]:
        """End the buffering. Returns the buffered appends, in order; none when the log has failed since."""
        held, self.awaiting_open = self.awaiting_open[1:], []
        self.is_buffering = False
        self.wake_if_idle()
        return held


def ignore_result(_error: KafkaError | None) -> None:
    """A callback for jobs that are no appends."""


def _both(first: Done, second: Done) -> Done:
    def done(error: KafkaError | None) -> None:
        first(error)
        second(error)

    return done
