"""Decides for a partition's leader how far the log is committed, and which replicas are in sync. Pure: events in, effects out.

    committed  --a follower has caught up-->   expanding \\
    committed  --a follower lags too long-->   shrinking  }--the controller's answer, or a LeaderAndIsr--> committed
                                                         /

The ISR belongs to the controller: the leader only requests a change, and until the response uses what is safe in either case,
the *maximal ISR*: a member to be added counts already, one to be removed counts still.

Rules: no IO, no clock. The caller appends first and then passes the new log end offset. One change is pending at a time.
Invariants: the high watermark never falls within one leader epoch; when it moves, it passes the log end offset of no
member of the maximal ISR and of no other live replica that is caught up (else that one could never join), unless the
controller has just refused it; it does not move while the ISR is smaller than min.insync.replicas (not even for acks=1).
The ISR keeps its order, newcomers go to its end.
Source: Kafka Partition (maybeIncrementLeaderHW, maybeExpandIsr, maybeShrinkIsr, handleAlterPartition*), KIP-101,
KIP-497, KIP-903, KIP-966 (min ISR and the high watermark).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from protocol.errors import ErrorCode
from replication.assignment import ids
from replication.replica_progress import UNKNOWN_OFFSET, FetchChannel, ReplicaProgress

__all__ = [
    "UNKNOWN_OFFSET",
    "Effect",
    "HighWatermarkAdvanced",
    "IsrChange",
    "IsrChangeFailed",
    "IsrChangeRequested",
    "IsrCommitted",
    "IsrResponse",
    "LeaderState",
    "LeadingBroker",
]

# Errors after which the change stays pending until the controller announces the state: it may have been applied, or our state
# of the partition is outdated.
AWAIT_CONTROLLER_ERRORS = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
# Errors that mean: not applied, and our partition epoch is right.
REFUSED_ERRORS = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
# A replica that the controller has refused (for example, because its broker shuts down) is not requested again before this
# time, and the high watermark does not wait for it meanwhile.
REFUSAL_PAUSE_MS = 1_000


@dataclass(frozen=True, slots=True, eq=False)
class IsrChange:
    """A requested change of the ISR; equal only to itself. `added` is the replica to join, None when the ISR shrinks."""

    isr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int
    added: int | None


@dataclass(frozen=True, slots=True)
class IsrResponse:
    """The controller's response to a change: the state it keeps now, or an error."""

    error: ErrorCode
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    partition_epoch: int = -1


@dataclass(frozen=True, slots=True)
class HighWatermarkAdvanced:
    """Effect: records below `high_watermark` are committed."""

    high_watermark: int


@dataclass(frozen=True, slots=True)
class IsrChangeRequested:
    """Effect: send `change` to the controller, and pass its response to `on_isr_response`."""

    change: IsrChange


@dataclass(frozen=True, slots=True)
class IsrCommitted:
    """Effect: the controller has applied the requested change."""

    isr: tuple[int, ...]
    partition_epoch: int
    is_expansion: bool


@dataclass(frozen=True, slots=True)
class IsrChangeFailed:
    """Effect: the controller has refused the requested change."""

    change: IsrChange
    error: ErrorCode


Effect = HighWatermarkAdvanced | IsrChangeRequested | IsrCommitted | IsrChangeFailed


def _everybody(_broker_id: int) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class LeadingBroker:
    """What all leaders of a broker share. `is_alive` consults the current metadata."""

    broker_id: int
    lag_max_ms: int = 30_000
    is_alive: Callable[[int], bool] = _everybody


NO_FOLLOWERS: Mapping[int, ReplicaProgress] = MappingProxyType({})


