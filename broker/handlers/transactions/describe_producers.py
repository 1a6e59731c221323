"""DescribeProducers (key 61): the idempotent and transactional producers in a partition's producer state.

Behaviour: any replica responds, from its own log. The row of an open transaction has its first offset, by which hanging
transactions are found.
Source: KIP-664; Kafka KafkaApis.handleDescribeProducersRequest, Partition.activeProducerState.
"""

from __future__ import annotations

from broker.handlers.partition_lookup import held_partition
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.error_responses import ErrorForm
from metadata.admin.topic_rules import check_name
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from runtime.slices import Slices
from security.access import Operation, ResourceType, on_each
from storage.log.producers.producer_state import ProducerDescription


@handles(
    DescribeProducersRequest,
    on_each(Operation.READ, ResourceType.TOPIC),
    errors=ErrorForm({"topics": "topics"}),
)
async def describe_producers(
    request: DescribeProducersRequest, context: RequestContext, may_read: Rights
) -> DescribeProducersResponse:
    topics: list[TopicResponse] = []
    # The number of producers of a partition is known only when it is read.
    async with context.services.serial_queue.begin(None) as slices:
        for topic in request.topics:
            rows = [await _describe(topic.name, index, context, may_read, slices) for index in topic.partition_indexes]
            topics.append(TopicResponse(name=topic.name, partitions=rows))
    return DescribeProducersResponse(throttle_time_ms=0, topics=topics)


async def _describe(
    topic: str, index: int, context: RequestContext, may_read: Rights, slices: Slices
) -> PartitionResponse:
    def refused(code: ErrorCode, message: str | None) -> PartitionResponse:
        return PartitionResponse(partition_index=index, error_code=code, error_message=message, active_producers=[])

    try:
        check_name(topic)
        if not may_read(topic):
            raise may_read.denial(topic, may_read.denied.message)
        if topic not in context.services.metadata.image.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    except KafkaError as error:
        return refused(error.code, error.message)
    try:
        log = held_partition(context.services, topic, index).log
    except KafkaError as error:
        return refused(error.code, None)
    rows = [_row(producer) async for producer in slices.over(log.producers.states.describe())]
    return PartitionResponse(partition_index=index, error_code=ErrorCode.NONE, active_producers=rows)


def _row(producer: ProducerDescription) -> ProducerState:
    return ProducerState(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.last_timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=producer.current_txn_first_offset,
    )
