"""The requests that wait for a partition: followers for the log end, consumers for the high watermark or the last stable
offset, produces for the written end or the high watermark, DeleteRecords for the low watermark.

The middle layer of a partition: `Assigned` (the controller's state), `Awaited` here, `Partition` (events).

Rules: a parked request is called once, or cancelled. Waiting fetches are woken once a loop turn, however many appends the turn
had. The containers are created for the first waiting request: of ten thousand partitions most are idle, and no request has ever
waited for them. An append checks for None itself.
Source: Kafka ReplicaManager's purgatories, Partition.
"""

from __future__ import annotations

from collections.abc import Callable

from protocol.errors import ErrorCode
from replication.assignment import Assigned
from replication.delayed_queues import CommitWaiters, FetchWatchers, Watcher, mark
from replication.dependencies import PartitionContext


class Awaited(Assigned):
    """A partition with its waiting requests."""

    __slots__ = ("_commit_waiters", "_context", "_low_watermark_waiters", "_written_waiters", "watchers")

    def __init__(self, topic: str, partition: int, context: PartitionContext) -> None:
        super().__init__(topic, partition)
        self._context = context
        self._commit_waiters: CommitWaiters | None = None
        self._written_waiters: CommitWaiters | None = None
        self._low_watermark_waiters: CommitWaiters | None = None
        # Fetch sessions that have read everything: touched when there are more records, and when other values change (a high
        # watermark for followers, a new log start).
        self.watchers: FetchWatchers | None = None

    # --- produces and deletions ---

    def when_written(self, end_offset: int, on_result: Callable[[ErrorCode], None]) -> int:
        """Call `on_result` once everything below `end_offset` is in the log; returns a ticket for `forget_written`."""
        waiters = self._written_waiters
        if waiters is None:
            waiters = self._written_waiters = CommitWaiters()
        return waiters.park(end_offset, on_result)

    def when_committed(self, end_offset: int, on_result: Callable[[ErrorCode], None]) -> int:
        """Call `on_result` once everything below `end_offset` is committed; returns a ticket for `forget_committed`."""
        waiters = self._commit_waiters
        if waiters is None:
            waiters = self._commit_waiters = CommitWaiters()
        return waiters.park(end_offset, on_result)

    def when_deleted(self, offset: int, on_result: Callable[[ErrorCode], None]) -> int:
        """Call `on_result` once the low watermark is at `offset`; returns a ticket for `forget_deletion`."""
        waiters = self._low_watermark_waiters
        if waiters is None:
            waiters = self._low_watermark_waiters = CommitWaiters()
        return waiters.park(offset, on_result)

    def forget_written(self, ticket: int) -> None:
        if self._written_waiters is not None:
            self._written_waiters.cancel(ticket)

    def forget_committed(self, ticket: int) -> None:
        if self._commit_waiters is not None:
            self._commit_waiters.cancel(ticket)

    def forget_deletion(self, ticket: int) -> None:
        if self._low_watermark_waiters is not None:
            self._low_watermark_waiters.cancel(ticket)

    def _complete_waiters(self, error: ErrorCode) -> None:
        """Complete every waiting produce and deletion with `error`."""
        self._fail_produces(error)
        if self._low_watermark_waiters is not None:
            self._low_watermark_waiters.fail_all(error)
        self._wake_fetches()

    def _fail_produces(self, error: ErrorCode) -> None:
        if self._written_waiters is not None:
            self._written_waiters.fail_all(error)
        if self._commit_waiters is not None:
            self._commit_waiters.fail_all(error)

    # --- fetches ---

    def make_watchers(self) -> FetchWatchers:
        """Create and return `watchers`, which is None until a fetch session has read everything."""
        self.watchers = FetchWatchers()
        return self.watchers

    def watcher_lists(self) -> list[dict[Watcher, None]]:
        """Return the lists that are not empty."""
        return [] if self.watchers is None else self.watchers.lists()

    def _wake_fetches(self) -> None:
        """Wake all waiting fetches, because the epoch, the role or the ends of the log have changed."""
        for watchers in self.watcher_lists():
            self._context.wake_ups.touch(watchers)

    def _touch_watchers(self) -> None:
        """Mark the partition as changed for its fetch sessions, without waking a fetch."""
        for watchers in self.watcher_lists():
            mark(watchers)

    # --- as metrics show it ---

    @property
    def waiting_produces_count(self) -> int:
        return _count(self._written_waiters) + _count(self._commit_waiters)

    @property
    def waiting_fetches_count(self) -> int:
        return sum(watcher.is_parked for watchers in self.watcher_lists() for watcher in watchers)

    @property
    def waiting_deletions_count(self) -> int:
        return _count(self._low_watermark_waiters)


def _count(waiters: CommitWaiters | None) -> int:
    return 0 if waiters is None else len(waiters)
