"""Groups of every kind, as the page shows and changes them: with members and lag; offsets are reset, groups deleted.

Rules: a group that cannot be described stands in the list with the reason. What a member reads is not known where the group's
assignments are not in the form of consumers (Kafka Connect). Offsets are set only in a group without members; a preview says
what would be set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel

from client.admin import groups as group_steps
from client.admin.groups import CLASSIC, CONSUMER, SHARE, CoordinatedGroup, MemberName
from protocol.errors import KafkaError
from protocol.primitives import DecodeError
from runtime.slices import Slices
from tools import group_targets
from tools.failures import told
from tools.group_documents import MISSING, member_document
from tools.group_lag import PartitionLag, known_lag, lags
from tools.group_targets import OffsetTarget, new_offsets, present_offsets, set_offsets
from tools.placement import described, partition_rows
from web.errors import HttpProblem
from web.page.routing import PartitionName, RequestBody, page_router
from web.requests import WRITING, Cluster, Parts

if TYPE_CHECKING:
    from protocol.messages.describe_groups import DescribedGroupMember
    from protocol.messages.list_groups import ListedGroup
    from tools.group_lag import Key
    from web.cluster.user_cluster import UserCluster

router = page_router("Groups")
_KNOWN_KINDS = ("", CLASSIC, CONSUMER, SHARE)
_EMPTY_STATES = ("Empty", MISSING)


class GroupRow(BaseModel):
    """What is unknown is null; `error` says why. `kind` is "classic", "consumer" or "share". `lag` is the sum over the
    partitions where it is known, which `unknown_count` others are not part of: nothing is committed there yet, or their leader
    does not answer. That of a share group is what its members are not done with."""

    group: str
    kind: str
    protocol_type: str
    state: str
    coordinator: int
    members_count: int | None = None
    partitions_count: int | None = None
    topics: list[str] = []
    lag: int | None = None
    unknown_count: int = 0
    error: str | None = None


class GroupList(BaseModel):
    """`missing` tells the brokers that have not told their groups, and why."""

    groups: list[GroupRow]
    missing: list[str]


class Member(BaseModel):
    """`partitions` is null where what it was assigned cannot be read. A group of the consumer protocol has epochs, and what the
    member shall have once others have given it up; a share group has epochs."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    member_epoch: int | None = None
    partitions: list[str] | None = None
    target_partitions: list[str] | None = None


class Lag(BaseModel):
    """`current_offset` is what is committed; of a share group, the start offset, before which everything is done with."""

    topic: str
    partition: int
    current_offset: int | None
    log_end_offset: int | None
    lag: int | None
    member_id: str | None
    client_id: str | None
    host: str | None


class Group(BaseModel):
    group: str
    kind: str
    protocol_type: str
    state: str
    coordinator: int
    assignor: str
    group_epoch: int | None
    assignment_epoch: int | None
    lag: int | None
    unknown_count: int
    members: list[Member]
    partitions: list[Lag]


class NamedGroup(RequestBody):
    group: str


class OffsetReset(RequestBody):
    """Where to, of all partitions that the group has committed, or of those of `topics`, or of `partitions`. `value` is an
    offset, a number of records to shift by, or a time in ms since 1970. Without `execute` nothing is changed."""

    group: str
    to: Literal["earliest", "latest", "offset", "shift", "time"]
    value: int | None = None
    topics: list[str] | None = None
    partitions: list[PartitionName] | None = None
    execute: bool = False


class NewOffset(BaseModel):
    """`wanted` is what was asked for, of which `new_offset` is the nearest that the partition has."""

    topic: str
    partition: int
    current_offset: int | None
    new_offset: int
    wanted: int


class NewOffsets(BaseModel):
    partitions: list[NewOffset]
    changed: bool


class OffsetDeletion(RequestBody):
    group: str
    partitions: list[PartitionName]


class MemberRemoval(RequestBody):
    """A static member is named by its instance id, any other by its member id."""

    class Name(RequestBody):
        member_id: str
        instance_id: str | None = None

    group: str
    members: list[Name]


