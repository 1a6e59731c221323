"""LeaderAndIsr and UpdateMetadata: what a controller tells a broker, and what others may claim to be.

Most cases sit in the controller's seat themselves (`CONTROLLED`): a broker that is its own controller takes these
requests from nobody else. Apache Kafka believes whoever claims an epoch that is high enough: behind such a claim the
true controller is elected once more, so that the next case is heard.
"""

from __future__ import annotations

import hashlib
from typing import Any

from protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from protocol.messages.metadata import MetadataResponse
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaTopicState
from protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from protocol.primitives import ZERO_UUID
from tests.differential.batches import batch
from tests.differential.cases.metadata import named
from tests.differential.play import CONTROLLED, Run, case

OURS = 0
"""The broker under test."""
OTHER = 7
"""A broker that is listed as alive, and never answers."""
DEAD = 5
NO_LEADER = -1
LEADER_DURING_DELETE = -2

TOPIC_IDS_SINCE = {"LeaderAndIsr": 5, "UpdateMetadata": 7}
BROKER_EPOCH_SINCE = {"LeaderAndIsr": 2, "UpdateMetadata": 5, "StopReplica": 1}


def id_of(run: Run, topic: str) -> bytes:
    """The id that the controller of this run gave a topic."""
    topic_id = hashlib.md5(topic.encode(), usedforsecurity=False).digest()
    run.names.topic_ids.setdefault(topic_id, f"<id of {topic.removeprefix(run.prefix)}>")
    return topic_id


def signed(run: Run, request: Any, **claims: Any) -> Any:
    """From the controller, to the broker's life of now; `claims` say otherwise."""
    seat = run.seat
    request.controller_id = OURS if seat is None else seat.controller_id
    request.controller_epoch = 1 if seat is None else seat.epoch
    request.broker_epoch = -1 if seat is None else seat.broker_epoch
    for name, value in claims.items():
        setattr(request, name, value)
    return request


# -- UpdateMetadata


def live(run: Run) -> list[UpdateMetadataBroker]:
    """The broker under test where it is; on a stage of its own the other one beside it."""
    places = [(OURS, "127.0.0.1", run.port, None)]
    if run.seat is not None:
        places.append((OTHER, "127.0.0.1", 1, "somewhere"))
    return [
        UpdateMetadataBroker(
            id=broker_id,
            v0_host=host,
            v0_port=port,
            rack=rack,
            endpoints=[UpdateMetadataEndpoint(port=port, host=host, listener="PLAINTEXT", security_protocol=0)],
        )
        for broker_id, host, port, rack in places
    ]


def known(leader: int, index: int = 0, **fields: Any) -> UpdateMetadataPartitionState:
    values = {
        "controller_epoch": 1, "leader_epoch": 3, "isr": [OURS, OTHER], "zk_version": 4, "replicas": [OURS, OTHER],
    }  # fmt: skip
    return UpdateMetadataPartitionState(partition_index=index, leader=leader, **(values | fields))


def metadata_of(
    run: Run, states: dict[str, list[UpdateMetadataPartitionState]], version: int | None = None, **claims: Any
) -> UpdateMetadataRequest:
    """`states` by topic; the brokers are always all."""
    if run.seat is not None:
        run.seat.make_topics(states)
    version = run.version if version is None else version
    request = UpdateMetadataRequest(
        controller_id=-1,
        controller_epoch=-1,
        topic_states=[
            UpdateMetadataTopicState(
                topic_name=topic,
                topic_id=id_of(run, topic) if version >= TOPIC_IDS_SINCE["UpdateMetadata"] else ZERO_UUID,
                partition_states=rows,
            )
            for topic, rows in states.items()
        ],
        live_brokers=live(run),
    )
    if version < BROKER_EPOCH_SINCE["UpdateMetadata"]:
        for topic, rows in states.items():
            for row in rows:
                row.topic_name = topic
            request.ungrouped_partition_states += rows
    return signed(run, request, **claims)


def introduce(run: Run, states: dict[str, list[UpdateMetadataPartitionState]] | None = None) -> None:
    """What a new broker hears first, in the newest version."""
    answer = run.do(metadata_of(run, states or {}, UpdateMetadataRequest.max_version))
    assert answer.error_code == 0, answer


def shown(run: Run, *topics: str, version: int = 12) -> None:
    """Metadata without racks: one case shows them."""

    def without_racks(answer: MetadataResponse) -> None:
        for broker in answer.brokers:
            broker.rack = None

    run.ask(named(*topics), version, pick=without_racks)


