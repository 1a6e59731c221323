"""Records of a cluster, as clients know them: what was committed stays and never changes, nothing is there twice.

Committed is what was acknowledged to acks=all, and what was ever read. What acks=1 was told may go with its leader.
High watermarks come from several brokers, some of which are behind: they are checked at the brokers themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from protocol.topic_partition import TopicPartition
from tests.simulation.checkers.logs import LogChecker, View
from tests.simulation.cluster.checkers.expiry import ExpiryChecker
from tests.simulation.disk_survey import FoundBatch

ALL_IN_SYNC = -1


class ClusterLogChecker(LogChecker):
    def __init__(self, report: Callable[[str], None]) -> None:
        super().__init__(report, ())
        self.expiry: ExpiryChecker | None = None
        """Where records of some topics expire."""

    def sending(self, key: TopicPartition, values: Sequence[str], newest_ms: int) -> None:
        super().sending(key, values, newest_ms)
        if self.expiry is not None:
            self.expiry.sending(key, values, newest_ms)

    def fallen(self, key: TopicPartition, end_offset: int) -> None:
        """What stood at `end_offset` and behind is not promised any more."""
        model = self.partitions.get(key)
        if model is not None:
            model.cut(end_offset)
            model.revive(end_offset)
        if self.expiry is not None:
            self.expiry.fallen(key, end_offset)

    def acknowledged(
        self,
        key: TopicPartition,
        base_offset: int,
        values: Sequence[str],
        acks: int,
        *,
        view: View | None = None,
        is_of_this_life: bool = True,
    ) -> None:
        model = self.partitions[key]
        if acks == ALL_IN_SYNC and (view is None or view.cuts_count == model.cuts_count):
            super().acknowledged(key, base_offset, values, acks)

    def watermark(self, key: TopicPartition, view: View, high_watermark: int, last_stable_offset: int) -> None:
        if last_stable_offset != high_watermark:
            self._report(f"{key}: last stable offset {last_stable_offset}, high watermark {high_watermark}")

    def starts_at(self, key: TopicPartition, view: View, log_start_offset: int) -> None:
        self._check_deleted(key, log_start_offset)

    def _may_be_deleted(self, key: TopicPartition, end_offset: int) -> bool:
        if super()._may_be_deleted(key, end_offset):
            return True
        model = self.partitions[key]
        return self.expiry is not None and self.expiry.may_be_gone(key, model.known, model.deletable_to, end_offset)

    def at_rest(
        self, key: TopicPartition, log_start_offset: int, records: Sequence[tuple[int, str]], end_offset: int
    ) -> None:
        super().at_rest(key, log_start_offset, records, end_offset)
        if self.expiry is not None:
            self.expiry.at_rest(key, [record for record in records if record[0] >= log_start_offset])

    def replicas_at_rest(self, key: TopicPartition, logs: dict[int, list[FoundBatch]]) -> None:
        """The files of every replica, after all of them have caught up: the same batches wherever two of them have any.
        Groups go on while one broker after the other is stopped, so their logs end where they will."""
        known: dict[int, tuple[int, FoundBatch]] = {}
        ends = {broker_id: batches[-1].next_offset if batches else 0 for broker_id, batches in logs.items()}
        if key in self.partitions and len(set(ends.values()) - {0}) > 1:
            self._report(f"{key}: the replicas end at {ends}")
        for broker_id, batches in sorted(logs.items()):
            self.batches_at_rest(key, batches)
            for batch in batches:
                other_id, other = known.setdefault(batch.base_offset, (broker_id, batch))
                if other != batch:
                    self._report(
                        f"{key}: brokers {other_id} and {broker_id} differ at {batch.base_offset}: epochs "
                        f"{other.leader_epoch} and {batch.leader_epoch}, ends {other.next_offset} and {batch.next_offset}"
                    )
                    return
