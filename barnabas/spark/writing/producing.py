"""Writes records to the leaders of their partitions: idempotently, and inside a transaction where one is begun.

Records are gathered into a record batch for each partition. When enough are there, every leader is sent one Produce request
with the batches of its partitions, and all responses are waited for; a batch that failed for a reason that passes is sent
again with its sequence numbers, so that no leader stores it twice.

Rules: acks=all. One thread, one request in flight for each leader: order in a partition is that of the rows.
Invariants: sequence numbers of a partition count up without a gap; `rows` counts what was acknowledged once `flush` has
returned.
Errors: KafkaError for what stays (a record too large, a fenced producer), ClusterUnavailable, SourceOptionError for a topic or
partition that does not exist.
Source: Kafka Sender, RecordAccumulator, TransactionManager; KIP-98.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from barnabas.spark.client.option_values import SourceOptionError
from barnabas.spark.writing.rows import OutgoingRow
from barnabas.spark.writing.transaction_calls import ProducerIdentity, TransactionCalls
from barnabas.spark.writing.write_options import WriteOptions
from client.blocking.cluster_client import ClusterClient
from client.blocking.connection import BrokerConnection
from protocol.errors import ErrorCode, KafkaError
from protocol.key_hashes import by_murmur2
from protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from protocol.records.batch import advance_sequence
from protocol.records.record import Record, encode_batch
from protocol.topic_partition import TopicPartition

_ROUND_BYTES: Final = 4 * 1024 * 1024
"""So many bytes are gathered, over all partitions, before they are sent."""
_RECORD_OVERHEAD_BYTES: Final = 32
_ALL: Final = -1


@dataclass(slots=True)
class _Gathered:
    """The records of one partition that were not sent yet."""

    records: list[Record] = field(default_factory=list)
    size_bytes: int = 0


class Producer:
    """One producer, which is one task's. Begin it with the identity that the coordinator gave it."""

    def __init__(
        self,
        client: ClusterClient,
        options: WriteOptions,
        identity: ProducerIdentity,
        calls: TransactionCalls | None = None,
        sequences: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """`calls`: where partitions are added to the transaction; None outside one. `sequences`: where an identity goes on that
        has written before."""
        self._client = client
        self._options = options
        self._identity = identity
        self._calls = calls
        self._partitions: dict[str, list[int]] = {}
        self._gathered: dict[TopicPartition, _Gathered] = {}
        self._size_bytes = 0
        self._sequences: dict[TopicPartition, int] = dict(sequences or {})
        self._next_keyless: dict[str, int] = {}
        self.rows = 0

    def add(self, row: OutgoingRow) -> None:
        """Take a row; it is written at the latest by `flush`. Raises what the module says."""
        key = row.topic, self._choose(row)
        record = row.record
        size_bytes = _RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
        size_bytes += sum(len(name) + len(value or b"") + 10 for name, value in record.headers)
        gathered = self._gathered.get(key)
        if gathered is not None and gathered.size_bytes + size_bytes > self._options.batch_bytes:
            self.flush()
            gathered = None
        if gathered is None:
            gathered = self._gathered.setdefault(key, _Gathered())
        gathered.records.append(record)
        gathered.size_bytes += size_bytes
        self._size_bytes += size_bytes
        if self._size_bytes >= _ROUND_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what was gathered, and return when it is acknowledged. Raises what the module says."""
        if not self._gathered:
            return
        gathered, self._gathered, self._size_bytes = self._gathered, {}, 0
        if self._calls is not None:
            added = [key for key in gathered if key not in self._sequences]
            if added:
                self._calls.add_partitions(self._identity, added)
        batches = {key: self._batch(key, each.records) for key, each in gathered.items()}
        attempts = self._client.attempts(f"Produce to {', '.join(sorted({topic for topic, _ in batches}))}")
        while True:
            problem = self._send(batches)
            if not batches:
                break
            self._client.refresh({topic for topic, _ in batches})
            attempts.pause(problem)
        self.rows += sum(len(each.records) for each in gathered.values())
        for topic in {topic for topic, _ in gathered}:
            self._next_keyless[topic] = self._next_keyless.get(topic, 0) + 1

    def _batch(self, key: TopicPartition, records: list[Record]) -> bytes:
        sequence = self._sequences.get(key, 0)
        self._sequences[key] = advance_sequence(sequence, len(records))
        return encode_batch(
            records,
            compression=self._options.compression,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.producer_epoch,
            base_sequence=sequence,
            is_transactional=self._calls is not None,
        )

    def _send(self, batches: dict[TopicPartition, bytes]) -> str:
        """One round to all leaders; what was acknowledged leaves `batches`. Returns the last problem that may pass."""
        problem = ""
        by_leader: dict[BrokerConnection, list[TopicPartition]] = {}
        for key in batches:
            try:
                by_leader.setdefault(self._client.leader_of(key), []).append(key)
            except (OSError, KafkaError) as error:
                problem = _passing(error)
        sent = []
        for connection, keys in by_leader.items():
            for part in self._parts(keys, batches):
                try:
                    connection.send(self._request(part, batches))
                    sent.append(connection)
                except OSError as error:
                    self._client.drop_connection(connection)
                    problem = str(error)
                    break
        for connection in sent:
            try:
                response = connection.receive(ProduceResponse)
            except OSError as error:
                self._client.drop_connection(connection)
                problem = str(error)
                continue
            problem = self._acknowledge(response, batches) or problem
        return problem

    def _parts(self, keys: list[TopicPartition], batches: dict[TopicPartition, bytes]) -> list[list[TopicPartition]]:
        """The partitions of each request, whose size is limited."""
        parts: list[list[TopicPartition]] = []
        size_bytes = 0
        for key in keys:
            if not parts or size_bytes + len(batches[key]) > self._options.max_request_bytes:
                parts.append([])
                size_bytes = 0
            parts[-1].append(key)
            size_bytes += len(batches[key])
        return parts

    def _request(self, keys: list[TopicPartition], batches: dict[TopicPartition, bytes]) -> ProduceRequest:
        topics: dict[str, list[PartitionProduceData]] = {}
        for topic, partition in keys:
            topics.setdefault(topic, []).append(
                PartitionProduceData(index=partition, records=batches[topic, partition])
            )
        return ProduceRequest(
            transactional_id=self._identity.transactional_id,
            acks=_ALL,
            timeout_ms=self._client.settings.request_timeout_ms,
            topic_data=[TopicProduceData(name=name, partition_data=data) for name, data in topics.items()],
        )

    def _acknowledge(self, response: ProduceResponse, batches: dict[TopicPartition, bytes]) -> str:
        problem = ""
        for topic in response.responses:
            for each in topic.partition_responses:
                code = ErrorCode(each.error_code)
                if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):  # a duplicate was stored before
                    batches.pop((topic.name, each.index), None)
                else:
                    text = f"{topic.name}-{each.index}: {each.error_message or code.message}"
                    problem = _passing(KafkaError(code, text))
        return problem

    def _choose(self, row: OutgoingRow) -> int:
        partitions = self._partitions.get(row.topic)
        if partitions is None:
            known = self._client.settled_topics([row.topic]).get(row.topic)
            if known is None:
                raise SourceOptionError(f"Topic {row.topic} does not exist")
            partitions = self._partitions[row.topic] = list(known.partitions)
        if row.partition is not None:
            if row.partition not in partitions:
                raise SourceOptionError(
                    f"Topic {row.topic} has partitions 0 to {len(partitions) - 1}, not {row.partition}"
                )
            return row.partition
        if row.record.key is not None:
            return by_murmur2(row.record.key, len(partitions))
        # Spread over partitions by rounds of requests, and over tasks by their producers.
        return (self._next_keyless.get(row.topic, 0) + self._identity.producer_id) % len(partitions)


def _passing(error: OSError | KafkaError) -> str:
    """The text of an error that may pass. Raises it when it is one that stays."""
    if isinstance(error, KafkaError) and (not error.code.retriable or error.code is ErrorCode.CORRUPT_MESSAGE):
        raise error
    return str(error)
