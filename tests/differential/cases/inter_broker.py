"""AlterPartition, ControlledShutdown and AllocateProducerIds: what brokers ask their controller."""

from __future__ import annotations

from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from protocol.messages.controlled_shutdown import ControlledShutdownRequest
from protocol.messages.stop_replica import StopReplicaRequest
from protocol.primitives import ZERO_UUID
from tests.differential.cases.metadata import named
from tests.differential.play import LEAVING, Run, case

OURS = 0
MISSING = 9
RECOVERED, RECOVERING = 0, 1

_broker_epochs: dict[int, int] = {}


def broker_epoch(run: Run) -> int:
    """Of the broker under test: the lowest that a request in an old controller's name is not called stale with."""
    if run.port not in _broker_epochs:
        low, high = 0, 1 << 62
        while low < high:
            middle = (low + high) // 2
            answer = run.do(StopReplicaRequest(controller_id=OURS, controller_epoch=0, broker_epoch=middle))
            if answer.error_code == ErrorCode.STALE_BROKER_EPOCH:
                low = middle + 1
            else:
                high = middle
        _broker_epochs[run.port] = low
    return _broker_epochs[run.port]


# -- AlterPartition


def wish(*isr: int, index: int = 0, seen: int = -1, **fields: Any) -> RequestPartitionData:
    """`seen` is the broker epoch of each member, as the leader knows it."""
    return RequestPartitionData(
        partition_index=index,
        new_isr=list(isr),
        new_isr_with_epochs=[BrokerState(broker_id=broker_id, broker_epoch=seen) for broker_id in isr],
        **({"leader_epoch": 0, "partition_epoch": 0} | fields),
    )


def wishing(run: Run, topic: str, *rows: RequestPartitionData, **fields: Any) -> AlterPartitionRequest:
    topics = [RequestTopicData(topic_name=topic, topic_id=run.last_topic_id, partitions=list(rows))]
    values = {"broker_id": OURS, "broker_epoch": broker_epoch(run), "topics": topics}
    return AlterPartitionRequest(**(values | fields))


def wait_until_known(run: Run, topic: str, answer: AlterPartitionResponse) -> None:
    """What was granted is answered before brokers are told of it."""
    granted = answer.topics[0].partitions[0]
    if granted.error_code:
        return

    def is_told() -> bool:
        return bool(run.do(named(topic), 4).topics[0].partitions[0].isr_nodes == granted.isr)

    run.until(f"the ISR of {topic} is {granted.isr}", is_told)


@case(AlterPartitionRequest, "normal")
def what_is_so_already(run: Run) -> None:
    topic = run.topic("t", 2)
    run.ask(wishing(run, topic, wish(OURS), wish(OURS, index=1)))


@case(AlterPartitionRequest, "edge")
def no_wishes(run: Run) -> None:
    topic = run.topic()
    run.ask(wishing(run, topic, topics=[]))
    run.ask(wishing(run, topic))


@case(AlterPartitionRequest, "edge")
def an_old_partition_epoch_where_nothing_changes(run: Run) -> None:
    run.ask(wishing(run, run.topic(), wish(OURS, partition_epoch=-1)))


@case(AlterPartitionRequest, "edge", "3+")
def broker_epochs_of_members(run: Run) -> None:
    topic = run.topic()
    for seen in (broker_epoch(run), broker_epoch(run) - 1, broker_epoch(run) + 1):
        run.ask(wishing(run, topic, wish(OURS, seen=seen)))


@case(AlterPartitionRequest, "wrong")
def epochs_of_partitions(run: Run) -> None:
    topic = run.topic()
    for fields in (
        {"leader_epoch": -1}, {"leader_epoch": 1}, {"partition_epoch": 1}, {"leader_epoch": 5, "partition_epoch": -1},
    ):  # fmt: skip
        run.ask(wishing(run, topic, wish(OURS, **fields)))
    run.ask(wishing(run, topic, wish(OURS, MISSING, partition_epoch=-1)))


@case(AlterPartitionRequest, "wrong")
def epochs_of_the_sender(run: Run) -> None:
    topic = run.topic()
    for fields in (
        {"broker_epoch": -1}, {"broker_epoch": broker_epoch(run) - 1}, {"broker_epoch": broker_epoch(run) + 1},
        {"broker_id": MISSING}, {"broker_id": -1},
    ):  # fmt: skip
        run.ask(wishing(run, topic, wish(OURS), **fields))


