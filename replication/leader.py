"""What a partition's leader decides: how far the log is committed, and who is in sync. Pure: events in, effects out.

    committed  --a follower has caught up-->   expanding \\
    committed  --a follower lags too long-->   shrinking  }--the controller's answer, or a LeaderAndIsr--> committed
                                                         /

The ISR belongs to the controller: the leader only wishes for a change, and goes on with what is safe whatever comes of
the wish, the *maximal ISR*: a member to be added counts already, one to be removed counts still.

Rules: no IO, no clock. The host appends first and then tells the core the new log end offset. One wish at a time.
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
    "IsrAnswer",
    "IsrChange",
    "IsrChangeFailed",
    "IsrChangeRequested",
    "IsrCommitted",
    "LeaderState",
    "LeadingBroker",
]

# Answers after which the wish stands until the controller says how things are: it may have been carried out, or the
# partition is not what we believe.
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
# Answers that say for certain: not carried out, and our partition epoch is right.
REFUSED_ERRORS = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
# A replica that the controller has refused (its broker shuts down, say) is not asked for again so soon, and nobody waits
# for it meanwhile.
REFUSAL_PAUSE_MS = 1_000


@dataclass(frozen=True, slots=True, eq=False)
class IsrChange:
    """A wish for another ISR; equal to itself only. `added` is the replica to join, None when the ISR shrinks."""

    isr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int
    added: int | None


@dataclass(frozen=True, slots=True)
class IsrAnswer:
    """What the controller made of a wish: the state it keeps now, or an error."""

    error: ErrorCode
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    partition_epoch: int = -1


@dataclass(frozen=True, slots=True)
class HighWatermarkAdvanced:
    """Records below `high_watermark` are committed."""

    high_watermark: int


@dataclass(frozen=True, slots=True)
class IsrChangeRequested:
    """Ask the controller for `change`; its answer comes to `on_isr_answer`."""

    change: IsrChange


@dataclass(frozen=True, slots=True)
class IsrCommitted:
    """The controller has done what was wished."""

    isr: tuple[int, ...]
    partition_epoch: int
    is_expansion: bool


@dataclass(frozen=True, slots=True)
class IsrChangeFailed:
    """The controller did not do what was wished."""

    change: IsrChange
    error: ErrorCode


Effect = HighWatermarkAdvanced | IsrChangeRequested | IsrCommitted | IsrChangeFailed


def _everybody(_broker_id: int) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class LeadingBroker:
    """What all leaders of a broker have in common. `is_alive` asks the metadata of now."""

    broker_id: int
    lag_max_ms: int = 30_000
    is_alive: Callable[[int], bool] = _everybody


NO_FOLLOWERS: Mapping[int, ReplicaProgress] = MappingProxyType({})


class LeaderState:
    """The leader's view of one partition in one leader epoch. Made at election, dropped at the next one.

    `replicas` is the whole assignment (only the leader when not given). `previous` is the state of this broker's last
    term, when it leads on. What that knows of the followers stays true, and moves over, unless epochs lie in between: they
    may have been another's, who had the followers cut their logs.
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
        self._settle()

    def _assign(self, replicas: Iterable[int]) -> None:
        others = sorted(set(replicas) - {self.broker_id})
        known = self.followers
        self.followers = NO_FOLLOWERS
        if others:
            self.followers = {broker_id: known.get(broker_id) or ReplicaProgress(broker_id) for broker_id in others}
        for replica in self.followers.values():
            if replica.broker_id not in self.isr:
                replica.wake()  # it may want to join, which its fetches have to say

    def _settle(self) -> None:
        """Work out what the ISR, the wish and the settings mean, so that an append need not."""
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
        """Never more than there are replicas: one replica with min.insync.replicas=2 takes acks=all."""
        return min(self.min_insync_replicas, len(self.followers) + 1)

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        pending = self.pending
        return self.isr if pending is None or pending.added is None else (*self.isr, pending.added)

    def low_watermark(self, log_start_offset: int) -> int:
        """Below it no live replica holds records; `log_start_offset` is the leader's own."""
        low = log_start_offset
        for replica in self.followers.values():
            if replica.log_start_offset < low and self._broker.is_alive(replica.broker_id):
                low = replica.log_start_offset
        return low

    # --- events ---

    def on_elected(self, now_ms: int = 0) -> list[Effect]:
        """A leader that is its whole ISR commits everything it holds."""
        return self._advance_effects(now_ms)

    def on_append(self, leo: int, now_ms: int = 0) -> int | None:
        """The log now ends at `leo`. Answers the new high watermark, None when it stays: the only effect there can be.

        While other members are waited for, none of them holds what was just appended.
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
        """A replica of the assignment reads on at `fetch_offset`: it holds everything below. `leo` is the leader's own."""
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
            effects.append(self._wish((*self.isr, replica_id), added=replica_id))
        if fetch_offset != before:
            effects += self._advance_effects(now_ms)
        return effects

    def mark_idle(self, replica_id: int, line: FetchChannel) -> ReplicaProgress | None:
        """A member of the ISR that holds everything says nothing new by asking again, until there is more: it rests on
        `line`. None while there is something to look at."""
        replica = self.followers[replica_id]
        if replica.leo != self.leo or replica_id not in self.isr:
            return None
        replica.mark_idle_on(line)
        return replica

    def on_tick(self, now_ms: int) -> list[Effect]:
        """Due every half of replica.lag.time.max.ms: whoever has not caught up in that time leaves the ISR."""
        effects: list[Effect] = []
        if self.pending is None:
            staying = tuple(
                broker_id
                for broker_id in self.isr
                if broker_id == self.broker_id
                or self.followers[broker_id].is_caught_up(self.leo, now_ms, self._broker.lag_max_ms)
            )
            if staying != self.isr:
                effects.append(self._wish(staying, added=None))
        return effects + self._advance_effects(now_ms)

    def on_brokers_gone(self, now_ms: int) -> list[Effect]:
        """Some replica is not alive any more (`is_alive` says which): records wait no longer for it to join."""
        return self._advance_effects(now_ms)

    def on_min_insync_replicas(self, min_insync_replicas: int, now_ms: int = 0) -> list[Effect]:
        self.min_insync_replicas = min_insync_replicas
        self._settle()
        return self._advance_effects(now_ms)

    def on_partition_state(
        self, *, isr: Iterable[int], partition_epoch: int, replicas: Sequence[int], now_ms: int
    ) -> list[Effect]:
        """A LeaderAndIsr of this same leader epoch: the controller's word, whatever was wished."""
        assert partition_epoch >= self.partition_epoch
        self.isr = ids(isr)
        self.partition_epoch = partition_epoch
        self.pending = None
        self._assign({*replicas, *self.isr})
        self._settle()
        return self._advance_effects(now_ms)

    def on_isr_answer(self, change: IsrChange, answer: IsrAnswer, now_ms: int) -> list[Effect]:
        """The controller's answer to `change`; one to a wish that is not held any more says nothing."""
        if self.pending is not change:
            return []
        if answer.error in REFUSED_ERRORS:
            self.pending = None
            if change.added is not None and change.added in self.followers:
                self.followers[change.added].refused_until_ms = now_ms + REFUSAL_PAUSE_MS
            self._settle()
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
        self._settle()
        committed = IsrCommitted(self.isr, self.partition_epoch, change.added is not None)
        return [committed, *self._advance_effects(now_ms)]

    # --- decisions ---

    def _may_join(self, replica: ReplicaProgress, now_ms: int) -> bool:
        """It has all that is committed, and has followed this very leader: before that it may lack records that earlier
        leaders have committed behind the high watermark known here."""
        return (
            replica.leo >= self.high_watermark
            and replica.leo >= self.epoch_start_offset
            and not replica.is_refused(now_ms)
            and self._broker.is_alive(replica.broker_id)
        )

    def _wish(self, isr: tuple[int, ...], *, added: int | None) -> IsrChangeRequested:
        self.pending = change = IsrChange(isr, self.leader_epoch, self.partition_epoch, added)
        self._settle()
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
        """Whether one outside the ISR is about to join: a high watermark that runs ahead of it would keep it out."""
        return (
            replica.is_caught_up(self.leo, now_ms, self._broker.lag_max_ms)
            and not replica.is_refused(now_ms)
            and self._broker.is_alive(replica.broker_id)
        )
