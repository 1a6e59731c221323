"""The world of share groups: a cluster with feature levels, and what is known of deliveries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from coordinator.runtime.partitioner import partition_for
from protocol.share_states import share_key
from protocol.topic_partition import TopicPartition
from tests.simulation.cluster.world import GROUP_TOPIC, ClusterWorld
from tests.simulation.groups.checkers.epochs import EpochChecker
from tests.simulation.loop import SimLoop
from tests.simulation.network import SimConnection
from tests.simulation.shares.checkers.deliveries import DeliveryChecker, Term
from tests.simulation.shares.checkers.fates import TransactionFates
from tests.simulation.shares.checkers.starts import StartChecker
from tests.simulation.shares.plan import (
    SESSION_TIMEOUT_MS,
    STATE_PARTITIONS,
    STATE_TOPIC,
    TRANSACTION_PARTITIONS,
    TRANSACTION_TOPIC,
    TRANSACTIONAL,
    plan_share_cluster,
    plan_share_groups,
    plan_transactional,
)


class ShareWorld(ClusterWorld):
    pace = 4.0
    compacted = frozenset({GROUP_TOPIC})

    def __init__(self, loop: SimLoop) -> None:
        super().__init__(loop, plan_share_cluster(loop.random))
        self.groups_planned = {each.name: each for each in plan_share_groups(loop.random)}
        self.transactional = plan_transactional(loop.random)
        self.fates = TransactionFates(self.report)
        self.epochs = EpochChecker(self.report)
        self.starts = StartChecker(self.report)
        self.deliveries = DeliveryChecker(
            self.report,
            self.count,
            loop.time,
            limit_of=lambda group: self.groups_planned[group].limit,
            lock_s_of=lambda group: self.groups_planned[group].lock_ms / 1_000,
            session_s=SESSION_TIMEOUT_MS / 1_000,
            deleted_to=self.deleted_to,
        )
        self.drained: set[str] = set()
        """Groups that have nothing left to do."""
        self.is_over = False
        """Members may leave."""
        self.members_at: dict[str, str] = {}
        """By node: the id of the member that runs there."""
        self.loads: Counter[tuple[int, str, TopicPartition]] = Counter()
        """How often brokers have loaded a share partition."""
        self.network.on_end = self._on_connection_end

    def _on_connection_end(self, connection: SimConnection) -> None:
        """The session of a member lasts as long as its connection; which end hears of it first nobody knows."""
        for member_node, broker in ((connection.node, connection.other.node), (connection.other.node, connection.node)):
            if member_node in self.members_at and broker in self.broker_ids:
                self.deliveries.session_over(self.members_at[member_node], self.broker_ids[broker])

    def term(self, broker_id: int, group: str, key: TopicPartition) -> Term | None:
        """Of the leader of a partition; None when this broker is none, or does not know it."""
        if broker_id not in self.machines or not self.is_leader(broker_id, key):
            return None
        machine = self.machines[broker_id]
        return Term(broker_id, machine.starts_count, machine.leader_epoch(key), self.loads[broker_id, group, key])

    def state_key(self, group: str, key: TopicPartition) -> TopicPartition:
        """The partition of the share coordinator's log that keeps a share partition."""
        return STATE_TOPIC, partition_for(share_key(group, self.topic_ids[key[0]], key[1]), STATE_PARTITIONS)

    def is_one_leader(self, key: TopicPartition) -> bool:
        """Whether the one that the ensemble names is the only broker that believes to lead the partition."""
        leaders = [each for each in self.running() if self._believes_to_lead(each, key)]
        return len(leaders) == 1 and self.is_leader(leaders[0], key)

    def _believes_to_lead(self, broker_id: int, key: TopicPartition) -> bool:
        broker = self.machines[broker_id].broker
        services = None if broker is None else broker._services
        partition = None if services is None else services.partitions.find(*key)
        return partition is not None and partition.is_leader

    @property
    def transactional_keys(self) -> list[TopicPartition]:
        return [(self.transactional.name, partition) for partition in range(self.transactional.partitions)]

    def keys_of(self, group: str) -> list[TopicPartition]:
        """What a group reads."""
        topics = self.groups_planned[group].topics
        return [key for key in (*self.keys, *self.transactional_keys) if key[0] in topics]

    def known(self, key: TopicPartition) -> Mapping[int, str]:
        """The records of a partition that must be finished, by offset."""
        if key[0] == TRANSACTIONAL:
            return self.fates.committed.get(key, {})
        known, first = self.logs.partitions[key].known, self.deleted_to(key)
        return {offset: value for offset, value in known.items() if offset >= first}

    def deleted_to(self, key: TopicPartition) -> int:
        """Records before it may have been deleted."""
        return 0 if key[0] == TRANSACTIONAL else self.logs.partitions[key].deletable_to

    def internal_keys(self) -> Iterable[TopicPartition]:
        yield from super().internal_keys()
        yield from ((STATE_TOPIC, partition) for partition in range(STATE_PARTITIONS))
        yield from ((TRANSACTION_TOPIC, partition) for partition in range(TRANSACTION_PARTITIONS))
        yield from self.transactional_keys

    def pruned_starts(self) -> dict[TopicPartition, int]:
        """The furthest that any replica has."""
        return {key: self._log_start(key) for key in self.internal_keys() if key[0] == STATE_TOPIC}

    def _log_start(self, key: TopicPartition) -> int:
        logs = [each.broker.logs.logs.get(key) for each in self.machines.values() if each.broker is not None]
        return max((log.log_start_offset for log in logs if log is not None), default=0)

    def _on_promise_fallen(self, key: TopicPartition, end_offset: int) -> None:
        super()._on_promise_fallen(key, end_offset)
        if key[0] == GROUP_TOPIC:
            self.epochs.forget()
        if key[0] in (GROUP_TOPIC, STATE_TOPIC):
            self.deliveries.forget()
            self.starts.forget()
        elif key[0] == TRANSACTION_TOPIC:
            self.fates.excuse()
            for each in self.transactional_keys:
                self.deliveries.excuse(each)
        else:
            self.deliveries.excuse(key)
