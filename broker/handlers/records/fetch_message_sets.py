"""Fetch v0 to v3 (key 1): clients that understand message sets alone, of format v0 (v0 and v1) or v1 (v2 and v3).

Behaviour: records are down-converted before the response, partition by partition and in slices, one large response at a
time. No more of a partition is read than the client and the memory for responses allow; the converted records are not
larger, except for a first batch. A topic may forbid it (`message.downconversion.enable`): UNSUPPORTED_VERSION, except to
followers. Versions 0 to 2 have no limit over all partitions, and get no part of a batch that exceeds the partition's limit.
Source: KIP-283, KIP-74; Kafka KafkaApis.handleFetchRequest (maybeConvertFetchedData), FetchParams.hardMaxBytesLimit.
"""

from __future__ import annotations

from functools import partial

from broker.handlers.records.fetch import LongFetch, fetch_all
from broker.handlers.records.fetch_response import NO_OFFSET, refused
from broker.handlers.records.produce_message_sets import SMALLEST_COMPRESSED_RECORD_BYTES, SMALLEST_USUAL_RECORD_BYTES
from broker.network.dispatch import handles
from broker.network.request_context import RequestContext, Rights
from broker.network.responses.deferred import Deferred
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.records.any_format import begins_compressed
from protocol.records.legacy import MAGIC_V0, MAGIC_V1
from replication.fetch_read import PartitionRead
from replication.fetch_sessions import FetchItem, ResolvedFetch
from replication.partition import Partition
from runtime.network.file_range import FileRange
from security.access import Operation, ResourceType, on_each
from storage.conversion.down_conversion import DownConversion

FIRST_VERSION_OF_V1 = 2


@handles(
    FetchRequest,
    (on_each(Operation.CLUSTER_ACTION, ResourceType.CLUSTER), on_each(Operation.READ, ResourceType.TOPIC)),
    versions="0-3",
    errors=refused,
)
def fetch_message_sets(
    request: FetchRequest, context: RequestContext, may_act: Rights, may_read: Rights
) -> FetchResponse | Deferred[FetchResponse]:
    return fetch_all(request, context, may_act, may_read, parked_type=ConvertedFetch, long_type=ConvertedFetch)


class ConvertedFetch(LongFetch):
    """A fetch whose records are converted between the log and the response."""

    __slots__ = ()

    def __init__(
        self, request: FetchRequest, context: RequestContext, resolved: ResolvedFetch, may_act: Rights, may_read: Rights
    ) -> None:
        super().__init__(request, context, resolved, may_act, may_read)
        self._takes_ranges = False

    def _refusal(self, item: FetchItem, partition: Partition) -> ErrorCode | None:
        error = super()._refusal(item, partition)
        if error is None and not self._reader.is_replica and not partition.log.config.message_downconversion_enable:
            return ErrorCode.UNSUPPORTED_VERSION
        return error

    def _read(self, reads: list[PartitionRead], room: int) -> Deferred[FetchResponse]:
        """Reserve memory for the records and for their converted form, then read."""
        left = min(self._max_bytes, room)
        work = partial(self._answer_all, reads, left)
        return self._answer_later(work, 2 * self._may_take(reads, left), "converting fetch")

    async def _convert(self, read: PartitionRead) -> None:
        """Replace the batches with a message set."""
        partition, services = read.partition, self._services
        assert partition is not None
        assert read.records is not None and not isinstance(read.records, FileRange)
        magic = MAGIC_V0 if self._context.api_version < FIRST_VERSION_OF_V1 else MAGIC_V1
        conversion = DownConversion(read.records, magic, read.item.fetch_offset)
        is_compressed = begins_compressed(read.records)
        record_bytes = SMALLEST_COMPRESSED_RECORD_BYTES if is_compressed else SMALLEST_USUAL_RECORD_BYTES
        began_ms = services.clock.monotonic_ms()
        try:
            async with services.serial_queue.begin(len(read.records) // record_bytes) as slices:
                async for _ in slices.over(conversion.steps()):
                    pass
        except KafkaError as error:
            read.fail(error.code)
            if read.is_unread:
                read.records, read.high_watermark = None, NO_OFFSET
            return
        read.records = conversion.records
        if conversion.records_count:
            services.metrics.fetch_converted(conversion.records_count, services.clock.monotonic_ms() - began_ms)
