"""Who may do what with share groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from protocol.messages import delete_share_group_state as delete_state
from protocol.messages import initialize_share_group_state as initialize_state
from protocol.messages import read_share_group_state as read_state
from protocol.messages import read_share_group_state_summary as summary
from protocol.messages import share_acknowledge as acknowledge
from protocol.messages import share_fetch as fetch
from protocol.messages import write_share_group_state as write_state
from protocol.messages.alter_share_group_offsets import AlteredPartition, AlteredTopic, AlterShareGroupOffsetsRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.delete_share_group_offsets import DeletedTopic, DeleteShareGroupOffsetsRequest
from protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    RequestedGroup,
    RequestedTopic,
)
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.share_group_describe import ShareGroupDescribeRequest
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from protocol.primitives import uuid_to_text
from protocol.schema import Request
from protocol.share_states import AcknowledgeType
from security.access import Operation
from tests.differential.play import NEWER_SECURED, Run
from tests.differential.secured import check, denied_on_topic, numbered, on_cluster, on_group, on_topic

MEMBER = "AAAAAAAAAAAAAAAAAAAAA{n}"
SHARE_COORDINATOR = 2
_check = partial(check, stage=NEWER_SECURED)


def _of_group(name: str, *operations: Operation) -> dict[str, Sequence[Any]]:
    """Situations of a group and a topic, and of others that do not help."""
    return {
        "may read the group": on_group(Operation.READ, name=name),
        "may describe the group": on_group(Operation.DESCRIBE, name=name),
        "may delete the group": on_group(Operation.DELETE, name=name),
        "may do it, and read the topic": [*on_group(*operations, name=name), *on_topic(Operation.READ)],
        "may do it, and describe the topic": [*on_group(*operations, name=name), *on_topic(Operation.DESCRIBE)],
        "may do it, not describe the topic": [
            *on_group(*operations, name=name),
            *on_topic(Operation.READ),
            *denied_on_topic(Operation.DESCRIBE),
        ],
        "may act as the cluster": on_cluster(Operation.CLUSTER_ACTION),
    }


def _beating(group: str, topic: str, *, member: str = MEMBER.format(n=0), epoch: int = 0) -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=epoch, subscribed_topic_names=[topic]
    )


def _without_assignment(_: Run) -> Callable[[Any], None]:
    def pick(answer: Any) -> None:
        answer.assignment = None

    return pick


def _topic(run: Run) -> bytes:
    """The topic "t", known to the coordinators. Returns its id."""
    topic = run.topic()
    topic_id = run.last_topic_id
    group = run.group("first")

    def is_known() -> bool:
        answer = run.do(_beating(group, topic), 1)
        if answer.error_code == 0 and answer.assignment is not None and answer.assignment.topic_partitions:
            return True
        run.do(_beating(group, topic, epoch=-1), 1)
        return False

    run.until("the coordinator knows the topic", is_known)
    run.do(_beating(group, topic, epoch=-1), 1)
    return topic_id


def _left_group(run: Run, name: str) -> None:
    """A group whose only member has left: it knows the topic."""
    group, topic = run.group(name), run.name("t")

    def is_assigned() -> bool:
        answer = run.do(_beating(group, topic), 1)
        return bool(answer.assignment is not None and answer.assignment.topic_partitions)

    run.until("the member has the topic", is_assigned)
    run.until("its partition is initialised", lambda: _start_is_told(run, group))
    run.do(_beating(group, topic, epoch=-1), 1)


def _start_is_told(run: Run, group: str) -> bool:
    answer = run.do(DescribeShareGroupOffsetsRequest(groups=[RequestedGroup(group_id=group, topics=None)]), 0)
    return bool(answer.groups[0].topics)


def _group_of(run: Run) -> bytes:
    """The group "g" that knows the topic "t", whose id is returned."""
    topic_id = _topic(run)
    _left_group(run, "g")
    return topic_id


# -- members

_check(
    ShareGroupHeartbeatRequest,
    lambda run, _: _beating(run.name(numbered(run, "g")), run.name("t")),
    _of_group("g{n}", Operation.READ),
    prepare=_topic,
    pick=_without_assignment,
)


def _fetching(run: Run, topic_id: bytes, member: str, epoch: int = 0) -> fetch.ShareFetchRequest:
    rows = [fetch.FetchPartition(partition_index=0, acknowledgement_batches=[])]
    return fetch.ShareFetchRequest(
        group_id=run.name("g"), member_id=member, share_session_epoch=epoch, max_wait_ms=0, min_bytes=0, max_records=10,
        batch_size=10, topics=[fetch.FetchTopic(topic_id=topic_id, partitions=rows)], forgotten_topics_data=[],
    )  # fmt: skip


def _member(run: Run) -> str:
    """A member of its own in each situation."""
    return MEMBER.format(n=chr(ord("a") + len(run.answers)))


def _served_topic(run: Run) -> bytes:
    topic_id = _group_of(run)

    def is_served() -> bool:
        answer = run.do(_fetching(run, topic_id, MEMBER.format(n="z")), 1)
        rows = [row for topic in answer.responses for row in topic.partitions]  # one without records has no row
        return answer.error_code == 0 and not any(row.error_code for row in rows)

    run.until("the share partition is served", is_served)
    run.do(_fetching(run, topic_id, MEMBER.format(n="z"), -1), 1)
    return topic_id


_check(
    fetch.ShareFetchRequest,
    lambda run, topic_id: _fetching(run, topic_id, _member(run)),
    _of_group("g", Operation.READ),
    prepare=_served_topic,
)


def _with_session(run: Run, topics: dict[str, bytes]) -> bytes:
    """A session of the situation's member, that the super user opens."""
    if not topics:
        topics["t"] = _served_topic(run)
    run.do(_fetching(run, topics["t"], _member(run)), 1)
    return topics["t"]


