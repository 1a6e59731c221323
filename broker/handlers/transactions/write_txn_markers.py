"""WriteTxnMarkers (key 27): a transaction coordinator of another broker ends transactions in partitions led here.

Behaviour: every marker names a producer, how its transaction ended, and where it wrote. A partition answers what
`replication.marker_appender` says of it. Answers are by producer: of two markers of one producer the later one's answer
about a partition counts.
Source: KIP-98; Kafka KafkaApis.handleWriteTxnMarkersRequest.
"""

from __future__ import annotations

from broker.network.dispatch import handles
from broker.network.request_context import RequestContext
from broker.network.responses.error_responses import ErrorForm
from protocol.errors import ErrorCode
from protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from protocol.topic_partition import TopicPartition
from security.access import Operation, on_cluster


@handles(
    WriteTxnMarkersRequest,
    on_cluster(Operation.ALTER, Operation.CLUSTER_ACTION),
    errors=ErrorForm({"markers": "markers"}),
)
async def write_txn_markers(request: WriteTxnMarkersRequest, context: RequestContext) -> WriteTxnMarkersResponse:
    by_producer = await context.services.marker_appender.append(request.markers)
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(producer_id=producer_id, topics=_topics(errors))
            for producer_id, errors in by_producer.items()
        ]
    )


def _topics(errors: dict[TopicPartition, ErrorCode]) -> list[WritableTxnMarkerTopicResult]:
    topics: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
    for (topic, index), error in errors.items():
        topics.setdefault(topic, []).append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=error))
    return [WritableTxnMarkerTopicResult(name=name, partitions=rows) for name, rows in topics.items()]
