"""Whether a group keeps up with a partition, judged by a sliding window of its commits. Pure.

A consumer that has caught up at some time in the window is well. Else it is *stalled* when it commits and its offset does not
change, and in *warning* when its offset grows and its lag never shrinks. It has *stopped* when, for longer than the window is
long, records have waited for it and it has not committed.
Rules: a commit enters the window with the lag as it was measured first after it. An offset that goes back begins a new window:
an operator has set the group back, or the topic is another one. Without a full window there is no judgement but that of a
consumer that has stopped; an unknown lag judges nothing. Records have waited since the first measure that found the consumer
behind, so that the first record after a quiet night, or a coordinator that has just moved, stops no commit.
Source: Burrow's consumer lag evaluation rules; its pull request 338 (records that have just come).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise

WINDOW_COMMITS = 10


class GroupStatus(IntEnum):
    """The worst of its partitions is that of a group."""

    OK = 0
    WARNING = 1
    STALLED = 2
    STOPPED = 3


@dataclass(frozen=True, slots=True)
class MeasuredCommit:
    commit_ms: int
    offset: int
    lag: int


class CommitWindow:
    """The latest commits of one group for one partition. A window counts as at least `shortest_ms` long."""

    __slots__ = ("_behind_since_ms", "_commits", "_shortest_ms")

    def __init__(self, shortest_ms: int) -> None:
        self._shortest_ms = shortest_ms
        self._commits: deque[MeasuredCommit] = deque(maxlen=WINDOW_COMMITS)
        self._behind_since_ms: int | None = None

    def measure(self, now_ms: int, commit_ms: int, offset: int, lag: int | None) -> None:
        """Take a measurement; a commit that is in the window already is not taken again."""
        if lag is None:
            return
        if not lag:
            self._behind_since_ms = None
        elif self._behind_since_ms is None:
            self._behind_since_ms = now_ms
        commits = self._commits
        if commits:
            last = commits[-1]
            if last.commit_ms == commit_ms and last.offset == offset:
                return
            if offset < last.offset:
                commits.clear()
        commits.append(MeasuredCommit(commit_ms, offset, lag))

    def status(self, now_ms: int, lag: int | None) -> GroupStatus:
        """`lag` is the current one."""
        commits = self._commits
        if not lag or not commits or self._behind_since_ms is None:
            return GroupStatus.OK
        first, last = commits[0], commits[-1]
        silent_ms = now_ms - max(last.commit_ms, self._behind_since_ms)
        if silent_ms > max(last.commit_ms - first.commit_ms, self._shortest_ms):
            return GroupStatus.STOPPED
        if len(commits) < WINDOW_COMMITS or not all(commit.lag for commit in commits):
            return GroupStatus.OK
        if any(later.lag < earlier.lag for earlier, later in pairwise(commits)):
            return GroupStatus.OK
        return GroupStatus.STALLED if first.offset == last.offset else GroupStatus.WARNING
