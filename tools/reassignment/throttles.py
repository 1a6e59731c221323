"""Sets and removes the settings that throttle moves, on brokers and topics.

Rules: as with kafka-reassign-partitions.sh a rate replaces the one before it, and removing removes all rates of all
brokers, because nobody knows any more which of them took part.
Source: Kafka ReassignPartitionsCommand; KIP-73, KIP-113.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from client.admin.brokers import cluster as describe_cluster
from client.admin.configs import Resource, ResourceKind, alter
from client.admin.steps import Steps, may_pass
from protocol.errors import ErrorCode
from runtime.command_line.failure import Failure
from tools.failures import told
from tools.reassignment.moves import (
    BROKER_SETTINGS,
    FOLLOWER_RATE,
    LEADER_RATE,
    LOG_DIRS_RATE,
    TOPIC_SETTINGS,
    Transfer,
    brokers_of,
    topic_throttles,
)
from tools.reassignment.reassignments import Unanswered

Changes = Mapping[Resource, Mapping[str, str | None]]
"""Settings of brokers and topics; None removes one."""


def throttle_brokers(all_transfers: Mapping[tuple[str, int], Transfer], bytes_per_s: int) -> Steps[set[int]]:
    """Throttle what brokers send to each other for these transfers, and return those that are there to be throttled. Raises
    Failure."""
    changes: dict[Resource, Mapping[str, str | None]] = {
        _topic(topic): dict(settings) for topic, settings in topic_throttles(all_transfers).items()
    }
    rates = {LEADER_RATE: str(bytes_per_s), FOLLOWER_RATE: str(bytes_per_s)}
    throttled = brokers_of(all_transfers.values()) & (yield from brokers())
    yield from _alter(changes | {_broker(broker): rates for broker in sorted(throttled)})
    return throttled


def throttle_directories(moving: Iterable[int], bytes_per_s: int) -> Steps[None]:
    """Throttle what these brokers copy between their log directories. Raises Failure."""
    yield from _alter({_broker(broker): {LOG_DIRS_RATE: str(bytes_per_s)} for broker in sorted(moving)})


def remove_throttles(topics: Iterable[str], throttled: Iterable[int] = ()) -> Steps[list[str]]:
    """Remove all throttles of all brokers that are there, and of these topics. Return sentences that say so, and which of the
    `throttled` brokers keep theirs, because they are not there. Raises Failure."""
    alive, names = sorted((yield from brokers())), sorted(topics)
    changes: dict[Resource, Mapping[str, str | None]] = {
        _broker(broker): dict.fromkeys(BROKER_SETTINGS) for broker in alive
    }
    yield from _alter(changes | {_topic(topic): dict.fromkeys(TOPIC_SETTINGS) for topic in names}, accepts_missing=True)
    notes = [f"throttles are removed from brokers {_list(alive)} and topics {_list(names)}"]
    gone = sorted(set(throttled) - set(alive))
    if gone:
        notes.append(
            f"brokers {_list(gone)} are gone and keep their throttles: `barnabas partitions cancel --execute` removes them "
            "when they are back"
        )
    return notes


def brokers() -> Steps[set[int]]:
    """Return the brokers that are there."""
    return {broker.node_id for broker in (yield from describe_cluster()).brokers}


def _alter(changes: Changes, *, accepts_missing: bool = False) -> Steps[None]:
    """Change settings; with `accepts_missing` a topic that was deleted is no failure. Raises Failure."""
    failures, is_silent = [], True
    for resource, error in (yield from alter(changes)).items():
        if error is None or (accepts_missing and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            continue
        failures.append(f"throttle of {resource.kind.name.lower()} {resource.name}: {told(error)}")
        is_silent = is_silent and may_pass(error)
    if failures:
        raise (Unanswered if is_silent else Failure)("; ".join(failures))


def _broker(broker: int) -> Resource:
    return Resource(ResourceKind.BROKER, str(broker))


def _topic(name: str) -> Resource:
    return Resource(ResourceKind.TOPIC, name)


def _list(things: Iterable[object]) -> str:
    return ",".join(map(str, things)) or "-"