@case(UpdateMetadataRequest, "normal", stage=CONTROLLED)
def brokers_and_partitions(run: Run) -> None:
    topic = run.name("t")
    states = [known(OURS), known(OTHER, 1, leader_epoch=0, isr=[OTHER], offline_replicas=[DEAD])]
    run.ask(metadata_of(run, {topic: states}))
    run.ask(named(topic), 12)
    run.ask(metadata_of(run, {topic: [known(OTHER, leader_epoch=4, isr=[OTHER])]}))
    shown(run, topic)


@case(UpdateMetadataRequest, "normal", stage=CONTROLLED)
def a_topic_that_goes(run: Run) -> None:
    introduce(run, {run.name("t"): [known(OURS), known(OURS, 1)], run.name("stays"): [known(OURS)]})
    run.ask(metadata_of(run, {run.name("t"): [known(LEADER_DURING_DELETE), known(LEADER_DURING_DELETE, 1)]}))
    shown(run, run.name("t"), run.name("stays"))


@case(UpdateMetadataRequest, "edge", stage=CONTROLLED)
def leaders_that_are_none_or_dead(run: Run) -> None:
    topic = run.name("t")
    states = [known(NO_LEADER), known(DEAD, 1, replicas=[DEAD, OURS], isr=[DEAD], offline_replicas=[DEAD])]
    run.ask(metadata_of(run, {topic: states}))
    for version in (0, 4, 12):
        shown(run, topic, version=version)


@case(UpdateMetadataRequest, "edge", stage=CONTROLLED)
def an_older_leader_epoch_and_a_partition_twice(run: Run) -> None:
    topic = run.name("t")
    run.ask(metadata_of(run, {topic: [known(OURS, leader_epoch=9, zk_version=9)]}))
    run.ask(metadata_of(run, {topic: [known(OTHER, leader_epoch=2, zk_version=1)]}))
    shown(run, topic)
    run.ask(metadata_of(run, {topic: [known(OURS, leader_epoch=5), known(OTHER, leader_epoch=6)]}))
    shown(run, topic)


@case(UpdateMetadataRequest, "edge", stage=CONTROLLED)
def nothing_new(run: Run) -> None:
    introduce(run)
    run.ask(metadata_of(run, {}))
    shown(run)


@case(UpdateMetadataRequest, "edge", "0-6", stage=CONTROLLED)
def a_sender_that_knows_no_topic_ids(run: Run) -> None:
    topic = run.name("t")
    introduce(run, {topic: [known(OURS)]})
    run.ask(metadata_of(run, {topic: [known(OTHER, leader_epoch=4)]}))
    shown(run, topic)


@case(UpdateMetadataRequest, "edge", "5+", stage=CONTROLLED)
def broker_epochs_from_the_future_and_none(run: Run) -> None:
    assert run.seat is not None
    for epoch in (run.seat.broker_epoch + 1, -1):
        run.ask(metadata_of(run, {}, broker_epoch=epoch))


@case(UpdateMetadataRequest, "edge", "7+", stage=CONTROLLED)
def another_topic_id(run: Run) -> None:
    topic = run.name("t")
    introduce(run, {topic: [known(OURS), known(OURS, 1)]})
    id_of(run, run.name("other"))
    request = metadata_of(run, {topic: [known(OTHER)]})
    request.topic_states[0].topic_id = id_of(run, run.name("other"))
    run.ask(request)
    shown(run, topic)


@case(UpdateMetadataRequest, "edge", stage=CONTROLLED)
def after_another_election(run: Run) -> None:
    introduce(run)
    assert run.seat is not None
    run.seat.elect_again()
    run.ask(metadata_of(run, {}))
    run.ask(metadata_of(run, {}, controller_epoch=run.seat.epoch - 1))


@case(UpdateMetadataRequest, "wrong", stage=CONTROLLED)
def a_controller_that_was_replaced(run: Run) -> None:
    topic = run.name("t")
    introduce(run, {topic: [known(OURS)]})
    run.ask(metadata_of(run, {topic: [known(OTHER, leader_epoch=9)]}, controller_epoch=0))
    shown(run, topic)


@case(UpdateMetadataRequest, "wrong", "5+", stage=CONTROLLED)
def an_earlier_life_of_the_broker(run: Run) -> None:
    topic = run.name("t")
    introduce(run, {topic: [known(OURS)]})
    run.ask(metadata_of(run, {topic: [known(OTHER, leader_epoch=9)]}, broker_epoch=1))
    run.ask(metadata_of(run, {}, broker_epoch=1, controller_epoch=0))
    shown(run, topic)