class Done(BaseModel):
    """How many were changed."""

    count: int


@router.get("/groups")
async def list_groups(cluster: Cluster, parts: Parts) -> GroupList:
    """List the groups of all brokers, with their lag."""
    listed = await cluster.run(group_steps.list_all())
    if listed.errors and not listed.groups:
        raise next(iter(listed.errors.values()))
    rows = {
        each.group_id: _listed_row(each, coordinator) for coordinator, some in listed.groups.items() for each in some
    }
    described_groups = await cluster.run(
        group_steps.describe([name for name, row in rows.items() if row.kind in _KNOWN_KINDS])
    )
    known = {name: each for name, each in described_groups.items() if not isinstance(each, KafkaError)}
    found = await cluster.run(lags(list(known.values())))
    async for name, each in Slices(parts.surroundings.clock).over(described_groups.items()):
        if isinstance(each, KafkaError):
            rows[name].error = told(each)
        else:
            _fill(rows[name], each, found[name])
    missing = [f"broker {broker}: {told(error)}" for broker, error in sorted(listed.errors.items())]
    return GroupList(groups=[rows[name] for name in sorted(rows)], missing=missing)


@router.get("/groups/details")
async def show_group(cluster: Cluster, group: str) -> Group:
    """Tell all that is known of a group."""
    found = await _described(cluster, group)
    rows = (await cluster.run(lags([found])))[group]
    if isinstance(rows, KafkaError):
        raise rows
    if not rows and found.group.group_state == MISSING:
        raise _missing(group)
    return group_of(found, rows)


@router.post("/groups/delete", dependencies=[WRITING])
async def delete_group(cluster: Cluster, body: NamedGroup) -> Done:
    """Delete a group without members, with its offsets."""
    error = (await cluster.run(group_steps.delete([body.group])))[body.group]
    if error is not None:
        raise error
    return Done(count=1)


@router.post("/groups/offsets", dependencies=[WRITING])
async def reset_offsets(cluster: Cluster, body: OffsetReset) -> NewOffsets:
    """Set the offsets of a group without members, or tell what they would be."""
    target = _target(body)
    found = await _described(cluster, body.group)
    if found.group.group_state not in _EMPTY_STATES:
        raise HttpProblem(
            409,
            f"group {body.group} is {found.group.group_state}: its offsets can be set while it has no members",
            code="NON_EMPTY_GROUP",
            next_step="stop its consumers first",
        )
    is_share = found.share is not None
    commits = await cluster.run(present_offsets(body.group, is_share=is_share))
    keys = await _chosen(cluster, body, commits)
    new = await cluster.run(new_offsets(keys, commits, target))
    if body.execute:
        offsets = {key: each.offset for key, each in new.items()}
        _check(await cluster.run(set_offsets(body.group, offsets, is_share=is_share)))
    rows = [
        NewOffset(
            topic=key[0],
            partition=key[1],
            current_offset=commits.get(key),
            new_offset=new[key].offset,
            wanted=new[key].wanted,
        )
        for key in keys
    ]
    return NewOffsets(partitions=rows, changed=body.execute)


@router.post("/groups/offsets/delete", dependencies=[WRITING])
async def delete_offsets(cluster: Cluster, body: OffsetDeletion) -> Done:
    """Make a group forget what it has committed, for topics that no member reads. A share group, which must have no members,
    forgets the topics as a whole."""
    is_share = (await _described(cluster, body.group)).share is not None
    keys = [each.key for each in body.partitions]
    results = await cluster.run(group_targets.delete_offsets(body.group, keys, is_share=is_share))
    _check(results)
    return Done(count=len(results))


@router.post("/groups/members/remove", dependencies=[WRITING])
async def remove_members(cluster: Cluster, body: MemberRemoval) -> Done:
    """Take members out of a group, such as static ones whose process is gone. One that is alive joins again. Members of share
    groups leave only by themselves."""
    names = [MemberName(each.member_id, each.instance_id) for each in body.members]
    for error in (await cluster.run(group_steps.remove_members(body.group, names))).values():
        if error is not None:
            raise error
    return Done(count=len(names))


