"""Offsets of share groups: those that there are not, errors of rows, what is asked of whom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from client.admin import share_groups
from client.admin.share_groups import ShareOffset
from protocol.errors import ErrorCode, KafkaError
from protocol.messages import alter_share_group_offsets as alter
from protocol.messages import delete_share_group_offsets as delete
from protocol.messages import describe_share_group_offsets as offsets
from tests.client.admin.scripted import ScriptedShell


def code_of(outcome: object) -> ErrorCode | None:
    return outcome.code if isinstance(outcome, KafkaError) else None


def test_start_offsets_and_lags() -> None:
    def row(partition: int, start_offset: int, lag: int, error: ErrorCode = ErrorCode.NONE) -> Any:
        return offsets.DescribedPartition(
            partition_index=partition, start_offset=start_offset, leader_epoch=0, lag=lag, error_code=error
        )

    rows = [row(0, 7, 3), row(1, 7, -1), row(2, -1, -1), row(3, 9, 1, ErrorCode.NOT_COORDINATOR), row(4, 300, -290)]

    def answer(_place: object, request: Any) -> Any:
        topic = offsets.DescribedTopic(topic_name="t", topic_id=bytes(16), partitions=rows)
        codes = {"g": 0, "denied": ErrorCode.GROUP_AUTHORIZATION_FAILED}
        found = [
            offsets.DescribedGroup(group_id=each.group_id, topics=[topic], error_code=codes[each.group_id])
            for each in request.groups
        ]
        return offsets.DescribeShareGroupOffsetsResponse(throttle_time_ms=0, groups=found)

    shell = ScriptedShell(answer)
    found = shell.run(share_groups.start_offsets_of(["g", "denied"]))
    assert found["g"] == {("t", 0): ShareOffset(7, 3), ("t", 1): ShareOffset(7, None), ("t", 4): ShareOffset(300, -290)}
    assert code_of(found["denied"]) is ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert len(shell.asked) == 1


def altered(codes: Mapping[tuple[str, int], ErrorCode], request: alter.AlterShareGroupOffsetsRequest) -> Any:
    def results(topic: alter.AlteredTopic) -> list[alter.PartitionResult]:
        return [
            alter.PartitionResult(
                partition_index=row.partition_index, error_code=codes[topic.topic_name, row.partition_index]
            )
            for row in topic.partitions
        ]

    topics = [
        alter.TopicResult(topic_name=each.topic_name, topic_id=bytes(16), partitions=results(each))
        for each in request.topics
    ]
    return alter.AlterShareGroupOffsetsResponse(throttle_time_ms=0, error_code=0, responses=topics)


def test_offsets_are_set_and_only_what_may_pass_is_asked_for_again() -> None:
    codes = {
        ("t", 0): ErrorCode.NONE,
        ("t", 1): ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ("u", 5): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }

    def answer(_place: object, request: Any) -> Any:
        answered = altered(codes, request)
        codes["t", 1] = ErrorCode.NONE
        return answered

    shell = ScriptedShell(answer, retries=1)
    found = shell.run(share_groups.alter_start_offsets("g", {("t", 0): 3, ("t", 1): 4, ("u", 5): 6}))
    assert {key: code_of(each) for key, each in found.items()} == {
        ("t", 0): None, ("t", 1): None, ("u", 5): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }  # fmt: skip
    sent = [
        [(topic.topic_name, row.partition_index, row.start_offset) for topic in each.topics for row in topic.partitions]
        for _, each in shell.asked
        if isinstance(each, alter.AlterShareGroupOffsetsRequest)
    ]
    assert sent == [[("t", 0, 3), ("t", 1, 4), ("u", 5, 6)], [("t", 1, 4)]]


def test_topics_are_forgotten() -> None:
    def answer(_place: object, request: Any) -> Any:
        if request.group_id == "busy":
            return delete.DeleteShareGroupOffsetsResponse(
                throttle_time_ms=0, error_code=ErrorCode.NON_EMPTY_GROUP, error_message="not empty", responses=[]
            )
        codes = {"t": 0, "u": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        rows = [
            delete.TopicResult(topic_name=each.topic_name, topic_id=bytes(16), error_code=codes[each.topic_name])
            for each in request.topics
        ]
        return delete.DeleteShareGroupOffsetsResponse(throttle_time_ms=0, error_code=0, responses=rows)

    shell = ScriptedShell(answer)
    found = shell.run(share_groups.delete_topics("g", ["t", "u"]))
    assert {name: code_of(each) for name, each in found.items()} == {
        "t": None,
        "u": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    refused = shell.run(share_groups.delete_topics("busy", ["t"]))["t"]
    assert code_of(refused) is ErrorCode.NON_EMPTY_GROUP and str(refused)
