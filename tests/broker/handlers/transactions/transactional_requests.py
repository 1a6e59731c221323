"""A producer that asks the handlers of transactional requests, in the bytes of one version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from broker.handlers.transactions.add_offsets_to_txn import add_offsets_to_txn
from broker.handlers.transactions.add_partitions_to_txn import add_partitions_to_txn
from broker.handlers.transactions.end_txn import end_txn
from broker.handlers.transactions.init_producer_id import init_producer_id
from broker.network.routes import Handler
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.schema import Request
from protocol.topic_partition import TopicPartition
from tests.broker.handlers.group_world import GroupBroker

ORDERS = ("orders", 0)


async def ask(handler: Handler[Any], broker: GroupBroker, request: Request, version: int) -> Any:
    """The response as the client decodes it."""
    decoded = type(request).decode(request.encode(version), version)
    response = await handler(decoded, broker.context(version))
    return type(response).decode(response.encode(version), version)


@dataclass
class TransactionalClient:
    broker: GroupBroker
    name: str = "t"
    producer_id: int = -1
    epoch: int = -1

    async def init(
        self, version: int = 5, timeout_ms: int = 60_000, *, expected: tuple[int, int] = (-1, -1)
    ) -> ErrorCode:
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=timeout_ms)
        request.producer_id, request.producer_epoch = expected
        response = await ask(init_producer_id, self.broker, request, version)
        if response.error_code == 0:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
        else:
            assert (response.producer_id, response.producer_epoch) == (-1, -1)
        return ErrorCode(response.error_code)

    async def add(self, *partitions: TopicPartition, version: int = 3) -> dict[TopicPartition, ErrorCode]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=[index]) for topic, index in partitions
            ],
        )
        response = await ask(add_partitions_to_txn, self.broker, request, version)
        return {
            (topic.name, row.partition_index): ErrorCode(row.partition_error_code)
            for topic in response.results_by_topic_v3_and_below
            for row in topic.results_by_partition
        }

    async def add_offsets(self, group_id: str = "g", *, version: int = 4) -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.name, producer_id=self.producer_id, producer_epoch=self.epoch, group_id=group_id
        )
        return ErrorCode((await ask(add_offsets_to_txn, self.broker, request, version)).error_code)

    async def end(self, *, commit: bool = True, version: int = 4) -> ErrorCode:
        request = EndTxnRequest(
            transactional_id=self.name, producer_id=self.producer_id, producer_epoch=self.epoch, committed=commit
        )
        return ErrorCode((await ask(end_txn, self.broker, request, version)).error_code)
