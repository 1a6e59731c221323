"""Who may do what with groups and their offsets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.messages.sync_group import SyncGroupRequest
from security.access import Operation
from tests.differential.cases.groups import joining, leaving, stable, syncing
from tests.differential.cases.offsets import committed, fetching
from tests.differential.play import Run
from tests.differential.secured import check, numbered, on_cluster, on_group, on_topic, on_transaction

_GROUP = {
    "may read the group": on_group(Operation.READ),
    "may describe the group": on_group(Operation.DESCRIBE),
    "may delete the group": on_group(Operation.DELETE),
    "may read another group": on_group(Operation.READ, name="other"),
    "may act as the cluster": on_cluster(Operation.CLUSTER_ACTION),
}

# -- members

check(
    JoinGroupRequest,
    lambda run, _: joining(run.name(numbered(run, "g"))),
    {
        "may read the group": on_group(Operation.READ, name="g{n}"),
        "may describe the group": on_group(Operation.DESCRIBE, name="g{n}"),
        "may delete the group": on_group(Operation.DELETE, name="g{n}"),
    },
    prepare=lambda run: run.group(),
)
check(HeartbeatRequest, lambda run, _: HeartbeatRequest(group_id=run.name("g"), generation_id=1, member_id="m"), _GROUP)
check(SyncGroupRequest, lambda run, _: syncing(run.name("g"), 1, "m"), _GROUP)
check(
    SyncGroupRequest,
    lambda run, _: syncing(run.name("g"), 1, "m", protocol_type=None, protocol_name=None),
    _GROUP,
    "5+",
    about="who may leave the protocol out",
)
check(LeaveGroupRequest, lambda run, _: leaving(run, run.name("g"), "m"), _GROUP)

# -- administration


def _groups(run: Run) -> None:
    """A group with a member and offsets, and one with offsets alone."""
    group, topic = run.group(), run.topic("t", 2)
    committed(run, group, topic, 1, 2)
    stable(run, group)
    committed(run, run.group("other"), topic, 3)


def _without_members(run: Run) -> Callable[[Any], None]:
    def pick(answer: Any) -> None:
        for group in answer.groups:
            for member in group.members:
                member.member_id = member.client_id = member.client_host = ""

    return pick


check(
    DescribeGroupsRequest,
    lambda run, _: DescribeGroupsRequest(
        groups=[run.name(short) for short in ("g", "other", "missing")], include_authorized_operations=True
    ),
    {
        "may describe one": on_group(Operation.DESCRIBE),
        "may read one": on_group(Operation.READ),
        "may delete one": on_group(Operation.DELETE),
        "may describe the missing one": on_group(Operation.DESCRIBE, name="missing"),
        "may read and delete two": [
            *on_group(Operation.READ, Operation.DELETE),
            *on_group(Operation.READ, name="other"),
        ],
        "may describe the cluster": on_cluster(Operation.DESCRIBE),
    },
    prepare=_groups,
    pick=_without_members,
)


def _own_groups(run: Run) -> Callable[[ListGroupsResponse], None]:
    def pick(answer: ListGroupsResponse) -> None:
        answer.groups = [group for group in answer.groups if group.group_id.startswith(run.prefix)]

    return pick


check(
    ListGroupsRequest,
    lambda run, _: ListGroupsRequest(),
    {
        "may describe one": on_group(Operation.DESCRIBE),
        "may delete one": on_group(Operation.DELETE),
        "may describe the cluster": on_cluster(Operation.DESCRIBE),
        "may alter the cluster": on_cluster(Operation.ALTER),
        "may create topics": on_cluster(Operation.CREATE),
    },
    prepare=_groups,
    pick=_own_groups,
)


def _a_dead_group(run: Run) -> None:
    committed(run, run.group(numbered(run, "g")), run.topic(numbered(run, "t")), 1)


check(
    DeleteGroupsRequest,
    lambda run, _: DeleteGroupsRequest(groups_names=[run.name(numbered(run, "g")), run.name("missing")]),
    {
        "may delete one": on_group(Operation.DELETE, name="g{n}"),
        "may read one": on_group(Operation.READ, name="g{n}"),
        "may describe one": on_group(Operation.DESCRIBE, name="g{n}"),
        "may delete the missing one": on_group(Operation.DELETE, name="missing"),
        "may alter the cluster": on_cluster(Operation.ALTER),
    },
    prepare_each=_a_dead_group,
)

# -- coordinators


def _finding(kind: int) -> Callable[[Run, Any], FindCoordinatorRequest]:
    def request(run: Run, _: Any) -> FindCoordinatorRequest:
        name = run.name("g" if kind == 0 else "tx")
        if run.version < 4:
            return FindCoordinatorRequest(key=name, key_type=kind)
        return FindCoordinatorRequest(coordinator_keys=[name, run.name("other")], key_type=kind)

    return request


check(
    FindCoordinatorRequest,
    _finding(0),
    {
        "may describe the group": on_group(Operation.DESCRIBE),
        "may read the group": on_group(Operation.READ),
        "may describe a transaction of that name": on_transaction(Operation.DESCRIBE, name="g"),
        "may describe the cluster": on_cluster(Operation.DESCRIBE),
    },
    about="who may find that of a group",
)


def _transactions(run: Run) -> None:
    def is_found() -> bool:
        request = FindCoordinatorRequest(coordinator_keys=[run.name("tx")], key_type=1)
        return bool(run.do(request).coordinators[0].error_code == 0)

    run.until("there is a coordinator", is_found)


check(
    FindCoordinatorRequest,
    _finding(1),
    {
        "may describe the transaction": on_transaction(Operation.DESCRIBE),
        "may write in the transaction": on_transaction(Operation.WRITE),
        "may describe a group of that name": on_group(Operation.DESCRIBE, name="tx"),
        "may describe the cluster": on_cluster(Operation.DESCRIBE),
    },
    "1+",
    about="who may find that of a transaction",
    prepare=_transactions,
)

# -- offsets

_OFFSETS = {
    "may read the group": on_group(Operation.READ),
    "may read the topic": on_topic(Operation.READ),
    "may read both": [*on_group(Operation.READ), *on_topic(Operation.READ)],
    "may read the group and describe the topic": [*on_group(Operation.READ), *on_topic(Operation.DESCRIBE)],
    "may describe the group and read the topic": [*on_group(Operation.DESCRIBE), *on_topic(Operation.READ)],
    "may describe both": [*on_group(Operation.DESCRIBE), *on_topic(Operation.DESCRIBE)],
    "may read the group and the missing topic": [*on_group(Operation.READ), *on_topic(Operation.READ, name="missing")],
    "may delete the group": on_group(Operation.DELETE),
    "may delete the group and read the topic": [*on_group(Operation.DELETE), *on_topic(Operation.READ)],
    "may delete the group and the topic": [*on_group(Operation.DELETE), *on_topic(Operation.DELETE)],
}


def _committing(run: Run, _: Any) -> OffsetCommitRequest:
    rows = [("t", 0), ("t", 5), ("missing", 0)]
    return OffsetCommitRequest(
        group_id=run.name("g"),
        topics=[
            OffsetCommitRequestTopic(
                name=run.name(short),
                partitions=[
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=7, committed_metadata="")
                    for name, index in rows
                    if name == short
                ],
            )
            for short in ("t", "missing")
        ],
    )


check(OffsetCommitRequest, _committing, _OFFSETS, prepare=lambda run: [run.group(), run.topic()])


def _offsets_of_a_group(run: Run) -> None:
    committed(run, run.group(), run.topic(), 4)
    committed(run, run.name("g"), run.topic("hidden"), 5)


check(
    OffsetFetchRequest,
    lambda run, _: fetching(run, run.name("g"), {run.name("t"): [0, 5], run.name("missing"): [0]}),
    _OFFSETS,
    prepare=_offsets_of_a_group,
)
check(
    OffsetFetchRequest,
    lambda run, _: fetching(run, run.name("g"), None),
    _OFFSETS,
    "2+",
    about="who may fetch all",
    prepare=_offsets_of_a_group,
)


def _of_two_groups(run: Run, _: Any) -> OffsetFetchRequest:
    topics = [OffsetFetchRequestTopics(name=run.name("t"), partition_indexes=[0])]
    return OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=run.name(short), topics=topics) for short in ("g", "other")]
    )


check(
    OffsetFetchRequest,
    _of_two_groups,
    {
        "may describe one": [*on_group(Operation.DESCRIBE), *on_topic(Operation.DESCRIBE)],
        "may describe both": [
            *on_group(Operation.DESCRIBE),
            *on_group(Operation.DESCRIBE, name="other"),
            *on_topic(Operation.DESCRIBE),
        ],
    },
    "8+",
    about="who may fetch of two groups",
    prepare=_offsets_of_a_group,
)


def _offset_deletion(run: Run, _: Any) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id=run.name("g"),
        topics=[
            OffsetDeleteRequestTopic(name=run.name(short), partitions=[OffsetDeleteRequestPartition(partition_index=0)])
            for short in ("t", "missing")
        ],
    )


check(OffsetDeleteRequest, _offset_deletion, _OFFSETS, prepare=_offsets_of_a_group)