def _acknowledging(run: Run, topic_id: bytes) -> acknowledge.ShareAcknowledgeRequest:
    batch = acknowledge.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[AcknowledgeType.ACCEPT])
    rows = [acknowledge.AcknowledgePartition(partition_index=0, acknowledgement_batches=[batch])]
    return acknowledge.ShareAcknowledgeRequest(
        group_id=run.name("g"), member_id=_member(run), share_session_epoch=1,
        topics=[acknowledge.AcknowledgeTopic(topic_id=topic_id, partitions=rows)],
    )  # fmt: skip


def _prepared_sessions() -> Callable[[Run], bytes]:
    by_run: dict[str, dict[str, bytes]] = {}
    return lambda run: _with_session(run, by_run.setdefault(run.prefix + str(run.port), {}))


_check(
    acknowledge.ShareAcknowledgeRequest,
    _acknowledging,
    _of_group("g", Operation.READ),
    prepare_each=_prepared_sessions(),
)

# -- administration


_check(
    ShareGroupDescribeRequest,
    lambda run, _: ShareGroupDescribeRequest(
        group_ids=[run.name("g"), run.name("missing")], include_authorized_operations=True
    ),
    _of_group("g", Operation.DESCRIBE),
    prepare=_group_of,
)


def _with_member(run: Run) -> Any:
    topic_id = _topic(run)
    group = run.group()
    run.until("the member has the topic", lambda: bool(run.do(_beating(group, run.name("t")), 1).assignment))
    return topic_id


def _without_client(_: Run) -> Callable[[Any], None]:
    def pick(answer: Any) -> None:
        for group in answer.groups:
            group.group_epoch = group.assignment_epoch = 0
            for member in group.members:
                member.client_id = member.client_host = ""
                member.member_epoch = 0

    return pick


_check(
    ShareGroupDescribeRequest,
    lambda run, _: ShareGroupDescribeRequest(group_ids=[run.name("g")], include_authorized_operations=True),
    _of_group("g", Operation.DESCRIBE),
    about="who may see the members",
    prepare=_with_member,
    pick=_without_client,
)


def _rows(run: Run) -> list[RequestedTopic]:
    return [RequestedTopic(topic_name=run.name(short), partitions=[0]) for short in ("t", "missing")]


_check(
    DescribeShareGroupOffsetsRequest,
    lambda run, _: DescribeShareGroupOffsetsRequest(groups=[RequestedGroup(group_id=run.name("g"), topics=_rows(run))]),
    _of_group("g", Operation.DESCRIBE),
    prepare=_group_of,
)
_check(
    DescribeShareGroupOffsetsRequest,
    lambda run, _: DescribeShareGroupOffsetsRequest(groups=[RequestedGroup(group_id=run.name("g"), topics=None)]),
    _of_group("g", Operation.DESCRIBE),
    about="who may see the offsets of all topics",
    prepare=_group_of,
)


def _altering(run: Run, _: Any) -> AlterShareGroupOffsetsRequest:
    rows = [AlteredPartition(partition_index=0, start_offset=0)]
    topics = [AlteredTopic(topic_name=run.name(short), partitions=rows) for short in ("t", "missing")]
    return AlterShareGroupOffsetsRequest(group_id=run.name("g"), topics=topics)


_check(AlterShareGroupOffsetsRequest, _altering, _of_group("g", Operation.READ), prepare=_group_of)


