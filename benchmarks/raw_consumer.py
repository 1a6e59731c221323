"""A consumer that costs little: one fetch session over a plain socket, one fixed buffer, no records looked at.

A client library copies each record into an object, which takes more of two cores than any broker does; here the broker is what
is measured. Of a response the consumer reads the fields up to the records, and of these the headers of the batches, which say
where the next fetch begins.

Rules: one partition; incremental fetches (KIP-227) of version 12, the last that names topics. As Java's and librdkafka's
consumers, it has one fetch on its way.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from benchmarks.wire import FETCH_VERSION, connect
from protocol.header import encode_request
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.varint import decode_uvarint

PARTITION_BYTES = 1 << 20
_BUFFER_BYTES = PARTITION_BYTES + (1 << 16)
_BATCH_PREFIX = struct.Struct(">qi4xB6xi")  # base offset, length, magic, last offset delta
_BATCH_PREFIX_BYTES = 27
_LENGTH_OVERHEAD_BYTES = 12
# Size, correlation id, no tagged fields, throttle time, error code, session id.
_HEAD = struct.Struct(">iixihi")
# A row: partition, error code, high watermark, last stable offset, log start offset.
_ROW = struct.Struct(">ihqqq")


@dataclass(slots=True)
class Received:
    """What a consumer has counted. `bytes_count` is of whole frames; `next_offset`, where its next fetch begins."""

    next_offset: int = 0
    bytes_count: int = 0
    batches_count: int = 0
    responses_count: int = 0


class RawConsumer:
    """Reads partition 0 of a topic from offset 0."""

    def __init__(self, address: tuple[str, int], topic: str) -> None:
        self.received = Received()
        self._topic = topic
        self._stream = connect(address)
        self._buffer = bytearray(_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._session_id = self._epoch = 0

    def close(self) -> None:
        self._stream.close()

    def read_to(self, end_offset: int) -> Received:
        """Fetch until `end_offset` was received. Raises ValueError for an error in a response, ConnectionError."""
        while self.received.next_offset < end_offset:
            self._stream.sendall(self._request())
            self._take_rows(self._receive())
        return self.received

    def _request(self) -> bytes:
        asked = FetchPartition(partition=0, fetch_offset=self.received.next_offset, partition_max_bytes=PARTITION_BYTES)
        request = FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=50 << 20,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=[FetchTopic(topic=self._topic, partitions=[asked])],
        )
        self._epoch += 1
        return b"".join(encode_request(request, FETCH_VERSION, self._epoch, "bench"))

    def _receive(self) -> int:
        """Receive one frame into the buffer; return where it ends there."""
        view, count, end = self._view, 0, _HEAD.size
        while count < end:
            taken = self._stream.recv_into(view[count:])
            if not taken:
                raise ConnectionError("the broker closed the connection")
            count += taken
            if count >= _HEAD.size and end == _HEAD.size:
                end = 4 + int.from_bytes(view[:4], "big")
                if end > _BUFFER_BYTES:
                    raise ValueError(f"a response of {end} bytes")
        return end

    def _take_rows(self, end: int) -> None:
        """Read the response that ends at `end` as far as the next fetch needs it."""
        _, _, _, error_code, self._session_id = _HEAD.unpack_from(self._buffer)
        if error_code:
            raise ValueError(f"error {error_code}")
        received = self.received
        received.bytes_count += end
        received.responses_count += 1
        topics, at = decode_uvarint(self._buffer, _HEAD.size)
        if topics <= 1:  # a compact array has one more than its elements
            return
        name_bytes, at = decode_uvarint(self._buffer, at)
        at += name_bytes - 1
        _, at = decode_uvarint(self._buffer, at)  # one partition
        _, error_code, _, _, _ = _ROW.unpack_from(self._buffer, at)
        if error_code:
            raise ValueError(f"error {error_code}")
        _, at = decode_uvarint(self._buffer, at + _ROW.size)  # no aborted transactions: uncommitted records are read
        size, at = decode_uvarint(self._buffer, at + 4)  # behind the preferred replica
        self._walk(at, at + size - 1)

    def _walk(self, at: int, end: int) -> None:
        """Read the headers of the batches, the last of which may be cut off."""
        received = self.received
        while at + _BATCH_PREFIX_BYTES <= end:
            base_offset, length, _, last_offset_delta = _BATCH_PREFIX.unpack_from(self._buffer, at)
            at += _LENGTH_OVERHEAD_BYTES + length
            if at <= end:
                received.next_offset = base_offset + last_offset_delta + 1
                received.batches_count += 1
