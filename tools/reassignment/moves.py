"""Who sends what to whom while replicas move, and the settings that throttle it. Pure.

Rules: what is written is what kafka-reassign-partitions.sh writes, character for character: a throttle of all replicas that a
partition has on the sending side, of the new ones on the receiving side, sorted as texts; the rates on every broker that
takes part.
Source: Kafka ReassignPartitionsCommand; KIP-73.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tools.balance.layout import Key

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LOG_DIRS_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
BROKER_SETTINGS = (LEADER_RATE, FOLLOWER_RATE, LOG_DIRS_RATE)
TOPIC_SETTINGS = (LEADER_REPLICAS, FOLLOWER_REPLICAS)


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A partition that is being moved: `replicas` has all, also those that come and go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Transfer:
    """Which brokers have a partition, and which get it."""

    sources: frozenset[int]
    destinations: frozenset[int]


def transfers(
    moving: Mapping[Key, Reassignment], wanted: Mapping[Key, Sequence[int]], current: Mapping[Key, Sequence[int]]
) -> dict[Key, Transfer]:
    """Return what is being moved already and what is wanted beside it; `current` are the replicas of what is wanted."""
    found = {
        key: Transfer(frozenset(each.replicas) - frozenset(each.adding), frozenset(each.adding))
        for key, each in moving.items()
    }
    for key, replicas in wanted.items():
        sources = found[key].sources if key in found else frozenset(current[key])
        found[key] = Transfer(sources, frozenset(replicas) - sources)
    return found


def topic_throttles(all_transfers: Mapping[Key, Transfer]) -> dict[str, dict[str, str]]:
    """Return the settings of each topic."""
    sides: dict[str, tuple[set[str], set[str]]] = defaultdict(lambda: (set(), set()))
    for (topic, partition), transfer in all_transfers.items():
        leaders, followers = sides[topic]
        leaders.update(f"{partition}:{broker}" for broker in transfer.sources)
        followers.update(f"{partition}:{broker}" for broker in transfer.destinations)
    return {
        topic: {LEADER_REPLICAS: ",".join(sorted(leaders)), FOLLOWER_REPLICAS: ",".join(sorted(followers))}
        for topic, (leaders, followers) in sides.items()
    }


def brokers_of(all_transfers: Iterable[Transfer]) -> set[int]:
    """Return all brokers that take part."""
    return {broker for transfer in all_transfers for broker in transfer.sources | transfer.destinations}