def _another_left_group(run: Run) -> None:
    if not run.answers:
        _topic(run)
    _left_group(run, numbered(run, "g"))


_check(
    DeleteShareGroupOffsetsRequest,
    lambda run, _: DeleteShareGroupOffsetsRequest(
        group_id=run.name(numbered(run, "g")),
        topics=[DeletedTopic(topic_name=run.name(short)) for short in ("t", "missing")],
    ),
    _of_group("g{n}", Operation.DELETE),
    prepare_each=_another_left_group,
)
_check(
    DeleteGroupsRequest,
    lambda run, _: DeleteGroupsRequest(groups_names=[run.name(numbered(run, "g"))]),
    _of_group("g{n}", Operation.DELETE),
    "2",
    about="who may delete a share group",
    prepare_each=_another_left_group,
)

# -- the share coordinator

_OF_CLUSTER: Mapping[str, Sequence[Any]] = {
    "may act as the cluster": on_cluster(Operation.CLUSTER_ACTION),
    "may alter the cluster": on_cluster(Operation.ALTER),
    "may read the group": on_group(Operation.READ),
    "may read the group and the topic": [*on_group(Operation.READ), *on_topic(Operation.READ)],
}


def _initialising(run: Run, topic_id: bytes) -> Request:
    rows = [initialize_state.PartitionData(partition=0, state_epoch=0, start_offset=0)]
    topics = [initialize_state.TopicData(topic_id=topic_id, partitions=rows)]
    return initialize_state.InitializeShareGroupStateRequest(group_id=run.name("g"), topics=topics)


def _reading(run: Run, topic_id: bytes) -> Request:
    rows = [read_state.PartitionData(partition=0, leader_epoch=0)]
    topics = [read_state.TopicData(topic_id=topic_id, partitions=rows)]
    return read_state.ReadShareGroupStateRequest(group_id=run.name("g"), topics=topics)


def _writing(run: Run, topic_id: bytes) -> Request:
    row = write_state.PartitionData(partition=0, state_epoch=0, leader_epoch=0, start_offset=0, state_batches=[])
    topics = [write_state.TopicData(topic_id=topic_id, partitions=[row])]
    return write_state.WriteShareGroupStateRequest(group_id=run.name("g"), topics=topics)


def _summarising(run: Run, topic_id: bytes) -> Request:
    rows = [summary.PartitionData(partition=0, leader_epoch=0)]
    topics = [summary.TopicData(topic_id=topic_id, partitions=rows)]
    return summary.ReadShareGroupStateSummaryRequest(group_id=run.name("g"), topics=topics)


def _deleting(run: Run, topic_id: bytes) -> Request:
    rows = [delete_state.PartitionData(partition=0)]
    topics = [delete_state.TopicData(topic_id=topic_id, partitions=rows)]
    return delete_state.DeleteShareGroupStateRequest(group_id=run.name("g"), topics=topics)


def _found_coordinator(run: Run) -> bytes:
    topic_id = _topic(run)
    run.until("there is a share coordinator", lambda: _coordinator(run, topic_id).error_code == 0)
    run.until("it has loaded", lambda: _first_result(run.do(_initialising(run, topic_id), 0)).error_code == 0)
    return topic_id


def _finding(run: Run, topic_id: bytes) -> FindCoordinatorRequest:
    key = f"{run.name('g')}:{uuid_to_text(topic_id)}:0"
    return FindCoordinatorRequest(key_type=SHARE_COORDINATOR, coordinator_keys=[key])


def _coordinator(run: Run, topic_id: bytes) -> Any:
    return run.do(_finding(run, topic_id), 6).coordinators[0]


def _first_result(answer: Any) -> Any:
    return answer.results[0].partitions[0]


for _api, _request in (
    (initialize_state.InitializeShareGroupStateRequest, _initialising),
    (read_state.ReadShareGroupStateRequest, _reading),
    (write_state.WriteShareGroupStateRequest, _writing),
    (summary.ReadShareGroupStateSummaryRequest, _summarising),
    (delete_state.DeleteShareGroupStateRequest, _deleting),
):
    _check(_api, _request, _OF_CLUSTER, prepare=_found_coordinator)


def _without_key(run: Run) -> Callable[[Any], None]:
    def pick(answer: Any) -> None:
        for row in answer.coordinators:
            row.key = ""

    return pick


_check(
    FindCoordinatorRequest, _finding, _OF_CLUSTER, "6", about="who may find the coordinator of a share partition",
    prepare=_found_coordinator, pick=_without_key,
)  # fmt: skip
