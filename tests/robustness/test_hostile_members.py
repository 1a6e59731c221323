"""Members of consumer groups that send what no client would: each gets a clear answer or is closed, and others are served.

The loop of the broker is never held for longer than one heartbeat may take, and its memory stays bounded.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from protocol.messages.describe_groups import DescribeGroupsRequest
from tests.robustness.bounds import bounded
from tests.robustness.process import BrokerProcess
from tests.robustness.wire import Wire, carries_within_ms, create_topic, find_coordinator

HEARTBEAT_V = 1
PATIENCE_S = 60.0
INT_MAX, INT_MIN = (1 << 31) - 1, -(1 << 31)
LONGEST = "x" * 32_767
NOBODY = b"\xff" * 16
ENDLESS = 300
JOINED = 1 << 20
"""In the place of the epoch that the member of group g has joined with."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings: dict[str, object] = {"offsets.topic.num.partitions": 1}
    with BrokerProcess(tmp_path_factory.mktemp("hostile-members"), settings) as running:
        create_topic(running, "t", 3)
        create_topic(running, "good")
        find_coordinator(running, "g")
        yield running
    assert "Traceback" not in running.log
    assert "level=error" not in running.log


def joining(group_id: str, member_id: str = "m", **fields: Any) -> ConsumerGroupHeartbeatRequest:
    values = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    return beating(group_id, member_id, 0, **{**values, **fields})


def beating(group_id: str, member_id: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=epoch, **fields)


def reading(expression: str) -> ConsumerGroupHeartbeatRequest:
    return joining("expressions", subscribed_topic_names=None, subscribed_topic_regex=expression)


def owning(topic_id: bytes, partitions: list[int]) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id=topic_id, partitions=partitions)]


OK, INVALID = ErrorCode.NONE, ErrorCode.INVALID_REQUEST
BAD_EXPRESSION = ErrorCode.INVALID_REGULAR_EXPRESSION

ANSWERED: dict[str, tuple[ConsumerGroupHeartbeatRequest, ErrorCode]] = {
    "joins": (joining("g"), OK),
    "leaves for a while, and is not static": (beating("g", "m", -2), INVALID),
    "epoch below those": (beating("g", "m", -3), INVALID),
    "least epoch": (beating("g", "m", INT_MIN), INVALID),
    "greatest epoch": (beating("g", "m", INT_MAX), ErrorCode.FENCED_MEMBER_EPOCH),
    "greatest epoch of nobody": (beating("g", "nobody", INT_MAX), ErrorCode.UNKNOWN_MEMBER_ID),
    "greatest epoch of no group": (beating("none such", "m", INT_MAX), ErrorCode.GROUP_ID_NOT_FOUND),
    "leaves, and is nobody": (beating("g", "nobody", -1), ErrorCode.UNKNOWN_MEMBER_ID),
    "owns an unknown topic": (beating("g", "m", JOINED, topic_partitions=owning(NOBODY, [0])), OK),
    "owns impossible partitions": (beating("g", "m", JOINED, topic_partitions=owning(bytes(16), [-1, INT_MIN, INT_MAX])), OK),
    "owns 100,000 partitions": (beating("g", "m", JOINED, topic_partitions=owning(NOBODY, list(range(100_000)))), OK),
    "owns them, and is fenced": (
        beating("g", "m", 1, topic_partitions=owning(NOBODY, list(range(100_000)))),
        ErrorCode.FENCED_MEMBER_EPOCH,
    ),
    "leaves": (beating("g", "m", -1), OK),
    "rebalance timeout not told": (joining("timeouts", rebalance_timeout_ms=-1), INVALID),
    "negative rebalance timeout": (joining("timeouts", rebalance_timeout_ms=-5), OK),  # as Apache Kafka 4.3.0
    "least rebalance timeout": (joining("timeouts", rebalance_timeout_ms=INT_MIN), OK),
    "greatest rebalance timeout": (joining("timeouts", rebalance_timeout_ms=INT_MAX), OK),
    "longest member id": (joining("longest", LONGEST), OK),
    "longest group id": (joining(LONGEST), OK),
    "longest instance id": (joining("instance", instance_id=LONGEST), OK),
    "longest ids of nobody": (beating("g", LONGEST, 1), ErrorCode.UNKNOWN_MEMBER_ID),
    "longest id of no group": (beating("y" * 32_767, "m", 1), ErrorCode.GROUP_ID_NOT_FOUND),
    "longest instance id of another": (joining("instance", "n", instance_id=LONGEST), ErrorCode.UNRELEASED_INSTANCE_ID),
    "longest rack": (joining("rack", rack_id=LONGEST), OK),
    "longest assignor": (joining("assignor", server_assignor=LONGEST), ErrorCode.UNSUPPORTED_ASSIGNOR),
    "100,000 names": (joining("names", subscribed_topic_names=[f"n{number}" for number in range(100_000)]), OK),
    "names that one batch cannot have": (
        joining("long names", subscribed_topic_names=[f"{number}{LONGEST[10:]}" for number in range(60)]),
        ErrorCode.UNKNOWN_SERVER_ERROR,  # as Apache Kafka
    ),
    "expression that backtracks elsewhere": (reading("(a*)*b"), OK),
    "nested expression": (reading("(" * 1_000 + ")" * 1_000), OK),
    "expression that explodes": (reading("(((a{1000}){1000}){1000})"), BAD_EXPRESSION),
    "expression of many ranges": (reading("\\pL" * 1_365), BAD_EXPRESSION),
    "expression that does not compile": (reading("["), BAD_EXPRESSION),
    "expression that looks behind": (reading("(?<=t)u"), BAD_EXPRESSION),
    "longest expression": (reading(LONGEST), BAD_EXPRESSION),
}  # fmt: skip


