"""Keeps the decisions of the exactly-once write, and the runs that may decide, in a compacted topic.

Two kinds of records: a decision, whose key is the query's id, and a registration, whose key is that and `/run`. All of a query
are in one partition, and the last one of each kind counts; a decision also tells the registration that it was written under.
They are found from the end of the partition backwards, as those of a running query are among the last ones written.

Both are written by the producer id of the registration: 0 is the sequence number of the registration itself, and the
decisions of its run follow. So the leader of the partition refuses what comes late: of an older epoch, or another record in
the place of one that is stored.

Rules: the topic is made when it is missing, compacted, with a partition for each of PARTITIONS queries at a time; who makes
it himself may choose otherwise. It is read with the isolation level of uncommitted records: they are in no transaction.
Errors: Fenced, KafkaError, ClusterUnavailable.
Source: KIP-98, KIP-360 (epochs and sequence numbers of producers).
"""

from __future__ import annotations

from typing import Final

from barnabas.spark.client.ranges import OffsetRange
from barnabas.spark.client.record_reading import read_records
from barnabas.spark.writing.exactly_once import Decision, Fenced, QueryState, Registration
from barnabas.spark.writing.producing import Producer
from barnabas.spark.writing.rows import OutgoingRow
from barnabas.spark.writing.transaction_calls import ProducerIdentity, TransactionCalls
from barnabas.spark.writing.write_options import WriteOptions
from client.admin import topics
from client.blocking.cluster_client import ClusterClient
from protocol.errors import ErrorCode, KafkaError
from protocol.key_hashes import by_murmur2
from protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from protocol.messages.list_offsets import EARLIEST, LATEST
from protocol.records.record import Record
from protocol.topic_partition import TopicPartition

PARTITIONS: Final = 8
_BROKERS_DEFAULT: Final = -1
_FIRST_LOOK_RECORDS: Final = 32
MAX_EPOCH: Final = (1 << 15) - 1
_FENCED: Final = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}
)
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
        self._partitions: int | None = None

    def state(self, query: str) -> QueryState:
        """The last registration and the last decision of a query. Raises what the module says."""
        key = self._partition(query)
        first = self._client.offsets({key: EARLIEST})[key]
        end = self._client.offsets({key: LATEST})[key]
        look = _FIRST_LOOK_RECORDS
        registration: Registration | None = None
        while end > first:
            start = max(first, end - look)
            decision, later = self._newest(query, OffsetRange(*key, start, end))
            registration = registration or later
            if decision is not None:
                return QueryState(registration or decision.registration, decision)
            end, look = start, look * 4
        return QueryState(registration)

    def _newest(self, query: str, part: OffsetRange) -> tuple[Decision | None, Registration | None]:
        """The last decision in a range, and the last registration behind it."""
        decision: Decision | None = None
        registration: Registration | None = None
        for record in read_records(self._client, part):
            if record.value is None:
                continue
            if record.key == query.encode():
                decision, registration = Decision.decode(record.value), None
            elif record.key == _registration_key(query):
                registration = Registration.decode(record.value)
        return decision, registration

    def register(self, query: str, run: str, before: Registration | None) -> None:
        """Store a registration that follows on `before`. Raises what the module says."""
        if before is None:  # a producer id that is the same for all who register first, and an epoch that is not
            calls = TransactionCalls(self._client, self._options.transaction_timeout_ms)
            identity = calls.begin(f"barnabas-decisions-{query}")
        elif before.producer_epoch >= MAX_EPOCH:
            identity = TransactionCalls(self._client, 0).begin(None)
        else:
            identity = ProducerIdentity(None, before.producer_id, before.producer_epoch + 1)
        made = Registration(run, identity.producer_id, identity.producer_epoch)
        self._write(query, _registration_key(query), made.encode(), identity, 0)

    def add(self, query: str, decision: Decision) -> None:
        """Write a decision; it is durable when this returns. Raises what the module says."""
        run = decision.registration
        identity = ProducerIdentity(None, run.producer_id, run.producer_epoch)
        self._write(query, query.encode(), decision.encode(), identity, decision.sequence)

    def _write(self, query: str, key: bytes, value: bytes, identity: ProducerIdentity, sequence: int) -> None:
        partition = self._partition(query)
        producer = Producer(self._client, self._options, identity, sequences={partition: sequence})
        producer.add(OutgoingRow(*partition, Record(0, self._client.now_ms(), key, value)))
        try:
            producer.flush()
        except KafkaError as error:
            if error.code in _FENCED:
                raise Fenced(str(error)) from error
            raise

    def _partition(self, query: str) -> TopicPartition:
        if self._partitions is None:
            self._partitions = self._topic_partitions()
        return self._options.decision_topic, by_murmur2(query.encode(), self._partitions)

    def _topic_partitions(self) -> int:
        """How many partitions the topic has, which is made when it is missing. That a broker does not know it says nothing: it
        may just have started. The controller knows."""
        name = self._options.decision_topic
        attempts = self._client.attempts(f"creation of topic {name}")
        while (found := self._client.topics([name]).get(name)) is None:
            topic = CreatableTopic(
                name=name,
                num_partitions=PARTITIONS,
                replication_factor=_BROKERS_DEFAULT,
                assignments=[],
                configs=[CreatableTopicConfig(name=each, value=value) for each, value in _CONFIG.items()],
            )
            timeout_ms = self._client.settings.request_timeout_ms
            error = self._client.run(topics.create({name: topic}, timeout_ms, validate_only=False))[name]
            if error is not None and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise KafkaError(error.code, f"topic {name}: {error.message}")
            attempts.pause("it was created")
        return len(found.partitions)


def _registration_key(query: str) -> bytes:
    return f"{query}/run".encode()
