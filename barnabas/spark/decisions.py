"""Keeps the decisions of the exactly-once write in a compacted topic, and reads the last one of a query.

A decision is one record: its key is the query's id, its value `exactly_once.Decision`. All decisions of a query are in one
partition, and the last one counts. They are found from the end of the partition backwards, as the last decision of a running
query is among the last ones written.

Rules: the topic is made when it is missing, compacted, with a partition for each of PARTITIONS queries at a time; who makes
it himself may choose otherwise. Decisions are read with the isolation level of uncommitted records: they are in no
transaction.
Errors: KafkaError, ClusterUnavailable.
"""

from __future__ import annotations

from typing import Final

from barnabas.spark.client import ClusterClient
from barnabas.spark.exactly_once import Decision
from barnabas.spark.partitioner import partition_of
from barnabas.spark.producing import Producer
from barnabas.spark.ranges import EARLIEST, LATEST, OffsetRange
from barnabas.spark.record_reading import read_records
from barnabas.spark.rows import OutgoingRow
from barnabas.spark.transaction_calls import TransactionCalls
from barnabas.spark.write_options import WriteOptions
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.records.record import Record
from protocol.topic_partition import TopicPartition

PARTITIONS: Final = 8
_BROKERS_DEFAULT: Final = -1
_FIRST_LOOK_RECORDS: Final = 32
_CONFIG: Final = {
    "cleanup.policy": "compact",
    "segment.ms": str(60 * 60 * 1000),  # only what is not in the newest segment is compacted
    "min.cleanable.dirty.ratio": "0.1",
}


class Decisions:
    """The decisions of all queries that use one topic."""

    def __init__(self, client: ClusterClient, options: WriteOptions) -> None:
        self._client = client
        self._options = options

    def last(self, query: str) -> Decision | None:
        """The last decision of a query. Raises what the module says."""
        topic = self._options.decision_topic
        if topic not in self._client.topics([topic]):
            return None
        key = self._partition(query)
        first = self._client.offsets({key: EARLIEST})[key].offset
        end = self._client.offsets({key: LATEST})[key].offset
        look, wanted = _FIRST_LOOK_RECORDS, query.encode()
        while end > first:
            start = max(first, end - look)
            found: Decision | None = None
            for record in read_records(self._client, OffsetRange(*key, start, end)):
                if record.key == wanted and record.value is not None:
                    found = Decision.decode(record.value)
            if found is not None:
                return found
            end, look = start, look * 4
        return None

    def add(self, query: str, decision: Decision) -> None:
        """Write a decision; it is durable when this returns. Raises what the module says."""
        self._make_topic()
        key = self._partition(query)
        identity = TransactionCalls(self._client, 0).begin(None)
        producer = Producer(self._client, self._options, identity)
        now_ms = self._client.now_ms()
        producer.add(OutgoingRow(*key, Record(0, now_ms, query.encode(), decision.encode())))
        producer.flush()

    def _partition(self, query: str) -> TopicPartition:
        topic = self._options.decision_topic
        partitions = self._client.topics([topic])[topic].partitions
        return topic, partition_of(query.encode(), len(partitions))

    def _make_topic(self) -> None:
        name = self._options.decision_topic
        attempts = self._client.attempts(f"creation of topic {name}")
        while name not in self._client.topics([name]):
            topic = CreatableTopic(
                name=name,
                num_partitions=PARTITIONS,
                replication_factor=_BROKERS_DEFAULT,
                assignments=[],
                configs=[CreatableTopicConfig(name=each, value=value) for each, value in _CONFIG.items()],
            )
            response = self._client.ask_controller(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)
            code = ErrorCode(response.topics[0].error_code)
            if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS) and not code.retriable:
                raise KafkaError(code, f"topic {name}: {response.topics[0].error_message or code.message}")
            attempts.pause(code.name)
