"""Raw clients: requests encoded once and sent over plain sockets, so that the broker and not the client is measured."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

from protocol.errors import ErrorCode
from protocol.header import decode_response, encode_request
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from protocol.records.batch import iter_headers
from protocol.records.record import Record, encode_batch

PRODUCE_VERSION = 9
FETCH_VERSION = 12
JOIN_VERSION = 5
HEARTBEAT_VERSION = 4
WARM_UP_S = 1.0
CONNECT_STEP = 25
_EPOCH = struct.Struct(">i")
ANSWER_BYTES = 512  # more than an answer to one record has


def produce_frame(topic: str, partition: int, value_bytes: int, *, acks: int = 1) -> bytes:
    """One request with one record."""
    batch = encode_batch([Record(0, int(time.time() * 1000), None, b"x" * value_bytes, [])])
    request = ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout_ms=30_000,
        topic_data=[
            TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
        ],
    )
    return b"".join(encode_request(request, PRODUCE_VERSION, 1, "bench"))


def fetch_frame(topic: str, partition: int, *, offset: int, max_wait_ms: int) -> bytes:
    """One sessionless long poll."""
    return _fetch_of_session(0, -1, max_wait_ms, [_asked(topic, partition, offset)])


@dataclass(frozen=True, slots=True)
class Client:
    """A connection of a load with many: to whom, and what makes its frames once it is connected."""

    address: tuple[str, int]
    begin: Callable[[socket.socket], Callable[[], bytes | bytearray]]


def sends(address: tuple[str, int], frame: bytes) -> Client:
    """A client that sends one frame again and again."""
    return Client(address, lambda _: lambda: frame)


def polls(address: tuple[str, int], topic: str, partition: int, max_wait_ms: int) -> Client:
    """A consumer with a fetch session that has read everything."""
    return Client(address, lambda stream: FetchSession(stream, topic, partition, max_wait_ms).next_frame)


class FetchSession:
    """An incremental session (KIP-227) of a consumer that has everything of one partition, from its first request on."""

    def __init__(self, stream: socket.socket, topic: str, partition: int, max_wait_ms: int) -> None:
        stream.sendall(_fetch_of_session(0, 0, 0, [_asked(topic, partition, 0)]))
        session_id = decode_response(_answer(stream), FetchResponse, FETCH_VERSION)[1].session_id
        if not session_id:
            raise ConnectionError("the broker has no room for another session")
        frame, other = (_fetch_of_session(session_id, epoch, max_wait_ms, []) for epoch in (0, -1))
        self._frame = bytearray(frame)
        self._position = next(at for at in range(len(frame)) if frame[at] != other[at])
        self._epoch = 0

    def next_frame(self) -> bytearray:
        """The request for what is new."""
        self._epoch += 1
        _EPOCH.pack_into(self._frame, self._position, self._epoch)
        return self._frame


def _fetch_of_session(session_id: int, epoch: int, max_wait_ms: int, topics: list[FetchTopic]) -> bytes:
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=50 << 20,
        session_id=session_id,
        session_epoch=epoch,
        topics=topics,
    )
    return b"".join(encode_request(request, FETCH_VERSION, 1, "bench"))


def _asked(topic: str, partition: int, offset: int) -> FetchTopic:
    asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchTopic(topic=topic, partitions=[asked])


def join_alone(stream: socket.socket, group: str) -> bytes:
    """Become the only member of a group, on its coordinator; returns the member's heartbeat. Asks again while the coordinator
    is not ready."""
    member = ""
    while True:
        protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
        join = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=1_800_000,
            rebalance_timeout_ms=60_000,
            member_id=member,
            protocol_type="consumer",
            protocols=[protocol],
        )
        stream.sendall(b"".join(encode_request(join, JOIN_VERSION, 1, "bench")))
        joined = decode_response(_answer(stream), JoinGroupResponse, JOIN_VERSION)[1]
        member = joined.member_id
        if joined.error_code == ErrorCode.NONE:
            break
        if joined.error_code != ErrorCode.MEMBER_ID_REQUIRED:
            find = FindCoordinatorRequest(key=group)
            stream.sendall(b"".join(encode_request(find, 2, 1, "bench")))
            _answer(stream)
            time.sleep(0.05)
    sync = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=member,
        assignments=[SyncGroupRequestAssignment(member_id=member, assignment=b"")],
    )
    stream.sendall(b"".join(encode_request(sync, 3, 1, "bench")))
    synced = decode_response(_answer(stream), SyncGroupResponse, 3)[1]
    if synced.error_code:
        raise ConnectionError(f"SyncGroup: error {synced.error_code}")
    heartbeat = HeartbeatRequest(group_id=group, generation_id=joined.generation_id, member_id=member)
    return b"".join(encode_request(heartbeat, HEARTBEAT_VERSION, 1, "bench"))


def connect(address: tuple[str, int]) -> socket.socket:
    stream = socket.create_connection(address)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return stream


def pipelined_rate(
    address: tuple[str, int], frame: bytes, seconds: float, *, in_flight: int = 1024, step: int = 128
) -> float:
    """Requests a second over one connection that keeps about `in_flight` requests on their way; a second to warm up."""
    with connect(address) as stream:
        burst = frame * step
        stream.sendall(frame * in_flight)
        answer_bytes = 4 + _answer_bytes(stream)
        buffer = bytearray(answer_bytes * step)
        left = len(buffer) - 4
        answered, started = 0, time.perf_counter() + WARM_UP_S
        while (now := time.perf_counter()) - started < seconds:
            while left > 0:
                left -= stream.recv_into(buffer, left)
            if now >= started:
                answered += step
            stream.sendall(burst)
            left = len(buffer)
        return answered / (time.perf_counter() - started)


def many_connections_rate(clients: list[Client], seconds: float) -> float:
    """Requests a second when each connection has one request on its way; a second to warm up.

    A step of the loop costs this client about as much as the two system calls in it.
    """
    streams: list[socket.socket] = []
    for number, client in enumerate(clients):
        streams.append(connect(client.address))
        if number % CONNECT_STEP == 0:  # a listener's backlog is 50 by default, in Apache Kafka as here
            _wait_until_served(streams[-1])
    calls = {}
    poll = select.epoll()
    for stream, client in zip(streams, clients, strict=True):
        next_frame = client.begin(stream)
        calls[stream.fileno()] = (stream.recv, stream.send, next_frame)
        poll.register(stream.fileno(), select.EPOLLIN)
        stream.sendall(next_frame())
    answered, started = 0, time.perf_counter() + WARM_UP_S
    is_warm = False
    while (now := time.perf_counter()) - started < seconds:
        if not is_warm and now >= started:
            is_warm, answered, started = True, 0, now
        for number, _ in poll.poll(1.0):
            receive, send, next_frame = calls[number]
            if not receive(ANSWER_BYTES):
                raise ConnectionError("the broker closed a connection")
            send(next_frame())
            answered += 1
    rate = answered / (time.perf_counter() - started)
    for stream in streams:
        stream.close()
    return rate


def _wait_until_served(stream: socket.socket) -> None:
    """Return when the broker has accepted this connection, and with it all that were made before."""
    stream.sendall(b"".join(encode_request(ApiVersionsRequest(), 0, 1, "bench")))
    stream.recv(_answer_bytes(stream), socket.MSG_WAITALL)


@dataclass(frozen=True, slots=True)
class Step:
    """One request of a consumer that reads a partition, and what it brings."""

    frame: bytes
    answer_bytes: int
    records: int


def steps_through(address: tuple[str, int], topic: str, partition: int) -> list[Step]:
    """The requests of a consumer that reads a whole partition, by reading it."""
    steps: list[Step] = []
    offset = 0
    with connect(address) as stream:
        while True:
            frame = fetch_frame(topic, partition, offset=offset, max_wait_ms=0)
            stream.sendall(frame)
            answer = _answer(stream)
            found = decode_response(answer, FetchResponse, FETCH_VERSION)[1].responses[0].partitions[0]
            if found.error_code:
                raise ValueError(f"error {found.error_code}")
            if not found.records:
                return steps
            following = max(header.next_offset for _, header in iter_headers(found.records))
            steps.append(Step(frame, len(answer), following - offset))
            offset = following


def throw_away(stream: socket.socket, step: Step, buffer: bytearray) -> None:
    """Ask, and have the kernel drop what comes, uncopied: a consumer cannot take less of this machine. `buffer` is as large as
    an answer and stays as it was."""
    stream.sendall(step.frame)
    size = _answer_bytes(stream)
    if size != step.answer_bytes:
        raise ValueError(f"{size} bytes where {step.answer_bytes} came before")
    if stream.recv_into(buffer, size, socket.MSG_WAITALL | socket.MSG_TRUNC) != size:
        raise ConnectionError("the broker closed the connection")


def _answer(stream: socket.socket) -> bytes:
    return stream.recv(_answer_bytes(stream), socket.MSG_WAITALL)


def _answer_bytes(stream: socket.socket) -> int:
    size = stream.recv(4, socket.MSG_WAITALL)
    if len(size) != 4:
        raise ConnectionError("the broker closed the connection")
    return int(struct.unpack(">i", size)[0])


def produce_answer(address: tuple[str, int], topic: str, partition: int = 0, *, acks: int = 1) -> int:
    """Produce one record over a connection of its own; the error code of the answer."""
    with connect(address) as stream:
        stream.settimeout(10)
        stream.sendall(produce_frame(topic, partition, 100, acks=acks))
        size = _answer_bytes(stream)
        answer = stream.recv(size, socket.MSG_WAITALL)
        if len(answer) != size:
            raise ConnectionError("the broker closed the connection")
        response = decode_response(answer, ProduceResponse, PRODUCE_VERSION)[1]
        return response.responses[0].partition_responses[0].error_code
