"""Offsets of open, committed and aborted transactions when the data directory moves between Apache Kafka and this broker.

The broker that takes over has the same committed offsets and the same unstable ones, and it ends the open transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

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
from tests.interop.house import House, complaints_about_storage
from tests.oracle.admin import ask
from tests.oracle.barnabas import Barnabas
from tests.oracle.broker import Broker
from tests.oracle.kafka import KafkaServer
from tests.oracle.process import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(400)]

GROUP = "copiers"
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
    """A transactional producer that outlives the broker it is connected to."""

    transactional_id: str
    producer_id: int = -1
    epoch: int = -1

    def start(self, broker: Broker) -> None:
        for key, key_type in ((GROUP, 0), (self.transactional_id, 1)):
            finding = FindCoordinatorRequest(coordinator_keys=[key], key_type=key_type)
            answered(lambda asked=finding: ask(broker, asked, 4), lambda found: found.coordinators[0].error_code)
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=900_000)
        made = answered(lambda: ask(broker, request), lambda answer: answer.error_code)
        self.producer_id, self.epoch = made.producer_id, made.producer_epoch

    def commit(self, broker: Broker, *offsets: int, partition: int = 0) -> None:
        adding = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id, producer_id=self.producer_id, producer_epoch=self.epoch,
            group_id=GROUP,
        )  # fmt: skip
        answered(lambda: ask(broker, adding), lambda answer: answer.error_code)
        rows = [
            TxnOffsetCommitRequestPartition(
                partition_index=partition + index, committed_offset=offset, committed_metadata="moved"
            )
            for index, offset in enumerate(offsets)
        ]
        committing = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id, group_id=GROUP, producer_id=self.producer_id,
            producer_epoch=self.epoch, topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=rows)],
        )  # fmt: skip
        answered(lambda: ask(broker, committing), lambda answer: answer.topics[0].partitions[0].error_code)

    def end(self, broker: Broker, *, committed: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.transactional_id, producer_id=self.producer_id, producer_epoch=self.epoch,
            committed=committed,
        )  # fmt: skip
        answered(lambda: ask(broker, request), lambda answer: answer.error_code)


def stable_offsets(broker: Broker) -> list[int | ErrorCode]:
    """The stable offset of each partition, or its error."""
    topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=list(range(PARTITIONS)))]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=topics)], require_stable=True)
    found = answered(lambda: ask(broker, request, 9), lambda answer: answer.groups[0].error_code)
    rows = sorted(found.groups[0].topics[0].partitions, key=lambda row: row.partition_index)
    return [row.committed_offset if row.error_code == ErrorCode.NONE else ErrorCode(row.error_code) for row in rows]


def wait_for(broker: Broker, expected: list[int | ErrorCode]) -> None:
    """Markers are written after the response to EndTxn."""
    assert wait_until(lambda: stable_offsets(broker) == expected, 60), stable_offsets(broker)


@pytest.mark.parametrize("end", ["stop", pytest.param("throw out", marks=pytest.mark.long)])
@pytest.mark.parametrize(("first", "second"), [(KafkaServer, Barnabas), (Barnabas, KafkaServer)])
def test_transactional_offsets_move_along(house: House, first: type[Broker], second: type[Broker], end: str) -> None:
    def leave() -> None:
        if end == "stop":
            house.move_out("stop")
        else:
            house.throw_out()

    broker = house.move_in(first)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(60)
    closed, open_one = OffsetsProducer("closed"), OffsetsProducer("open")
    closed.start(broker)
    open_one.start(broker)
    closed.commit(broker, 1, 2)
    closed.end(broker, committed=True)
    wait_for(broker, [1, 2, -1, -1])
    closed.commit(broker, 5, 6)
    closed.end(broker, committed=False)
    wait_for(broker, [1, 2, -1, -1])
    open_one.commit(broker, 7, 8, partition=1)
    assert stable_offsets(broker) == [1, UNSTABLE, UNSTABLE, -1]
    leave()

    broker = house.move_in(second)
    wait_for(broker, [1, UNSTABLE, UNSTABLE, -1])
    open_one.commit(broker, 9, partition=3)
    assert stable_offsets(broker) == [1, UNSTABLE, UNSTABLE, UNSTABLE]
    open_one.end(broker, committed=True)
    wait_for(broker, [1, 7, 8, 9])
    open_one.commit(broker, 10)
    if end == "stop":
        assert not complaints_about_storage(broker)
    leave()

    broker = house.move_in(first)
    wait_for(broker, [UNSTABLE, 7, 8, 9])
    open_one.end(broker, committed=False)
    wait_for(broker, [1, 7, 8, 9])
    house.move_out("stop")
