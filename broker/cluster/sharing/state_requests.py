"""What is asked of share coordinators, as requests, and what their responses mean. Pure.

Rules: a request is of one group and one operation. A partition that a response leaves out has failed.
Versions: those that brokers of this project have; the brokers of a cluster that serves share groups are all of them.
Source: KIP-932; Kafka PersisterStateManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from coordinator.share.batches import KeptBatch
from coordinator.share.outcomes import ShareOperation, ShareOutcome
from coordinator.share.state import FIRST_EPOCH, ShareKey, Snapshot
from protocol.errors import ErrorCode
from protocol.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from protocol.schema import Request, Response
from protocol.share_states import NO_DELIVERY_COMPLETE_COUNT, NO_LEADER_EPOCH, NO_START_OFFSET

_ERRORS = {int(code): code for code in ErrorCode}
_NO_EPOCH = -1

Done: TypeAlias = Callable[[ShareOutcome], None]


def _ignore(_outcome: ShareOutcome) -> None:
    """Until somebody waits for it."""


@dataclass(slots=True, eq=False)
class StateAsk:
    """One operation on one share partition, asked until `until_ms` of the monotonic clock. `done` gets its outcome, once.
    Which of the other fields count depends on the operation."""

    operation: ShareOperation
    key: ShareKey
    until_ms: int
    done: Done = _ignore
    state_epoch: int = _NO_EPOCH
    leader_epoch: int = NO_LEADER_EPOCH
    start_offset: int = NO_START_OFFSET
    delivery_complete_count: int = NO_DELIVERY_COMPLETE_COUNT
    batches: tuple[KeptBatch, ...] = ()
    attempts: int = 0


class _Form(NamedTuple):
    version: int
    request: Callable[..., Request]
    topic: Callable[..., Any]
    row: Callable[[StateAsk], Any]
    response: type[Response]
    outcome: Callable[[Any], ShareOutcome]


def state_request(operation: ShareOperation, asked: Sequence[StateAsk]) -> tuple[Request, int, type[Response]]:
    """Return the request that asks, its version, and the type of its response. All are of one group and of `operation`."""
    form = _FORMS[operation]
    topics: dict[bytes, list[Any]] = {}
    for ask in asked:
        topics.setdefault(ask.key.topic_id, []).append(form.row(ask))
    request = form.request(
        group_id=asked[0].key.group_id,
        topics=[form.topic(topic_id=topic_id, partitions=rows) for topic_id, rows in topics.items()],
    )
    return request, form.version, form.response


def state_outcomes(operation: ShareOperation, asked: Iterable[StateAsk], response: Any) -> list[ShareOutcome]:
    """Return the outcome of each, in their order."""
    form = _FORMS[operation]
    rows = {(topic.topic_id, row.partition): row for topic in response.results for row in topic.partitions}
    outcomes = []
    for ask in asked:
        row = rows.get((ask.key.topic_id, ask.key.partition))
        if row is None:
            outcomes.append(ShareOutcome(ErrorCode.UNKNOWN_SERVER_ERROR, "The response has no row of the partition."))
        elif row.error_code != ErrorCode.NONE:
            error = _ERRORS.get(row.error_code, ErrorCode.UNKNOWN_SERVER_ERROR)
            outcomes.append(ShareOutcome(error, row.error_message))
        else:
            outcomes.append(form.outcome(row))
    return outcomes


def _initialize_row(ask: StateAsk) -> initialize_share_group_state.PartitionData:
    return initialize_share_group_state.PartitionData(
        partition=ask.key.partition, state_epoch=ask.state_epoch, start_offset=ask.start_offset
    )


def _read_row(ask: StateAsk) -> read_share_group_state.PartitionData:
    return read_share_group_state.PartitionData(partition=ask.key.partition, leader_epoch=ask.leader_epoch)


def _summary_row(ask: StateAsk) -> read_share_group_state_summary.PartitionData:
    return read_share_group_state_summary.PartitionData(partition=ask.key.partition, leader_epoch=ask.leader_epoch)


def _write_row(ask: StateAsk) -> write_share_group_state.PartitionData:
    return write_share_group_state.PartitionData(
        partition=ask.key.partition,
        state_epoch=ask.state_epoch,
        leader_epoch=ask.leader_epoch,
        start_offset=ask.start_offset,
        delivery_complete_count=ask.delivery_complete_count,
        state_batches=[
            write_share_group_state.StateBatch(
                first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
            )
            for first, last, count, state in ask.batches
        ],
    )


def _delete_row(ask: StateAsk) -> delete_share_group_state.PartitionData:
    return delete_share_group_state.PartitionData(partition=ask.key.partition)


def _done(_row: Any) -> ShareOutcome:
    return ShareOutcome()


def _read(row: read_share_group_state.PartitionResult) -> ShareOutcome:
    batches = tuple(
        KeptBatch(each.first_offset, each.last_offset, each.delivery_count, each.delivery_state)
        for each in row.state_batches
    )
    return _found(row.state_epoch, NO_LEADER_EPOCH, row.start_offset, NO_DELIVERY_COMPLETE_COUNT, batches)


def _summary(row: read_share_group_state_summary.PartitionResult) -> ShareOutcome:
    return _found(row.state_epoch, row.leader_epoch, row.start_offset, row.delivery_complete_count, ())


def _found(
    state_epoch: int,
    leader_epoch: int,
    start_offset: int,
    delivery_complete_count: int,
    batches: tuple[KeptBatch, ...],
) -> ShareOutcome:
    snapshot = Snapshot(FIRST_EPOCH, state_epoch, leader_epoch, start_offset, delivery_complete_count, batches, 0, 0)
    return ShareOutcome(snapshot=snapshot)


_FORMS = {
    ShareOperation.INITIALIZE: _Form(
        0, initialize_share_group_state.InitializeShareGroupStateRequest, initialize_share_group_state.TopicData,
        _initialize_row, initialize_share_group_state.InitializeShareGroupStateResponse, _done,
    ),
    ShareOperation.READ: _Form(
        0, read_share_group_state.ReadShareGroupStateRequest, read_share_group_state.TopicData,
        _read_row, read_share_group_state.ReadShareGroupStateResponse, _read,
    ),
    ShareOperation.SUMMARY: _Form(
        1, read_share_group_state_summary.ReadShareGroupStateSummaryRequest, read_share_group_state_summary.TopicData,
        _summary_row, read_share_group_state_summary.ReadShareGroupStateSummaryResponse, _summary,
    ),
    ShareOperation.WRITE: _Form(
        1, write_share_group_state.WriteShareGroupStateRequest, write_share_group_state.TopicData,
        _write_row, write_share_group_state.WriteShareGroupStateResponse, _done,
    ),
    ShareOperation.DELETE: _Form(
        0, delete_share_group_state.DeleteShareGroupStateRequest, delete_share_group_state.TopicData,
        _delete_row, delete_share_group_state.DeleteShareGroupStateResponse, _done,
    ),
}  # fmt: skip
