"""Produce v0 to v2 (key 0): clients that may send message sets, of the formats before record batches.

Behaviour: a message set is converted to a batch in the format of the log, in slices, one large set at a time, and appended like
all others (`produce`). Batches of format v2 are not converted, in these versions, too. The handler is a barrier of its
connection, so that later requests are not appended before a set that takes long to convert.
Invariant: one converted batch of a request is in memory: a small compressed set may become a large batch.
Source: Kafka KafkaApis.handleProduceRequest, LogValidator; KIP-98.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.handlers.records.produce import PRODUCE_ACCESS, ProduceAppend, produce_errors
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.deferred import Deferred
from protocol.errors import KafkaError
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from protocol.records.any_format import begins_compressed
from replication.waiting.delayed_operation import DelayedOperation
from storage.conversion.up_conversion import UpConversion, needs_up_conversion
from storage.log.validation import LongValidation

if TYPE_CHECKING:
    from broker.services import Services
    from replication.partition import Partition

# The usual number of records of a set; compressed sets may have any number, so that few bytes may take long.
SMALLEST_USUAL_RECORD_BYTES = 64
SMALLEST_COMPRESSED_RECORD_BYTES = 1


@handles(ProduceRequest, PRODUCE_ACCESS, versions="0-2", errors=produce_errors)
async def produce_message_sets(
    request: ProduceRequest, context: RequestContext, may_use_id: Rights, may_write: Rights
) -> ProduceResponse | Deferred[ProduceResponse] | None:
    append = MessageSetsAppend(request, context)
    for topic in append.begin(request, may_use_id, may_write):
        rows: list[PartitionProduceResponse] = []
        append.topics.append(TopicProduceResponse(name=topic.name, partition_responses=rows))
        for data in topic.partition_data:
            try:
                rows.append(await append.append_set(topic.name, data))
            except KafkaError as error:
                rows.append(append.failed(topic.name, data.index, error))
    return append.outcome()


class MessageSetsAppend(ProduceAppend):
    """A request whose message sets become batches one after the other."""

    __slots__ = ("_converted",)

    def __init__(self, request: ProduceRequest, context: RequestContext) -> None:
        super().__init__(request, context)
        self._converted: tuple[Partition, int] | None = (
            None  # the log with the last converted batch, and its end offset
        )

    async def append_set(self, topic: str, data: PartitionProduceData) -> PartitionProduceResponse:
        """Append records, also message sets. Raises KafkaError."""
        partition = self._services.partitions.find(topic, data.index)
        # If there is no partition to append to, the append raises the error.
        if partition is None or partition.leader is None or not needs_up_conversion(data.records):
            return await self._append_any(topic, data)
        if self._converted is not None:
            await _written(*self._converted)
        records_count = await _convert(data, partition, self._services)
        row = await self._append_any(topic, data)
        if records_count:
            self._converted = partition, row.base_offset + records_count
        data.records = None
        return row

    async def _append_any(self, topic: str, data: PartitionProduceData) -> PartitionProduceResponse:
        try:
            return self.append(topic, data)
        except LongValidation:
            return await self.append_long(topic, data)


async def _convert(data: PartitionProduceData, partition: Partition, services: Services) -> int:
    """Replace a message set by a batch; return its number of records. Raises KafkaError."""
    records = data.records
    assert records is not None
    topic = partition.topic
    conversion = UpConversion(records, partition.log.config, f"{topic}-{data.index}")
    record_bytes = SMALLEST_COMPRESSED_RECORD_BYTES if begins_compressed(records) else SMALLEST_USUAL_RECORD_BYTES
    began_ms = services.clock.monotonic_ms()
    async with services.serial_queue.begin(len(records) // record_bytes) as slices:
        async for _ in slices.over(conversion.steps()):
            pass
    if conversion.batch is not None:
        data.records = conversion.batch
        services.metrics.produce_converted(conversion.records_count, services.clock.monotonic_ms() - began_ms)
    return conversion.records_count


async def _written(partition: Partition, end_offset: int) -> None:
    """Wait until the log has written the converted batch."""
    if partition.is_written(end_offset):
        return
    operation = DelayedOperation[None](lambda _wait, _error: None)  # written or lost: it is not in memory
    operation.wait_until_written(partition, end_offset, None)
    await operation.completed()