@case(AlterPartitionRequest, "wrong")
def members_that_are_not_alive(run: Run) -> None:
    run.ask(wishing(run, run.topic(), wish(OURS, MISSING)))


@case(AlterPartitionRequest, "wrong")
def missing_topic_and_partition(run: Run) -> None:
    topic = run.topic()
    run.ask(wishing(run, topic, wish(OURS, index=7), wish(OURS, index=-1)))
    for topic_id in (bytes(range(16)), ZERO_UUID):
        missing = RequestTopicData(topic_name=run.name("missing"), topic_id=topic_id, partitions=[wish(OURS)])
        run.ask(wishing(run, topic, topics=[missing]))


@case(AlterPartitionRequest, "wrong", "1+")
def recovery_that_is_not_under_way(run: Run) -> None:
    topic = run.topic()
    run.ask(wishing(run, topic, wish(OURS, leader_recovery_state=RECOVERING)))
    run.ask(wishing(run, topic, wish(OURS, MISSING, leader_recovery_state=RECOVERING)))
    run.ask(wishing(run, topic, wish(OURS, leader_recovery_state=9)))


@case(AlterPartitionRequest, "wrong")
def a_set_without_the_leader(run: Run) -> None:
    topic = run.topic()
    wait_until_known(run, topic, run.ask(wishing(run, topic, wish())))
    run.ask(named(topic), 4)


@case(AlterPartitionRequest, "wrong")
def a_member_twice(run: Run) -> None:
    topic = run.topic()
    wait_until_known(run, topic, run.ask(wishing(run, topic, wish(OURS, OURS))))
    run.ask(named(topic), 4)


# -- ControlledShutdown


@case(ControlledShutdownRequest, "normal", stage=LEAVING)
def of_a_broker_that_leads_alone(run: Run) -> None:
    epoch = broker_epoch(run)
    run.ask(ControlledShutdownRequest(broker_id=OURS, broker_epoch=epoch))


@case(ControlledShutdownRequest, "edge", stage=LEAVING)
def twice_and_without_an_epoch(run: Run) -> None:
    for epoch in (broker_epoch(run), -1, broker_epoch(run) + 1):
        run.ask(ControlledShutdownRequest(broker_id=OURS, broker_epoch=epoch))


@case(ControlledShutdownRequest, "wrong")
def of_a_broker_that_is_not_there(run: Run) -> None:
    for broker_id in (MISSING, -1):
        run.ask(ControlledShutdownRequest(broker_id=broker_id))


@case(ControlledShutdownRequest, "wrong", "2+")
def of_an_earlier_life(run: Run) -> None:
    run.ask(ControlledShutdownRequest(broker_id=OURS, broker_epoch=0))


@case(ControlledShutdownRequest, "edge")
def of_an_unknown_broker(run: Run) -> None:
    run.ask(ControlledShutdownRequest(broker_id=MISSING, broker_epoch=1))


# -- AllocateProducerIds


def within_a_block(answer: AllocateProducerIdsResponse) -> None:
    """Blocks were taken before."""
    answer.producer_id_start %= 1000


@case(AllocateProducerIdsRequest, "normal")
def two_blocks(run: Run) -> None:
    request = AllocateProducerIdsRequest(broker_id=OURS, broker_epoch=broker_epoch(run))
    first = run.ask(request, pick=within_a_block)
    second = run.ask(request, pick=within_a_block)
    assert first.producer_id_len == second.producer_id_len


@case(AllocateProducerIdsRequest, "edge")
def epochs_none_and_from_the_future(run: Run) -> None:
    for epoch in (-1, broker_epoch(run) + 1):
        run.ask(AllocateProducerIdsRequest(broker_id=OURS, broker_epoch=epoch))


@case(AllocateProducerIdsRequest, "wrong")
def a_broker_that_is_not_there_or_an_earlier_life(run: Run) -> None:
    run.ask(AllocateProducerIdsRequest(broker_id=OURS, broker_epoch=broker_epoch(run) - 1))
    for epoch in (-1, broker_epoch(run)):
        run.ask(AllocateProducerIdsRequest(broker_id=MISSING, broker_epoch=epoch))
