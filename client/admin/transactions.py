"""Transactions: list, describe, the producers of partitions, and the end of one that no coordinator ends. Pure.

Source: KIP-664.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from client.admin.brokers import checked, each_broker
from client.admin.steps import KeyKind, Rows, Steps, by_topic, located, rows_of
from protocol.errors import KafkaError
from protocol.messages.describe_producers import DescribeProducersRequest, ProducerState, TopicRequest
from protocol.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.list_transactions import TransactionState as ListedTransaction
from protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from protocol.topic_partition import TopicPartition

NO_DURATION = -1


class CoordinatedTransaction(NamedTuple):
    transaction: TransactionState
    coordinator: int


def list_all(
    states: Sequence[str] = (), producer_ids: Sequence[int] = (), duration_ms: int = NO_DURATION
) -> Steps[dict[int, list[ListedTransaction]]]:
    """Return the transactions of all coordinators, by broker: those in these states, of these producers, open for longer than
    `duration_ms`. Raises KafkaError when a broker does not tell its own."""
    request = ListTransactionsRequest(
        state_filters=list(states), producer_id_filters=list(producer_ids), duration_filter=duration_ms
    )
    found = checked((yield from each_broker(request)))
    return {broker: response.transaction_states for broker, response in found.items()}


def describe(transactional_ids: Collection[str]) -> Steps[dict[str, CoordinatedTransaction | KafkaError]]:
    """Return the state of each transaction."""
    coordinators: dict[str, int] = {}

    def locate(keys: list[str]) -> Steps[Any]:
        places = yield from located(KeyKind.TRANSACTION)(keys)
        coordinators.update((key, place) for key, place in places.items() if isinstance(place, int))
        return places

    def read(response: Any) -> Rows[str, TransactionState]:
        return ((row.transactional_id, row.error_code, None, row) for row in response.transaction_states)

    found = yield from rows_of(
        transactional_ids, locate, lambda some: DescribeTransactionsRequest(transactional_ids=some), read
    )
    return {
        name: each if isinstance(each, KafkaError) else CoordinatedTransaction(each, coordinators[name])
        for name, each in found.items()
    }


def producers_request(keys: Iterable[TopicPartition]) -> DescribeProducersRequest:
    """Return the request about partitions of one leader."""
    rows = [TopicRequest(name=topic, partition_indexes=each) for topic, each in by_topic(keys).items()]
    return DescribeProducersRequest(topics=rows)


def producers(keys: Iterable[TopicPartition]) -> Steps[dict[TopicPartition, list[ProducerState] | KafkaError]]:
    """Return the producers that each partition knows."""

    def read(response: Any) -> Rows[TopicPartition, list[ProducerState]]:
        for topic in response.topics:
            for row in topic.partitions:
                yield (topic.name, row.partition_index), row.error_code, row.error_message, row.active_producers

    return (yield from rows_of(keys, located(KeyKind.LEADER), producers_request, read))


def abort(key: TopicPartition, producer: ProducerState) -> Steps[None]:
    """End the transaction of a producer in one partition. Raises KafkaError."""
    topic, partition = key

    def request_of(_: list[TopicPartition]) -> WriteTxnMarkersRequest:
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
            coordinator_epoch=producer.coordinator_epoch,
        )
        return WriteTxnMarkersRequest(markers=[marker])

    def read(response: Any) -> Rows[TopicPartition, None]:
        for marker in response.markers:
            for each in marker.topics:
                for row in each.partitions:
                    yield (each.name, row.partition_index), row.error_code, None, None

    error = (yield from rows_of([key], located(KeyKind.LEADER), request_of, read))[key]
    if error is not None:
        raise error
