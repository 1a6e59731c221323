"""What a follower does next with one partition: cut its log to where it agrees with the leader's, then copy. Pure.

    assigned --> AskEpoch --answer--> TruncateTo --done--> Fetch --records--> (append) --> Fetch ...
       |            ^---- the epochs still differ ----'      |
       |                                                     +--diverging epoch--> TruncateTo
       '--the fetch itself tells divergence (KIP-595)--> Fetch
                                                             +--out of range--> AskLatest --> TruncateTo
                                                                                    '--> AskEarliest --> RestartAt
    FENCED_LEADER_EPOCH, or a log that takes no more, from anywhere --> Stopped (until the next LeaderAndIsr)

`step` is all there is to do at any time. The host does it and tells what came of it by one of the events; requests to
the leader carry `leader_epoch`, so that what another leader says is never mistaken for this one's. A partition that is
assigned anew gets a new state: what the old one still waits for has no effect.

Rules: no IO, no clock; the log is asked, never changed. An answer is told only while `step` is still the one that was
carried out. Whoever is refused pauses for `replica.fetch.backoff.ms`; only right after an assignment, which the leader may
hear of a little later, it does not wait that long.
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

# What a leader says that has not heard of this assignment yet: it mostly will in a moment, so the first retries come soon.
_NOT_YET = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
FIRST_RETRY_MS = 50
# So soon it is looked again whether a full disk has room.
NO_ROOM_PAUSE_MS = 250
# What a damaged batch in an answer is refused with: the next fetch may bring it whole.
_DAMAGED = frozenset({ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD})


class FollowedLog(Protocol):
    """What has to be known of the log. `storage.log.partition_log.PartitionLog` fits it."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def latest_epoch(self) -> int: ...

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(largest known epoch at or below `epoch`, where it ends); (-1, -1) when none is known."""


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
    """Cut the log. `is_last`: then both logs hold the same."""

    offset: int
    is_last: bool


@dataclass(frozen=True, slots=True)
class RestartAt:
    """Drop the whole log and begin again: the leader has nothing left of what is here."""

    offset: int


@dataclass(frozen=True, slots=True)
class Fetch:
    offset: int
    last_fetched_epoch: int


@dataclass(frozen=True, slots=True)
class Stopped:
    """Failed until the next LeaderAndIsr."""

    error: ErrorCode


Step = AskEpoch | AskLatest | AskEarliest | TruncateTo | RestartAt | Fetch | Stopped


@dataclass(frozen=True, slots=True)
class AppendRecords:
    """The answer's records go into the log; with `restart_at`, into one that begins anew there."""

    restart_at: int | None = None


def begins_within(first_offset: int, start_offset: int, end_offset: int) -> bool:
    """Whether a log that ends at `end_offset` begins anew with the batch at `first_offset`, of which that offset is part.

    What is copied may begin within a batch, at `start_offset` (DeleteRecords). A log that is to begin there, or was cut there
    and has nothing left but what is deleted, takes the whole batch: a batch is never stored in part.
    """
    return first_offset < end_offset <= start_offset


