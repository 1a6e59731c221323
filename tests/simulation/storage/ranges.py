"""Histories of one log whose bytes leave as ranges while it is appended to, truncated, shortened, cleaned,
moved, closed and made anew.

What must hold: each connection carries the bytes that were promised when they were read, or it breaks; a file stays open while
it is sent; a truncation that takes no committed record breaks no connection. The wires read a range when a piece of it leaves
(`tests.simulation.network`), so they see what an early truncation or a closed file would do to it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from protocol.records.batch import iter_headers
from runtime.disk.filesystem import Buffer
from runtime.network.file_range import FileRange
from runtime.network.transport import Connection
from storage.log.opening import open_log
from storage.log.partition_log import PartitionLog
from storage.log.removal.log_truncation import truncate_to
from storage.log.removal.segment_retention import delete_records, delete_segments_before
from storage.log.segment_replacement import replace_segments
from storage.log.unused_file import close_unused_file
from storage.segments.interrupted_swap import DELETED_SUFFIX
from storage.segments.segment_copy import SegmentCopy, batches_of
from storage.segments.segment_files import LOG_SUFFIX, segment_path
from tests.simulation import network
from tests.simulation.history import Outcome, short_ranges
from tests.simulation.loop import SimLoop, simulate
from tests.simulation.network import SimNetwork
from tests.simulation.world import quiet_logging
from tests.storage.logs import append, config
from tests.storage.machine import FOLDER, Machine

PORT = 9092
STEPS = 120
HEAD_BYTES = 4
# What the histories must have met, for a hundred seeds.
MINIMUMS = {
    "ranges": 800,
    "truncated above the high watermark": 400,
    "truncated below the high watermark": 400,
    "logs opened again": 250,
    "logs made anew": 80,
    "connections broken": 150,
    "segments deleted": 8,
    "segments merged": 50,
    "logs moved": 80,
}
SOCKET_BYTES = 600  # what a reader lets its peer send ahead: most of a range waits in the file


class Reader:
    """A client that takes what comes, now and then, and compares."""

    def __init__(self, coverage: Counter[str]) -> None:
        self.promised = bytearray()
        self.is_expected_to_break = False
        self.is_broken = False
        self._coverage = coverage
        self._arrived = 0
        self.connection: Connection | None = None
        self._buffer = memoryview(bytearray(400))

    def connected(self, connection: Connection) -> None:
        self.connection = connection

    def receive_buffer(self, _size_hint: int) -> memoryview:
        return self._buffer

    def received(self, count: int) -> None:
        wanted = self.promised[self._arrived : self._arrived + count]
        assert self._buffer[:count] == wanted, "other bytes arrived than were promised"
        self._arrived += count

    def writing_paused(self) -> None: ...

    def writing_resumed(self) -> None: ...

    def disconnected(self, error: Exception | None) -> None:
        self.is_broken = True
        self._coverage["connections broken"] += 1
        assert self.is_expected_to_break, f"a connection broke: {error!r}"

    @property
    def has_all(self) -> bool:
        return self.is_broken or self._arrived == len(self.promised)


class Sender:
    """The broker's end of a reader's connection."""

    def __init__(self) -> None:
        self.connection: Connection | None = None

    def connected(self, connection: Connection) -> None:
        self.connection = connection

    def receive_buffer(self, _size_hint: int) -> memoryview:
        raise AssertionError("clients send nothing")

    def received(self, count: int) -> None: ...

    def writing_paused(self) -> None: ...

    def writing_resumed(self) -> None: ...

    def disconnected(self, _error: Exception | None) -> None:
        self.connection = None


class RangeHistory:
    """One history, with a log on a disk that outlives it and three readers at a time."""

    def __init__(self, loop: SimLoop, coverage: Counter[str]) -> None:
        self.coverage = coverage
        self._loop = loop
        self._random = loop.random
        self._machine = Machine(loop)
        self._network = SimNetwork(loop)
        self._node = self._network.node("broker")
        self._pairs: list[tuple[Sender, Reader]] = []
        self._senders: list[Sender] = []
        self._number = 0
        self._next_offset = 0

    async def play(self) -> None:
        machine = self._machine
        machine.config = config(segment_bytes=3_000)
        log = await machine.start()
        await self._node.listen("broker", PORT, self._accept)
        steps = (
            (self._append, 8), (self._send, 8), (self._read_on, 6), (self._truncate_uncommitted, 2),
            (self._truncate_committed, 2), (self._delete, 1), (self._close_file, 1), (self._open_again, 1),
            (self._begin_anew, 0.5), (self._merge, 2), (self._move, 0.5), (self._drop, 1),
        )  # fmt: skip
        choices, weights = zip(*steps, strict=True)
        for _ in range(STEPS):
            (step,) = self._random.choices(choices, weights)
            log = await step(log)
        for _, reader in self._pairs:
            assert reader.connection is not None
            if not reader.is_broken:
                reader.connection.resume_reading()
        await self._wait_until(lambda: all(reader.has_all for _, reader in self._pairs), "not all has arrived")
        await self._wait_until(lambda: not any(segment.pins for segment in log.segments), "a range is not released")
        await log.close()
        await machine.tasks.close()
        self.coverage["ranges"] += self._network.ranges_count

    def _accept(self) -> Sender:
        sender = Sender()
        self._senders.append(sender)
        return sender

    async def _wait_until(self, condition: Callable[[], bool], otherwise: str) -> None:
        deadline_s = self._loop.time() + 60
        while not condition():
            assert self._loop.time() < deadline_s, otherwise
            await asyncio.sleep(0.001)

    # --- what happens to the log ---

    async def _append(self, log: PartitionLog) -> PartitionLog:
        for _ in range(self._random.randint(1, 6)):
            self._number += 1
            await append(log, f"{self._number}" + "v" * self._random.randint(50, 300))
        if self._random.random() < 0.7:
            log.high_watermark = self._random.randint(log.high_watermark, log.log_end_offset)
        return log

    async def _truncate_uncommitted(self, log: PartitionLog) -> PartitionLog:
        """As a follower after a clean election."""
        offset = self._random.randint(log.high_watermark, log.log_end_offset)
        await truncate_to(log, offset)
        self.coverage["truncated above the high watermark"] += 1
        return log

    async def _truncate_committed(self, log: PartitionLog) -> PartitionLog:
        """As after an unclean election; other records take the place at once."""
        for _, reader in self._pairs:
            reader.is_expected_to_break |= not reader.has_all
        offset = self._random.randint(max(log.log_start_offset, log.high_watermark - 8), log.high_watermark)
        log.high_watermark = min(log.high_watermark, offset)
        await truncate_to(log, offset)
        self.coverage["truncated below the high watermark"] += 1
        return await self._append(log)

    async def _delete(self, log: PartitionLog) -> PartitionLog:
        offset = self._random.randint(log.log_start_offset, log.high_watermark)
        delete_records(log, offset)
        gone = await delete_segments_before(log, offset)
        self.coverage["segments deleted"] += gone or 0
        return log

    async def _close_file(self, log: PartitionLog) -> PartitionLog:
        await log.flush()
        await close_unused_file(log)
        return log

    async def _open_again(self, log: PartitionLog) -> PartitionLog:
        """Close the log while it is sent, and open it again: as a directory that comes back."""
        high_watermark = log.high_watermark
        await log.close()
        log = await open_log("t", 0, FOLDER, self._machine.config, log.environment)
        log.high_watermark = min(high_watermark, log.log_end_offset)
        self._machine.log = log
        self.coverage["logs opened again"] += 1
        return log

    async def _begin_anew(self, log: PartitionLog) -> PartitionLog:
        """The topic is deleted, and made again with the same name."""
        await log.close(flush=False)
        self._machine.filesystem.remove_tree(FOLDER)
        log = await open_log("t", 0, FOLDER, self._machine.config, log.environment)
        self._machine.log = log
        self.coverage["logs made anew"] += 1
        return log

    async def _merge(self, log: PartitionLog) -> PartitionLog:
        """Two closed segments become one in another file, as cleaning makes it: the same bytes, at other positions."""
        filesystem, closed = log.environment.filesystem, [each.base_offset for each in log.segments][:-1]
        if len(closed) < 2:
            return log
        first = self._random.randrange(len(closed) - 1)
        replaced = closed[first : first + 2]
        await log.flush()
        copy = SegmentCopy(filesystem, FOLDER, replaced[0], log.config.index_interval_bytes)
        for base_offset in replaced:
            path = segment_path(FOLDER, base_offset, LOG_SUFFIX)
            file = filesystem.open(path, writable=False)
            for buffer, at, header in batches_of(file, path, 4096):
                copy.append(memoryview(buffer)[at : at + header.size_bytes], header)
            file.close()
        copy.write()
        merged = copy.finish([], 0, replaced)
        copy.close()
        await replace_segments(log, merged)
        for name in filesystem.list_directory(FOLDER):
            if name.endswith(DELETED_SUFFIX):
                filesystem.unlink(f"{FOLDER}/{name}")
        self.coverage["segments merged"] += 1
        return log

    async def _move(self, log: PartitionLog) -> PartitionLog:
        """A copy in other files takes the place of the log, as when it moves to another directory."""
        high_watermark, filesystem = log.high_watermark, log.environment.filesystem
        await log.close()
        contents = {name: filesystem.read_bytes(f"{FOLDER}/{name}") for name in filesystem.list_directory(FOLDER)}
        filesystem.remove_tree(FOLDER)
        filesystem.make_directory(FOLDER)
        for name, content in contents.items():
            filesystem.write_bytes(f"{FOLDER}/{name}", content)
        log = await open_log("t", 0, FOLDER, self._machine.config, log.environment)
        log.high_watermark = min(high_watermark, log.log_end_offset)
        self._machine.log = log
        self.coverage["logs moved"] += 1
        return log

    # --- what the readers do ---

    async def _send(self, log: PartitionLog) -> PartitionLog:
        if log.high_watermark == log.log_start_offset:
            return log
        sender, reader = await self._reader()
        if sender.connection is None:
            return log
        offset = self._offset(log)
        limit_offset = self._random.choice((log.high_watermark, log.log_end_offset))
        max_bytes = self._random.choice((500, 2_000, 1 << 20))
        found = log.reading.read_to_send(offset, limit_offset=limit_offset, max_bytes=max_bytes, at_least_one=True)
        if isinstance(found, FileRange):
            limit_offset = min(limit_offset, log.high_watermark)
        wanted = await log.reading.read_cold(offset, limit_offset=limit_offset, max_bytes=max_bytes, at_least_one=True)
        if found is None:
            found = wanted
        assert len(found) == len(wanted), f"{len(found)} bytes where {len(wanted)} are to be read"
        self._check_start(wanted, offset)
        head = len(wanted).to_bytes(HEAD_BYTES, "big")
        reader.promised += head + wanted
        if sender.connection is not None:
            assert reader.connection is not None
            if self._random.random() < 0.5:
                reader.connection.pause_reading()
            sender.connection.write([head, found])
        return log

    def _offset(self, log: PartitionLog) -> int:
        """Where to read: often where an earlier read has ended."""
        if log.log_start_offset < self._next_offset < log.high_watermark and self._random.random() < 0.5:
            return self._next_offset - self._random.randint(0, 1)
        return self._random.randrange(log.log_start_offset, log.high_watermark)

    def _check_start(self, records: Buffer, offset: int) -> None:
        headers = [header for _, header in iter_headers(records)]
        if headers:
            assert headers[0].base_offset <= offset <= headers[0].last_offset, "the first batch has not the offset"
            self._next_offset = headers[-1].next_offset

    async def _reader(self) -> tuple[Sender, Reader]:
        self._pairs = [pair for pair in self._pairs if not pair[1].is_broken]
        if len(self._pairs) < 3:
            reader = Reader(self.coverage)
            count = len(self._senders)
            await self._network.node(f"client{self._number}").connect("broker", PORT, reader)
            await self._wait_until(lambda: len(self._senders) > count, "not accepted")
            sender = self._senders[-1]
            await self._wait_until(lambda: sender.connection is not None, "not connected")
            self._pairs.append((self._senders[-1], reader))
        return self._random.choice(self._pairs)

    async def _read_on(self, log: PartitionLog) -> PartitionLog:
        for _, reader in self._pairs:
            if not reader.is_broken and self._random.random() < 0.7:
                assert reader.connection is not None
                reader.connection.resume_reading()
        await asyncio.sleep(self._random.uniform(0.0, 0.003))
        return log

    async def _drop(self, log: PartitionLog) -> PartitionLog:
        """A connection is aborted, and a response is dropped before it is written."""
        if self._pairs:
            sender, reader = self._random.choice(self._pairs)
            reader.is_expected_to_break = True
            if sender.connection is not None:
                sender.connection.abort()
        if log.high_watermark > log.log_start_offset:
            log.reading.read_to_send(
                log.log_start_offset, limit_offset=log.high_watermark, max_bytes=1 << 20, at_least_one=True
            )
        return log


def run(seed: int) -> Outcome:
    """The history of `seed`, to its end or the first broken promise."""
    coverage: Counter[str] = Counter()
    loops: list[SimLoop] = []

    async def program(loop: SimLoop) -> None:
        loops.append(loop)
        await RangeHistory(loop, coverage).play()

    violation = None
    window_bytes, network.WINDOW_BYTES = network.WINDOW_BYTES, SOCKET_BYTES
    try:
        with quiet_logging(), short_ranges():
            simulate(seed, program)
    except Exception as error:  # noqa: BLE001  whatever it is, it belongs to this seed
        violation = repr(error)
    finally:
        network.WINDOW_BYTES = window_bytes
    (loop,) = loops
    return Outcome(seed, violation, loop.trace.digest(), loop.time(), coverage, loop.trace.lines)