def group_of(found: CoordinatedGroup, rows: Sequence[PartitionLag]) -> Group:
    """Return a group as the page shows it."""
    group, newer = found.group, found.newer
    return Group(
        group=group.group_id,
        kind=found.kind,
        protocol_type=group.protocol_type,
        state=group.group_state,
        coordinator=found.coordinator,
        assignor=group.protocol_data,
        group_epoch=None if newer is None else newer.group_epoch,
        assignment_epoch=None if newer is None else newer.assignment_epoch,
        lag=known_lag(rows),
        unknown_count=_unknown_count(rows),
        members=[Member(**_member(found, member)) for member in group.members],
        partitions=[Lag(**row.row()) for row in rows],
    )


def _member(found: CoordinatedGroup, member: DescribedGroupMember) -> dict[str, Any]:
    try:
        return member_document(found, member)
    except DecodeError:
        return {
            "member_id": member.member_id,
            "instance_id": member.group_instance_id,
            "client_id": member.client_id,
            "host": member.client_host,
        }


def _listed_row(each: ListedGroup, coordinator: int) -> GroupRow:
    kind = each.group_type.lower() or CLASSIC
    return GroupRow(
        group=each.group_id,
        kind=kind,
        protocol_type=each.protocol_type,
        state=each.group_state,
        coordinator=coordinator,
        error=None if kind in _KNOWN_KINDS else f"groups of the kind {kind} are only listed here",
    )


def _fill(row: GroupRow, found: CoordinatedGroup, rows: Sequence[PartitionLag] | KafkaError) -> None:
    row.kind = found.kind
    row.state = found.group.group_state
    row.coordinator = found.coordinator
    row.members_count = len(found.group.members)
    if isinstance(rows, KafkaError):
        row.error = told(rows)
        return
    row.topics = sorted(Counter(each.topic for each in rows))
    row.partitions_count = len(rows)
    row.lag = known_lag(rows)
    row.unknown_count = _unknown_count(rows)


def _unknown_count(rows: Sequence[PartitionLag]) -> int:
    return sum(row.lag is None for row in rows)


async def _described(cluster: UserCluster, group: str) -> CoordinatedGroup:
    """Raises KafkaError."""
    found = (await cluster.run(group_steps.describe([group])))[group]
    if isinstance(found, KafkaError):
        raise found
    return found


def _missing(group: str) -> HttpProblem:
    return HttpProblem(
        404, f"there is no group {group}", code="GROUP_ID_NOT_FOUND", next_step="the list shows the groups"
    )


def _target(body: OffsetReset) -> OffsetTarget:
    """Raises HttpProblem."""
    if body.to in ("earliest", "latest"):
        return OffsetTarget(spec=body.to)
    if body.value is None or (body.to != "shift" and body.value < 0):
        raise HttpProblem(422, f"say the {body.to} as a whole number", code="INVALID")
    if body.to == "offset":
        return OffsetTarget(offset=body.value)
    return OffsetTarget(shift=body.value) if body.to == "shift" else OffsetTarget(spec=body.value)


async def _chosen(cluster: UserCluster, body: OffsetReset, commits: Iterable[Key]) -> list[Key]:
    """Raises HttpProblem, Failure, KafkaError."""
    if body.partitions is not None:
        keys = {each.key for each in body.partitions}
    elif body.topics is not None:
        found = await cluster.run(described(body.topics)) if body.topics else []
        keys = {(row["topic"], row["partition"]) for topic in found for row in partition_rows(topic)}
    else:
        keys = set(commits)
    if not keys:
        raise HttpProblem(422, f"group {body.group} has committed nothing: name a topic", code="INVALID")
    return sorted(keys)


def _check(results: dict[Key, KafkaError | None]) -> None:
    """Raises HttpProblem for what was refused."""
    failed = {key: error for key, error in sorted(results.items()) if error is not None}
    if failed:
        texts = [f"{topic}-{partition}: {told(error)}" for (topic, partition), error in failed.items()]
        raise HttpProblem(409, "; ".join(texts[:10]), code=next(iter(failed.values())).code.name)
