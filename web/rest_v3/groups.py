"""Groups of consumers: list, get, their members, what each member reads, and how far they are behind.

Rules: only groups of consumers are here: what else joins a group (Kafka Connect) has no partitions. A group that there is not
is 404. Lags begin with the largest; a group that has committed nothing has none, which is 404, as with the REST Proxy. A name
may have slashes: %2F in the address.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fastapi.responses import Response

from client.admin import groups
from client.admin.groups import CONSUMER, CoordinatedGroup, assigned
from protocol.errors import KafkaError
from protocol.primitives import DecodeError
from tools.group_lag import PartitionLag, lags
from web.rest_v3.asked import V3, AskedCluster, answer, is_denied, not_found, outcome, v3_router
from web.rest_v3.resources import (
    ConsumerAssignmentData,
    ConsumerAssignmentDataList,
    ConsumerData,
    ConsumerDataList,
    ConsumerGroupData,
    ConsumerGroupDataList,
    ConsumerGroupLagSummaryData,
    ConsumerLagData,
    ConsumerLagDataList,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
    from protocol.topic_partition import TopicPartition
    from web.rest_v3.links import Links

router = v3_router("Consumer Group (v3)")
_GROUPS = "/clusters/{cluster_id}/consumer-groups"
_GROUP = _GROUPS + "/{consumer_group_id:path}"
_CONSUMER = _GROUP + "/consumers/{consumer_id:path}"
_KINDS = ("", CONSUMER)
_DEAD = "Dead"


@router.get(_GROUPS, response_model=ConsumerGroupDataList)
async def list_groups(v3: V3) -> Response:
    """List the groups that the caller may see. Those of a broker that does not answer are missing, and the header Warning says
    so."""
    listed = await v3.user.run(groups.list_all())
    if listed.errors and not listed.groups:
        raise next(iter(listed.errors.values()))
    names = sorted({row.group_id for rows in listed.groups.values() for row in rows if row.protocol_type in _KINDS})
    described = await v3.user.run(groups.describe(names))
    rows = await v3.each(lambda name: described[name], names)
    for row in rows:
        if isinstance(row, KafkaError) and not is_denied(row):
            raise row
    found = [group_data(v3.links, row) for row in rows if not isinstance(row, KafkaError) and _is_there(row)]
    response = v3.collection("KafkaConsumerGroupList", found, "consumer-groups")
    if listed.errors:
        brokers = ", ".join(f"broker {each}" for each in sorted(listed.errors))
        response.headers["Warning"] = f'199 - "groups of {brokers} are missing"'
    return response


@router.get(_CONSUMER + "/assignments/{topic_name}/partitions/{partition_id}", response_model=ConsumerAssignmentData)
async def get_assignment(
    v3: V3, consumer_group_id: str, consumer_id: str, topic_name: str, partition_id: int
) -> Response:
    """Tell about a partition that a member of a group reads."""
    found = await _group(v3, consumer_group_id)
    member = _member(found, consumer_id)
    key = (topic_name, partition_id)
    if key not in _assigned(member, found.group):
        raise not_found(f"An assignment of partition {partition_id} of topic {topic_name} to consumer {consumer_id}")
    return answer(assignment_data(v3.links, consumer_group_id, consumer_id, key))


@router.get(_CONSUMER + "/assignments", response_model=ConsumerAssignmentDataList)
async def list_assignments(v3: V3, consumer_group_id: str, consumer_id: str) -> Response:
    """List the partitions that a member of a group reads."""
    found = await _group(v3, consumer_group_id)
    keys = _assigned(_member(found, consumer_id), found.group)
    rows = [assignment_data(v3.links, consumer_group_id, consumer_id, key) for key in keys]
    here = ("consumer-groups", consumer_group_id, "consumers", consumer_id, "assignments")
    return v3.collection("KafkaConsumerAssignmentList", rows, *here)


@router.get(_GROUP + "/consumers", response_model=ConsumerDataList)
async def list_consumers(v3: V3, consumer_group_id: str) -> Response:
    """List the members of a group."""
    members = (await _group(v3, consumer_group_id)).group.members
    rows = [consumer_data(v3.links, consumer_group_id, each) for each in sorted(members, key=lambda row: row.member_id)]
    return v3.collection("KafkaConsumerList", rows, "consumer-groups", consumer_group_id, "consumers")


@router.get(_CONSUMER, response_model=ConsumerData)
async def get_consumer(v3: V3, consumer_group_id: str, consumer_id: str) -> Response:
    """Tell about a member of a group."""
    member = _member(await _group(v3, consumer_group_id), consumer_id)
    return answer(consumer_data(v3.links, consumer_group_id, member))


@router.get(_GROUP + "/lags/{topic_name}/partitions/{partition_id}", response_model=ConsumerLagData)
async def get_lag(v3: V3, consumer_group_id: str, topic_name: str, partition_id: int) -> Response:
    """Tell how far a group is behind in a partition."""
    for row in await _lags(v3, consumer_group_id):
        if (row["topic_name"], row["partition_id"]) == (topic_name, partition_id):
            return answer(row)
    raise not_found(f"A lag of group {consumer_group_id} in partition {partition_id} of topic {topic_name}")


@router.get(_GROUP + "/lags", response_model=ConsumerLagDataList)
async def list_lags(v3: V3, consumer_group_id: str) -> Response:
    """List how far a group is behind in each partition, the largest lag first."""
    rows = await _lags(v3, consumer_group_id)
    return v3.collection("KafkaConsumerLagList", rows, "consumer-groups", consumer_group_id, "lags")


@router.get(_GROUP + "/lag-summary", response_model=ConsumerGroupLagSummaryData)
async def get_lag_summary(v3: V3, consumer_group_id: str) -> Response:
    """Tell the sum of a group's lags, and the largest."""
    return answer(summary_data(v3.links, consumer_group_id, await _lags(v3, consumer_group_id)))


