"""What brokers believe of themselves: one leader in each epoch, and a high watermark that only rises within one."""

from __future__ import annotations

from collections.abc import Callable

from protocol.topic_partition import TopicPartition

Term = tuple[TopicPartition, int]  # partition, leader epoch


class LeaderChecker:
    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._leaders: dict[Term, int] = {}
        self._watermarks: dict[tuple[Term, int, int], int] = {}  # by broker, and its life

    def on_leader(self, key: TopicPartition, topic_id: bytes, leader_epoch: int, broker_id: int) -> None:
        term = ((f"{key[0]}/{topic_id.hex()}", key[1]), leader_epoch)
        other = self._leaders.setdefault(term, broker_id)
        if other != broker_id:
            self._report(f"{key}: brokers {other} and {broker_id} both lead in epoch {leader_epoch}")

    def on_watermark(
        self, key: TopicPartition, leader_epoch: int, broker_id: int, life: int, high_watermark: int
    ) -> bool:
        """Whether it has risen."""
        of = ((key, leader_epoch), broker_id, life)
        before = self._watermarks.get(of, -1)
        if high_watermark < before:
            self._report(
                f"{key}: high watermark of broker {broker_id} in epoch {leader_epoch} fell from {before} to {high_watermark}"
            )
        self._watermarks[of] = high_watermark
        return high_watermark > before
