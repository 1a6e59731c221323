"""Checks of a whole Produce request, before any of its records are appended.

Behaviour: records that are not framed as a batch, a transactional batch without a transactional id and transactional
batches of several producers are errors of the whole request, even if other records are valid. Of a partition that is named more
than once, the last records that are one batch are appended; others are refused in the response.
Rules: pure; nothing is changed.
Source: Kafka KafkaApis.handleProduceRequest, RequestUtils.hasTransactionalRecords, ReplicaManager.handleProduceAppend.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from broker.handlers.partition_lookup import is_known
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.batch import (
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC_POSITION,
    MAGIC_V2,
    holds_transaction,
    read_header,
)
from protocol.topic_partition import TopicPartition
from storage.log.validation import FIRST_PRODUCE_OF_V2, frame_end, only_batch

if TYPE_CHECKING:
    from broker.services import Services
    from protocol.records.batch import BatchHeader
    from runtime.disk.filesystem import Buffer

_unpack_length = Struct(">8xi").unpack_from

Refusals = dict[TopicPartition, KafkaError]
"""Iterate over the records, by topic and partition."""


def has_transaction(request: ProduceRequest) -> bool:
    """Whether any batch is transactional; the records after the first of them are not checked.

    Raises CORRUPT_MESSAGE, TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
    """
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if records is None or not _is_transactional(records):
                continue
            if request.transactional_id is None:
                raise KafkaError(
                    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "A transactional batch needs a transactional id."
                )
            return True
    return False


def _is_transactional(records: Buffer) -> bool:
    """Return the header of the first batch, if it is complete. Raises CORRUPT_MESSAGE if it is not framed as a batch."""
    is_usual = len(records) >= HEADER_BYTES and _unpack_length(records)[0] + LENGTH_OVERHEAD_BYTES == len(records)
    if (not is_usual or records[MAGIC_POSITION] > MAGIC_V2) and frame_end(records, 0) is None:
        return False
    return holds_transaction(records)


def frame_refusal(records: Buffer) -> KafkaError | None:
    """Raise CORRUPT_MESSAGE if records are not framed as a batch; `has_transaction` raises it for the whole request."""
    try:
        _is_transactional(records)
    except KafkaError as refusal:
        return refusal
    return None


def check_producer(services: Services, topics: list[TopicProduceData], api_version: int) -> None:
    """Check that the transactional batches that may be appended are of one producer. Raises INVALID_PRODUCER_ID_MAPPING."""
    producers: set[tuple[int, int]] = set()
    for topic in topics:
        for data in topic.partition_data:
            if not is_known(services, topic.name, data.index):
                continue
            header, _ = _batch_or_refusal(data, api_version)
            if header is not None and header.is_transactional and header.has_producer_id:
                producers.add((header.producer_id, header.producer_epoch))
    if len(producers) > 1:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING, "Transactional records contained more than one producer ID"
        )


def repeats_partitions(topics: list[TopicProduceData]) -> bool:
    """Whether a topic, or a partition of one, is named more than once."""
    if len(topics) > 1 and len({topic.name for topic in topics}) < len(topics):
        return True
    for topic in topics:
        data = topic.partition_data
        if len(data) > 1 and len({each.index for each in data}) < len(data):
            return True
    return False


def each_once(topics: list[TopicProduceData], api_version: int) -> tuple[list[TopicProduceData], Refusals]:
    """Return the records to append, every partition once, and the errors of records that are not one batch. An error is in
    the response for its partition, even if other records of the partition are appended."""
    by_name: dict[str, dict[int, PartitionProduceData]] = {}
    ids = {topic.name: topic.topic_id for topic in topics}
    refusals: Refusals = {}
    for topic in topics:
        partitions = by_name.setdefault(topic.name, {})
        for data in topic.partition_data:
            _, refusal = _batch_or_refusal(data, api_version)
            if refusal is not None:
                refusals[topic.name, data.index] = refusal
            if refusal is None or data.index not in partitions:
                partitions[data.index] = data
    return [
        TopicProduceData(name=name, topic_id=ids[name], partition_data=list(partitions.values()))
        for name, partitions in by_name.items()
    ], refusals


def check_batch(data: PartitionProduceData, api_version: int) -> BatchHeader | None:
    """Return the header of the only batch; for old clients, which may send message sets, only that of a transactional batch.
    Raises KafkaError."""
    if data.records is None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "The request holds no records for this partition.")
    if api_version >= FIRST_PRODUCE_OF_V2:
        return only_batch(data.records, api_version)
    return read_header(data.records) if holds_transaction(data.records) else None


def _batch_or_refusal(data: PartitionProduceData, api_version: int) -> tuple[BatchHeader | None, KafkaError | None]:
    try:
        return check_batch(data, api_version), None
    except KafkaError as refusal:
        return None, refusal
