"""From which replica a consumer should read (KIP-392). Pure.

The leader asks a selector for each fetch that names a rack, among itself and the members of the ISR that hold the wanted
offset; a consumer that is sent elsewhere comes back when that replica fails it, or after its metadata.max.age.ms.

Rules: `replica.selector.class` names one of Apache Kafka's own classes; there is nothing else to load.
Source: KIP-392; Kafka ReplicaManager.findPreferredReadReplica, RackAwareReplicaSelector, LeaderSelector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from config.errors import ConfigError
from replication.leader import LeaderState

RACK_AWARE_CLASS = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_CLASS = "org.apache.kafka.common.replica.LeaderSelector"


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """A replica that could serve a consumer. `lag_ms` is how long ago it last held everything."""

    broker_id: int
    rack: str | None
    leo: int
    lag_ms: int


ReplicaSelector = Callable[[str, ReplicaView, Sequence[ReplicaView]], ReplicaView]
"""(the consumer's rack, the leader, the other replicas) -> the one to read from."""


def nearest_rack(rack: str, leader: ReplicaView, others: Sequence[ReplicaView]) -> ReplicaView:
    """The leader when it is in the consumer's rack or no replica is, else the most advanced replica there."""
    if not rack or leader.rack == rack:
        return leader
    neighbours = [replica for replica in others if replica.rack == rack]
    return max(neighbours, key=lambda replica: (replica.leo, -replica.lag_ms, replica.broker_id), default=leader)


def preferred_read_replica(
    select: ReplicaSelector,
    leader: LeaderState,
    rack: str,
    fetch_offset: int,
    rack_of: Callable[[int], str | None],
    now_ms: int,
) -> int | None:
    """None for the leader itself. Replicas outside the ISR are left out: one that falls behind for ever would keep its
    consumers behind with it."""
    own = ReplicaView(leader.broker_id, rack_of(leader.broker_id), leader.leo, 0)
    others = [
        ReplicaView(follower.broker_id, rack_of(follower.broker_id), follower.leo, now_ms - follower.caught_up_ms)
        for follower in leader.followers.values()
        if follower.broker_id in leader.isr and follower.log_start_offset <= fetch_offset <= follower.leo
    ]
    chosen = select(rack, own, others)
    return None if chosen is own else chosen.broker_id


def replica_selector(class_name: str | None) -> ReplicaSelector | None:
    """The selector of that class; None where every consumer reads from the leader. Raises ConfigError."""
    if class_name is None or class_name == LEADER_CLASS:
        return None
    if class_name == RACK_AWARE_CLASS:
        return nearest_rack
    raise ConfigError(f"replica.selector.class={class_name}: only {RACK_AWARE_CLASS} and {LEADER_CLASS} are known")