@case(UpdateMetadataRequest, "wrong", stage=CONTROLLED)
def claims_to_be_the_controller(run: Run) -> None:
    assert run.seat is not None
    introduce(run)
    run.ask(metadata_of(run, {}, controller_id=DEAD))
    introduce_again(run)
    run.ask(metadata_of(run, {}, controller_epoch=run.seat.epoch + 1))
    introduce_again(run)


def introduce_again(run: Run) -> None:
    """In a term that is newer than any that was claimed."""
    assert run.seat is not None
    run.seat.elect_again(run.seat.epoch + 2)
    introduce(run)


# -- LeaderAndIsr


def led(leader: int, index: int = 0, **fields: Any) -> LeaderAndIsrPartitionState:
    values = {
        "controller_epoch": 1, "leader_epoch": 3, "isr": [OURS], "partition_epoch": 4, "replicas": [OURS, OTHER],
        "is_new": True,
    }  # fmt: skip
    return LeaderAndIsrPartitionState(partition_index=index, leader=leader, **(values | fields))


def leading(
    run: Run, states: dict[str, list[LeaderAndIsrPartitionState]], version: int | None = None, **claims: Any
) -> LeaderAndIsrRequest:
    version = run.version if version is None else version
    request = LeaderAndIsrRequest(
        controller_id=-1,
        controller_epoch=-1,
        topic_states=[
            LeaderAndIsrTopicState(
                topic_name=topic,
                topic_id=id_of(run, topic) if version >= TOPIC_IDS_SINCE["LeaderAndIsr"] else ZERO_UUID,
                partition_states=rows,
            )
            for topic, rows in states.items()
        ],
        live_leaders=[
            LeaderAndIsrLiveLeader(broker_id=OURS, host_name="127.0.0.1", port=run.port),
            LeaderAndIsrLiveLeader(broker_id=OTHER, host_name="127.0.0.1", port=1),
        ],
    )
    if version < BROKER_EPOCH_SINCE["LeaderAndIsr"]:
        for topic, rows in states.items():
            for row in rows:
                row.topic_name = topic
            request.ungrouped_partition_states += rows
    return signed(run, request, **claims)


def wrote(run: Run, topic: str, index: int = 0) -> None:
    """Whether the broker leads: only a leader appends."""
    data = [PartitionProduceData(index=index, records=batch(b"a"))]
    topics = [TopicProduceData(name=topic, partition_data=data)]
    run.ask(ProduceRequest(acks=1, timeout_ms=5000, topic_data=topics), 8)


def held(run: Run, *topics: str) -> None:
    """Which replicas are there."""
    wanted = [DescribableLogDirTopic(topic=topic, partitions=[0, 1]) for topic in topics]
    run.ask(DescribeLogDirsRequest(topics=wanted), 1)


def hold(run: Run, short: str = "t", *states: LeaderAndIsrPartitionState) -> str:
    """A partition of this broker's, as the newest version makes it: led, unless `states` say otherwise."""
    topic = run.name(short)
    rows = list(states) or [led(OURS)]
    introduce(run, {topic: [known(row.leader, row.partition_index) for row in rows]})
    answer = run.do(leading(run, {topic: rows}, LeaderAndIsrRequest.max_version))
    assert answer.error_code == 0, answer
    return topic


def let_go(run: Run, *topics: str) -> None:
    """Take what a case made away: a follower would ask for its leader for ever."""
    states = [StopReplicaPartitionState(partition_index=index, delete_partition=True) for index in (0, 1)]
    request = StopReplicaRequest(
        controller_id=-1,
        controller_epoch=-1,
        topic_states=[StopReplicaTopicState(topic_name=topic, partition_states=states) for topic in topics],
    )
    run.do(signed(run, request))


@case(LeaderAndIsrRequest, "normal", stage=CONTROLLED)
def leads_a_new_partition(run: Run) -> None:
    topic = run.name("t")
    introduce(run, {topic: [known(OURS), known(OURS, 1)]})
    run.ask(leading(run, {topic: [led(OURS), led(OURS, 1)]}))
    wrote(run, topic)
    wrote(run, topic, 1)
    run.ask(leading(run, {topic: [led(OURS, leader_epoch=4, partition_epoch=5, is_new=False)]}))
    wrote(run, topic)
    let_go(run, topic)


