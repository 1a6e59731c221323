"""Requests for thousands of rows: others run between the rows, and the answer is the one that was made in one go.

Time passes only when the clock is read, one millisecond each time, which the slices do once a row.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.handlers.brokers.describe_log_dirs import describe_log_dirs
from broker.handlers.configs.alter_configs import alter_configs
from broker.handlers.configs.describe_configs import describe_configs
from broker.handlers.configs.incremental_alter_configs import incremental_alter_configs
from broker.handlers.groups.describe_groups import describe_groups
from broker.handlers.groups.find_coordinator import find_coordinator
from broker.handlers.groups.leave_group import leave_group
from broker.handlers.groups.offset_commit import offset_commit
from broker.handlers.groups.offset_delete import offset_delete
from broker.handlers.groups.offset_fetch import offset_fetch
from broker.handlers.records.delete_records import delete_records
from broker.handlers.records.list_offsets import list_offsets
from broker.handlers.records.offset_for_leader_epoch import offset_for_leader_epoch
from broker.handlers.topics.alter_partition_reassignments import alter_partition_reassignments
from broker.handlers.topics.create_partitions import create_partitions
from broker.handlers.topics.create_topics import create_topics
from broker.handlers.topics.delete_topics import delete_topics
from broker.handlers.topics.elect_leaders import elect_leaders
from broker.handlers.topics.metadata import metadata
from broker.network.request_context import RequestContext
from broker.network.routes import Handler
from metadata.admin.topic_requests import NewTopic
from metadata.image import GROUP_METADATA_TOPIC
from protocol.errors import ErrorCode
from protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.incremental_alter_configs import AlterConfigsResource as IncrementalResource
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from protocol.schema import Request
from runtime.clock import Clock
from runtime.slices import SLICE_MS, SerialQueue
from storage.description import DirectoryDescription, LogDescription
from tests.async_tests import played_by
from tests.broker.handlers.ask import context_of, on_a_broker
from tests.broker.handlers.group_world import GroupBroker
from tests.broker.handlers.replica_broker import replica_broker
from tests.controller.harness import PATIENCE_MS, Member
from tests.coordinator.requests import commit_request
from tests.doubles.clock import ManualClock
from tests.replication.replica_world import ME
from tests.storage.logs import NOW_MS

ROWS = 2_000


class Others:
    """Whoever else wants the loop: how often they had it, and how long they waited for it."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._seen_ms = clock.now_ms
        self.turns = 0
        self.longest_ms = 0

    async def run(self) -> None:
        while True:
            self.longest_ms = max(self.longest_ms, self._clock.now_ms - self._seen_ms)
            self._seen_ms = self._clock.now_ms
            self.turns += 1
            await asyncio.sleep(0)


def with_clock(context: RequestContext, clock: Clock, **more: object) -> RequestContext:
    line = SerialQueue(clock, asyncio.get_running_loop().call_soon)
    services = SimpleNamespace(**{**vars(context.services), "clock": clock, "serial_queue": line, **more})
    return replace(context, services=cast(Any, services))


async def check(
    handler: Handler[Any], request: Callable[[], Request], context: RequestContext, rows: int = ROWS, **more: object
) -> Any:
    version = context.api_version
    whole = await handler(request(), with_clock(context, ManualClock(), **more))
    clock = ManualClock(step_ms=1)
    others = Others(clock)
    running = asyncio.ensure_future(others.run())
    await asyncio.sleep(0)
    sliced = await handler(request(), with_clock(context, clock, **more))
    running.cancel()
    assert sliced.encode(version) == whole.encode(version)
    assert others.turns > rows // (2 * SLICE_MS)
    assert others.longest_ms <= 3 * SLICE_MS
    return sliced


def names(count: int = ROWS) -> list[str]:
    return [f"name-{number}" for number in range(count)]


def many_topics(count: int = ROWS) -> list[CreatableTopic]:
    return [
        CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        for name in names(count)
    ]


OF_GROUPS: dict[str, tuple[Handler[Any], Callable[[], Request], int]] = {
    "describe groups": (describe_groups, lambda: DescribeGroupsRequest(groups=names()), 5),
    "offset fetch of groups": (
        offset_fetch,
        lambda: OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=name, topics=None) for name in names()]),
        8,
    ),
    "offset fetch of partitions": (
        offset_fetch,
        lambda: OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id="g", topics=[OffsetFetchRequestTopics(name="orders", partition_indexes=list(range(ROWS)))]
                )
            ]
        ),
        8,
    ),
    "offset fetch of topics": (
        offset_fetch,
        lambda: OffsetFetchRequest(
            group_id="g", topics=[OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in names()]
        ),
        7,
    ),
    "offset fetch from the store": (
        offset_fetch,
        lambda: OffsetFetchRequest(
            group_id="g", topics=[OffsetFetchRequestTopic(name="orders", partition_indexes=list(range(ROWS)))]
        ),
        0,
    ),
    "offset commit": (
        offset_commit,
        lambda: commit_request("g", {("orders", index): index for index in range(ROWS)}),
        8,
    ),
    "offset delete": (
        offset_delete,
        lambda: OffsetDeleteRequest(
            group_id="g",
            topics=[
                OffsetDeleteRequestTopic(
                    name="orders",
                    partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in range(ROWS)],
                )
            ],
        ),
        0,
    ),
    "find coordinator": (find_coordinator, lambda: FindCoordinatorRequest(key_type=0, coordinator_keys=names()), 4),
}


@pytest.mark.parametrize("name", OF_GROUPS)
async def test_groups(name: str) -> None:
    handler, request, version = OF_GROUPS[name]
    async with GroupBroker() as broker:
        committed = {("orders", 0): 7, (GROUP_METADATA_TOPIC, 0): 8}
        await offset_commit(commit_request("g", committed), broker.context(9))
        await check(handler, request, broker.context(version))


