"""The placement of the replicas of new partitions. Pure; the two random numbers are parameters.

Rules: leaders are distributed evenly over the brokers; each partition's followers are shifted against the leader, and the
shift increases with every round, so that the followers of a broker's partitions are on all other brokers. With racks, no rack
gets a second replica before every rack has one; inside a rack the same holds for hosts (brokers that share a machine), and
everywhere for brokers.
Invariants: the replicas of a partition are distinct brokers.
Source: Kafka AdminUtils.assignReplicasToBrokers; KIP-36 (rack awareness). The host key is our own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from protocol.errors import ErrorCode, KafkaError


@dataclass(frozen=True, slots=True)
class PlacementBroker:
    """A broker; `rack` and `host` are None if unknown."""

    broker_id: int
    rack: str | None = None
    host: str | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """The first leader's index among the brokers, and the first shift of the followers: random for a new topic, fixed
    for one that grows."""

    start_index: int
    shift: int


def place(
    brokers: Sequence[PlacementBroker],
    partitions: int,
    replication_factor: int,
    placement: Placement,
    first_partition: int = 0,
) -> dict[int, tuple[int, ...]]:
    """Return the replicas of partitions [first_partition, first_partition + partitions), preferred leader first.
    Raises KafkaError: INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, UNKNOWN_SERVER_ERROR (racks on some brokers
    only)."""
    if partitions <= 0:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    if replication_factor > len(brokers):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {replication_factor} larger than available brokers: {len(brokers)}.",
        )
    with_rack = sum(broker.rack is not None for broker in brokers)
    if with_rack not in (0, len(brokers)):
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "Not all brokers have rack information for replica rack aware assignment.",
        )
    if with_rack or any(broker.host is not None for broker in brokers):
        return _place_apart(brokers, partitions, replication_factor, placement, first_partition)
    return _place_evenly(brokers, partitions, replication_factor, placement, first_partition)


def _place_evenly(
    brokers: Sequence[PlacementBroker],
    partitions: int,
    replication_factor: int,
    placement: Placement,
    first_partition: int,
) -> dict[int, tuple[int, ...]]:
    ids = sorted(broker.broker_id for broker in brokers)
    shift = placement.shift
    assignment: dict[int, tuple[int, ...]] = {}
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % len(ids) == 0:
            shift += 1
        first = (partition + placement.start_index) % len(ids)
        followers = (ids[_follower_index(first, shift, each, len(ids))] for each in range(replication_factor - 1))
        assignment[partition] = (ids[first], *followers)
    return assignment


def _place_apart(
    brokers: Sequence[PlacementBroker],
    partitions: int,
    replication_factor: int,
    placement: Placement,
    first_partition: int,
) -> dict[int, tuple[int, ...]]:
    racks = {broker.broker_id: broker.rack or "" for broker in brokers}
    # A host belongs to its rack: equal host names in two racks are two machines.
    hosts = {
        broker.broker_id: (broker.rack or "", broker.host if broker.host is not None else f"\0{broker.broker_id}")
        for broker in brokers
    }
    ids = alternate(brokers)
    rack_count, host_count = len(set(racks.values())), len(set(hosts.values()))
    shift = placement.shift
    assignment: dict[int, tuple[int, ...]] = {}
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % len(ids) == 0:
            shift += 1
        first = (partition + placement.start_index) % len(ids)
        chosen = [ids[first]]
        used_racks, used_hosts = {racks[ids[first]]}, {hosts[ids[first]]}
        step = 0
        while len(chosen) < replication_factor:
            candidate = ids[_follower_index(first, shift * rack_count, step, len(ids))]
            step += 1
            is_rack_free = racks[candidate] not in used_racks or len(used_racks) == rack_count
            is_host_free = hosts[candidate] not in used_hosts or len(used_hosts) == host_count
            if is_rack_free and is_host_free and candidate not in chosen:
                chosen.append(candidate)
                used_racks.add(racks[candidate])
                used_hosts.add(hosts[candidate])
        assignment[partition] = tuple(chosen)
    return assignment


def alternate(brokers: Sequence[PlacementBroker]) -> list[int]:
    """Return broker ids so that neighbours are in different racks, and neighbours of one rack on different hosts, as far as
    possible: 0(a) 1(b) 2(c) 3(a) 4(b) 5(c) for two brokers in each of three racks."""
    by_rack: dict[str, dict[str, list[int]]] = {}
    for broker in sorted(brokers, key=lambda each: each.broker_id):
        host = broker.host if broker.host is not None else f"{broker.broker_id:012d}"
        by_rack.setdefault(broker.rack or "", {}).setdefault(host, []).append(broker.broker_id)
    queues = [_deal(list(hosts.values())) for _, hosts in sorted(by_rack.items())]
    return _deal(queues)


def _deal(queues: list[list[int]]) -> list[int]:
    """Take one of each queue in turn, until all are empty."""
    longest = max(map(len, queues), default=0)
    return [queue[turn] for turn in range(longest) for queue in queues if turn < len(queue)]


def _follower_index(first: int, shift: int, follower: int, brokers: int) -> int:
    """Return the index of a follower; never `first`, since the distance is from 1 to brokers - 1."""
    distance = 1 + (shift + follower) % (brokers - 1)
    return (first + distance) % brokers
