"""Elects leaders of some partitions. Source: kafka-leader-election.sh; KIP-460."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from confluent_kafka import ElectionType, KafkaError, TopicPartition

from tools.balance.layout import Key
from tools.cluster import Cluster
from tools.failures import Failure, told

NOT_NEEDED = "ELECTION_NOT_NEEDED"


def elect_preferred(cluster: Cluster, keys: Iterable[Key]) -> list[Key]:
    """Elect the preferred leaders, and return the partitions that have got another leader. Raises Failure."""
    return elect(cluster, ElectionType.PREFERRED, keys)


def elect(cluster: Cluster, kind: Any, keys: Iterable[Key]) -> list[Key]:
    """Return the partitions that have got another leader. Raises Failure when one has got none that it should have."""
    asked = [TopicPartition(*key) for key in keys]
    if not asked:
        return []
    elected, failures = [], []
    found = cluster.result(cluster.admin.elect_leaders(kind, asked))
    for partition, error in sorted(found.items(), key=lambda item: (item[0].topic, item[0].partition)):
        if error is None:
            elected.append((partition.topic, partition.partition))
        elif not (isinstance(error, KafkaError) and error.name() == NOT_NEEDED):
            failures.append(f"{partition.topic}-{partition.partition}: {told(error)}")
    if failures:
        raise Failure("; ".join(failures))
    return elected
