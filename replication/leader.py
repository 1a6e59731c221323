"""What a partition's leader decides: how far the log is committed. Pure: events in, effects out.

Rules: no IO, no clock. The host appends first and then tells the core the new log end offset.
Invariants: the high watermark never falls within one leader epoch; it never passes the log end offset of any member of
the ISR; it does not move while the ISR is smaller than min.insync.replicas (not even for acks=1).
Source: Kafka Partition.maybeIncrementLeaderHW, KIP-101, KIP-497.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

UNKNOWN_OFFSET = -1


@dataclass(frozen=True, slots=True)
class HighWatermarkAdvanced:
    """Records below `high_watermark` are committed."""

    high_watermark: int


class LeaderState:
    """The leader's view of one partition in one leader epoch. Made at election, dropped at the next one."""

    __slots__ = (
        "_replica_leo",
        "broker_id",
        "epoch_start_offset",
        "high_watermark",
        "isr",
        "leader_epoch",
        "leo",
        "min_insync_replicas",
    )

    def __init__(
        self,
        broker_id: int,
        *,
        leader_epoch: int,
        isr: Iterable[int],
        leo: int,
        high_watermark: int,
        min_insync_replicas: int,
    ) -> None:
        self.broker_id = broker_id
        self.leader_epoch = leader_epoch
        self.isr = frozenset(isr)
        self.leo = leo
        self.epoch_start_offset = leo
        self.high_watermark = min(high_watermark, leo)
        self.min_insync_replicas = min_insync_replicas
        # What each other replica is known to hold; unknown until it fetches in this epoch.
        self._replica_leo: dict[int, int] = dict.fromkeys(self.isr - {broker_id}, UNKNOWN_OFFSET)

    @property
    def is_under_min_isr(self) -> bool:
        return len(self.isr) < self.min_insync_replicas

    def on_elected(self) -> list[HighWatermarkAdvanced]:
        """A leader that is its whole ISR commits everything it holds."""
        return self._effects()

    def on_append(self, leo: int) -> int | None:
        """The log now ends at `leo`. Answers the new high watermark, None when it stays: the only effect there can be."""
        assert leo >= self.leo, f"log end went back from {self.leo} to {leo} within one epoch"
        self.leo = leo
        return self._advance()

    def on_min_insync_replicas(self, min_insync_replicas: int) -> list[HighWatermarkAdvanced]:
        self.min_insync_replicas = min_insync_replicas
        return self._effects()

    def _effects(self) -> list[HighWatermarkAdvanced]:
        high_watermark = self._advance()
        return [] if high_watermark is None else [HighWatermarkAdvanced(high_watermark)]

    def _advance(self) -> int | None:
        if len(self.isr) < self.min_insync_replicas:
            return None
        committed = self.leo
        if self._replica_leo:
            committed = min(committed, *self._replica_leo.values())
        if committed <= self.high_watermark:
            return None
        self.high_watermark = committed
        return committed