@case(LeaderAndIsrRequest, "normal", stage=CONTROLLED)
def follows_and_leads_again(run: Run) -> None:
    topic = hold(run)
    run.ask(leading(run, {topic: [led(OTHER, leader_epoch=4, isr=[OTHER])]}))
    wrote(run, topic)
    run.ask(leading(run, {topic: [led(OURS, leader_epoch=5)]}))
    wrote(run, topic)
    let_go(run, topic)


@case(LeaderAndIsrRequest, "edge", stage=CONTROLLED)
def leaders_that_are_none_or_dead_(run: Run) -> None:
    topic = run.name("t")
    introduce(run, {topic: [known(NO_LEADER), known(DEAD, 1)]})
    run.ask(leading(run, {topic: [led(NO_LEADER), led(DEAD, 1, replicas=[OURS, DEAD], isr=[DEAD])]}))
    held(run, topic)
    wrote(run, topic)
    let_go(run, topic)


@case(LeaderAndIsrRequest, "edge", stage=CONTROLLED)
def nothing_to_lead(run: Run) -> None:
    introduce(run)
    run.ask(leading(run, {}))


@case(LeaderAndIsrRequest, "edge", stage=CONTROLLED)
def the_same_again(run: Run) -> None:
    topic = hold(run)
    run.ask(leading(run, {topic: [led(OURS)]}))
    run.ask(leading(run, {topic: [led(OURS, partition_epoch=9, isr=[OURS, OTHER])]}))
    wrote(run, topic)
    let_go(run, topic)


@case(LeaderAndIsrRequest, "edge", "2+", stage=CONTROLLED)
def broker_epochs_from_the_future_and_none_(run: Run) -> None:
    introduce(run)
    assert run.seat is not None
    for epoch in (run.seat.broker_epoch + 1, -1):
        run.ask(leading(run, {}, broker_epoch=epoch))


@case(LeaderAndIsrRequest, "edge", "5+", stage=CONTROLLED)
def a_full_request(run: Run) -> None:
    """Type 2 is for controllers of KRaft."""
    topic = hold(run)
    for kind in (1, 2):
        run.ask(leading(run, {run.name("other"): [led(NO_LEADER, leader_epoch=kind)]}, type=kind))
    wrote(run, topic)
    let_go(run, topic, run.name("other"))


@case(LeaderAndIsrRequest, "wrong", stage=CONTROLLED)
def leader_epochs_and_replicas(run: Run) -> None:
    topic = hold(run)
    run.ask(leading(run, {topic: [led(OTHER, leader_epoch=2), led(OTHER, 1, replicas=[OTHER], isr=[OTHER])]}))
    run.ask(leading(run, {topic: [led(OURS, leader_epoch=4), led(OURS, 1)]}))
    wrote(run, topic)
    let_go(run, topic)


@case(LeaderAndIsrRequest, "wrong", "5+", stage=CONTROLLED)
def another_topic_id_(run: Run) -> None:
    topic = hold(run)
    request = leading(run, {topic: [led(OURS, leader_epoch=4)]})
    request.topic_states[0].topic_id = id_of(run, run.name("other"))
    run.ask(request)
    request = leading(run, {topic: [led(OURS, leader_epoch=5)]})
    request.topic_states[0].topic_id = ZERO_UUID
    run.ask(request)
    wrote(run, topic)
    let_go(run, topic)


@case(LeaderAndIsrRequest, "wrong", stage=CONTROLLED)
def a_controller_that_was_replaced_(run: Run) -> None:
    topic = hold(run)
    run.ask(leading(run, {topic: [led(OTHER, leader_epoch=9)]}, controller_epoch=0))
    wrote(run, topic)
    let_go(run, topic)


@case(LeaderAndIsrRequest, "wrong", "2+", stage=CONTROLLED)
def an_earlier_life_of_the_broker_(run: Run) -> None:
    topic = hold(run)
    run.ask(leading(run, {topic: [led(OTHER, leader_epoch=9)]}, broker_epoch=1))
    run.ask(leading(run, {}, broker_epoch=1, controller_epoch=0))
    wrote(run, topic)
    let_go(run, topic)


@case(LeaderAndIsrRequest, "wrong", stage=CONTROLLED)
def claims_to_be_the_controller_(run: Run) -> None:
    assert run.seat is not None
    introduce(run)
    run.ask(leading(run, {}, controller_id=DEAD))
    introduce_again(run)
    run.ask(leading(run, {}, controller_epoch=run.seat.epoch + 1))
    introduce_again(run)
