"""`python -m benchmarks.raw_share_consumers BOOTSTRAP GROUP TOPIC MEMBERS RECORDS`: a load of members that look at no record.

Each member is a connection with a share session for one partition, and one ShareFetch on its way, which acknowledges what the
one before has acquired; so does Java's consumer. One process serves them all, so that the broker is what is measured. Another
member joins the group, which makes the group's state; fetches need no more. It prints what `benchmarks.share_consumers` prints.
"""

from __future__ import annotations

import itertools
import selectors
import socket
import struct
import sys
import time
import uuid
from dataclasses import dataclass
from typing import Final

from benchmarks.wire import connect
from protocol.header import decode_response, encode_request
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from protocol.messages.share_fetch import (
    AcknowledgementBatch,
    AcquiredRecords,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from protocol.primitives import uuid_to_text
from protocol.schema import Request, Response
from protocol.share_states import AcknowledgeType

FETCH_VERSION: Final = 2
HEARTBEAT_VERSION: Final = 1
METADATA_VERSION: Final = 12
FIND_VERSION: Final = 4
POLL_RECORDS: Final = 500
MAX_BYTES: Final = 52_428_800
MAX_WAIT_MS: Final = 500
JOINED_WITHIN_S: Final = 60.0
JOIN_AGAIN_S: Final = 0.2
_SIZE = struct.Struct(">i")
_BUFFER_BYTES: Final = 1 << 20


@dataclass(slots=True)
class Counted:
    """Records of all members."""

    delivered: int = 0
    acknowledged: int = 0


class Member:
    """One share session. `receive` is to be called when its `stream` is readable."""

    def __init__(self, address: tuple[str, int], group: str, topic_id: bytes, partition: int, counted: Counted) -> None:
        self.stream = connect(address)
        self.has_records = False
        self._counted = counted
        self._epochs = itertools.count()
        self._group, self._topic_id, self._partition = group, topic_id, partition
        self._member_id = new_id()
        self._acquired: list[AcquiredRecords] = []
        self._received = bytearray()

    def send(self) -> None:
        """The next fetch."""
        accept = int(AcknowledgeType.ACCEPT)
        batches = [
            AcknowledgementBatch(first_offset=row.first_offset, last_offset=row.last_offset, acknowledge_types=[accept])
            for row in self._acquired
        ]
        asked = FetchPartition(partition_index=self._partition, acknowledgement_batches=batches)
        epoch = next(self._epochs)
        topics = [FetchTopic(topic_id=self._topic_id, partitions=[asked])] if batches or not epoch else []
        request = ShareFetchRequest(
            group_id=self._group,
            member_id=self._member_id,
            share_session_epoch=epoch,
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=MAX_BYTES,
            max_records=POLL_RECORDS,
            batch_size=POLL_RECORDS,
            topics=topics,
            forgotten_topics_data=[],
        )
        self.stream.sendall(b"".join(encode_request(request, FETCH_VERSION, 1, "bench")))

    def receive(self) -> None:
        """Take what has come; send the next fetch when the answer is whole. Raises SystemExit for an error."""
        received = self._received
        data = self.stream.recv(_BUFFER_BYTES)
        if not data:
            raise SystemExit("the broker has ended the connection")
        received += data
        if len(received) < _SIZE.size or len(received) < _SIZE.size + _SIZE.unpack_from(received)[0]:
            return
        _, answer = decode_response(bytes(received)[_SIZE.size :], ShareFetchResponse, FETCH_VERSION)
        received.clear()
        self._counted.acknowledged += count_of(self._acquired)
        self._acquired = []
        if answer.error_code:
            raise SystemExit(f"error {answer.error_code} {answer.error_message}")
        for topic in answer.responses:
            for row in topic.partitions:
                if row.error_code or row.acknowledge_error_code:
                    raise SystemExit(f"errors {row.error_code} {row.acknowledge_error_code} {row.error_message}")
                self._acquired = row.acquired_records
                self.has_records |= bool(self._acquired)
        self._counted.delivered += count_of(self._acquired)
        self.send()


def count_of(rows: list[AcquiredRecords]) -> int:
    return sum(row.last_offset - row.first_offset + 1 for row in rows)


def new_id() -> str:
    return uuid_to_text(uuid.uuid4().bytes)


def ask(stream: socket.socket, request: Request, version: int) -> Response:
    stream.sendall(b"".join(encode_request(request, version, 1, "bench")))
    (size,) = _SIZE.unpack(stream.recv(_SIZE.size, socket.MSG_WAITALL))
    return decode_response(stream.recv(size, socket.MSG_WAITALL), request.response_type, version)[1]


def join(stream: socket.socket, group: str, topic: str) -> None:
    """A member that does nothing, and has partitions when this returns."""
    member_id, epoch, deadline = new_id(), 0, time.monotonic() + JOINED_WITHIN_S
    while time.monotonic() < deadline:
        ask(stream, FindCoordinatorRequest(coordinator_keys=[group], key_type=0), FIND_VERSION)  # it makes the topic
        request = ShareGroupHeartbeatRequest(
            group_id=group, member_id=member_id, member_epoch=epoch, subscribed_topic_names=None if epoch else [topic]
        )
        answer = ask(stream, request, HEARTBEAT_VERSION)
        assert isinstance(answer, ShareGroupHeartbeatResponse)
        epoch = 0 if answer.error_code else answer.member_epoch
        if answer.assignment is not None and answer.assignment.topic_partitions:
            return
        time.sleep(JOIN_AGAIN_S)
    raise SystemExit("the group gave no partitions")


def main(bootstrap: str, group: str, topic: str, members: str, records: str) -> None:
    host, port = bootstrap.split(",")[0].rsplit(":", 1)
    address = host, int(port)
    first = connect(address)
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    known = ask(first, request, METADATA_VERSION)
    assert isinstance(known, MetadataResponse)
    (found,) = known.topics
    join(first, group, topic)
    counted = Counted()
    everybody = [
        Member(address, group, found.topic_id, number % len(found.partitions), counted)
        for number in range(int(members))
    ]
    with selectors.DefaultSelector() as selector:
        for member in everybody:
            selector.register(member.stream, selectors.EVENT_READ, member)
            member.send()
        has_started = False
        while counted.acknowledged < int(records):
            for key, _ in selector.select():
                key.data.receive()
            if not has_started and all(member.has_records for member in everybody):
                has_started = True
                print("started", counted.acknowledged, flush=True)
    print("ended", counted.acknowledged, counted.delivered, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