class FollowerState:
    """One partition under one leader in one leader epoch."""

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
        """`asks_epochs`: the leader knows OffsetForLeaderEpoch; `truncates_on_fetch`: its Fetch tells divergence."""
        self._log = log
        self._backoff_ms = backoff_ms
        self._truncates_on_fetch = truncates_on_fetch
        self._asks_epochs = asks_epochs
        self._retries = 0
        # (log end offset, latest epoch) when the leader last made us cut: the cut has to change one of them.
        self._before_truncation: tuple[int, int] | None = None
        self.leader_epoch = leader_epoch
        self.lag: int | None = None
        """Records behind the leader's high watermark at the last answer; None before there was one."""
        self.retry_at_ms = 0
        self.step: Step = self._first_step()

    def __repr__(self) -> str:
        return f"<FollowerState epoch={self.leader_epoch} {self.step}>"

    @property
    def is_stopped(self) -> bool:
        return isinstance(self.step, Stopped)

    @property
    def is_in_sync(self) -> bool:
        """Everything committed is here: its fetches keep it in the ISR and are never throttled."""
        return self.lag is not None and self.lag <= 0

    def _first_step(self) -> Step:
        if self._truncates_on_fetch and self._log.latest_epoch != UNKNOWN_EPOCH:
            return self._fetch()
        return self._truncating_step()

    def _truncating_step(self) -> Step:
        """A log without epochs is cut to its high watermark: what lies above it may be anybody's."""
        epoch = self._log.latest_epoch
        if epoch == UNKNOWN_EPOCH or self._truncates_on_fetch or not self._asks_epochs:
            return TruncateTo(min(self._log.high_watermark, self._log.log_end_offset), is_last=True)
        return AskEpoch(epoch)

    def _fetch(self) -> Fetch:
        epoch = self._log.latest_epoch if self._truncates_on_fetch else UNKNOWN_EPOCH
        return Fetch(self._log.log_end_offset, epoch)

    # --- what the leader says ---

    def on_epoch(self, epoch: int, end_offset: int) -> None:
        """The leader's answer to AskEpoch: (largest epoch at or below the one asked for, where it ends there)."""
        assert isinstance(self.step, AskEpoch)
        self.step = self._cut(epoch, end_offset)

    def on_fetched(self, first_offset: int, first_last_offset: int, leader_start_offset: int) -> AppendRecords:
        """The leader's answer to Fetch without an error. Of its first whole batch: first and last offset, else -1.

        The records are to be appended, which `on_appended` or `on_append_failed` follows.
        """
        step, log = self.step, self._log
        assert isinstance(step, Fetch)
        start_offset = max(log.log_start_offset, leader_start_offset)
        is_ours = first_offset >= 0 and log.log_end_offset <= first_last_offset
        restarts = is_ours and begins_within(first_offset, start_offset, log.log_end_offset)
        return AppendRecords(first_offset if restarts else None)

    def on_diverging(self, epoch: int, end_offset: int) -> None:
        """The leader's answer to Fetch: its log parts from ours at the end of `epoch`, `end_offset` there."""
        assert isinstance(self.step, Fetch)
        self._before_truncation = (self._log.log_end_offset, self._log.latest_epoch)
        self.step = self._cut(epoch, end_offset)

    def on_latest(self, leader_end_offset: int) -> None:
        """The leader ends before us after an unclean election; else it has deleted what we ask for, or moved on since."""
        assert isinstance(self.step, AskLatest)
        if leader_end_offset < self._log.log_end_offset:
            self.lag = 0
            self.step = TruncateTo(leader_end_offset, is_last=True)
        else:
            self.step = AskEarliest(leader_end_offset)

    def on_earliest(self, leader_start_offset: int, now_ms: int) -> None:
        """Our records stay unless all of them are below what the leader still has."""
        step = self.step
        assert isinstance(step, AskEarliest)
        if leader_start_offset > self._log.log_end_offset:
            self.lag = max(step.leader_end_offset - leader_start_offset, 0)
            self.step = RestartAt(leader_start_offset)
        else:
            self.lag = max(step.leader_end_offset - self._log.log_end_offset, 0)
            self.step = self._fetch()
            self._delay(now_ms)  # the same fetch was refused a moment ago

    def on_error(self, error: ErrorCode, now_ms: int) -> None:
        """The leader refused the step. It knows a newer epoch: another LeaderAndIsr is on its way. It knows an older one,
        or does not lead yet, or has trouble of its own: ask again later."""
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
        """The leader could not be reached."""
        if isinstance(self.step, AskEarliest):
            self.step = AskLatest()  # its answer will be old by then
        self._delay(now_ms)

    def _delay(self, now_ms: int) -> None:
        self.retry_at_ms = now_ms + self._backoff_ms

    def _cut(self, epoch: int, end_offset: int) -> TruncateTo:
        """Where to cut, knowing that the leader's `epoch`, not above our latest, ends at `end_offset`.

        An epoch that we do not have lies between two of ours: the records of the later one go, and what comes then is
        asked again (KIP-279: after two fast elections both logs may have epochs that the other has not).
        """
        log = self._log
        log_end_offset = log.log_end_offset
        if end_offset == UNKNOWN_OFFSET:
            return TruncateTo(min(log.high_watermark, log_end_offset), is_last=True)
        own_epoch, own_end_offset = log.end_offset_for_epoch(epoch)
        if UNKNOWN_EPOCH in (epoch, own_epoch):
            return TruncateTo(min(end_offset, log_end_offset), is_last=True)
        if own_epoch != epoch:
            return TruncateTo(min(own_end_offset, log_end_offset), is_last=False)
        return TruncateTo(min(own_end_offset, end_offset, log_end_offset), is_last=True)

    # --- what became of the log ---

    def on_truncated(self, now_ms: int) -> None:
        """TruncateTo or RestartAt is done."""
        step = self.step
        assert isinstance(step, TruncateTo | RestartAt)
        if isinstance(step, RestartAt) or step.is_last or self._truncates_on_fetch:
            self.step = self._fetch()
        else:
            self.step = self._truncating_step()
        if self._before_truncation == (self._log.log_end_offset, self._log.latest_epoch):
            self._delay(now_ms)  # nothing went: the leader would say the same again, and again
        self._before_truncation = None

    def on_appended(self, leader_high_watermark: int) -> None:
        """The records of the answer, if there were any, are written."""
        assert isinstance(self.step, Fetch)
        self.lag = max(leader_high_watermark - self._log.log_end_offset, 0)
        self.step = self._fetch()

    def on_append_failed(self, error: ErrorCode, now_ms: int) -> None:
        """The log refused the records (nothing has changed then), or takes no more."""
        if error in _DAMAGED:
            self.step = self._fetch()  # from where the log ends now, if that was what was wrong
            self._delay(now_ms)
        else:
            self.step = Stopped(error)

    def on_no_room(self, now_ms: int) -> None:
        """The disk is (almost) full, and nothing has changed: the same again when there is room."""
        if isinstance(self.step, Fetch):
            self.step = self._fetch()
        self.retry_at_ms = now_ms + max(self._backoff_ms, NO_ROOM_PAUSE_MS)

    def on_truncation_failed(self, error: ErrorCode) -> None:
        self.step = Stopped(error)
