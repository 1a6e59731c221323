"""Whether a group keeps up with a partition, judged by a sliding window of its commits. Pure.

A consumer that has caught up at some time in the window is well. Else it is *stalled* when it commits and its offset does not
change, *stopped* when it has not committed for longer than the window is long, and in *warning* when its offset grows and its
lag never shrinks.
Rules: a commit enters the window with the lag as it was measured first after it. Without a full window there is no judgement
but that of a consumer that has stopped; an unknown lag judges nothing.
Source: Burrow's consumer lag evaluation rules.
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
    """The latest commits of one group for one partition."""

    __slots__ = ("_commits", "_last_commit_ms")

    def __init__(self) -> None:
        self._commits: deque[MeasuredCommit] = deque(maxlen=WINDOW_COMMITS)
        self._last_commit_ms = -1

    def measure(self, commit_ms: int, offset: int, lag: int | None) -> None:
        """Take a measurement; a commit that is in the window already is not taken again."""
        if lag is not None and commit_ms != self._last_commit_ms:
            self._commits.append(MeasuredCommit(commit_ms, offset, lag))
            self._last_commit_ms = commit_ms

    def status(self, now_ms: int, lag: int | None) -> GroupStatus:
        """`lag` is the current one."""
        commits = self._commits
        if not lag or len(commits) < 2:
            return GroupStatus.OK
        first, last = commits[0], commits[-1]
        is_full = len(commits) == WINDOW_COMMITS
        if is_full and now_ms - last.commit_ms > last.commit_ms - first.commit_ms:
            return GroupStatus.STOPPED
        if not is_full or any(not commit.lag for commit in commits):
            return GroupStatus.OK
        grows = all(later.lag >= earlier.lag for earlier, later in pairwise(commits))
        if first.offset == last.offset:
            return GroupStatus.STALLED if grows else GroupStatus.OK
        return GroupStatus.WARNING if grows else GroupStatus.OK
