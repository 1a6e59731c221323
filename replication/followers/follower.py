"""Decides a follower's next step with one partition: truncate its log to where it agrees with the leader's, then copy. Pure.

    assigned --> AskEpoch --answer--> TruncateTo --done--> Fetch --records--> (append) --> Fetch ...
       |            ^---- the epochs still differ ----'      |
       |                                                     +--diverging epoch--> TruncateTo
       '--the fetch itself tells divergence (KIP-595)--> Fetch
                                                             +--out of range--> AskLatest --> TruncateTo
                                                                                    '--> AskEarliest --> RestartAt
    FENCED_LEADER_EPOCH, or a log that takes no more, from anywhere --> Stopped (until the next LeaderAndIsr)

`step` is the only thing to do at any time. The caller does it and reports the outcome by one of the events; requests to the
leader carry `leader_epoch`, so that a response of another leader is never taken for this one's. A reassigned partition gets a
new state: outcomes for the old one have no effect.

Rules: no IO, no clock; the log is read, never changed. A response is reported only while `step` is still the requested one. A
refused partition pauses for `replica.fetch.backoff.ms`, and less right after an assignment, which may reach the leader a little
later.
Invariants: records are copied only behind an offset up to which both logs hold the same; `Fetch.offset` is the written
end of the log, for it acknowledges everything below.
Source: Kafka AbstractFetcherThread, ReplicaFetcherThread; KIP-101, KIP-279 (truncation by epoch), KIP-320 (fencing),
KIP-595 (diverging epoch).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from protocol.errors import ErrorCode

UNKNOWN_EPOCH = -1
UNKNOWN_OFFSET = -1

# Errors of a leader that has not received this assignment yet: it mostly does in a moment, so the first retries come soon.
_NOT_YET = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
FIRST_RETRY_MS = 50
# The pause before a full disk is checked again for room.
NO_ROOM_PAUSE_MS = 250
# The errors for a damaged batch in a response: the next fetch may bring it undamaged.
_DAMAGED = frozenset({ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD})


class FollowedEpochs(Protocol):
    """What must be known of the log's leader epochs."""

    @property
    def latest_epoch(self) -> int:
        """The newest epoch, -1 without any."""

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """Return (largest known epoch at or below `epoch`, its end offset); (-1, -1) when none is known."""


class FollowedLog(Protocol):
    """What must be known of the log. `storage.log.partition_log.PartitionLog` fits it."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def epochs(self) -> FollowedEpochs: ...


# --- steps ---


@dataclass(frozen=True, slots=True)
class AskEpoch:
    """OffsetForLeaderEpoch: where does `epoch`, the last one of our log, end in the leader's?"""

    epoch: int


@dataclass(frozen=True, slots=True)
class AskLatest:
    """ListOffsets: where does the leader's log end?"""


@dataclass(frozen=True, slots=True)
class AskEarliest:
    """ListOffsets: where does the leader's log, which ends at `leader_end_offset`, begin?"""

    leader_end_offset: int


@dataclass(frozen=True, slots=True)
class TruncateTo:
    """Step: truncate the log. `is_last`: then both logs are equal up to their ends."""

    offset: int
    is_last: bool


@dataclass(frozen=True, slots=True)
class RestartAt:
    """Step: remove all records and begin again at `offset`, because the leader has none of the records that are here."""

    offset: int


@dataclass(frozen=True, slots=True)
class Fetch:
    offset: int
    last_fetched_epoch: int


@dataclass(frozen=True, slots=True)
class Stopped:
    """Step: do nothing until the next LeaderAndIsr, because of `error`."""

    error: ErrorCode


Step = AskEpoch | AskLatest | AskEarliest | TruncateTo | RestartAt | Fetch | Stopped


@dataclass(frozen=True, slots=True)
class AppendFetched:
    """Append the records of the response; with `restart_at`, to a log that is emptied first and begins there."""

    restart_at: int | None = None


def begins_within(first_offset: int, start_offset: int, end_offset: int) -> bool:
    """Whether a log that ends at `end_offset` begins anew with the batch at `first_offset`, of which that offset is part.

    What is copied may begin within a batch, at `start_offset` (DeleteRecords). A log that is to begin there, or was truncated
    there and has only deleted records left, gets the whole batch: a batch is never stored in part.
    """
    return first_offset < end_offset <= start_offset


