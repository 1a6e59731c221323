"""What a leader knows of one follower: its log end offset, and when it was last caught up. Pure.

A follower says only where it reads on. Under load that is never the leader's log end, so "caught up" is a time, not an
equality of offsets: the last moment at which the follower is known to have held all that the leader had then.

    fetch offset >= the leader's log end now            caught up now
    fetch offset >= the leader's log end at the         caught up then: at that fetch
                    follower's previous fetch

A follower at the leader's log end leaves the partition out of its session's fetches until there is more: it is *idle*, and each
of those fetches confirms that it is caught up without a call here.

Rules: no clock; times are `now_ms` of a clock that never goes back.
Invariant: `caught_up_ms` never goes back within a leader epoch.
Source: Kafka Replica, ReplicaState; KIP-903 (broker epochs).
"""

from __future__ import annotations

from typing import Protocol

UNKNOWN_OFFSET = -1
UNKNOWN_BROKER_EPOCH = -1
# Longer ago than any lag that can be configured.
NEVER_MS = -(1 << 62)


class FetchChannel(Protocol):
    """The session by which a follower's fetches come."""

    last_used_ms: int


class ReplicaProgress:
    """The progress of one follower. Owner: `LeaderState`."""

    __slots__ = (
        "_caught_up_ms",
        "_idle_on",
        "broker_epoch",
        "broker_id",
        "fetch_ms",
        "leader_leo_at_fetch",
        "leo",
        "log_start_offset",
        "refused_until_ms",
    )

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.leo = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.broker_epoch = UNKNOWN_BROKER_EPOCH
        self._caught_up_ms = NEVER_MS
        self._idle_on: FetchChannel | None = None
        self.fetch_ms = NEVER_MS
        self.leader_leo_at_fetch = UNKNOWN_OFFSET
        # The controller refused it as an ISR member; not requested again before this time, in this epoch of its broker.
        self.refused_until_ms = NEVER_MS

    def __repr__(self) -> str:
        return f"<ReplicaProgress {self.broker_id} leo={self.leo} caught_up_ms={self.caught_up_ms}>"

    @property
    def caught_up_ms(self) -> int:
        channel = self._idle_on
        return self._caught_up_ms if channel is None else max(self._caught_up_ms, channel.last_used_ms)

    def begin_epoch(self, *, leader_leo: int, is_in_sync: bool, now_ms: int) -> None:
        """Continue under the same leader in a new epoch. Members of the ISR get the whole lag time to fetch again."""
        self._idle_on = None
        self._caught_up_ms = now_ms if is_in_sync else NEVER_MS
        self.fetch_ms = now_ms if is_in_sync and self.leo != UNKNOWN_OFFSET else NEVER_MS
        self.leader_leo_at_fetch = UNKNOWN_OFFSET if self.leo == UNKNOWN_OFFSET else leader_leo

    def record_fetch(
        self, *, broker_epoch: int, fetch_offset: int, log_start_offset: int, leader_leo: int, now_ms: int
    ) -> None:
        self.wake()
        if fetch_offset >= leader_leo:
            self._caught_up_ms = max(self._caught_up_ms, now_ms)
        elif fetch_offset >= self.leader_leo_at_fetch:
            self._caught_up_ms = max(self._caught_up_ms, self.fetch_ms)
        self.leo = fetch_offset
        self.log_start_offset = log_start_offset
        if broker_epoch != self.broker_epoch:
            self.broker_epoch = broker_epoch
            self.refused_until_ms = NEVER_MS
        self.leader_leo_at_fetch = max(leader_leo, self.leader_leo_at_fetch)
        self.fetch_ms = now_ms

    def mark_idle_on(self, channel: FetchChannel) -> None:
        """Note that the follower has everything; until `wake`, each fetch that comes by `channel` confirms that."""
        self._idle_on = channel

    def is_idle_on(self, channel: FetchChannel) -> bool:
        return self._idle_on is channel

    def wake(self) -> None:
        """End the idle state, because there is more to fetch: the follower was caught up when `channel` was last used."""
        channel = self._idle_on
        if channel is not None:
            self._idle_on = None
            self._caught_up_ms = max(self._caught_up_ms, channel.last_used_ms)

    def is_caught_up(self, leader_leo: int, now_ms: int, lag_max_ms: int) -> bool:
        return self.leo == leader_leo or now_ms - self.caught_up_ms <= lag_max_ms

    def is_refused(self, now_ms: int) -> bool:
        return now_ms < self.refused_until_ms