@router.get(_GROUP, response_model=ConsumerGroupData)
async def get_group(v3: V3, consumer_group_id: str) -> Response:
    """Tell the state of a group."""
    return answer(group_data(v3.links, await _group(v3, consumer_group_id)))


async def _group(v3: AskedCluster, name: str) -> CoordinatedGroup:
    """Raises HttpProblem 404, KafkaError."""
    found = outcome(await v3.user.run(groups.describe([name])), name)
    if not _is_there(found):
        raise not_found(f"Consumer group {name}")
    return found


def _is_there(found: CoordinatedGroup) -> bool:
    """Return whether it is a group of consumers; one that there is not has the state "Dead" and no kind."""
    return found.group.protocol_type in _KINDS and found.group.group_state != _DEAD


def _member(found: CoordinatedGroup, consumer_id: str) -> DescribedGroupMember:
    """Raises HttpProblem 404."""
    for member in found.group.members:
        if member.member_id == consumer_id:
            return member
    raise not_found(f"Consumer {consumer_id} of group {found.group.group_id}")


def _assigned(member: DescribedGroupMember, group: DescribedGroup) -> list[TopicPartition]:
    """Return what a member reads: nothing, where its assignment is not in the form of consumers."""
    try:
        return sorted(assigned(member, group))
    except DecodeError:
        return []


async def _lags(v3: AskedCluster, name: str) -> list[ConsumerLagData]:
    """Raises HttpProblem 404, KafkaError."""
    found_group = await _group(v3, name)
    rows = outcome(await v3.user.run(lags([found_group])), name)
    instances = {member.member_id: member.group_instance_id for member in found_group.group.members}
    made = await v3.each(lambda row: lag_data(v3.links, name, row, instances), rows)
    found = [row for row in made if row is not None]
    if not found:
        raise not_found(f"A lag of group {name}")
    return sorted(found, key=lambda row: (-row["lag"], row["topic_name"], row["partition_id"]))


