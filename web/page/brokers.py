"""`/api/brokers`: brokers with what they lead, hold and have room for."""

from __future__ import annotations

from collections import Counter

from fastapi import APIRouter
from pydantic import BaseModel

from runtime.slices import Slices
from web.page.layout import layout_of
from web.requests import Cluster, Parts

router = APIRouter(tags=["Page"])


class DirectoryRow(BaseModel):
    """`total_bytes` and `usable_bytes` are of the disk, `used_bytes` of the replicas; `error` says why it is offline."""

    path: str
    total_bytes: int | None
    usable_bytes: int | None
    used_bytes: int
    replicas: int
    error: str


class BrokerRow(BaseModel):
    """`size_bytes` is null where the broker does not tell it."""

    id: int
    host: str
    port: int
    rack: str | None
    is_controller: bool
    leaders: int
    replicas: int
    behind: int
    """Replicas that are not in sync."""
    size_bytes: int | None
    directories: list[DirectoryRow]


class BrokerList(BaseModel):
    """`missing` are brokers that have replicas and are not there; `replicas` and `behind` are of these, too; `notes` say what
    is not known."""

    cluster_id: str | None
    brokers: list[BrokerRow]
    missing: list[int]
    partitions: int
    replicas: int
    behind: int
    topics: int
    notes: list[str]


@router.get("/api/brokers")
async def brokers(cluster: Cluster, parts: Parts) -> BrokerList:
    """List the brokers of the cluster."""
    layout = await layout_of(cluster)
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    behind: Counter[int] = Counter()
    partitions = 0
    async for topic in Slices(parts.surroundings.clock).over(layout.topics.values()):
        partitions += len(topic.partitions)
        for each in topic.partitions:
            leaders[each.leader_id] += 1
            replicas.update(each.replica_nodes)
            behind.update(set(each.replica_nodes) - set(each.isr_nodes))
    rows = []
    for broker_id, broker in sorted(layout.brokers.items()):
        directories = [each for each in layout.directories if each.broker_id == broker_id]
        rows.append(
            BrokerRow(
                id=broker_id,
                host=broker.host,
                port=broker.port,
                rack=broker.rack,
                is_controller=broker_id == layout.controller_id,
                leaders=leaders[broker_id],
                replicas=replicas[broker_id],
                behind=behind[broker_id],
                size_bytes=sum(each.used_bytes for each in directories) if directories else None,
                directories=[
                    DirectoryRow(
                        path=each.path,
                        total_bytes=each.total_bytes,
                        usable_bytes=each.usable_bytes,
                        used_bytes=each.used_bytes,
                        replicas=each.replicas,
                        error=each.error,
                    )
                    for each in directories
                ],
            )
        )
    return BrokerList(
        cluster_id=layout.cluster_id,
        brokers=rows,
        missing=sorted(replicas.keys() - layout.brokers.keys()),
        partitions=partitions,
        replicas=replicas.total(),
        behind=behind.total(),
        topics=len(layout.topics),
        notes=layout.notes,
    )