async def test_members_leave_in_steps() -> None:
    """Each of them for itself; a step is a slice at least."""

    def request() -> Request:
        return LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=name) for name in names(5_001)])

    async with GroupBroker() as broker:
        answer = await check(leave_group, request, broker.context(5), rows=10)
        assert [row.member_id for row in answer.members] == names(5_001)
        assert {row.error_code for row in answer.members} == {ErrorCode.UNKNOWN_MEMBER_ID}
        nobody = await leave_group(LeaveGroupRequest(group_id="", members=[]), broker.context(5))
        assert nobody.error_code == ErrorCode.INVALID_GROUP_ID


OF_TOPICS: dict[str, tuple[Handler[Any], Callable[[], Request], int]] = {
    "unknown topics": (
        metadata,
        lambda: MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names()], allow_auto_topic_creation=False
        ),
        9,
    ),
    "refused topics": (
        metadata,
        lambda: MetadataRequest(topics=[MetadataRequestTopic(name=None) for _ in names()]),
        11,
    ),
    "all partitions": (metadata, lambda: MetadataRequest(topics=None), 9),
    "delete topics": (delete_topics, lambda: DeleteTopicsRequest(topic_names=names(), timeout_ms=0), 5),
    "create topics": (
        create_topics,
        lambda: CreateTopicsRequest(topics=many_topics(), timeout_ms=0, validate_only=True),
        7,
    ),
    "create partitions": (
        create_partitions,
        lambda: CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=2, assignments=None) for name in names()],
            timeout_ms=0,
            validate_only=True,
        ),
        3,
    ),
    "elect leaders": (
        elect_leaders,
        lambda: ElectLeadersRequest(
            election_type=0,
            topic_partitions=[TopicPartitions(topic="gone", partitions=list(range(ROWS)))],
            timeout_ms=0,
        ),
        2,
    ),
    "alter reassignments": (
        alter_partition_reassignments,
        lambda: AlterPartitionReassignmentsRequest(
            topics=[
                ReassignableTopic(
                    name="gone",
                    partitions=[ReassignablePartition(partition_index=index, replicas=[0]) for index in range(ROWS)],
                )
            ]
        ),
        0,
    ),
    "describe configs": (
        describe_configs,
        lambda: DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=None)
                for name in names()
            ]
        ),
        4,
    ),
    "alter configs": (
        alter_configs,
        lambda: AlterConfigsRequest(
            resources=[AlterConfigsResource(resource_type=2, resource_name=name, configs=[]) for name in names()],
            validate_only=True,
        ),
        2,
    ),
    "incremental alter configs": (
        incremental_alter_configs,
        lambda: IncrementalAlterConfigsRequest(
            resources=[IncrementalResource(resource_type=2, resource_name=name, configs=[]) for name in names()],
            validate_only=True,
        ),
        1,
    ),
    "describe log dirs": (describe_log_dirs, lambda: DescribeLogDirsRequest(topics=None), 4),
}


class Logs:
    async def describe(self, _wanted: object) -> list[DirectoryDescription]:
        logs = [LogDescription("t", index, 1, 0) for index in range(ROWS)]
        return [DirectoryDescription("/data", ErrorCode.NONE, 2, 1, logs)]


@pytest.mark.parametrize("name", OF_TOPICS)
@played_by(on_a_broker, "tmp_path")
async def test_topics(member: Member, name: str) -> None:
    handler, request, version = OF_TOPICS[name]
    if name == "all partitions":
        await member.topic_admin.create([NewTopic("wide", ROWS, 1)], PATIENCE_MS)
    context = context_of(member, version)
    await check(handler, request, context, ROWS if handler is not create_topics else ROWS // 100, logs=Logs())


def offsets_of(timestamp: int) -> ListOffsetsRequest:
    rows = [ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in range(ROWS)]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=rows)])


OF_PARTITIONS: dict[str, tuple[Handler[Any], Callable[[], Request], int]] = {
    "offsets of ends": (list_offsets, lambda: offsets_of(-1), 9),
    "offsets of times": (list_offsets, lambda: offsets_of(NOW_MS), 9),
    "offsets of topics": (
        list_offsets,
        lambda: ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-2)])
                for name in names()
            ],
        ),
        5,
    ),
    "ends of epochs": (
        offset_for_leader_epoch,
        lambda: OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[
                OffsetForLeaderTopic(
                    topic="t",
                    partitions=[OffsetForLeaderPartition(partition=index, leader_epoch=0) for index in range(ROWS)],
                )
            ],
        ),
        4,
    ),
    "delete records": (
        delete_records,
        lambda: DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name="t",
                    partitions=[DeleteRecordsPartition(partition_index=index, offset=1) for index in range(ROWS)],
                )
            ],
            timeout_ms=0,
        ),
        2,
    ),
}


@pytest.mark.parametrize("name", OF_PARTITIONS)
async def test_partitions(tmp_path: Path, name: str) -> None:
    """All of them are the same one here, and those of other topics are not there."""
    handler, request, version = OF_PARTITIONS[name]
    async with replica_broker(tmp_path) as broker:
        broker.one.lead(isr=(ME,), replicas=(ME,))
        await broker.one.append("a", "b")
        held = SimpleNamespace(find=lambda topic, _index: broker.one.partition if topic == "t" else None)
        answer = await check(handler, request, broker.context(version), partitions=held)
        rows = [row for topic in answer.topics for row in topic.partitions]
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if "topics" in name else ErrorCode.NONE
        assert [row.error_code for row in rows] == [error] * ROWS
