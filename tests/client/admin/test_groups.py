"""Groups of all kinds are described in one form: what is no classic group is asked for as one of the consumer protocol, then as
a share group."""

from __future__ import annotations

from typing import Any

import pytest

from client.admin import groups
from client.admin.groups import CoordinatedGroup
from protocol.errors import ErrorCode, KafkaError
from protocol.messages import consumer_group_describe as consumer
from protocol.messages import describe_groups as classic
from protocol.messages import offset_fetch as fetch
from protocol.messages import share_group_describe as share
from tests.client.admin.scripted import ScriptedShell


def _classic(names: list[str]) -> classic.DescribeGroupsResponse:
    """Only "c" is a classic group; a coordinator says of all others that they are dead."""
    rows = [
        classic.DescribedGroup(
            error_code=0, group_id=name, group_state="Stable" if name == "c" else "Dead", protocol_type="consumer",
            protocol_data="range", members=[],
        )
        for name in names
    ]  # fmt: skip
    return classic.DescribeGroupsResponse(groups=rows)


def _consumer(names: list[str]) -> consumer.ConsumerGroupDescribeResponse:
    def rows(*partitions: int) -> consumer.Assignment:
        return consumer.Assignment(
            topic_partitions=[consumer.TopicPartitions(topic_id=bytes(16), topic_name="t", partitions=list(partitions))]
        )

    member = consumer.Member(
        member_id="m", instance_id="i", member_epoch=7, client_id="app", client_host="/10.0.0.1",
        subscribed_topic_names=["t"], assignment=rows(0, 2), target_assignment=rows(0),
    )  # fmt: skip
    return consumer.ConsumerGroupDescribeResponse(
        throttle_time_ms=0,
        groups=[
            consumer.DescribedGroup(
                error_code=0 if name == "k" else ErrorCode.GROUP_ID_NOT_FOUND, group_id=name, group_state="Reconciling",
                group_epoch=8, assignment_epoch=8, assignor_name="uniform", members=[member] if name == "k" else [],
            )
            for name in names
        ],
    )  # fmt: skip


def _share(names: list[str]) -> share.ShareGroupDescribeResponse:
    assigned = share.TopicPartitions(topic_id=bytes(16), topic_name="t", partitions=[0, 1])
    members = [
        share.Member(
            member_id=each, member_epoch=2, client_id="app", client_host="/10.0.0.1", subscribed_topic_names=["t"],
            assignment=share.Assignment(topic_partitions=[assigned]),
        )
        for each in ("m1", "m2")
    ]  # fmt: skip
    codes = {"s": 0, "denied": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    return share.ShareGroupDescribeResponse(
        throttle_time_ms=0,
        groups=[
            share.DescribedGroup(
                error_code=codes.get(name, ErrorCode.GROUP_ID_NOT_FOUND), group_id=name, group_state="Stable",
                group_epoch=2, assignment_epoch=2, assignor_name="simple", members=members if name == "s" else [],
            )
            for name in names
        ],
    )  # fmt: skip


@pytest.mark.parametrize("is_known", [True, False], ids=["served", "unknown to the broker"])
def test_groups_of_all_kinds(is_known: bool) -> None:
    def answer(_place: object, request: Any) -> Any:
        if isinstance(request, classic.DescribeGroupsRequest):
            return _classic(request.groups)
        if not is_known:
            return KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        is_share = isinstance(request, share.ShareGroupDescribeRequest)
        return _share(request.group_ids) if is_share else _consumer(request.group_ids)

    shell = ScriptedShell(answer)
    found = shell.run(groups.describe(["c", "k", "s", "denied", "none"]))
    described = {name: each for name, each in found.items() if isinstance(each, CoordinatedGroup)}
    assert [type(request).__name__ for _, request in shell.asked] == [
        "DescribeGroupsRequest",
        "ConsumerGroupDescribeRequest",
        "ShareGroupDescribeRequest",
    ]
    states = {name: (each.group.group_state, each.kind, each.coordinator) for name, each in described.items()}
    assert states == {"c": ("Stable", "classic", 1), "none": ("Dead", "classic", 1)} | (
        {"k": ("Reconciling", "consumer", 1), "s": ("Stable", "share", 1)}
        if is_known
        else dict.fromkeys(("k", "s", "denied"), ("Dead", "classic", 1))
    )
    if is_known:
        denied = found["denied"]
        assert isinstance(denied, KafkaError), "a group that may not be described is not one that there is not"
        assert denied.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        shared = described["s"].group
        assert [groups.assigned(each, shared) for each in shared.members] == [[("t", 0), ("t", 1)]] * 2
        group = described["k"].group
        [member] = group.members
        assert (group.protocol_data, member.group_instance_id, member.client_host) == ("uniform", "i", "/10.0.0.1")
        assert groups.assigned(member, group) == [("t", 0), ("t", 2)]


@pytest.mark.parametrize("version", [8, 7], ids=["of several groups", "of one group"])
def test_offsets_of_several_groups(version: int) -> None:
    """Two groups have one coordinator, the third another one, which does not know it."""
    wanted = {"a": 1, "b": 2}

    def topics(name: str, kind: Any, row: Any) -> list[Any]:
        offsets = [wanted[name], -1] if name in wanted else []
        rows = [row(partition_index=i, committed_offset=at, metadata="", error_code=0) for i, at in enumerate(offsets)]
        return [kind(name="t", partitions=rows)]

    def answer(_place: object, request: Any) -> Any:
        if request.groups:
            found = [
                fetch.OffsetFetchResponseGroup(
                    group_id=each.group_id,
                    error_code=0 if each.group_id in wanted else ErrorCode.GROUP_AUTHORIZATION_FAILED,
                    topics=topics(each.group_id, fetch.OffsetFetchResponseTopics, fetch.OffsetFetchResponsePartitions),
                )
                for each in request.groups
            ]
            return fetch.OffsetFetchResponse(groups=found)
        return fetch.OffsetFetchResponse(
            error_code=0 if request.group_id in wanted else ErrorCode.GROUP_AUTHORIZATION_FAILED,
            topics=topics(request.group_id, fetch.OffsetFetchResponseTopic, fetch.OffsetFetchResponsePartition),
        )

    shell = ScriptedShell(answer, lambda _, key: 2 if key == "c" else 1, versions={fetch.OffsetFetchRequest: version})
    found = shell.run(groups.committed_offsets_of(["a", "b", "c"]))
    assert {name: each for name, each in found.items() if not isinstance(each, KafkaError)} == {
        "a": {("t", 0): 1}, "b": {("t", 0): 2},
    }  # fmt: skip
    refused = found["c"]
    assert isinstance(refused, KafkaError)
    assert refused.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert len(shell.asked) == (2 if version == 8 else 3)
