"""Groups of thousands of members that join, beat and vanish: memory is bounded and given back, the loop is never held long."""

from __future__ import annotations

import contextlib
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from protocol.stored.consumer_protocol import (
    AssignmentTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from tests.oracle.ports import lasting_port
from tests.oracle.process import wait_until
from tests.robustness.bounds import bounded
from tests.robustness.process import BrokerProcess
from tests.robustness.wire import Wire, carries_within_ms, create_topic, find_coordinator

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("many_files")]

CROWD, CONNECTIONS, ROUNDS = 10_000, 50, 3
CLASSIC_CROWD = 2_000
PARTITIONS = 100
SESSION_MS = 30_000
PATIENCE_S = 120.0
HELD_MOST_S = 0.5
"""The loop is late by no more than this, also where an operation concerns all members of a group at once."""
HEARTBEAT_V, JOIN_V, SYNC_V = 1, 3, 3


@dataclass
class Beater:
    """A member that reports what it was told to own."""

    group_id: str
    member_id: str
    epoch: int = 0
    owned: list[TopicPartitions] = field(default_factory=list)

    def request(self) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["t"],
            topic_partitions=self.owned,
        )

    def take(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = answer.assignment.topic_partitions


@contextlib.contextmanager
def lonely_broker(folder: Path) -> Iterator[tuple[BrokerProcess, Callable[[], float]]]:
    """With the topics of the tests, and a function that returns by how much the loop was late at most, in s."""
    http_port = lasting_port()
    settings = {
        "barnabas.http.port": http_port,
        "offsets.topic.num.partitions": 1,
        "group.initial.rebalance.delay.ms": 5_000,
        "group.consumer.min.session.timeout.ms": SESSION_MS,
        "group.consumer.session.timeout.ms": SESSION_MS,
    }
    with BrokerProcess(folder, settings) as broker:
        create_topic(broker, "t", PARTITIONS)
        create_topic(broker, "good")
        find_coordinator(broker, "g")
        yield broker, partial(longest_delay_s, http_port)
    assert "level=error" not in broker.log


def longest_delay_s(http_port: int) -> float:
    """The bound of the last bucket of the loop's delays that has one."""
    with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/metrics", timeout=PATIENCE_S) as page:
        lines = page.read().decode().splitlines()
    rows = [line for line in lines if line.startswith("barnabas_event_loop_delay_seconds_bucket{")]
    counts = [(float(row.split('le="')[1].split('"')[0]), int(float(row.split()[-1]))) for row in rows]
    return min(bound for bound, count in counts if count == counts[-1][1])


def beat(wires: Sequence[Wire], members: Sequence[Beater]) -> None:
    """Each connection sends the heartbeats of its part of the members, and then reads the answers."""
    parts = [members[index :: len(wires)] for index in range(len(wires))]
    for wire, part in zip(wires, parts, strict=True):
        wire.socket.sendall(b"".join(wire.frame(each.request(), HEARTBEAT_V) for each in part))
    for wire, part in zip(wires, parts, strict=True):
        for each in part:
            each.take(wire.receive(ConsumerGroupHeartbeatResponse, HEARTBEAT_V))


def members_count(broker: BrokerProcess, group_id: str) -> int:
    with Wire(broker) as wire:
        asked = ConsumerGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False)
        (row,) = wire.ask(asked, 1).groups
        assert row.error_code == 0, row
        return len(row.members)


def come_and_vanish(broker: BrokerProcess, group_id: str) -> None:
    members = [Beater(group_id, f"member-{number:022d}") for number in range(CROWD)]
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(broker)) for _ in range(CONNECTIONS)]
        for _ in range(1 + ROUNDS):
            beat(wires, members)
    assert members_count(broker, group_id) == CROWD
    assert wait_until(lambda: members_count(broker, group_id) == 0, PATIENCE_S)


def test_a_crowd_that_vanishes(tmp_path: Path) -> None:
    """What the first one took, the second takes again."""
    with lonely_broker(tmp_path) as (broker, delay_s):
        with bounded(broker, partial(carries_within_ms, topic="good")):
            come_and_vanish(broker, "first")
        first_bytes = broker.peak_rss_bytes()
        come_and_vanish(broker, "second")
        assert broker.peak_rss_bytes() < first_bytes * 1.15
        assert delay_s() <= HELD_MOST_S


def test_a_classic_crowd_that_is_converted_and_back(tmp_path: Path) -> None:
    with lonely_broker(tmp_path) as (broker, delay_s), contextlib.ExitStack() as stack:
        with bounded(broker, partial(carries_within_ms, topic="good")):
            wires = [stack.enter_context(Wire(broker)) for _ in range(CLASSIC_CROWD)]
            become_stable(wires)
            newcomer = Beater("g", "newcomer")
            with Wire(broker) as wire:
                newcomer.take(wire.ask(newcomer.request(), HEARTBEAT_V))
                assert members_count(broker, "g") == CLASSIC_CROWD + 1
                newcomer.epoch = -1
                newcomer.take(wire.ask(newcomer.request(), HEARTBEAT_V))
                (row,) = wire.ask(DescribeGroupsRequest(groups=["g"]), 4).groups
                assert (row.protocol_type, len(row.members)) == ("consumer", CLASSIC_CROWD)
        assert delay_s() <= HELD_MOST_S


def become_stable(wires: Sequence[Wire]) -> None:
    """A member of the classic protocol for each connection; the first ones have a partition."""
    subscription = ConsumerProtocolSubscription(topics=["t"]).encode_stored(1)
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=300_000,
        rebalance_timeout_ms=300_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
    )
    for wire in wires:
        wire.send(join, JOIN_V)
    joined = [wire.receive(JoinGroupResponse, JOIN_V) for wire in wires]
    assert {(each.error_code, each.generation_id) for each in joined} == {(0, 1)}
    own = {each.member_id: [number] for number, each in enumerate(joined[:PARTITIONS])}
    rows = [
        SyncGroupRequestAssignment(
            member_id=each.member_id,
            assignment=ConsumerProtocolAssignment(
                assigned_partitions=[AssignmentTopicPartition(topic="t", partitions=own.get(each.member_id, []))]
            ).encode_stored(1),
        )
        for each in joined
    ]
    for wire, each in zip(wires, joined, strict=True):
        assignments = rows if each.leader == each.member_id else []
        wire.send(
            SyncGroupRequest(group_id="g", generation_id=1, member_id=each.member_id, assignments=assignments), SYNC_V
        )
    assert {wire.receive(SyncGroupResponse, SYNC_V).error_code for wire in wires} == {0}
