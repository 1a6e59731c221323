"""StopReplica, from the controller's seat as in `control`."""

from __future__ import annotations

from typing import Any

from protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from protocol.topic_partition import TopicPartition
from tests.differential.cases.control import (
    DEAD,
    OTHER,
    held,
    hold,
    introduce,
    introduce_again,
    led,
    let_go,
    signed,
    wrote,
)
from tests.differential.play import CONTROLLED, Run, case

EPOCH_DURING_DELETE = -2


def stopping(
    run: Run, *wanted: TopicPartition, delete: bool = False, leader_epoch: int = 3, **claims: Any
) -> StopReplicaRequest:
    """(topic, partition) of each; versions below 3 know no leader epoch."""
    request = StopReplicaRequest(controller_id=-1, controller_epoch=-1, delete_partitions=delete)
    if run.version == 0:
        request.ungrouped_partitions = [
            StopReplicaPartitionV0(topic_name=topic, partition_index=index) for topic, index in wanted
        ]
    elif run.version < 3:
        request.topics = [StopReplicaTopicV1(name=topic, partition_indexes=[index]) for topic, index in wanted]
    else:
        request.topic_states = [
            StopReplicaTopicState(
                topic_name=topic,
                partition_states=[
                    StopReplicaPartitionState(partition_index=index, leader_epoch=leader_epoch, delete_partition=delete)
                ],
            )
            for topic, index in wanted
        ]
    return signed(run, request, **claims)


@case(StopReplicaRequest, "normal", stage=CONTROLLED)
def stopped_then_deleted(run: Run) -> None:
    topic = hold(run)
    run.ask(stopping(run, (topic, 0)))
    wrote(run, topic)
    held(run, topic)
    run.ask(stopping(run, (topic, 0), delete=True))
    held(run, topic)


@case(StopReplicaRequest, "normal", stage=CONTROLLED)
def two_followers_deleted(run: Run) -> None:
    topic = hold(run, "t", led(OTHER), led(OTHER, 1))
    run.ask(stopping(run, (topic, 0), (topic, 1), delete=True))
    held(run, topic)


@case(StopReplicaRequest, "edge", stage=CONTROLLED)
def partitions_that_are_not_here(run: Run) -> None:
    introduce(run)
    for delete in (False, True):
        run.ask(stopping(run, (run.name("missing"), 0), (run.name("missing"), 1), delete=delete))


@case(StopReplicaRequest, "edge", stage=CONTROLLED)
def nothing_to_stop(run: Run) -> None:
    introduce(run)
    run.ask(stopping(run))


@case(StopReplicaRequest, "edge", "3+", stage=CONTROLLED)
def leader_epochs(run: Run) -> None:
    for epoch in (EPOCH_DURING_DELETE, -1, 4):
        topic = hold(run, f"t{epoch}")
        run.ask(stopping(run, (topic, 0), delete=True, leader_epoch=epoch))
        held(run, topic)


@case(StopReplicaRequest, "edge", "1+", stage=CONTROLLED)
def broker_epochs_from_the_future_and_none__(run: Run) -> None:
    introduce(run)
    assert run.seat is not None
    for epoch in (run.seat.broker_epoch + 1, -1):
        run.ask(stopping(run, broker_epoch=epoch))


@case(StopReplicaRequest, "wrong", "3+", stage=CONTROLLED)
def an_older_leader_epoch(run: Run) -> None:
    topic = hold(run)
    run.ask(stopping(run, (topic, 0), delete=True, leader_epoch=2))
    wrote(run, topic)
    let_go(run, topic)


@case(StopReplicaRequest, "wrong", stage=CONTROLLED)
def a_controller_that_was_replaced__(run: Run) -> None:
    topic = hold(run)
    run.ask(stopping(run, (topic, 0), delete=True, controller_epoch=0))
    wrote(run, topic)
    let_go(run, topic)


@case(StopReplicaRequest, "wrong", "1+", stage=CONTROLLED)
def an_earlier_life_of_the_broker__(run: Run) -> None:
    topic = hold(run)
    run.ask(stopping(run, (topic, 0), delete=True, broker_epoch=1))
    run.ask(stopping(run, broker_epoch=1, controller_epoch=0))
    wrote(run, topic)
    let_go(run, topic)


@case(StopReplicaRequest, "wrong", stage=CONTROLLED)
def claims_to_be_the_controller__(run: Run) -> None:
    assert run.seat is not None
    introduce(run)
    run.ask(stopping(run, controller_id=DEAD))
    introduce_again(run)
    run.ask(stopping(run, controller_epoch=run.seat.epoch + 1))
    introduce_again(run)