def good_clients(broker: BrokerProcess) -> contextlib.AbstractContextManager[None]:
    """Produce and fetch, while the body runs; memory is bounded."""
    return bounded(broker, partial(carries_within_ms, topic="good"))


def test_each_is_answered(broker: BrokerProcess) -> None:
    with good_clients(broker), Wire(broker) as wire:
        answers: dict[str, Any] = {}
        for name, (request, _) in ANSWERED.items():
            asked = copy.copy(request)
            if asked.member_epoch == JOINED:
                asked.member_epoch = answers["joins"].member_epoch
            answers[name] = wire.ask(asked, HEARTBEAT_V)
    assert {name: ErrorCode(answer.error_code) for name, answer in answers.items()} == {
        name: error for name, (_, error) in ANSWERED.items()
    }
    untold = {
        name
        for name, answer in answers.items()
        if answer.error_code and not answer.error_message and answer.error_code != ErrorCode.UNKNOWN_SERVER_ERROR
    }
    assert not untold


def test_descriptions_of_the_longest_names(broker: BrokerProcess) -> None:
    asked = ["y" * 32_767]
    with Wire(broker) as wire:
        request = ConsumerGroupDescribeRequest(group_ids=asked, include_authorized_operations=False)
        assert [row.error_code for row in wire.ask(request, 1).groups] == [ErrorCode.GROUP_ID_NOT_FOUND]
        newest = DescribeGroupsRequest.max_version
        (row,) = wire.ask(DescribeGroupsRequest(groups=asked), newest).groups
        assert row.error_code == ErrorCode.GROUP_ID_NOT_FOUND


HUGE: dict[str, ConsumerGroupHeartbeatRequest] = {
    "partitions": beating("g", "m", 1, topic_partitions=owning(NOBODY, [0] * 2_000_000)),
    "topics": beating(
        "g", "m", 1, topic_partitions=[TopicPartitions(topic_id=NOBODY, partitions=[]) for _ in range(400_000)]
    ),
    "names": joining("g", subscribed_topic_names=["t"] * 2_000_000),
}


@pytest.mark.parametrize("name", HUGE)
def test_more_than_a_request_may_have_is_closed(broker: BrokerProcess, name: str) -> None:
    with good_clients(broker), Wire(broker) as wire:
        with contextlib.suppress(ConnectionError):
            wire.send(HUGE[name], HEARTBEAT_V)
        assert wire.is_closed()


@pytest.mark.parametrize("cut", [9, 30, 60])
def test_a_heartbeat_that_ends_too_early_is_closed(broker: BrokerProcess, cut: int) -> None:
    with good_clients(broker), Wire(broker) as wire:
        whole = wire.frame(joining("g", "m" * 40), HEARTBEAT_V)[4:-cut]
        wire.socket.sendall(len(whole).to_bytes(4, "big") + whole)
        assert wire.is_closed()


def test_heartbeats_without_end(broker: BrokerProcess) -> None:
    """One connection, as fast as it can, with new members and groups, and all that is wrong with a heartbeat."""
    short = [request for request, _ in ANSWERED.values() if len(bytes(request.encode(HEARTBEAT_V))) < 10_000]
    with good_clients(broker), Wire(broker) as wire:
        frames = []
        for number, request in zip(range(ENDLESS), itertools.cycle(short), strict=False):
            frames.append(wire.frame(request, HEARTBEAT_V))
            frames.append(wire.frame(joining(f"endless-{number % 7}", f"m{number}"), HEARTBEAT_V))
        sender = threading.Thread(target=wire.socket.sendall, args=(b"".join(frames),), daemon=True)
        sender.start()
        for _ in frames:
            wire.receive_frame()
        sender.join(PATIENCE_S)


def test_heartbeats_whose_answers_nobody_reads(broker: BrokerProcess) -> None:
    with good_clients(broker), Wire(broker, receive_buffer_bytes=4096) as wire:
        wire.socket.settimeout(1)
        with pytest.raises(TimeoutError):  # the broker stops reading
            wire.socket.sendall(wire.frame(reading("\\pL" * 1_365), HEARTBEAT_V) * 10_000)
