"""Raw connections, for clients that do what no library would."""

from __future__ import annotations

import itertools
import socket
import struct
import time
from typing import Any, TypeVar, cast

from protocol.errors import ErrorCode
from protocol.header import decode_response, encode_request
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from protocol.records.record import Record, encode_batch
from protocol.schema import Request, Response
from tests.oracle.process import wait_until
from tests.robustness.process import BrokerProcess

R = TypeVar("R", bound=Response)
TIMEOUT_S = 60.0
API_VERSIONS_V = 3
PRODUCE_V = 9
FETCH_V = 12
METADATA_V = 9


class Wire:
    """A blocking connection; closed by `with`."""

    def __init__(self, broker: BrokerProcess, *, receive_buffer_bytes: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_buffer_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(TIMEOUT_S)
        self.socket.connect(("127.0.0.1", broker.port))
        self._correlation_ids = itertools.count(1)

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def frame(self, request: Request, version: int, client_id: str = "robust") -> bytes:
        return b"".join(map(bytes, encode_request(request, version, next(self._correlation_ids), client_id)))

    def send(self, request: Request, version: int) -> None:
        self.socket.sendall(self.frame(request, version))

    def receive_frame(self) -> bytes:
        """Raises EOFError when the broker closed the connection."""
        return self._read(struct.unpack(">i", self._read(4))[0])

    def receive(self, response_type: type[R], version: int) -> R:
        return decode_response(self.receive_frame(), response_type, version)[1]

    def ask(self, request: Request, version: int) -> Any:
        self.send(request, version)
        return self.receive(request.response_type, version)

    def is_closed(self, timeout_s: float = TIMEOUT_S) -> bool:
        """Whether the broker closes the connection, reading whatever it says before."""
        self.socket.settimeout(timeout_s)
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        return True

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = self.socket.recv(min(size - len(data), 1 << 20))
            if not chunk:
                raise EOFError
            data += chunk
        return bytes(data)


def batch_of(*values: bytes) -> bytes:
    return encode_batch([Record(index, 1_000, None, value, []) for index, value in enumerate(values)])


def produce_of(topic: str, records: bytes, partition: int = 0, acks: int = -1) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )


def fetch_of(
    topic: str, offset: int = 0, *, partitions: int = 1, max_bytes: int = 50 << 20, wait_ms: int = 0, min_bytes: int = 1
) -> FetchRequest:
    asked = [FetchPartition(partition=p, fetch_offset=offset, partition_max_bytes=max_bytes) for p in range(partitions)]
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=asked)],
    )


def create_topic(broker: BrokerProcess, name: str, partitions: int = 1) -> None:
    with Wire(broker) as wire:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
        answer = wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 4)
        assert [row.error_code for row in answer.topics] == [0]


def produce(broker: BrokerProcess, topic: str, *values: bytes, partition: int = 0) -> int:
    """The base offset."""
    with Wire(broker) as wire:
        answer = cast(ProduceResponse, wire.ask(produce_of(topic, batch_of(*values), partition), PRODUCE_V))
        row = answer.responses[0].partition_responses[0]
        assert row.error_code == 0, row
        return row.base_offset


def end_offset(broker: BrokerProcess, topic: str, partition: int = 0) -> int:
    with Wire(broker) as wire:
        asked = ListOffsetsPartition(partition_index=partition, timestamp=-1)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])])
        row = wire.ask(request, 4).topics[0].partitions[0]
        assert row.error_code == 0, row
        return int(row.offset)


def topics_of(broker: BrokerProcess) -> dict[str, bytes]:
    """Names and ids."""
    with Wire(broker) as wire:
        answer = cast(MetadataResponse, wire.ask(MetadataRequest(topics=None, allow_auto_topic_creation=False), 10))
        return {topic.name or "": topic.topic_id for topic in answer.topics}


def metadata_of(*names: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names] if names else None)


def answers_within_ms(broker: BrokerProcess) -> float:
    """How long a client that behaves waits for a connection and an answer."""
    began = time.monotonic()
    with Wire(broker) as wire:
        answer = wire.ask(ApiVersionsRequest(client_software_name="good", client_software_version="1"), API_VERSIONS_V)
        assert isinstance(answer, ApiVersionsResponse)
        assert answer.error_code == 0
    return (time.monotonic() - began) * 1000


def carries_within_ms(broker: BrokerProcess, topic: str) -> float:
    """How long clients that behave wait until a record is produced, and fetched again."""
    began = time.monotonic()
    offset = produce(broker, topic, b"good")
    with Wire(broker) as wire:
        (row,) = wire.ask(fetch_of(topic, offset), FETCH_V).responses[0].partitions
        assert row.error_code == 0
        assert row.records
    return (time.monotonic() - began) * 1000


def find_coordinator(broker: BrokerProcess, group_id: str) -> None:
    """Returns when the group may be joined."""
    with Wire(broker) as wire:
        find = FindCoordinatorRequest(key=group_id, key_type=0)
        assert wait_until(lambda: wire.ask(find, 1).error_code == ErrorCode.NONE, TIMEOUT_S)
        beat = HeartbeatRequest(group_id=group_id, generation_id=1, member_id="nobody")
        assert wait_until(lambda: wire.ask(beat, 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID, TIMEOUT_S)
