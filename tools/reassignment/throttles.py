"""Sets and removes the settings that throttle moves, on brokers and topics.

Rules: as with kafka-reassign-partitions.sh a rate replaces the one before it, and removing removes all rates of all
brokers, because nobody knows any more which of them took part.
Source: Kafka ReassignPartitionsCommand; KIP-73, KIP-113.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from confluent_kafka import KafkaError

from tools.cluster import Cluster
from tools.failures import UNREACHABLE, Failure, told
from tools.output import Output
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

BROKER, TOPIC = "BROKER", "TOPIC"
Changes = Mapping[tuple[str, str], Mapping[str, str | None]]
"""Settings by kind and name of what has them; None removes one."""


def throttle_brokers(cluster: Cluster, all_transfers: Mapping[tuple[str, int], Transfer], bytes_per_s: int) -> set[int]:
    """Throttle what brokers send to each other for these transfers, and return those that are there to be throttled. Raises
    Failure."""
    changes: dict[tuple[str, str], Mapping[str, str | None]] = {
        (TOPIC, topic): dict(settings) for topic, settings in topic_throttles(all_transfers).items()
    }
    rates = {LEADER_RATE: str(bytes_per_s), FOLLOWER_RATE: str(bytes_per_s)}
    throttled = brokers_of(all_transfers.values()) & brokers(cluster)
    _alter(cluster, changes | {(BROKER, str(broker)): rates for broker in sorted(throttled)})
    return throttled


def throttle_directories(cluster: Cluster, moving: Iterable[int], bytes_per_s: int) -> None:
    """Throttle what these brokers copy between their log directories. Raises Failure."""
    _alter(cluster, {(BROKER, str(broker)): {LOG_DIRS_RATE: str(bytes_per_s)} for broker in sorted(moving)})


def remove_throttles(cluster: Cluster, topics: Iterable[str], throttled: Iterable[int] = ()) -> None:
    """Remove all throttles of all brokers that are there, and of these topics, and say so, and which of the `throttled` brokers
    keep theirs, because they are gone. Raises Failure."""
    alive, names = sorted(brokers(cluster)), sorted(topics)
    changes: dict[tuple[str, str], Mapping[str, str | None]] = {
        (BROKER, str(broker)): dict.fromkeys(BROKER_SETTINGS) for broker in alive
    }
    _alter(cluster, changes | {(TOPIC, topic): dict.fromkeys(TOPIC_SETTINGS) for topic in names}, are_gone_missing=True)
    Output.note(f"throttles are removed from brokers {_list(alive)} and topics {_list(names)}")
    gone = sorted(set(throttled) - set(alive))
    if gone:
        Output.note(
            f"brokers {_list(gone)} are gone and keep their throttles: `barnabas partitions cancel --execute` removes them "
            "when they are back"
        )


def brokers(cluster: Cluster) -> set[int]:
    """Return the brokers that are there."""
    return {node.id for node in cluster.result(cluster.admin.describe_cluster()).nodes}


def _alter(cluster: Cluster, changes: Changes, *, are_gone_missing: bool = False) -> None:
    """Change settings; with `are_gone_missing` a topic that was deleted is no failure. Raises Failure."""
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource  # noqa: PLC0415

    futures = {}
    for (kind, name), settings in changes.items():
        entries = [
            ConfigEntry(
                setting,
                value,
                incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
            )
            for setting, value in settings.items()
        ]
        resource = ConfigResource(ConfigResource.Type[kind], name, incremental_configs=entries)
        # One a request: those of a broker go to that broker.
        futures[kind, name] = cluster.admin.incremental_alter_configs([resource])[resource]
    failures, is_silent = [], True
    for (kind, name), result in cluster.results(futures).items():
        if isinstance(result, KafkaError) and not (are_gone_missing and result.name() == "UNKNOWN_TOPIC_OR_PART"):
            failures.append(f"throttle of {kind.lower()} {name}: {told(result)}")
            is_silent = is_silent and result.name() in (*UNREACHABLE, "_TIMED_OUT")
    if failures:
        raise (Unanswered if is_silent else Failure)("; ".join(failures))


def _list(things: Iterable[object]) -> str:
    return ",".join(map(str, things)) or "-"