class FollowerState:
    """The state of one partition under one leader in one leader epoch."""

    __slots__ = (
        "_asks_epochs",
        "_backoff_ms",
        "_before_truncation",
        "_log",
        "_retries",
        "_truncates_on_fetch",
        "lag",
        "leader_epoch",
        "retry_at_ms",
        "step",
    )

    def __init__(
        self,
        log: FollowedLog,
        *,
        leader_epoch: int,
        backoff_ms: int,
        truncates_on_fetch: bool = True,
        asks_epochs: bool = True,
    ) -> None:
        """Begin to follow. `asks_epochs`: the leader knows OffsetForLeaderEpoch; `truncates_on_fetch`: its Fetch reports
        divergence."""
        self._log = log
        self._backoff_ms = backoff_ms
        self._truncates_on_fetch = truncates_on_fetch
        self._asks_epochs = asks_epochs
        self._retries = 0
        # (log end offset, latest epoch) before the last truncation, which has to change one of them.
        self._before_truncation: tuple[int, int] | None = None
        self.leader_epoch = leader_epoch
        self.lag: int | None = None
        """Records behind the leader's high watermark at the last response; None before the first."""
        self.retry_at_ms = 0
        self.step: Step = self._first_step()

    def __repr__(self) -> str:
        return f"<FollowerState epoch={self.leader_epoch} {self.step}>"

    @property
    def is_stopped(self) -> bool:
        return isinstance(self.step, Stopped)

    @property
    def is_in_sync(self) -> bool:
        """Whether everything committed is here: such a replica stays in the ISR, and its fetches are never throttled."""
        return self.lag is not None and self.lag <= 0

    def _first_step(self) -> Step:
        if self._truncates_on_fetch and self._log.epochs.latest_epoch != UNKNOWN_EPOCH:
            return self._fetch()
        return self._truncating_step()

    def _truncating_step(self) -> Step:
        """Return the step that finds the end to truncate to. A log without epochs is truncated to its high watermark: records
        above it may be of any leader."""
        epoch = self._log.epochs.latest_epoch
        if epoch == UNKNOWN_EPOCH or self._truncates_on_fetch or not self._asks_epochs:
            return TruncateTo(min(self._log.high_watermark, self._log.log_end_offset), is_last=True)
        return AskEpoch(epoch)

    def _fetch(self) -> Fetch:
        epoch = self._log.epochs.latest_epoch if self._truncates_on_fetch else UNKNOWN_EPOCH
        return Fetch(self._log.log_end_offset, epoch)

    # --- responses of the leader ---

    def on_epoch(self, epoch: int, end_offset: int) -> None:
        """Handle the response to AskEpoch: (largest epoch at or below the requested one, its end offset at the leader)."""
        assert isinstance(self.step, AskEpoch)
        self.step = self._cut(epoch, end_offset)

    def on_fetched(self, first_offset: int, first_last_offset: int, leader_start_offset: int) -> AppendFetched:
        """Handle a Fetch response without an error. The first two arguments are the first and last offset of its first whole
        batch, else -1.

        The caller appends the records, and then calls `on_appended` or `on_append_failed`.
        """
        step, log = self.step, self._log
        assert isinstance(step, Fetch)
        start_offset = max(log.log_start_offset, leader_start_offset)
        is_ours = first_offset >= 0 and log.log_end_offset <= first_last_offset
        restarts = is_ours and begins_within(first_offset, start_offset, log.log_end_offset)
        return AppendFetched(first_offset if restarts else None)

    def on_diverging(self, epoch: int, end_offset: int) -> None:
        """Handle a Fetch response that reports divergence: the leader's log differs behind the end of `epoch`, `end_offset`
        there."""
        assert isinstance(self.step, Fetch)
        self._before_truncation = (self._log.log_end_offset, self._log.epochs.latest_epoch)
        self.step = self._cut(epoch, end_offset)

    def on_latest(self, leader_end_offset: int) -> None:
        """Handle the response to AskLatest. The leader ends before us after an unclean election; otherwise it has deleted the
        requested records, or has more since."""
        assert isinstance(self.step, AskLatest)
        if leader_end_offset < self._log.log_end_offset:
            self.lag = 0
            self.step = TruncateTo(leader_end_offset, is_last=True)
        else:
            self.step = AskEarliest(leader_end_offset)

    def on_earliest(self, leader_start_offset: int, now_ms: int) -> None:
        """Handle the response to AskEarliest. Our records stay unless all of them are below the leader's log start."""
        step = self.step
        assert isinstance(step, AskEarliest)
        if leader_start_offset > self._log.log_end_offset:
            self.lag = max(step.leader_end_offset - leader_start_offset, 0)
            self.step = RestartAt(leader_start_offset)
        else:
            self.lag = max(step.leader_end_offset - self._log.log_end_offset, 0)
            self.step = self._fetch()
            self._delay(now_ms)  # the same fetch was refused just now

    def on_error(self, error: ErrorCode, now_ms: int) -> None:
        """Handle an error of the leader. It knows a newer epoch: another LeaderAndIsr will come. It knows an older one, does
        not lead yet, or has failed: retry later."""
        if error == ErrorCode.FENCED_LEADER_EPOCH:
            self.step = Stopped(error)
        elif error == ErrorCode.OFFSET_OUT_OF_RANGE and isinstance(self.step, Fetch):
            self.step = AskLatest()
        elif error in _NOT_YET:
            pause_ms = min(FIRST_RETRY_MS << min(self._retries, 16), self._backoff_ms)
            self._retries += 1
            self.on_no_answer(now_ms)
            self.retry_at_ms = now_ms + pause_ms
        else:
            self.on_no_answer(now_ms)

    def on_no_answer(self, now_ms: int) -> None:
        """Handle a failed connection to the leader."""
        if isinstance(self.step, AskEarliest):
            self.step = AskLatest()  # the earlier response is outdated by then
        self._delay(now_ms)

    def _delay(self, now_ms: int) -> None:
        self.retry_at_ms = now_ms + self._backoff_ms

    def _cut(self, epoch: int, end_offset: int) -> TruncateTo:
        """Decide where to truncate, given that the leader's `epoch`, not above our latest, ends at `end_offset`.

        When our log lacks that epoch, the records of the next later one go, and the leader is asked again for what remains
        (KIP-279: after two fast elections both logs may have epochs that the other lacks).
        """
        log = self._log
        log_end_offset = log.log_end_offset
        if end_offset == UNKNOWN_OFFSET:
            return TruncateTo(min(log.high_watermark, log_end_offset), is_last=True)
        own_epoch, own_end_offset = log.epochs.end_offset_for(epoch)
        if UNKNOWN_EPOCH in (epoch, own_epoch):
            return TruncateTo(min(end_offset, log_end_offset), is_last=True)
        if own_epoch != epoch:
            return TruncateTo(min(own_end_offset, log_end_offset), is_last=False)
        return TruncateTo(min(own_end_offset, end_offset, log_end_offset), is_last=True)

    # --- outcomes in the log ---

    def on_truncated(self, now_ms: int) -> None:
        """Note that TruncateTo or RestartAt is done."""
        step = self.step
        assert isinstance(step, TruncateTo | RestartAt)
        if isinstance(step, RestartAt) or step.is_last or self._truncates_on_fetch:
            self.step = self._fetch()
        else:
            self.step = self._truncating_step()
        if self._before_truncation == (self._log.log_end_offset, self._log.epochs.latest_epoch):
            self._delay(now_ms)  # nothing was removed: an immediate request would give the same response
        self._before_truncation = None

    def on_appended(self, leader_high_watermark: int) -> None:
        """Note that the records of the response, if there were any, are written."""
        assert isinstance(self.step, Fetch)
        self.lag = max(leader_high_watermark - self._log.log_end_offset, 0)
        self.step = self._fetch()

    def on_append_failed(self, error: ErrorCode, now_ms: int) -> None:
        """Note that the log refused the records (nothing has changed then), or has failed."""
        if error in _DAMAGED:
            self.step = self._fetch()  # from the present log end, in case the offset was the problem
            self._delay(now_ms)
        else:
            self.step = Stopped(error)

    def on_no_room(self, now_ms: int) -> None:
        """Pause, because the disk is (almost) full and nothing has changed; the same step is retried."""
        if isinstance(self.step, Fetch):
            self.step = self._fetch()
        self.retry_at_ms = now_ms + max(self._backoff_ms, NO_ROOM_PAUSE_MS)

    def on_truncation_failed(self, error: ErrorCode) -> None:
        self.step = Stopped(error)
