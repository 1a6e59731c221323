"""Partitions become part of a transaction before they are written to (KIP-98).

  v1  throttling happens after the answer (KIP-219)
  v2  PRODUCER_FENCED (KIP-588)
  v3  flexible (KIP-482)
  v4  several transactions at once, by brokers, to verify (KIP-890)
  v5  TRANSACTION_ABORTABLE (KIP-890)
"""

from __future__ import annotations

from protocol.schema import Message, Request, Response, array, bool_, int16, int32, int64, string


class AddPartitionsToTxnTopic(Message):
    name:       str       = string()
    partitions: list[int] = array(int32)


class AddPartitionsToTxnTransaction(Message):
    transactional_id: str                           = string("4+")
    producer_id:      int                           = int64("4+")
    producer_epoch:   int                           = int16("4+")
    verify_only:      bool                          = bool_("4+", default=False)
    topics:           list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "4+")


class AddPartitionsToTxnRequest(Request, key=24, versions="0-5", flexible="3+"):
    transactions:                  list[AddPartitionsToTxnTransaction] = array(AddPartitionsToTxnTransaction, "4+",
                                                                               default=[])
    v3_and_below_transactional_id: str                                 = string("0-3", default="")
    v3_and_below_producer_id:      int                                 = int64("0-3", default=0)
    v3_and_below_producer_epoch:   int                                 = int16("0-3", default=0)
    v3_and_below_topics:           list[AddPartitionsToTxnTopic]       = array(AddPartitionsToTxnTopic, "0-3",
                                                                               default=[])


class AddPartitionsToTxnPartitionResult(Message):
    partition_index:      int = int32()
    partition_error_code: int = int16()


class AddPartitionsToTxnTopicResult(Message):
    name:                 str                                     = string()
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(AddPartitionsToTxnPartitionResult)


class AddPartitionsToTxnResult(Message):
    transactional_id: str                                 = string("4+")
    topic_results:    list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult, "4+")


class AddPartitionsToTxnResponse(Response, answers=AddPartitionsToTxnRequest):
    throttle_time_ms:              int                                 = int32()
    error_code:                    int                                 = int16("4+", default=0, ignorable=True)
    results_by_transaction:        list[AddPartitionsToTxnResult]      = array(AddPartitionsToTxnResult, "4+",
                                                                               default=[])
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult, "0-3",
                                                                               default=[])
