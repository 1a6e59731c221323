"""Where partitions are: their leaders and replicas, as a broker tells them. Pure: steps for a shell."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from client.admin import topics as topic_steps
from client.admin.steps import Steps
from protocol.errors import KafkaError
from protocol.messages.metadata import MetadataResponseTopic
from runtime.command_line.failure import Failure
from tools.failures import told
from tools.group_lag import Key


def described(topics: Collection[str] = ()) -> Steps[list[MetadataResponseTopic]]:
    """Return these topics, or all, by name. Raises Failure when one is missing."""
    if not topics:
        found = yield from topic_steps.all_topics()
        return [topic for _, topic in sorted(found.items())]
    if not all(topics):
        raise Failure("the name of a topic is empty")
    rows = []
    for name, result in sorted((yield from topic_steps.describe(topics)).items()):
        if isinstance(result, KafkaError):
            raise Failure(f"topic {name}: {told(result)}") from result
        rows.append(result)
    return rows


def partition_rows(topic: MetadataResponseTopic) -> list[dict[str, Any]]:
    """Return a row for each partition of a topic. `leader` is None for a partition without one."""
    return [
        {
            "topic": topic.name,
            "partition": partition.partition_index,
            "leader": None if partition.leader_id < 0 else partition.leader_id,
            "replicas": partition.replica_nodes,
            "isr": partition.isr_nodes,
        }
        for partition in sorted(topic.partitions, key=lambda each: each.partition_index)
    ]


def current_replicas(keys: Iterable[Key]) -> Steps[dict[Key, list[int]]]:
    """Return the replicas of partitions as they are. Raises Failure for a partition that is missing."""
    wanted = set(keys)
    topics = tuple(sorted({topic for topic, _ in wanted}))
    if not topics:
        return {}
    there = yield from described(topics)
    found = {(row["topic"], row["partition"]): list(row["replicas"]) for each in there for row in partition_rows(each)}
    missing = sorted(wanted - found.keys())
    if missing:
        raise Failure(f"there is no partition {missing[0][0]}-{missing[0][1]}")
    return {key: found[key] for key in wanted}
