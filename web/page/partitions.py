"""Where partitions are: leaders that an election would change, replicas that move, and what moves them.

Rules: what kafka-reassign-partitions.sh has begun is shown and ended here, and the other way round. A throttle stays until it
is removed here, or by `barnabas partitions verify`. Leaders are elected of all partitions, or of those that are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, Field

from client.admin.brokers import cluster as describe_cluster
from client.admin.replicas import ElectionType
from client.admin.replicas import elect as election
from protocol.errors import ErrorCode
from runtime.command_line.failure import Failure
from runtime.texts import count_text
from tools.failures import told
from tools.placement import current_replicas, described, partition_rows
from tools.reassignment.beginning import begin, check_brokers, spread_plan, throttled_topics
from tools.reassignment.reassignments import ReplicaPlace, alter, moving, places
from tools.reassignment.throttles import remove_throttles
from web.errors import HttpProblem
from web.page.routing import PartitionName, RequestBody, page_router
from web.requests import WRITING, Cluster

if TYPE_CHECKING:
    from client.admin.replicas import ReplicaKey
    from tools.balance.layout import Key
    from tools.reassignment.moves import Reassignment

router = page_router("Partitions")
Rate = Annotated[int, Field(ge=1)]


class MovingPartition(BaseModel):
    """`copied_bytes` is what the replicas that are added have, of `total_bytes`; null where a broker does not tell."""

    topic: str
    partition: int
    replicas: list[int]
    adding: list[int]
    removing: list[int]
    copied_bytes: int | None
    total_bytes: int | None


class Reassignments(BaseModel):
    """`brokers` are those that are there. `unknown` says why no progress is told."""

    moving: list[MovingPartition]
    brokers: list[int]
    unknown: str | None


class PlanRequest(RequestBody):
    """Topics whose replicas are to be spread over these brokers and their racks."""

    topics: list[str] = Field(min_length=1)
    brokers: list[int] = Field(min_length=1)
    replication_factor: int | None = Field(None, ge=1)
    ignores_racks: bool = False


class PlannedMove(BaseModel):
    topic: str
    partition: int
    before: list[int]
    after: list[int]


class Plan(BaseModel):
    """Those partitions that would change."""

    moves: list[PlannedMove]


class NewReplicas(PartitionName):
    replicas: list[int] = Field(min_length=1)


class ReassignRequest(RequestBody):
    """`throttle_bytes_per_s` limits what brokers send each other. `additional` begins beside other moves."""

    partitions: list[NewReplicas] = Field(min_length=1)
    throttle_bytes_per_s: Rate | None = None
    additional: bool = False


class CancelRequest(RequestBody):
    """Without `partitions` all that are moving."""

    partitions: list[PartitionName] | None = None


class Changed(BaseModel):
    """`notes` tell what else was done."""

    partitions: list[str]
    notes: list[str] = []


class Misled(BaseModel):
    """`leader` is null without one; `in_sync` says whether the preferred leader could lead."""

    topic: str
    partition: int
    leader: int | None
    preferred: int
    in_sync: bool
    isr: list[int]
    replicas: list[int]


class Leaders(BaseModel):
    """The partitions that are not led by their preferred replica."""

    partitions_count: int
    others: list[Misled]


class ElectionRequest(RequestBody):
    """`unclean` also elects a replica that was not in sync, which loses records; it names its partitions."""

    kind: Literal["preferred", "unclean"] = "preferred"
    partitions: list[PartitionName] | None = None


class Elected(BaseModel):
    """`refused` tells the partitions that have not got the leader that they should have, and why."""

    elected: list[str]
    refused: list[str]


@router.get("/reassignments")
async def list_reassignments(cluster: Cluster) -> Reassignments:
    """List the partitions that are being moved, with how far they have come."""
    active = await cluster.run(moving())
    there = [broker.node_id for broker in (await cluster.run(describe_cluster())).brokers]
    found: Mapping[ReplicaKey, ReplicaPlace] = {}
    unknown = None
    if active:
        found, unknown = await _places(cluster, active, there)
    rows = [_moving(key, each, found if unknown is None else None) for key, each in active.items()]
    return Reassignments(moving=rows, brokers=sorted(there), unknown=unknown)


@router.post("/reassignments/plan")
async def plan(cluster: Cluster, body: PlanRequest) -> Plan:
    """Spread the replicas of topics over brokers, and tell what would move. Nothing is changed."""
    now, after = await cluster.run(
        spread_plan(body.topics, body.brokers, body.replication_factor, ignores_racks=body.ignores_racks)
    )
    return Plan(
        moves=[
            PlannedMove(topic=key[0], partition=key[1], before=now[key], after=replicas)
            for key, replicas in sorted(after.items())
            if now[key] != replicas
        ]
    )


@router.post("/reassignments", dependencies=[WRITING])
async def reassign(cluster: Cluster, body: ReassignRequest) -> Changed:
    """Begin to move replicas."""
    wanted = {each.key: each.replicas for each in body.partitions}
    await cluster.run(check_brokers({broker for replicas in wanted.values() for broker in replicas}))
    active = await cluster.run(moving())
    if active and not body.additional:
        raise HttpProblem(
            409,
            f"{count_text(len(active), 'partition', 'is', 'are')} being moved already",
            code="REASSIGNMENT_IN_PROGRESS",
            next_step="wait until none is, cancel that, or say that these shall move beside them",
        )
    now = await cluster.run(current_replicas(wanted))
    await cluster.run(begin(active, wanted, now, body.throttle_bytes_per_s))
    return Changed(partitions=_names(wanted))


@router.post("/reassignments/cancel", dependencies=[WRITING])
async def cancel(cluster: Cluster, body: CancelRequest) -> Changed:
    """End reassignments: partitions return to the replicas that they had, and throttles are removed."""
    active = await cluster.run(moving())
    wanted = set(active) if body.partitions is None else {each.key for each in body.partitions} & active.keys()
    await cluster.run(alter(dict.fromkeys(wanted)))
    notes = [] if active.keys() - wanted else await cluster.run(remove_throttles({topic for topic, _ in wanted}))
    return Changed(partitions=_names(wanted), notes=notes)


@router.post("/reassignments/throttles/remove", dependencies=[WRITING])
async def remove_all_throttles(cluster: Cluster) -> Changed:
    """Remove the throttles of all brokers and topics, which moves have left."""
    topics = await cluster.run(throttled_topics())
    return Changed(partitions=[], notes=await cluster.run(remove_throttles(topics)))


@router.get("/leaders")
async def list_leaders(cluster: Cluster) -> Leaders:
    """List the partitions that are not led by their preferred replica, the first of them."""
    rows = [row for topic in await cluster.run(described()) for row in partition_rows(topic)]
    others = [_misled(row) for row in rows if row["replicas"] and row["leader"] != row["replicas"][0]]
    return Leaders(partitions_count=len(rows), others=others)


@router.post("/leaders/elect", dependencies=[WRITING])
async def elect(cluster: Cluster, body: ElectionRequest) -> Elected:
    """Elect the leaders of partitions: of those that are named, or of all that their preferred replica does not lead."""
    if body.partitions is not None:
        keys = [each.key for each in body.partitions]
    elif body.kind == "unclean":
        raise HttpProblem(422, "an unclean election names its partitions: it loses records", code="INVALID")
    else:
        keys = [(each.topic, each.partition) for each in (await list_leaders(cluster)).others]
    kind = ElectionType.PREFERRED if body.kind == "preferred" else ElectionType.UNCLEAN
    results = await cluster.run(election(kind, keys)) if keys else {}
    failed = {
        key: error
        for key, error in sorted(results.items())
        if error is not None and error.code is not ErrorCode.ELECTION_NOT_NEEDED
    }
    denied = next((each for each in failed.values() if each.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED), None)
    if denied is not None:
        raise denied
    return Elected(
        elected=_names(key for key, error in results.items() if error is None),
        refused=[f"{topic}-{partition}: {told(error)}" for (topic, partition), error in failed.items()],
    )


async def _places(
    cluster: Cluster, active: Iterable[Key], brokers: Sequence[int]
) -> tuple[Mapping[ReplicaKey, ReplicaPlace], str | None]:
    """Return where the replicas are, or why that is not known: a user who moves may not see log directories."""
    try:
        return await cluster.run(places(brokers, list(active))), None
    except Failure as failure:
        return {}, failure.message


def _moving(key: Key, each: Reassignment, found: Mapping[ReplicaKey, ReplicaPlace] | None) -> MovingPartition:
    size = copied = None
    if found is not None:
        sizes = {broker: found[*key, broker].bytes for broker in each.replicas if (*key, broker) in found}
        full = max((size for broker, size in sizes.items() if broker not in each.adding), default=0)
        size = full * len(each.adding)
        copied = sum(min(sizes.get(broker, 0), full) for broker in each.adding)
    return MovingPartition(
        topic=key[0],
        partition=key[1],
        replicas=list(each.replicas),
        adding=list(each.adding),
        removing=list(each.removing),
        copied_bytes=copied,
        total_bytes=size,
    )


def _misled(row: Mapping[str, Any]) -> Misled:
    preferred = row["replicas"][0]
    return Misled(**row, preferred=preferred, in_sync=preferred in row["isr"])


def _names(keys: Iterable[Key]) -> list[str]:
    return [f"{topic}-{partition}" for topic, partition in sorted(keys)]
