"""A producer that stores offsets in transactions, by single requests, so that a test decides which broker gets each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.oracle.admin import ask
from tests.oracle.broker import Broker
from tests.oracle.process import wait_until

TOPIC = "orders"
PARTITIONS = 4
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT
RETRIED = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)


def answered(ask_once: Callable[[], Any], code_of: Callable[[Any], int]) -> Any:
    """The response of a coordinator, which may be loading or moving. Fails with any other error."""
    answers: list[Any] = []

    def is_answered() -> bool:
        answers[:] = [ask_once()]
        return ErrorCode(code_of(answers[0])) not in RETRIED

    assert wait_until(is_answered, 60), answers
    assert code_of(answers[0]) == ErrorCode.NONE, answers
    return answers[0]


@dataclass
class OffsetsProducer:
    """A transactional producer that outlives the brokers it is connected to, and stores the offsets of one group."""

    group: str
    transactional_id: str
    producer_id: int = -1
    epoch: int = -1

    def start(self, coordinator: Broker) -> None:
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=900_000)
        made = answered(lambda: ask(coordinator, request), lambda answer: answer.error_code)
        self.producer_id, self.epoch = made.producer_id, made.producer_epoch

    def add_group(self, coordinator: Broker) -> None:
        adding = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id, producer_id=self.producer_id, producer_epoch=self.epoch,
            group_id=self.group,
        )  # fmt: skip
        answered(lambda: ask(coordinator, adding), lambda answer: answer.error_code)

    def commit(self, group_coordinator: Broker, *offsets: int, partition: int = 0) -> None:
        request = self.committing(*offsets, partition=partition)
        answered(lambda: ask(group_coordinator, request), lambda answer: answer.topics[0].partitions[0].error_code)

    def committing(self, *offsets: int, partition: int = 0) -> TxnOffsetCommitRequest:
        rows = [
            TxnOffsetCommitRequestPartition(
                partition_index=partition + index, committed_offset=offset, committed_metadata="moved"
            )
            for index, offset in enumerate(offsets)
        ]
        return TxnOffsetCommitRequest(
            transactional_id=self.transactional_id, group_id=self.group, producer_id=self.producer_id,
            producer_epoch=self.epoch, topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=rows)],
        )  # fmt: skip

    def end(self, coordinator: Broker, *, committed: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.transactional_id, producer_id=self.producer_id, producer_epoch=self.epoch,
            committed=committed,
        )  # fmt: skip
        answered(lambda: ask(coordinator, request), lambda answer: answer.error_code)


def coordinator_id(broker: Broker, key: str, *, is_group: bool) -> int:
    """The id of the broker that coordinates a group or a transactional id; its internal topic is created if need be."""
    finding = FindCoordinatorRequest(coordinator_keys=[key], key_type=0 if is_group else 1)
    found = answered(lambda: ask(broker, finding, 4), lambda answer: answer.coordinators[0].error_code)
    return int(found.coordinators[0].node_id)


def stable_offsets(group_coordinator: Broker, group: str) -> list[int | ErrorCode]:
    """The stable offset of each partition, or its error."""
    topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=list(range(PARTITIONS)))]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=True)
    found = answered(lambda: ask(group_coordinator, request, 9), lambda answer: answer.groups[0].error_code)
    rows = sorted(found.groups[0].topics[0].partitions, key=lambda row: row.partition_index)
    return [row.committed_offset if row.error_code == ErrorCode.NONE else ErrorCode(row.error_code) for row in rows]


def wait_for(group_coordinator: Broker, group: str, expected: list[int | ErrorCode]) -> None:
    """Markers are written after the response to EndTxn."""
    assert wait_until(lambda: stable_offsets(group_coordinator, group) == expected, 60), stable_offsets(
        group_coordinator, group
    )
