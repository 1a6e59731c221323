"""The requests that wait for a partition: followers for the log end, consumers for the high watermark or the last stable
offset, produces for the written end or the high watermark, DeleteRecords for the low watermark.

Rules: a parked request is called once, or cancelled. Waiting fetches are woken once a loop turn, however many appends the turn
had. Of ten thousand partitions most are idle, and no request has ever waited for them: they share `NO_WAITERS`, and a list is
made for the first request that needs it. An append checks the lists itself.
Source: Kafka ReplicaManager's purgatories, Partition.
"""

from __future__ import annotations

from collections.abc import Callable

from protocol.errors import ErrorCode
from replication.waiting.delayed_queues import CommitWaiters, FetchWatchers, WakeUps, Watcher, mark


class PartitionWaiters:
    """The waiting requests of one partition."""

    __slots__ = ("_wake_ups", "committed", "deleted", "watchers", "written")

    def __init__(self, wake_ups: WakeUps | None) -> None:
        """`wake_ups`: None for `NO_WAITERS` alone."""
        self._wake_ups = wake_ups
        self.written: CommitWaiters | None = None
        self.committed: CommitWaiters | None = None
        self.deleted: CommitWaiters | None = None
        # Fetch sessions that have read everything: touched when there are more records, and when other values change (a high
        # watermark for followers, a new log start).
        self.watchers: FetchWatchers | None = None

    # --- produces and deletions ---

    def when_written(self, end_offset: int, on_result: Callable[[ErrorCode], None]) -> int:
        """Call `on_result` once everything below `end_offset` is in the log; returns a ticket for `forget_written`."""
        assert self._wake_ups is not None
        waiters = self.written
        if waiters is None:
            waiters = self.written = CommitWaiters()
        return waiters.park(end_offset, on_result)

    def when_committed(self, end_offset: int, on_result: Callable[[ErrorCode], None]) -> int:
        """Call `on_result` once everything below `end_offset` is committed; returns a ticket for `forget_committed`."""
        assert self._wake_ups is not None
        waiters = self.committed
        if waiters is None:
            waiters = self.committed = CommitWaiters()
        return waiters.park(end_offset, on_result)

    def when_deleted(self, offset: int, on_result: Callable[[ErrorCode], None]) -> int:
        """Call `on_result` once the low watermark is at `offset`; returns a ticket for `forget_deletion`."""
        assert self._wake_ups is not None
        waiters = self.deleted
        if waiters is None:
            waiters = self.deleted = CommitWaiters()
        return waiters.park(offset, on_result)

    def forget_written(self, ticket: int) -> None:
        if self.written is not None:
            self.written.cancel(ticket)

    def forget_committed(self, ticket: int) -> None:
        if self.committed is not None:
            self.committed.cancel(ticket)

    def forget_deletion(self, ticket: int) -> None:
        if self.deleted is not None:
            self.deleted.cancel(ticket)

    def fail_all(self, error: ErrorCode) -> None:
        """Complete every waiting produce and deletion with `error`, and wake the fetches."""
        self.fail_produces(error)
        if self.deleted is not None:
            self.deleted.fail_all(error)
        self.wake_fetches()

    def fail_produces(self, error: ErrorCode) -> None:
        if self.written is not None:
            self.written.fail_all(error)
        if self.committed is not None:
            self.committed.fail_all(error)

    # --- fetches ---

    def watchers_of(self, interest: int) -> dict[Watcher, None]:
        """Return the list of those that wait for that end to move, see `FetchWatchers`."""
        watchers = self.watchers
        if watchers is None:
            assert self._wake_ups is not None
            watchers = self.watchers = FetchWatchers()
        return watchers.of(interest)

    def watcher_lists(self) -> list[dict[Watcher, None]]:
        """Return the lists that are not empty."""
        return [] if self.watchers is None else self.watchers.lists()

    def wake_fetches(self) -> None:
        """Wake all waiting fetches, because the epoch, the role or the ends of the log have changed."""
        for watchers in self.watcher_lists():
            assert self._wake_ups is not None
            self._wake_ups.touch(watchers)

    def mark_fetches(self) -> None:
        """Mark the partition as changed for its fetch sessions, without waking a fetch."""
        for watchers in self.watcher_lists():
            mark(watchers)

    # --- as metrics show it ---

    @property
    def produces_count(self) -> int:
        return _count(self.written) + _count(self.committed)

    @property
    def fetches_count(self) -> int:
        return sum(watcher.is_parked for watchers in self.watcher_lists() for watcher in watchers)

    @property
    def deletions_count(self) -> int:
        return _count(self.deleted)


NO_WAITERS = PartitionWaiters(None)
"""Of all partitions for which no request has ever waited."""


def _count(waiters: CommitWaiters | None) -> int:
    return 0 if waiters is None else len(waiters)
