"""The world of groups: a cluster with feature levels, and what is known of its groups."""

from __future__ import annotations

from protocol.topic_partition import TopicPartition
from tests.simulation.cluster.world import GROUP_TOPIC, ClusterWorld
from tests.simulation.groups.checkers.epochs import EpochChecker
from tests.simulation.groups.checkers.ownership import OwnershipChecker
from tests.simulation.groups.checkers.progress import ProgressChecker
from tests.simulation.groups.plan import REBALANCE_TIMEOUT_MS, SESSION_TIMEOUT_MS, plan_group_cluster
from tests.simulation.loop import SimLoop


class GroupWorld(ClusterWorld):
    pace = 4.0
    compacted = frozenset({GROUP_TOPIC})

    def __init__(self, loop: SimLoop) -> None:
        super().__init__(loop, plan_group_cluster(loop.random))
        self.epochs = EpochChecker(self.report)
        self.ownership = OwnershipChecker(
            self.report,
            self.count,
            loop.time,
            session_s=SESSION_TIMEOUT_MS / 1_000,
            rebalance_s=REBALANCE_TIMEOUT_MS / 1_000,
        )
        self.progress = ProgressChecker(self.report, self.count)
        self.services: set[str] = set()
        self.finished: set[str] = set()  # services that have nothing more to read

    def _on_promise_fallen(self, key: TopicPartition, end_offset: int) -> None:
        super()._on_promise_fallen(key, end_offset)
        if key[0] == GROUP_TOPIC:
            self.epochs.forget()
            self.ownership.forget()
            self.progress.forget()
        else:
            self.progress.excuse(key)
