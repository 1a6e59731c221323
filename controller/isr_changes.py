"""AlterPartition: leaders ask for other in-sync sets, and the controller decides (KIP-497).

Rules: the asking broker is known by its epoch, its knowledge of each partition by leader epoch and partition epoch: who
knows less is told so, who knows more has found a controller that was deposed. Nobody enters an ISR who is not alive, is
shutting down (KIP-841), or was restarted since the leader last saw it (KIP-903). The same wish twice is answered with what
is. A new ISR is told to everybody as metadata; followers need no LeaderAndIsr.
Source: Kafka KafkaController.processAlterPartition; the broker epochs and the checks of the leader and of the replicas as
in the KRaft controller.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from controller.controller_context import ControllerContext
from controller.partition_state_machine import StateWrites
from controller.term import Term
from metadata.store.znodes import RECOVERED, RECOVERING, PartitionState
from protocol.errors import ErrorCode
from protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
    ResponseTopicData,
)
from protocol.topic_partition import TopicPartition

UNKNOWN_EPOCH = -1

# The first version in which ...
TOPIC_IDS = 2  # and INELIGIBLE_REPLICA
BROKER_EPOCHS = 3

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ProposedIsr:
    """What a leader asks for; `broker_epochs` is by replica, where the leader knows it."""

    isr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int
    leader_recovery_state: int = RECOVERED
    broker_epochs: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IsrDecision:
    """`state` is to be written for a wish that is granted, and is what there is for one that was granted before."""

    code: ErrorCode
    state: PartitionState | None = None
    is_change: bool = False


def judge(
    context: ControllerContext, broker_id: int, topic_partition: TopicPartition, wish: ProposedIsr
) -> IsrDecision:
    """Pure."""
    current = context.leadership.find(topic_partition)
    if current is None:
        return IsrDecision(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if wish.partition_epoch > current.partition_epoch or wish.leader_epoch > current.leader_epoch:
        return IsrDecision(ErrorCode.NOT_CONTROLLER)  # somebody else has decided since: the leader looks for it
    if wish.leader_epoch < current.leader_epoch:
        return IsrDecision(ErrorCode.FENCED_LEADER_EPOCH)
    if broker_id != current.leader:
        return IsrDecision(ErrorCode.INVALID_REQUEST)
    is_so_already = set(wish.isr) == set(current.isr) and wish.leader_recovery_state == current.leader_recovery_state
    if is_so_already:
        return IsrDecision(ErrorCode.NONE, current)
    if wish.partition_epoch < current.partition_epoch:
        return IsrDecision(ErrorCode.INVALID_UPDATE_VERSION)
    if not _is_possible_recovery(current, wish):
        return IsrDecision(ErrorCode.INVALID_REQUEST)
    if not all(_is_eligible(context, each, wish) for each in wish.isr):
        return IsrDecision(ErrorCode.INELIGIBLE_REPLICA)
    if not _is_well_formed(context, topic_partition, current, wish):
        return IsrDecision(ErrorCode.INVALID_REQUEST)
    changed = replace(
        current,
        isr=wish.isr,
        leader_recovery_state=wish.leader_recovery_state,
        controller_epoch=context.epoch,
    )
    return IsrDecision(ErrorCode.NONE, changed, is_change=True)


def _is_possible_recovery(current: PartitionState, wish: ProposedIsr) -> bool:
    if wish.leader_recovery_state == RECOVERING:
        return len(wish.isr) == 1 and current.leader_recovery_state == RECOVERING
    return wish.leader_recovery_state == RECOVERED


def _is_well_formed(
    context: ControllerContext, topic_partition: TopicPartition, current: PartitionState, wish: ProposedIsr
) -> bool:
    replicas = context.assignment(topic_partition).replicas
    members = set(wish.isr)
    return current.leader in members and len(members) == len(wish.isr) and members <= set(replicas)


def _is_eligible(context: ControllerContext, replica_id: int, wish: ProposedIsr) -> bool:
    if not context.is_live(replica_id):
        return False
    seen = wish.broker_epochs.get(replica_id, UNKNOWN_EPOCH)
    return seen in (UNKNOWN_EPOCH, context.live_brokers[replica_id].epoch)


async def alter(
    term: Term, request: AlterPartitionRequest, version: int
) -> tuple[AlterPartitionResponse, list[TopicPartition]]:
    """(the answer; the partitions whose wish was granted)."""
    known = term.context.live_brokers.get(request.broker_id)
    if known is None or known.epoch != request.broker_epoch:
        logger.info(
            "AlterPartition refused, the broker epoch is stale: broker=%d broker_epoch=%d",
            request.broker_id,
            request.broker_epoch,
        )
        return AlterPartitionResponse(throttle_time_ms=0, error_code=ErrorCode.STALE_BROKER_EPOCH, topics=[]), []
    verdicts: dict[TopicPartition, IsrDecision] = {}
    for key, wish in _wishes(term.context, request, version):
        verdicts[key] = judge(term.context, request.broker_id, key, wish)
        await term.yield_if_due()
    changed = await _write(term, verdicts)
    if changed:
        await term.send_metadata(term.context.live_brokers, changed)
    granted = [key for key, verdict in verdicts.items() if verdict.code is ErrorCode.NONE]
    return _answer(term.context, request, verdicts, version), granted


async def _write(term: Term, verdicts: dict[TopicPartition, IsrDecision]) -> list[TopicPartition]:
    """Puts what the store said into the verdicts. Returns what everybody must hear of."""
    plan = StateWrites(
        {key: verdict.state for key, verdict in verdicts.items() if verdict.is_change and verdict.state is not None}
    )
    outcome = await term.write_states(plan)
    written, lost = outcome.written, outcome.again
    for key in outcome.refused:
        verdicts[key] = IsrDecision(ErrorCode.UNKNOWN_SERVER_ERROR)
    for key, state in written.items():
        term.context.leadership[key] = state
        verdicts[key] = IsrDecision(ErrorCode.NONE, state, is_change=True)
    for key, state in (await term.read_states(lost)).items():
        term.context.leadership[key] = state
    for key in lost:
        verdicts[key] = IsrDecision(ErrorCode.INVALID_UPDATE_VERSION)
    return [*written, *lost]


def _name(context: ControllerContext, topic: RequestTopicData, version: int) -> str | None:
    return context.names_by_id.get(topic.topic_id) if version >= TOPIC_IDS else topic.topic_name


def _wishes(
    context: ControllerContext, request: AlterPartitionRequest, version: int
) -> Iterator[tuple[TopicPartition, ProposedIsr]]:
    for topic in request.topics:
        name = _name(context, topic, version)
        if name is not None:
            for row in topic.partitions:
                yield (name, row.partition_index), _wish(row, version)


def _wish(row: RequestPartitionData, version: int) -> ProposedIsr:
    with_epochs = version >= BROKER_EPOCHS
    return ProposedIsr(
        isr=tuple(each.broker_id for each in row.new_isr_with_epochs) if with_epochs else tuple(row.new_isr),
        leader_epoch=row.leader_epoch,
        partition_epoch=row.partition_epoch,
        leader_recovery_state=row.leader_recovery_state,
        broker_epochs={each.broker_id: each.broker_epoch for each in row.new_isr_with_epochs},
    )


def _answer(
    context: ControllerContext,
    request: AlterPartitionRequest,
    verdicts: dict[TopicPartition, IsrDecision],
    version: int,
) -> AlterPartitionResponse:
    topics = []
    for topic in request.topics:
        if not topic.partitions:
            continue
        name = _name(context, topic, version)
        unknown = IsrDecision(ErrorCode.UNKNOWN_TOPIC_ID)
        rows = [
            _answer_row(row.partition_index, unknown if name is None else verdicts[name, row.partition_index], version)
            for row in topic.partitions
        ]
        topics.append(ResponseTopicData(topic_name=topic.topic_name, topic_id=topic.topic_id, partitions=rows))
    return AlterPartitionResponse(throttle_time_ms=0, error_code=ErrorCode.NONE, topics=topics)


def _answer_row(partition: int, verdict: IsrDecision, version: int) -> ResponsePartitionData:
    state = verdict.state
    if verdict.code is not ErrorCode.NONE or state is None:
        code = verdict.code
        if code is ErrorCode.INELIGIBLE_REPLICA and version < TOPIC_IDS:
            code = ErrorCode.OPERATION_NOT_ATTEMPTED
        return ResponsePartitionData(
            partition_index=partition, error_code=code, leader_id=0, leader_epoch=0, isr=[], partition_epoch=0
        )
    return ResponsePartitionData(
        partition_index=partition,
        error_code=ErrorCode.NONE,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        leader_recovery_state=state.leader_recovery_state,
        partition_epoch=state.partition_epoch,
    )
