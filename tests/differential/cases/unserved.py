"""APIs that brokers in ZooKeeper mode advertise and refuse: the group protocol of KIP-848, and Envelope."""

from __future__ import annotations

import struct

from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from protocol.messages.envelope import EnvelopeRequest
from security.access import Operation
from tests.differential.cases.groups import stable
from tests.differential.play import Run, case
from tests.differential.secured import check, on_cluster, on_group


def beat(run: Run, group: str, member_id: str = "", member_epoch: int = 0, **fields: object) -> None:
    run.ask(ConsumerGroupHeartbeatRequest(group_id=group, member_id=member_id, member_epoch=member_epoch, **fields))


@case(ConsumerGroupHeartbeatRequest, "normal")
def a_member_joins(run: Run) -> None:
    topic = run.topic()
    beat(
        run, run.group(), rebalance_timeout_ms=1000, subscribed_topic_names=[topic], server_assignor="uniform",
        topic_partitions=[],
    )  # fmt: skip


@case(ConsumerGroupHeartbeatRequest, "edge")
def a_member_goes_on_and_leaves(run: Run) -> None:
    run.topic()
    owned = [TopicPartitions(topic_id=run.last_topic_id, partitions=[0])]
    beat(run, run.group(), "m", 5, topic_partitions=owned)
    beat(run, run.group(), "m", -1, instance_id="i", rack_id="r")


@case(ConsumerGroupHeartbeatRequest, "wrong")
def of_no_group_and_of_a_classic_one(run: Run) -> None:
    group = run.group()
    stable(run, group)
    beat(run, group, subscribed_topic_names=[], rebalance_timeout_ms=-5)
    beat(run, "", "m", -9)


check(
    ConsumerGroupHeartbeatRequest,
    lambda run, _: ConsumerGroupHeartbeatRequest(group_id=run.name("g"), member_id="", member_epoch=0),
    {"may read the group": on_group(Operation.READ)},
)


def describing(*group_ids: str, authorized: bool = False) -> ConsumerGroupDescribeRequest:
    return ConsumerGroupDescribeRequest(group_ids=list(group_ids), include_authorized_operations=authorized)


@case(ConsumerGroupDescribeRequest, "normal")
def of_a_classic_group(run: Run) -> None:
    group = run.group()
    stable(run, group)
    run.ask(describing(group))
    run.ask(describing(group, authorized=True))


@case(ConsumerGroupDescribeRequest, "edge")
def of_no_groups_and_of_one_twice(run: Run) -> None:
    run.ask(describing())
    run.ask(describing(run.name("a"), run.name("a"), authorized=True))


@case(ConsumerGroupDescribeRequest, "wrong")
def groups_that_do_not_exist(run: Run) -> None:
    run.ask(describing(run.name("never"), ""))


check(
    ConsumerGroupDescribeRequest,
    lambda run, _: describing(run.name("g")),
    {"may describe the group": on_group(Operation.DESCRIBE)},
)


def envelope(request_data: bytes, request_principal: bytes | None = b"\0\0\x05User\x03me\0\0") -> EnvelopeRequest:
    return EnvelopeRequest(
        request_data=request_data, request_principal=request_principal, client_host_address=b"\x7f\0\0\1"
    )


_API_VERSIONS = struct.pack(">hhihb", 18, 0, 7, -1, 0)


@case(EnvelopeRequest, "normal")
def a_request_of_a_client(run: Run) -> None:
    run.ask(envelope(_API_VERSIONS))


@case(EnvelopeRequest, "edge")
def without_a_principal(run: Run) -> None:
    run.ask(envelope(_API_VERSIONS, None))


@case(EnvelopeRequest, "wrong")
def with_nothing_inside(run: Run) -> None:
    run.ask(envelope(b""))


check(
    EnvelopeRequest,
    lambda run, _: envelope(_API_VERSIONS),
    {"may act as the cluster": on_cluster(Operation.CLUSTER_ACTION)},
)
