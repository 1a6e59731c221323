"""Who may change an in-sync set: the table of AlterPartition."""

from __future__ import annotations

import pytest

from controller.controller_context import ControllerContext, LiveBroker
from controller.isr_changes import IsrDecision, ProposedIsr, decide
from metadata.store.znodes import RECOVERED, RECOVERING, BrokerRegistration, PartitionState, ReplicaAssignment
from protocol.errors import ErrorCode

KEY = ("t", 0)
STATE = PartitionState(1, 5, (1, 2, 3), controller_epoch=2, partition_epoch=7)


def context(state: PartitionState | None = STATE) -> ControllerContext:
    made = ControllerContext(epoch=3)
    for broker_id in (1, 2, 3, 4):
        made.live_brokers[broker_id] = LiveBroker(BrokerRegistration(broker_id, (), 0), epoch=100 + broker_id)
    made.shutting_down.add(4)
    made.add_topic("t", b"\1" * 16, {0: ReplicaAssignment((1, 2, 3, 4, 5))})
    if state is not None:
        made.leadership[KEY] = state
    return made


def wish(
    *isr: int, leader_epoch: int = 5, partition_epoch: int = 7, recovery: int = RECOVERED, **epochs: int
) -> ProposedIsr:
    return ProposedIsr(
        isr, leader_epoch, partition_epoch, recovery, {int(name[1:]): epoch for name, epoch in epochs.items()}
    )


@pytest.mark.parametrize(
    ("broker_id", "asked", "code"),
    [
        (1, wish(1, 2), ErrorCode.NONE),
        (1, wish(1, b1=101), ErrorCode.NONE),
        (1, wish(1, 2, b1=101, b2=-1), ErrorCode.NONE),
        (1, wish(1, 2, b2=99), ErrorCode.INELIGIBLE_REPLICA),
        (1, wish(1, 2, leader_epoch=4), ErrorCode.FENCED_LEADER_EPOCH),
        (1, wish(1, 2, leader_epoch=6), ErrorCode.NOT_CONTROLLER),
        (1, wish(1, 2, partition_epoch=8), ErrorCode.NOT_CONTROLLER),
        (1, wish(1, 2, partition_epoch=6), ErrorCode.INVALID_UPDATE_VERSION),
        (2, wish(1, 2), ErrorCode.INVALID_REQUEST),
        (1, wish(2, 3), ErrorCode.INVALID_REQUEST),
        (1, wish(), ErrorCode.INVALID_REQUEST),
        (1, wish(1, 1), ErrorCode.INVALID_REQUEST),
        (1, wish(1, 9), ErrorCode.INELIGIBLE_REPLICA),
        (1, wish(1, 4), ErrorCode.INELIGIBLE_REPLICA),
        (1, wish(1, 5), ErrorCode.INELIGIBLE_REPLICA),
        (1, wish(1, recovery=RECOVERING), ErrorCode.INVALID_REQUEST),
        (1, wish(1, recovery=7), ErrorCode.INVALID_REQUEST),
    ],
)
def test_the_table(broker_id: int, asked: ProposedIsr, code: ErrorCode) -> None:
    verdict = decide(context(), broker_id, KEY, asked)
    assert verdict.code is code
    assert verdict.is_change is (code is ErrorCode.NONE)
    if code is ErrorCode.NONE:
        assert verdict.state == PartitionState(1, 5, asked.isr, controller_epoch=3, partition_epoch=7)


@pytest.mark.parametrize("partition_epoch", [6, 7])
def test_the_same_wish_twice_is_answered_with_what_is(partition_epoch: int) -> None:
    """The first answer was lost, and the partition epoch with it."""
    verdict = decide(context(), 1, KEY, wish(3, 2, 1, partition_epoch=partition_epoch))
    assert verdict == IsrDecision(ErrorCode.NONE, STATE, is_change=False)


def test_a_partition_that_nobody_knows() -> None:
    assert decide(context(None), 1, KEY, wish(1)).code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_recovery_ends_with_the_leader_s_next_change() -> None:
    recovering = PartitionState(1, 5, (1,), 2, partition_epoch=7, leader_recovery_state=RECOVERING)
    healed = decide(context(recovering), 1, KEY, wish(1))
    assert healed.state == PartitionState(1, 5, (1,), 3, partition_epoch=7, leader_recovery_state=RECOVERED)
    assert decide(context(recovering), 1, KEY, wish(1, 2, recovery=RECOVERING)).code is ErrorCode.INVALID_REQUEST
    assert decide(context(recovering), 1, KEY, wish(1, recovery=RECOVERING)).is_change is False
