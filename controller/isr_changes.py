"""AlterPartition: leaders request changes of ISRs, and the controller decides (KIP-497).

Rules: the broker is identified by its epoch, its state of each partition by leader epoch and partition epoch: lower epochs are
refused, and with higher ones this controller was replaced. A broker that is not alive, is shutting down (KIP-841), or was
restarted since the leader's last contact (KIP-903) cannot enter an ISR. A repeated request gets the current state. A new ISR is
sent to all brokers as metadata; followers need no LeaderAndIsr.
Source: Kafka KafkaController.processAlterPartition; the broker epochs and the checks of the leader and of the replicas as
in the KRaft controller.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from controller.controller_context import ControllerContext
from controller.controller_term import Term
from controller.partition_state_machine import StateWrites
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
    """A requested change; `broker_epochs` are by replica, where the leader knows them."""

    isr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int
    leader_recovery_state: int = RECOVERED
    broker_epochs: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IsrDecision:
    """The decision. `state` is to be written for a proposal that is granted, and is the current one if it was granted
    before."""

    code: ErrorCode
    state: PartitionState | None = None
    is_change: bool = False


def decide(
    context: ControllerContext, broker_id: int, topic_partition: TopicPartition, proposal: ProposedIsr
) -> IsrDecision:
    """Decide about one partition. Pure."""
    current = context.leadership.find(topic_partition)
    if current is None:
        return IsrDecision(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if proposal.partition_epoch > current.partition_epoch or proposal.leader_epoch > current.leader_epoch:
        return IsrDecision(
            ErrorCode.NOT_CONTROLLER
        )  # another controller was elected: the leader sends the request to it
    if proposal.leader_epoch < current.leader_epoch:
        return IsrDecision(ErrorCode.FENCED_LEADER_EPOCH)
    if broker_id != current.leader:
        return IsrDecision(ErrorCode.INVALID_REQUEST)
    is_current = (
        set(proposal.isr) == set(current.isr) and proposal.leader_recovery_state == current.leader_recovery_state
    )
    if is_current:
        return IsrDecision(ErrorCode.NONE, current)
    if proposal.partition_epoch < current.partition_epoch:
        return IsrDecision(ErrorCode.INVALID_UPDATE_VERSION)
    if not _is_possible_recovery(current, proposal):
        return IsrDecision(ErrorCode.INVALID_REQUEST)
    if not all(_is_eligible(context, each, proposal) for each in proposal.isr):
        return IsrDecision(ErrorCode.INELIGIBLE_REPLICA)
    if not _is_well_formed(context, topic_partition, current, proposal):
        return IsrDecision(ErrorCode.INVALID_REQUEST)
    changed = replace(
        current,
        isr=proposal.isr,
        leader_recovery_state=proposal.leader_recovery_state,
        controller_epoch=context.epoch,
    )
    return IsrDecision(ErrorCode.NONE, changed, is_change=True)


def _is_possible_recovery(current: PartitionState, proposal: ProposedIsr) -> bool:
    if proposal.leader_recovery_state == RECOVERING:
        return len(proposal.isr) == 1 and current.leader_recovery_state == RECOVERING
    return proposal.leader_recovery_state == RECOVERED


def _is_well_formed(
    context: ControllerContext, topic_partition: TopicPartition, current: PartitionState, proposal: ProposedIsr
) -> bool:
    replicas = context.assignment(topic_partition).replicas
    members = set(proposal.isr)
    return current.leader in members and len(members) == len(proposal.isr) and members <= set(replicas)


def _is_eligible(context: ControllerContext, replica_id: int, proposal: ProposedIsr) -> bool:
    if not context.is_live(replica_id):
        return False
    seen = proposal.broker_epochs.get(replica_id, UNKNOWN_EPOCH)
    return seen in (UNKNOWN_EPOCH, context.live_brokers[replica_id].epoch)


async def alter(
    term: Term, request: AlterPartitionRequest, version: int
) -> tuple[AlterPartitionResponse, list[TopicPartition]]:
    """Handle a request; return the response, and the partitions whose proposal was granted."""
    known = term.context.live_brokers.get(request.broker_id)
    if known is None or known.epoch != request.broker_epoch:
        logger.info(
            "AlterPartition refused, the broker epoch is stale: broker=%d broker_epoch=%d",
            request.broker_id,
            request.broker_epoch,
        )
        return AlterPartitionResponse(throttle_time_ms=0, error_code=ErrorCode.STALE_BROKER_EPOCH, topics=[]), []
    decisions: dict[TopicPartition, IsrDecision] = {}
    for key, proposal in _proposals(term.context, request, version):
        decisions[key] = decide(term.context, request.broker_id, key, proposal)
        await term.yield_if_due()
    changed = await _write(term, decisions)
    if changed:
        await term.send_metadata(term.context.live_brokers, changed)
    granted = [key for key, decision in decisions.items() if decision.code is ErrorCode.NONE]
    return _response(term.context, request, decisions, version), granted


async def _write(term: Term, decisions: dict[TopicPartition, IsrDecision]) -> list[TopicPartition]:
    """Write the granted changes, and update the decisions with the outcomes. Returns the partitions to send to all brokers."""
    plan = StateWrites(
        {
            key: decision.state
            for key, decision in decisions.items()
            if decision.is_change and decision.state is not None
        }
    )
    outcome = await term.write_states(plan)
    written, lost = outcome.written, outcome.again
    for key in outcome.refused:
        decisions[key] = IsrDecision(ErrorCode.UNKNOWN_SERVER_ERROR)
    for key, state in written.items():
        term.context.leadership[key] = state
        decisions[key] = IsrDecision(ErrorCode.NONE, state, is_change=True)
    for key, state in (await term.read_states(lost)).items():
        term.context.leadership[key] = state
    for key in lost:
        decisions[key] = IsrDecision(ErrorCode.INVALID_UPDATE_VERSION)
    return [*written, *lost]


def _name(context: ControllerContext, topic: RequestTopicData, version: int) -> str | None:
    return context.names_by_id.get(topic.topic_id) if version >= TOPIC_IDS else topic.topic_name


def _proposals(
    context: ControllerContext, request: AlterPartitionRequest, version: int
) -> Iterator[tuple[TopicPartition, ProposedIsr]]:
    for topic in request.topics:
        name = _name(context, topic, version)
        if name is not None:
            for row in topic.partitions:
                yield (name, row.partition_index), _proposal(row, version)


def _proposal(row: RequestPartitionData, version: int) -> ProposedIsr:
    with_epochs = version >= BROKER_EPOCHS
    return ProposedIsr(
        isr=tuple(each.broker_id for each in row.new_isr_with_epochs) if with_epochs else tuple(row.new_isr),
        leader_epoch=row.leader_epoch,
        partition_epoch=row.partition_epoch,
        leader_recovery_state=row.leader_recovery_state,
        broker_epochs={each.broker_id: each.broker_epoch for each in row.new_isr_with_epochs},
    )


def _response(
    context: ControllerContext,
    request: AlterPartitionRequest,
    decisions: dict[TopicPartition, IsrDecision],
    version: int,
) -> AlterPartitionResponse:
    topics = []
    for topic in request.topics:
        if not topic.partitions:
            continue
        name = _name(context, topic, version)
        unknown = IsrDecision(ErrorCode.UNKNOWN_TOPIC_ID)
        rows = [
            _response_row(
                row.partition_index, unknown if name is None else decisions[name, row.partition_index], version
            )
            for row in topic.partitions
        ]
        topics.append(ResponseTopicData(topic_name=topic.topic_name, topic_id=topic.topic_id, partitions=rows))
    return AlterPartitionResponse(throttle_time_ms=0, error_code=ErrorCode.NONE, topics=topics)


def _response_row(partition: int, decision: IsrDecision, version: int) -> ResponsePartitionData:
    state = decision.state
    if decision.code is not ErrorCode.NONE or state is None:
        code = decision.code
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
