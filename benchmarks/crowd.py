"""200 producers and 200 consumers on 100 partitions at a fixed rate, as raw clients in one epoll loop.

Open loop: records leave on schedule whether or not the broker keeps up, so a stall shows in every record behind it.
Every producer sends one-record batches in turn; every partition has two consumers that long-poll; a record's latency is
counted once per consumer, from its scheduled time to the arrival of the fetch answer.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from dataclasses import dataclass, field

from benchmarks.wire import FETCH_VERSION, connect, fetch_frame, produce_frame
from protocol.header import decode_response
from protocol.messages.fetch import FetchResponse
from protocol.records.batch import iter_headers

PARTITIONS = 100
CLIENTS = 200
VALUE_BYTES = 1000


@dataclass
class _Reader:
    stream: socket.socket
    topic: str
    partition: int
    offset: int = 0
    data: bytearray = field(default_factory=bytearray)

    def ask(self) -> None:
        self.stream.sendall(fetch_frame(self.topic, self.partition, offset=self.offset, max_wait_ms=500))

    def answer(self) -> bytes | None:
        """The next whole answer, if it has come."""
        self.data += self.stream.recv(1 << 18)
        if len(self.data) < 4:
            return None
        size = struct.unpack_from(">i", self.data)[0]
        if len(self.data) < 4 + size:
            return None
        frame = bytes(self.data[4 : 4 + size])
        del self.data[: 4 + size]
        return frame


def crowd_latency(
    address: tuple[str, int], topic: str, *, bytes_per_second: int = 5_000_000, seconds: float = 8.0
) -> list[float]:
    """Milliseconds of every record at every consumer, sorted; the first second is not counted."""
    poll = select.epoll()
    readers: dict[int, _Reader] = {}
    for number in range(CLIENTS):
        reader = _Reader(connect(address), topic, number % PARTITIONS)
        readers[reader.stream.fileno()] = reader
        poll.register(reader.stream.fileno(), select.EPOLLIN)
        reader.ask()
    writers = [connect(address) for _ in range(CLIENTS)]
    frames = [produce_frame(topic, number % PARTITIONS, VALUE_BYTES) for number in range(CLIENTS)]
    for writer in writers:
        poll.register(writer.fileno(), select.EPOLLIN)
    sent_at: list[list[float]] = [[] for _ in range(PARTITIONS)]
    samples: list[float] = []
    answers = {writer.fileno(): writer for writer in writers}
    interval = VALUE_BYTES / bytes_per_second
    started = time.perf_counter()
    number, total = 0, int(seconds / interval)
    deadline = started + seconds + 30
    while (
        number < total or any(reader.offset < len(sent_at[reader.partition]) for reader in readers.values())
    ) and time.perf_counter() < deadline:
        now = time.perf_counter()
        while number < total and started + number * interval <= now:
            sent_at[number % PARTITIONS].append(started + number * interval)
            writers[number % CLIENTS].sendall(frames[number % CLIENTS])
            number += 1
        wait = max(started + number * interval - time.perf_counter(), 0) if number < total else 0.1
        for descriptor, _ in poll.poll(wait):
            if descriptor in answers:
                answers[descriptor].recv(65536)
                continue
            _read(readers[descriptor], sent_at, samples, started + 1)
    for stream in [*writers, *(reader.stream for reader in readers.values())]:
        stream.close()
    assert number == total, "the load could not be kept up"
    return sorted(samples)


def _read(reader: _Reader, sent_at: list[list[float]], samples: list[float], count_from: float) -> None:
    frame = reader.answer()
    if frame is None:
        return
    now = time.perf_counter()
    response = decode_response(frame, FetchResponse, FETCH_VERSION)[1]
    for row in response.responses[0].partitions if response.responses else []:
        for _, header in iter_headers(row.records or b""):
            for offset in range(max(header.base_offset, reader.offset), header.next_offset):
                scheduled = sent_at[reader.partition][offset]
                if scheduled >= count_from:
                    samples.append((now - scheduled) * 1000)
            reader.offset = max(reader.offset, header.next_offset)
    reader.ask()