def group_data(links: Links, found: CoordinatedGroup) -> ConsumerGroupData:
    group = found.group
    here = ("consumer-groups", group.group_id)
    return {
        "kind": "KafkaConsumerGroup",
        "metadata": links.metadata(*here, name=links.name("consumer-group", group.group_id)),
        "cluster_id": links.cluster_id,
        "consumer_group_id": group.group_id,
        "is_simple": group.protocol_type == "",
        "partition_assignor": group.protocol_data,
        "state": state_name(group.group_state),
        "coordinator": links.related("brokers", found.coordinator),
        "consumers": links.related(*here, "consumers"),
        "lag_summary": links.related(*here, "lag-summary"),
    }


def state_name(state: str) -> str:
    """Return `PREPARING_REBALANCE` for "PreparingRebalance"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", state).upper() or "UNKNOWN"


def consumer_data(links: Links, group: str, member: DescribedGroupMember) -> ConsumerData:
    here = ("consumer-groups", group, "consumers", member.member_id)
    return {
        "kind": "KafkaConsumer",
        "metadata": links.metadata(*here, name=links.name("consumer-group", group, "consumer", member.member_id)),
        "cluster_id": links.cluster_id,
        "consumer_group_id": group,
        "consumer_id": member.member_id,
        "instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "assignments": links.related(*here, "assignments"),
    }


def assignment_data(links: Links, group: str, consumer: str, key: TopicPartition) -> ConsumerAssignmentData:
    topic, index = key
    name = links.name("consumer-group", group, "consumer", consumer, "assignment", topic, "partition", index)
    here = ("consumer-groups", group, "consumers", consumer, "assignments", topic, "partitions", index)
    return {
        "kind": "KafkaConsumerAssignment",
        "metadata": links.metadata(*here, name=name),
        "cluster_id": links.cluster_id,
        "consumer_group_id": group,
        "consumer_id": consumer,
        "topic_name": topic,
        "partition_id": index,
        "partition": links.related("topics", topic, "partitions", index),
        "lag": links.related("consumer-groups", group, "lags", topic, "partitions", index),
    }


def lag_data(
    links: Links, group: str, row: PartitionLag, instances: Mapping[str, str | None]
) -> ConsumerLagData | None:
    """Return None where nothing is committed, or the end is not known."""
    if row.current_offset is None or row.log_end_offset is None:
        return None
    name = links.name("consumer-group", group, "lag", row.topic, "partition", row.partition)
    here = ("consumer-groups", group, "lags", row.topic, "partitions", row.partition)
    return {
        "kind": "KafkaConsumerLag",
        "metadata": links.metadata(*here, name=name),
        "cluster_id": links.cluster_id,
        "consumer_group_id": group,
        "topic_name": row.topic,
        "partition_id": row.partition,
        "current_offset": row.current_offset,
        "log_end_offset": row.log_end_offset,
        "lag": row.log_end_offset - row.current_offset,
        "consumer_id": row.member_id or "",
        "instance_id": instances.get(row.member_id or ""),
        "client_id": row.client_id or "",
    }


def summary_data(links: Links, group: str, rows: list[ConsumerLagData]) -> ConsumerGroupLagSummaryData:
    """Return what stands out of lags, of which the first is the largest."""
    most, here = rows[0], ("consumer-groups", group)
    owner = ("consumers", most["consumer_id"]) if most["consumer_id"] else ("consumers",)
    return {
        "kind": "KafkaConsumerGroupLagSummary",
        "metadata": links.metadata(*here, "lag-summary", name=f"{links.name('consumer-group', group)}/lag-summary"),
        "cluster_id": links.cluster_id,
        "consumer_group_id": group,
        "max_lag_consumer_id": most["consumer_id"],
        "max_lag_instance_id": most["instance_id"],
        "max_lag_client_id": most["client_id"],
        "max_lag_topic_name": most["topic_name"],
        "max_lag_partition_id": most["partition_id"],
        "max_lag": most["lag"],
        "total_lag": sum(max(row["lag"], 0) for row in rows),
        "max_lag_consumer": links.related(*here, *owner),
        "max_lag_partition": links.related("topics", most["topic_name"], "partitions", most["partition_id"]),
    }
