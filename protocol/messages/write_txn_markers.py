"""The transaction coordinator has commit or abort markers written by the partitions' leaders (KIP-98).

  v1  flexible (KIP-482)
  v2  version of the transaction (KIP-890)
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, bool_, int8, int16, int32, int64, string


class WritableTxnMarkerTopic(Message):
    name:              str       = string()
    partition_indexes: list[int] = array(int32)


class WritableTxnMarker(Message):
    producer_id:         int                          = int64()
    producer_epoch:      int                          = int16()
    transaction_result:  bool                         = bool_()
    topics:              list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)
    coordinator_epoch:   int                          = int32()
    transaction_version: int                          = int8("2+", default=0, ignorable=True)


class WriteTxnMarkersRequest(Request, key=27, versions="0-2", flexible="1+"):
    markers: list[WritableTxnMarker] = array(WritableTxnMarker)


class WritableTxnMarkerPartitionResult(Message):
    partition_index: int = int32()
    error_code:      int = int16()


class WritableTxnMarkerTopicResult(Message):
    name:       str                                    = string()
    partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult)


class WritableTxnMarkerResult(Message):
    producer_id: int                                = int64()
    topics:      list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult)


class WriteTxnMarkersResponse(Response, answers=WriteTxnMarkersRequest):
    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult)
