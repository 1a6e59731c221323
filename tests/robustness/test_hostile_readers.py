"""Consumers that ask at every boundary and leave in every way: what arrives is byte by byte what the files have.

A model reads the files of the log and says what each fetch has to return: of each partition, in the order of the request, the
bytes from the batch of the offset on, up to the limits and the end of the segment; the first batch whole.
"""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from protocol.records.batch import iter_headers
from tests.robustness.process import BrokerProcess, eventually
from tests.robustness.wire import PRODUCE_V, Wire, batch_of, create_topic, produce_of

TOPIC = "orders"
PARTITIONS = 3
PARTITION_BYTES = 5_000_000
SEGMENT_BYTES = 2_000_000
RANGE_BYTES = 128 * 1024  # from which on bytes leave from the page cache
CLIENTS = 150
MOST_RESPONSES = 5
VERSIONS = (4, 5, 7, 10, 11, 12)
RESET = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class Asked:
    partition: int
    offset: int
    max_bytes: int


class Model:
    """The segments of each partition, with (last offset, position, size) of each batch."""

    def __init__(self, data: Path) -> None:
        self._segments: list[list[tuple[bytes, list[tuple[int, int, int]]]]] = []
        for partition in range(PARTITIONS):
            contents = [path.read_bytes() for path in sorted((data / f"{TOPIC}-{partition}").glob("*.log"))]
            self._segments.append([(content, [
                (header.last_offset, position, header.size_bytes) for position, header in iter_headers(content)
            ]) for content in contents])  # fmt: skip

    def end_offset(self, partition: int) -> int:
        return max(last for _, batches in self._segments[partition] for last, _, _ in batches) + 1

    def at(self, partition: int, offset: int) -> tuple[bytes, int]:
        """What a fetch without limits returns, and how much of it is the first batch."""
        for content, batches in self._segments[partition]:
            for last_offset, position, size in batches:
                if last_offset >= offset:
                    return content[position:], size
        return b"", 0

    def answer(self, asked: Sequence[Asked], max_bytes: int) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        needs_one = True
        for each in asked:
            content, first_bytes = self.at(each.partition, each.offset)
            limit_bytes = min(max_bytes, each.max_bytes)
            if limit_bytes < first_bytes:
                limit_bytes = first_bytes if needs_one else 0
            found[each.partition] = content[: max(limit_bytes, 0)]
            max_bytes -= len(found[each.partition])
            needs_one = needs_one and not found[each.partition]
        return found


class Client:
    """One connection that asks at random, and leaves as it likes."""

    def __init__(self, broker: BrokerProcess, model: Model, seed: int) -> None:
        self._model = model
        self._rng = random.Random(seed)
        self._wire = Wire(broker, receive_buffer_bytes=self._rng.choice((None, 4096, 65536)))

    def run(self) -> None:
        with self._wire:
            wanted = [self._ask() for _ in range(self._rng.randint(1, MOST_RESPONSES))]
            leaves = self._rng.choice(("", "", "half closed", "reset", "in the middle"))
            if leaves == "half closed":
                self._wire.socket.shutdown(socket.SHUT_WR)
                with suppress(EOFError, ConnectionError):  # what has not begun is not answered
                    self._check(wanted)
            elif leaves:
                self._check(wanted[: self._rng.randrange(len(wanted))])
                self._leave(is_reset=leaves == "reset")
            else:
                self._check(wanted)

    def _check(self, wanted: Sequence[tuple[int, dict[int, bytes]]]) -> None:
        for version, records in wanted:
            response = self._wire.receive(FetchResponse, version)
            rows = response.responses[0].partitions
            assert [row.error_code for row in rows] == [0] * len(records)
            assert {row.partition_index: bytes(row.records or b"") for row in rows} == records

    def _leave(self, *, is_reset: bool) -> None:
        with suppress(ConnectionError):
            self._wire.socket.recv(self._rng.randrange(1, 200_000))
        if is_reset:
            self._wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)

    def _ask(self) -> tuple[int, dict[int, bytes]]:
        """The version, and what the response has to have."""
        rng, version = self._rng, self._rng.choice(VERSIONS)
        asked = [self._asked(partition) for partition in rng.sample(range(PARTITIONS), rng.randint(1, PARTITIONS))]
        max_bytes = rng.choice((0, 1, RANGE_BYTES - 1, RANGE_BYTES, 1 << 20, 50 << 20, rng.randrange(3 << 20)))
        rows = [
            FetchPartition(partition=each.partition, fetch_offset=each.offset, partition_max_bytes=each.max_bytes)
            for each in asked
        ]
        topic = FetchTopic(topic=TOPIC, partitions=rows)
        self._wire.send(
            FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=max_bytes, session_epoch=-1, topics=[topic]), version
        )
        return version, self._model.answer(asked, max_bytes)

    def _asked(self, partition: int) -> Asked:
        offset = self._rng.randrange(self._model.end_offset(partition))
        content, first_bytes = self._model.at(partition, offset)
        boundaries = (0, 17, RANGE_BYTES, first_bytes, len(content))
        max_bytes = self._rng.choice(boundaries) + self._rng.choice((-1, 0, 1))
        return Asked(partition, offset, max(self._rng.choice((max_bytes, 1 << 20, 50 << 20)), 0))


def test_each_gets_its_bytes_and_leaves_nothing_behind(tmp_path: Path) -> None:
    settings: dict[str, object] = {"log.retention.ms": -1, "log.segment.bytes": SEGMENT_BYTES}
    with BrokerProcess(tmp_path, settings) as broker:
        create_topic(broker, TOPIC, PARTITIONS)
        fill(broker)
        model = Model(broker.data)
        before = broker.descriptors()
        for seed in range(CLIENTS):
            Client(broker, model, seed).run()
        eventually(lambda: broker.descriptors() <= before)
    assert "level=error" not in broker.log


def fill(broker: BrokerProcess) -> None:
    """Batches of all sizes, some larger than what leaves as a range."""
    rng = random.Random(1)
    with Wire(broker) as wire:
        for partition in range(PARTITIONS):
            written = 0
            while written < PARTITION_BYTES:
                count, size = rng.choice(((1, 10), (1, 200_000), (1, 900_000), (50, 100), (3, 5_000)))
                batch = batch_of(*(rng.randbytes(size) for _ in range(count)))
                answer = wire.ask(produce_of(TOPIC, batch, partition), PRODUCE_V)
                assert answer.responses[0].partition_responses[0].error_code == 0
                written += len(batch)
