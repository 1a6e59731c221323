"""Where everything is: brokers, partitions, the bytes of replicas in log directories, the ends of logs. Few requests, whatever
the number of partitions: Metadata of any broker, DescribeLogDirs of each, ListOffsets of each twice.

Rules: what a user may not see, or a broker does not tell, is not known (None), and a note says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from client.admin.offsets import offsets
from client.admin.replicas import log_dirs
from client.admin.topics import all_topics, describe
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.list_offsets import EARLIEST, LATEST

if TYPE_CHECKING:
    from protocol.messages.metadata import MetadataResponseBroker, MetadataResponseTopic
    from protocol.topic_partition import TopicPartition
    from web.cluster.user_cluster import UserCluster

MAX_AGE_MS: Final = 4_000


@dataclass(frozen=True, slots=True)
class Replica:
    """`lag` is how many offsets it is behind, as its broker says."""

    size_bytes: int
    lag: int
    directory: str
    is_future: bool


@dataclass(frozen=True, slots=True)
class Directory:
    """Bytes are None where the broker does not tell them. `error` says why it is offline."""

    broker_id: int
    path: str
    total_bytes: int | None
    usable_bytes: int | None
    used_bytes: int
    replicas: int
    error: str


@dataclass(slots=True)
class Layout:
    """`replicas` are by topic, partition and broker; `offsets` the start and the end of a log."""

    topics: Mapping[str, MetadataResponseTopic]
    brokers: Mapping[int, MetadataResponseBroker]
    controller_id: int | None
    cluster_id: str | None
    replicas: dict[tuple[str, int, int], Replica] = field(default_factory=dict)
    directories: list[Directory] = field(default_factory=list)
    offsets: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


async def layout_of(cluster: UserCluster, topic: str | None = None) -> Layout:
    """Return the layout of all topics, or of one; a copy that is some seconds old. Raises KafkaError, OSError."""
    return await cluster.recent.get(("layout", topic), MAX_AGE_MS, lambda: _read(cluster, topic))


async def _read(cluster: UserCluster, topic: str | None) -> Layout:
    found = await cluster.run(all_topics()) if topic is None else await _one(cluster, topic)
    view = cluster.client.view
    layout = Layout(found, dict(view.brokers), view.controller_id, view.cluster_id)
    keys = [(name, each.partition_index) for name, row in found.items() for each in row.partitions]
    led = [
        (name, each.partition_index)
        for name, row in found.items()
        for each in row.partitions
        if each.leader_id in view.brokers
    ]
    directories, starts, ends = await asyncio.gather(
        cluster.run(log_dirs(sorted(view.brokers), None if topic is None else keys)),
        cluster.run(offsets(dict.fromkeys(led, EARLIEST))),
        cluster.run(offsets(dict.fromkeys(led, LATEST))),
    )
    for broker_id, response in directories.items():
        _take_directories(layout, broker_id, response)
    for key, end in ends.items():
        start = starts[key]
        if isinstance(start, int) and isinstance(end, int):
            layout.offsets[key] = start, end
    layout.notes += _notes(directories)
    return layout


async def _one(cluster: UserCluster, topic: str) -> dict[str, MetadataResponseTopic]:
    row = (await cluster.run(describe([topic])))[topic]
    if isinstance(row, KafkaError):
        raise row
    return {topic: row}


def _take_directories(layout: Layout, broker_id: int, response: Any) -> None:
    if isinstance(response, KafkaError):
        return
    for result in response.results:
        used_bytes = count = 0
        for row in result.topics:
            for each in row.partitions:
                key = (row.name, each.partition_index, broker_id)
                used_bytes += each.partition_size
                count += 1
                if not each.is_future_key or key not in layout.replicas:
                    layout.replicas[key] = Replica(
                        each.partition_size, each.offset_lag, result.log_dir, each.is_future_key
                    )
        error = ErrorCode.of(result.error_code)
        layout.directories.append(
            Directory(
                broker_id,
                result.log_dir,
                _known(result.total_bytes),
                _known(result.usable_bytes),
                used_bytes,
                count,
                "" if error is ErrorCode.NONE else error.name,
            )
        )


def _known(number: int) -> int | None:
    return number if number >= 0 else None


def _notes(directories: Mapping[int, Any]) -> Iterable[str]:
    """Say why sizes are not known."""
    failed = {broker_id: each for broker_id, each in directories.items() if isinstance(each, KafkaError)}
    denied = [each for each in failed.values() if each.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    if denied:
        yield "Sizes are not shown: they need DESCRIBE on the cluster."
    elif failed:
        names = ", ".join(map(str, sorted(failed)))
        yield f"Sizes of brokers that do not answer are not shown: {names}."
    refused = [each for each in directories.values() if not isinstance(each, KafkaError) and each.error_code]
    if refused and not denied:
        yield f"Sizes are not shown: {ErrorCode.of(refused[0].error_code).name}."
