"""Replicas without files: a log as a list, a leader's answers, and a follower that does what `FollowerState` says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from protocol.errors import ErrorCode
from replication.followers.follower import AskEarliest, AskEpoch, AskLatest, Fetch, FollowerState, RestartAt, TruncateTo
from storage.log.leader_epochs import UNDEFINED_EPOCH, LeaderEpochs

BACKOFF_MS = 1000


class ModelEpochs(NamedTuple):
    """Fits `FollowedEpochs`."""

    known: LeaderEpochs
    log_end_offset: int

    @property
    def latest_epoch(self) -> int:
        return self.known.latest_epoch

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        return self.known.end_offset_for(epoch, self.log_end_offset)


@dataclass
class ModelLog:
    """`records` are (leader epoch, value). Fits `FollowedLog`."""

    records: list[tuple[int, str]] = field(default_factory=list)
    log_start_offset: int = 0
    high_watermark: int = 0
    known: LeaderEpochs = field(default_factory=LeaderEpochs)

    @property
    def log_end_offset(self) -> int:
        return self.log_start_offset + len(self.records)

    @property
    def epochs(self) -> ModelEpochs:
        return ModelEpochs(self.known, self.log_end_offset)

    def append(self, epoch: int, value: str) -> None:
        if epoch > self.known.latest_epoch:
            self.known.assign(epoch, self.log_end_offset)
        self.records.append((epoch, value))

    def truncate_to(self, offset: int) -> None:
        if offset < self.log_start_offset:
            self.restart_at(offset)
            return
        del self.records[offset - self.log_start_offset :]
        self.known.truncate_from_end(offset)
        self.high_watermark = min(self.high_watermark, offset)

    def restart_at(self, offset: int) -> None:
        self.records, self.log_start_offset, self.high_watermark = [], offset, offset
        self.known = LeaderEpochs()

    def delete_before(self, offset: int) -> None:
        if offset > self.log_start_offset:
            del self.records[: offset - self.log_start_offset]
            self.log_start_offset = offset
            self.known.truncate_from_start(offset)
            self.high_watermark = max(self.high_watermark, offset)

    def at(self, offset: int) -> tuple[int, str]:
        return self.records[offset - self.log_start_offset]


def model_log(*epochs_and_values: tuple[int, str], high_watermark: int = 0) -> ModelLog:
    log = ModelLog()
    for epoch, value in epochs_and_values:
        log.append(epoch, value)
    log.high_watermark = high_watermark
    return log


def elect(log: ModelLog, epoch: int) -> None:
    """A leader's first deed."""
    log.known.assign(epoch, log.log_end_offset)


class ModelFollower:
    """Follows `leader`. `steps` tells what was done."""

    def __init__(
        self,
        log: ModelLog,
        leader: ModelLog,
        *,
        leader_epoch: int,
        truncates_on_fetch: bool = True,
        asks_epochs: bool = True,
    ) -> None:
        self.log = log
        self.leader = leader
        self.truncates_on_fetch = truncates_on_fetch
        self.steps: list[object] = []
        self.now_ms = 0
        self.state = FollowerState(
            log,
            leader_epoch=leader_epoch,
            backoff_ms=BACKOFF_MS,
            truncates_on_fetch=truncates_on_fetch,
            asks_epochs=asks_epochs,
        )

    @property
    def is_caught_up(self) -> bool:
        return isinstance(self.state.step, Fetch) and self.log.log_end_offset == self.leader.log_end_offset

    def catch_up(self, records_max: int = 1 << 30, steps_max: int = 200) -> None:
        """Until everything is copied, or `records_max` records."""
        copied = 0
        for _ in range(steps_max):
            self.now_ms = max(self.now_ms, self.state.retry_at_ms)
            if isinstance(self.state.step, Fetch):
                if copied >= records_max:
                    return
                before = self.log.log_end_offset
                if self._fetch(records_max - copied) and self.is_caught_up:
                    return
                copied += max(self.log.log_end_offset - before, 0)
            else:
                self._do()
        raise AssertionError(f"does not end: {self.steps[-10:]}")

    def _do(self) -> None:
        state, log, leader = self.state, self.log, self.leader
        step = state.step
        self.steps.append(step)
        match step:
            case AskEpoch(epoch):
                state.on_epoch(*leader.epochs.end_offset_for(epoch))
            case AskLatest():
                state.on_latest(leader.log_end_offset)
            case AskEarliest():
                state.on_earliest(leader.log_start_offset, self.now_ms)
            case TruncateTo(offset, _):
                log.truncate_to(offset)
                state.on_truncated(self.now_ms)
            case RestartAt(offset):
                log.restart_at(offset)
                state.on_truncated(self.now_ms)
            case _:
                raise AssertionError(f"{step} is not to be done")

    def _fetch(self, records_max: int) -> bool:
        """One Fetch; whether it was answered with records or with their absence."""
        state, leader, step = self.state, self.leader, self.state.step
        assert isinstance(step, Fetch)
        self.steps.append(step)
        assert step.offset == self.log.log_end_offset
        if step.last_fetched_epoch != UNDEFINED_EPOCH:
            assert self.truncates_on_fetch
            epoch, end_offset = leader.epochs.end_offset_for(step.last_fetched_epoch)
            if end_offset < 0:
                state.on_error(ErrorCode.OFFSET_OUT_OF_RANGE, self.now_ms)
                return False
            if epoch < step.last_fetched_epoch or end_offset < step.offset:
                state.on_diverging(epoch, end_offset)
                return False
        if not leader.log_start_offset <= step.offset <= leader.log_end_offset:
            state.on_error(ErrorCode.OFFSET_OUT_OF_RANGE, self.now_ms)
            return False
        assert state.on_fetched(-1, -1, leader.log_start_offset).restart_at is None
        for offset in range(step.offset, min(leader.log_end_offset, step.offset + records_max)):
            self.log.append(*leader.at(offset))
        self.log.high_watermark = min(leader.high_watermark, self.log.log_end_offset)
        self.log.delete_before(min(leader.log_start_offset, self.log.high_watermark))
        state.on_appended(leader.high_watermark)
        return True


def same_records(one: ModelLog, other: ModelLog) -> bool:
    """Whether both hold the same where both hold anything."""
    start = max(one.log_start_offset, other.log_start_offset)
    end = min(one.log_end_offset, other.log_end_offset)
    return all(one.at(offset) == other.at(offset) for offset in range(start, end))
