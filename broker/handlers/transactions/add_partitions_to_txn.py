"""AddPartitionsToTxn (key 24): partitions become part of a transaction before they are written to, or are verified to be.

Behaviour: up to version 3 a producer adds to its own transaction. From version 4 brokers send several transactions at once, and
add to them for their clients, or only verify that the partitions are in them (KIP-890). If one partition of a transaction
does not exist, none is added: it gets UNKNOWN_TOPIC_OR_PARTITION, the others OPERATION_NOT_ATTEMPTED. A producer cannot add
an internal topic itself (TOPIC_AUTHORIZATION_FAILED): AddOffsetsToTxn does.
Rights: up to version 3 on the transactional id, then on each topic; from version 4 on the cluster, as a broker.
Versions: v2 may return PRODUCER_FENCED, older ones INVALID_PRODUCER_EPOCH instead.
Source: KIP-98, KIP-890; Kafka KafkaApis.handleAddPartitionsToTxnRequest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from broker.handlers.transactions.fenced_producer import fenced_error
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.error_responses import ErrorForm
from metadata.image import is_internal
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from protocol.topic_partition import TopicPartition
from protocol.transaction_version import ADD_PARTITIONS_SINCE, version_since
from security.access import CLUSTER_NAME, Operation, ResourceType, on_each

_FENCED_SINCE = 2


@handles(
    AddPartitionsToTxnRequest,
    (  # the first two up to version 3, the last one from version 4 on
        on_each(Operation.WRITE, ResourceType.TRANSACTIONAL_ID),
        on_each(Operation.WRITE, ResourceType.TOPIC),
        on_each(Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    ),
    errors=ErrorForm({"results_by_topic_v3_and_below": "v3_and_below_topics"}),
)
async def add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, context: RequestContext, may_use_id: Rights, may_write: Rights, may_act: Rights
) -> AddPartitionsToTxnResponse:
    if context.api_version < ADD_PARTITIONS_SINCE:
        own = AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            verify_only=False,
            topics=request.v3_and_below_topics,
        )
        if not may_use_id(own.transactional_id):
            raise KafkaError(may_use_id.denied)
        results = await _results(own, context, may_write)
        return AddPartitionsToTxnResponse(throttle_time_ms=0, results_by_topic_v3_and_below=results)
    if not may_act(CLUSTER_NAME):
        raise KafkaError(may_act.denied)
    return AddPartitionsToTxnResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id,
                topic_results=await _results(transaction, context),
            )
            for transaction in request.transactions
        ],
    )


async def _results(
    transaction: AddPartitionsToTxnTransaction, context: RequestContext, may_write: Rights | None = None
) -> list[AddPartitionsToTxnTopicResult]:
    """Return a row for each partition; if all have the same error, a row each time the request names one. A client may write
    to what `may_write` says, a broker to all."""
    transactions = context.services.transactions
    partitions = _partitions(transaction.topics)
    errors = await _errors(partitions, context, may_write)
    transactional_id, producer_id = transaction.transactional_id, transaction.producer_id
    if errors:
        return _topic_results({each: errors.get(each, ErrorCode.OPERATION_NOT_ATTEMPTED) for each in partitions})
    if transaction.verify_only:
        return _topic_results(
            transactions.verify_partitions(transactional_id, producer_id, transaction.producer_epoch, partitions)
        )
    version = version_since(ADD_PARTITIONS_SINCE, context.api_version)
    response = await transactions.add_partitions(
        transactional_id, producer_id, transaction.producer_epoch, partitions, version
    )
    error = fenced_error(response.error_code, context.api_version, since=_FENCED_SINCE)
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)
                for index in topic.partitions
            ],
        )
        for topic in transaction.topics
    ]


def _partitions(topics: list[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    """Return each partition once, in the order of the request."""
    return list(dict.fromkeys((topic.name, index) for topic in topics for index in topic.partitions))


async def _errors(
    partitions: Collection[TopicPartition], context: RequestContext, may_write: Rights | None
) -> dict[TopicPartition, ErrorCode]:
    image = context.services.metadata.image
    errors: dict[TopicPartition, ErrorCode] = {}
    async with context.services.serial_queue.begin(len(partitions)) as slices:
        async for topic, index in slices.over(partitions):
            if may_write is not None and (is_internal(topic) or not may_write(topic)):
                errors[topic, index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif image.partition(topic, index) is None:
                errors[topic, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return errors


def _topic_results(errors: Mapping[TopicPartition, ErrorCode]) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for (topic, index), error in errors.items():
        row = AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)
        topics.setdefault(topic, []).append(row)
    return [AddPartitionsToTxnTopicResult(name=name, results_by_partition=rows) for name, rows in topics.items()]