class LeaderState:
    """The leader's view of one partition in one leader epoch. Created at election, dropped at the next one.

    `replicas` is the whole assignment (only the leader when not given). `previous` is the state of this broker's last term,
    when it leads again. What that knows of the followers stays true and is taken over, unless epochs lie in between: their
    leaders may have had the followers truncate their logs.
    """

    __slots__ = (
        "_awaits_others",
        "_broker",
        "epoch_start_offset",
        "followers",
        "high_watermark",
        "is_under_min_isr",
        "isr",
        "leader_epoch",
        "leo",
        "min_insync_replicas",
        "partition_epoch",
        "pending",
    )

    def __init__(
        self,
        broker: LeadingBroker,
        *,
        leader_epoch: int,
        isr: Iterable[int],
        leo: int,
        high_watermark: int,
        min_insync_replicas: int,
        replicas: Iterable[int] = (),
        partition_epoch: int = 0,
        epoch_start_offset: int | None = None,
        previous: LeaderState | None = None,
        now_ms: int = 0,
    ) -> None:
        self._broker = broker
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.isr = ids(isr)
        self.pending: IsrChange | None = None
        self.leo = leo
        self.epoch_start_offset = leo if epoch_start_offset is None else epoch_start_offset
        self.high_watermark = min(high_watermark, leo)
        self.min_insync_replicas = min_insync_replicas
        # The other replicas of the assignment, by id.
        self.followers = NO_FOLLOWERS
        if previous is not None and leader_epoch == previous.leader_epoch + 1:
            self.followers = previous.followers
        self._assign({*replicas, *self.isr})
        for replica in self.followers.values():
            replica.begin_epoch(leader_leo=leo, is_in_sync=replica.broker_id in self.isr, now_ms=now_ms)
        self._recompute()

    def _assign(self, replicas: Iterable[int]) -> None:
        others = sorted(set(replicas) - {self.broker_id})
        known = self.followers
        self.followers = NO_FOLLOWERS
        if others:
            self.followers = {broker_id: known.get(broker_id) or ReplicaProgress(broker_id) for broker_id in others}
        for replica in self.followers.values():
            if replica.broker_id not in self.isr:
                replica.wake()  # it may be able to join, which its fetches have to show

    def _recompute(self) -> None:
        """Derive values from the ISR, the pending change and the settings, so that an append need not."""
        self._awaits_others = self.maximal_isr != (self.broker_id,)
        self.is_under_min_isr = len(self.isr) < self.effective_min_isr

    # --- state ---

    @property
    def broker_id(self) -> int:
        return self._broker.broker_id

    @property
    def is_alone(self) -> bool:
        return not self.followers

    @property
    def effective_min_isr(self) -> int:
        """min.insync.replicas, at most the number of replicas: one replica with min.insync.replicas=2 accepts acks=all."""
        return min(self.min_insync_replicas, len(self.followers) + 1)

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        pending = self.pending
        return self.isr if pending is None or pending.added is None else (*self.isr, pending.added)

    def low_watermark(self, log_start_offset: int) -> int:
        """The offset below which no live replica has records; `log_start_offset` is the leader's own."""
        low = log_start_offset
        for replica in self.followers.values():
            if replica.log_start_offset < low and self._broker.is_alive(replica.broker_id):
                low = replica.log_start_offset
        return low

    # --- events ---

    def on_elected(self, now_ms: int = 0) -> list[Effect]:
        """Begin to lead. A leader that is its whole ISR commits everything in its log."""
        return self._advance_effects(now_ms)

    def on_append(self, leo: int, now_ms: int = 0) -> int | None:
        """Note that the log ends at `leo`. Returns the new high watermark, None when it stays: the only effect there can be.

        While the ISR has other members, none of them has what was just appended.
        """
        assert leo >= self.leo, f"log end went back from {self.leo} to {leo} within one epoch"
        self.leo = leo
        return None if self._awaits_others else self._advance(now_ms)

    def on_follower_fetch(
        self,
        replica_id: int,
        *,
        broker_epoch: int,
        fetch_offset: int,
        log_start_offset: int,
        leo: int,
        now_ms: int,
    ) -> list[Effect]:
        """Note that a replica of the assignment fetches from `fetch_offset`: it has everything below. `leo` is the leader's
        own."""
        assert leo >= self.leo and fetch_offset <= leo
        self.leo = leo
        replica = self.followers[replica_id]
        before = replica.leo
        replica.record_fetch(
            broker_epoch=broker_epoch,
            fetch_offset=fetch_offset,
            log_start_offset=log_start_offset,
            leader_leo=leo,
            now_ms=now_ms,
        )
        effects: list[Effect] = []
        if self.pending is None and replica_id not in self.isr and self._may_join(replica, now_ms):
            effects.append(self._request_change((*self.isr, replica_id), added=replica_id))
        if fetch_offset != before:
            effects += self._advance_effects(now_ms)
        return effects

    def mark_idle(self, replica_id: int, channel: FetchChannel) -> ReplicaProgress | None:
        """Mark a member of the ISR as idle on `channel`, because repeated fetches of a caught-up follower carry no news.
        Returns None while there is something to fetch."""
        replica = self.followers[replica_id]
        if replica.leo != self.leo or replica_id not in self.isr:
            return None
        replica.mark_idle_on(channel)
        return replica

    def on_tick(self, now_ms: int) -> list[Effect]:
        """Remove followers from the ISR that have not caught up in time. Due every half of replica.lag.time.max.ms."""
        effects: list[Effect] = []
        if self.pending is None:
            staying = tuple(
                broker_id
                for broker_id in self.isr
                if broker_id == self.broker_id
                or self.followers[broker_id].is_caught_up(self.leo, now_ms, self._broker.lag_max_ms)
            )
            if staying != self.isr:
                effects.append(self._request_change(staying, added=None))
        return effects + self._advance_effects(now_ms)

    def on_brokers_lost(self, now_ms: int) -> list[Effect]:
        """Stop waiting for replicas to join that are not alive any more (`is_alive`)."""
        return self._advance_effects(now_ms)

    def on_min_insync_replicas(self, min_insync_replicas: int, now_ms: int = 0) -> list[Effect]:
        self.min_insync_replicas = min_insync_replicas
        self._recompute()
        return self._advance_effects(now_ms)

    def on_partition_state(
        self, *, isr: Iterable[int], partition_epoch: int, replicas: Sequence[int], now_ms: int
    ) -> list[Effect]:
        """Apply a LeaderAndIsr of this same leader epoch: the controller's state replaces a pending change."""
        assert partition_epoch >= self.partition_epoch
        self.isr = ids(isr)
        self.partition_epoch = partition_epoch
        self.pending = None
        self._assign({*replicas, *self.isr})
        self._recompute()
        return self._advance_effects(now_ms)

    def on_isr_response(self, change: IsrChange, answer: IsrResponse, now_ms: int) -> list[Effect]:
        """Apply the controller's response to `change`; a response to a withdrawn change is ignored."""
        if self.pending is not change:
            return []
        if answer.error in REFUSED_ERRORS:
            self.pending = None
            if change.added is not None and change.added in self.followers:
                self.followers[change.added].refused_until_ms = now_ms + REFUSAL_PAUSE_MS
            self._recompute()
            return [IsrChangeFailed(change, answer.error), *self._advance_effects(now_ms)]
        if answer.error in AWAIT_CONTROLLER_ERRORS:
            return [IsrChangeFailed(change, answer.error)]
        if answer.error != ErrorCode.NONE:
            return [IsrChangeFailed(change, answer.error), IsrChangeRequested(change)]
        if answer.leader_epoch != self.leader_epoch or answer.partition_epoch < self.partition_epoch:
            return [IsrChangeFailed(change, ErrorCode.INVALID_UPDATE_VERSION)]
        self.isr = ids(answer.isr)
        self.partition_epoch = answer.partition_epoch
        self.pending = None
        self._assign({*self.followers, *self.isr})
        self._recompute()
        committed = IsrCommitted(self.isr, self.partition_epoch, change.added is not None)
        return [committed, *self._advance_effects(now_ms)]

    # --- decisions ---

    def _may_join(self, replica: ReplicaProgress, now_ms: int) -> bool:
        """Whether the replica has everything committed, and has followed this very leader: before that it may lack records that
        earlier leaders committed above the high watermark known here."""
        return (
            replica.leo >= self.high_watermark
            and replica.leo >= self.epoch_start_offset
            and not replica.is_refused(now_ms)
            and self._broker.is_alive(replica.broker_id)
        )

    def _request_change(self, isr: tuple[int, ...], *, added: int | None) -> IsrChangeRequested:
        self.pending = change = IsrChange(isr, self.leader_epoch, self.partition_epoch, added)
        self._recompute()
        return IsrChangeRequested(change)

    def _advance_effects(self, now_ms: int) -> list[Effect]:
        high_watermark = self._advance(now_ms)
        return [] if high_watermark is None else [HighWatermarkAdvanced(high_watermark)]

    def _advance(self, now_ms: int) -> int | None:
        if self.is_under_min_isr:
            return None
        committed = self.leo
        if self.followers:
            maximal_isr = self.maximal_isr
            for replica in self.followers.values():
                if replica.leo < committed and (replica.broker_id in maximal_isr or self._waits_for(replica, now_ms)):
                    committed = replica.leo
        if committed <= self.high_watermark:
            return None
        self.high_watermark = committed
        return committed

    def _waits_for(self, replica: ReplicaProgress, now_ms: int) -> bool:
        """Whether a replica outside the ISR is about to join: a high watermark that runs ahead of it would keep it out."""
        return (
            replica.is_caught_up(self.leo, now_ms, self._broker.lag_max_ms)
            and not replica.is_refused(now_ms)
            and self._broker.is_alive(replica.broker_id)
        )
