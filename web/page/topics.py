"""`/api/topics`: topics with what Confluent's interface has not in one answer: sizes, numbers of records, replicas behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel
from pydantic_core import to_json

from runtime.slices import Slices
from web.history.history import History, Measure
from web.page.layout import Layout, layout_of
from web.requests import Cluster, Parts

if TYPE_CHECKING:
    from protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic

router = APIRouter(tags=["Page"])


class TopicRow(BaseModel):
    """`records` are offsets between the starts and the ends of the logs, `size_bytes` those of all replicas, `records_per_s` is
    what was written between the last two looks of the history. Each is null where it is not known."""

    name: str
    is_internal: bool
    partitions: int
    replicas: int
    records: int | None
    records_per_s: float | None
    size_bytes: int | None
    behind: int
    """Partitions whose in-sync replicas are fewer than their replicas."""
    leaderless: int


class TopicList(BaseModel):
    """`notes` say what is not known, and why."""

    topics: list[TopicRow]
    notes: list[str]


class ReplicaRow(BaseModel):
    """`lag` is how many offsets it is behind. Sizes and lag are null where the broker does not tell them."""

    broker: int
    is_in_sync: bool
    is_offline: bool
    size_bytes: int | None
    lag: int | None
    directory: str | None
    is_moving: bool


class PartitionRow(BaseModel):
    """`leader` is null without one. `start` and `end` are the offsets of the log."""

    partition: int
    leader: int | None
    leader_epoch: int
    start: int | None
    end: int | None
    replicas: list[ReplicaRow]


class TopicDetail(BaseModel):
    """One topic."""

    name: str
    id: str
    is_internal: bool
    partitions: list[PartitionRow]
    notes: list[str]


@router.get("/api/topics", response_model=TopicList)
async def topics(cluster: Cluster, parts: Parts) -> Response:
    """List topics with sizes and numbers of records."""
    layout = await layout_of(cluster)
    sizes: dict[str, int] = {}
    slices = Slices(parts.surroundings.clock)
    async for key, replica in slices.over(layout.replicas.items()):
        sizes[key[0]] = sizes.get(key[0], 0) + replica.size_bytes
    history = parts.history.history
    rows = [
        _row(layout, row, sizes.get(name), history) async for name, row in slices.over(sorted(layout.topics.items()))
    ]
    return _answer({"topics": rows, "notes": layout.notes})


@router.get("/api/topics/{topic}", response_model=TopicDetail)
async def topic(topic: str, cluster: Cluster) -> Response:
    """Tell of one topic where its partitions are, and how far their replicas."""
    layout = await layout_of(cluster, topic)
    row = layout.topics[topic]
    partitions = [_partition(layout, topic, each) for each in sorted(row.partitions, key=lambda p: p.partition_index)]
    return _answer({
        "name": topic,
        "id": row.topic_id.hex() if any(row.topic_id) else "",
        "is_internal": row.is_internal,
        "partitions": partitions,
        "notes": layout.notes,
    })  # fmt: skip


def _answer(body: object) -> Response:
    return Response(to_json(body), media_type="application/json")


def _row(layout: Layout, row: MetadataResponseTopic, size_bytes: int | None, history: History) -> dict[str, object]:
    name = row.name or ""
    records: int | None = 0
    for each in row.partitions:
        bounds = layout.offsets.get((name, each.partition_index))
        records = None if bounds is None or records is None else records + bounds[1] - bounds[0]
    return {
        "name": name,
        "is_internal": row.is_internal,
        "partitions": len(row.partitions),
        "replicas": max((len(each.replica_nodes) for each in row.partitions), default=0),
        "records": records,
        "records_per_s": history.latest(Measure.RECORDS, name),
        "size_bytes": size_bytes,
        "behind": sum(len(each.isr_nodes) < len(each.replica_nodes) for each in row.partitions),
        "leaderless": sum(each.leader_id not in layout.brokers for each in row.partitions),
    }


def _partition(layout: Layout, topic: str, row: MetadataResponsePartition) -> dict[str, object]:
    start, end = layout.offsets.get((topic, row.partition_index), (None, None))
    return {
        "partition": row.partition_index,
        "leader": row.leader_id if row.leader_id in layout.brokers else None,
        "leader_epoch": row.leader_epoch,
        "start": start,
        "end": end,
        "replicas": [_replica(layout, topic, row, broker) for broker in row.replica_nodes],
    }


def _replica(layout: Layout, topic: str, row: MetadataResponsePartition, broker: int) -> dict[str, object]:
    found = layout.replicas.get((topic, row.partition_index, broker))
    return {
        "broker": broker,
        "is_in_sync": broker in row.isr_nodes,
        "is_offline": broker in row.offline_replicas or broker not in layout.brokers,
        "size_bytes": None if found is None else found.size_bytes,
        "lag": None if found is None else max(found.lag, 0),
        "directory": None if found is None else found.directory,
        "is_moving": found is not None and found.is_future,
    }
