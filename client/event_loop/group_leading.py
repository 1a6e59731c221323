"""What the leader of a classic group does on an event loop: it assigns the partitions, and sees when topics have others.

Source: Kafka ConsumerCoordinator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from client.membership.contract import Phase

if TYPE_CHECKING:
    from collections.abc import Collection

    from client.event_loop.cluster_client import AsyncClusterClient
    from client.membership.classic import ClassicMember


class GroupLeading:
    def __init__(self, cluster: AsyncClusterClient, core: ClassicMember) -> None:
        self._cluster = cluster
        self._core = core
        self._assigned_counts: dict[str, int] = {}  # of the generation that this member leads

    async def assign(self) -> None:
        """Assign the partitions, if that is to be done, when all topics are known, or are known not to be there."""
        core = self._core
        if core.phase is not Phase.ASSIGNING:
            return
        self._cluster.watch_topics(core.wanted_topics)
        await self._cluster.refresh()
        if core.phase is Phase.ASSIGNING:
            self._assigned_counts = self._counts(core.wanted_topics)
            core.assign({topic: count for topic, count in self._assigned_counts.items() if count})

    def compare(self) -> None:
        """Have the group rebalance when a topic has other partitions than were assigned."""
        if self._core.is_leader and self._core.phase is Phase.STABLE:
            self._cluster.watch_topics(self._assigned_counts)
            if self._counts(self._assigned_counts) != self._assigned_counts:
                self._core.rejoin()

    def _counts(self, topics: Collection[str]) -> dict[str, int]:
        known = self._cluster.view.topics
        return {topic: len(known[topic].partitions) if topic in known else 0 for topic in topics}
