"""A small data directory with every kind of file, to be damaged, and what a broker makes of it.

One folder of a partition is written with the storage itself, over several segments with aborted transactions, and stands
in a directory that a broker process has made, under the name of every topic. After a damage and a start each record is
served as it was, or the broker has said what is wrong with which file.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.records.batch import InvalidBatch, crc_is_valid, iter_headers
from protocol.records.control import ControlType, EndTxnMarker, encode_marker
from protocol.records.record import iter_records
from storage.log.validation import AppendOrigin
from tests.robustness.process import BrokerProcess
from tests.robustness.wire import FETCH_V, PRODUCE_V, Wire, batch_of, fetch_of, produce_of
from tests.storage.logs import NOW_MS, append_records, batch, config, open_log, world

SETTINGS = {"segment.bytes": "1500", "index.interval.bytes": "200", "retention.ms": "-1"}
BATCHES = 60
PRODUCER_ID = 7

Records = dict[int, bytes]
"""Values by offset, those of markers excepted."""


@dataclass
class Reading:
    """What was served of a partition; `error` why reading ended before its end."""

    start: int
    end: int
    records: Records = field(default_factory=dict)
    error: str | None = None


def write_log(folder: Path) -> Records:
    """The folder `t-0` in `folder`: six segments or so, closed in order. Its records."""
    return asyncio.run(_write_log(str(folder)))


async def _write_log(folder: str) -> Records:
    records: Records = {}
    async with world(folder) as made:
        log = await open_log(made, folder, config(**{name.replace(".", "_"): text for name, text in SETTINGS.items()}))
        for number in range(BATCHES):
            values = (f"{number} first", f"{number} second " * 5)
            result = await append_records(
                log,
                batch(
                    *values, timestamp=NOW_MS + number * 1000, producer_id=PRODUCER_ID, producer_epoch=0,
                    base_sequence=2 * number, is_transactional=True,
                ),
                epoch=number // 25,
            )  # fmt: skip
            records |= {result.base_offset + at: value.encode() for at, value in enumerate(values)}
            if number % 4 == 3:
                kind = ControlType.ABORT if number % 8 == 3 else ControlType.COMMIT
                marker = encode_marker(
                    EndTxnMarker(kind, 0, NOW_MS + number * 1000), producer_id=PRODUCER_ID, producer_epoch=0
                )
                await append_records(log, bytearray(marker), epoch=number // 25, origin=AppendOrigin.COORDINATOR)
        await log.close()
    return records


def make_directory(folder: Path, topics: Sequence[str]) -> tuple[Path, Records]:
    """(a data directory that a broker has left in order, the records of each topic in it)."""
    template = folder / "template"
    template.mkdir()
    records = write_log(template)
    with BrokerProcess(folder / "maker") as broker:
        rows = [
            CreatableTopic(
                name=topic, num_partitions=1, replication_factor=1, assignments=[],
                configs=[CreatableTopicConfig(name=name, value=text) for name, text in SETTINGS.items()],
            )
            for topic in topics
        ]  # fmt: skip
        with Wire(broker) as wire:
            answer = wire.ask(CreateTopicsRequest(topics=rows, timeout_ms=10_000), 4)
            assert {row.error_code for row in answer.topics} == {0}
        assert broker.stop() == 0
    data = broker.data
    for topic in topics:
        target = data / f"{topic}-0"
        for path in target.iterdir():
            if path.name != "partition.metadata":
                path.unlink()
        for path in (template / "t-0").iterdir():
            if path.name != "partition.metadata":
                shutil.copy2(path, target / path.name)
    end = max(records) + 2  # a marker is last
    lines = "".join(f"{topic} 0 {end}\n" for topic in topics)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (data / name).write_text(f"0\n{len(topics)}\n{lines}")
    return data, records


def wait_for_leaders(broker: BrokerProcess, topics: Sequence[str], timeout_s: float = 10) -> None:
    """A broker that has started leads its topics a moment later; those that it refuses it never leads."""
    deadline = time.monotonic() + timeout_s
    with Wire(broker) as wire:
        for topic in topics:
            while time.monotonic() < deadline:
                try:
                    _offset(wire, topic, -1)
                    break
                except LookupError:
                    time.sleep(0.02)


def read_all(broker: BrokerProcess, topic: str) -> Reading:
    """As a consumer that does not care for transactions does."""
    with Wire(broker) as wire:
        try:
            reading = Reading(_offset(wire, topic, -2), _offset(wire, topic, -1))
        except LookupError as error:
            return Reading(0, 0, error=str(error))
        offset = reading.start
        while offset < reading.end:
            row = wire.ask(fetch_of(topic, offset), FETCH_V).responses[0].partitions[0]
            if row.error_code:
                reading.error = f"{ErrorCode(row.error_code).name} at {offset}"
                return reading
            content = bytes(row.records or b"")
            try:
                offset = _take(content, offset, reading)
            except InvalidBatch as error:
                reading.error = f"{error} at {offset}"
                return reading
    return reading


def _take(content: bytes, offset: int, reading: Reading) -> int:
    """Add the records of a Fetch to `reading`; where the next one begins. Raises InvalidBatch."""
    following = offset
    for position, header in iter_headers(content):
        if not crc_is_valid(content, position, header):
            raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, "wrong CRC")
        if not header.is_control:
            for record in iter_records(content, position, header, 1 << 20):
                if record.offset >= offset:
                    reading.records[record.offset] = record.value or b""
        following = header.next_offset
    if following <= offset:
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"{len(content)} bytes without a whole batch")
    return following


def _offset(wire: Wire, topic: str, timestamp: int) -> int:
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    row = wire.ask(ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])]), 4)
    answer = row.topics[0].partitions[0]
    if answer.error_code:
        raise LookupError(f"ListOffsets: {ErrorCode(answer.error_code).name}")
    return int(answer.offset)


def append_one(broker: BrokerProcess, topic: str) -> int:
    """The error code of a Produce."""
    with Wire(broker) as wire:
        answer = wire.ask(produce_of(topic, batch_of(b"new")), PRODUCE_V)
        return int(answer.responses[0].partition_responses[0].error_code)


# --- damages ---


def flip(path: Path) -> None:
    """One bit, in the middle; of a segment one that a checksum covers, which is all but offset, length and epoch."""
    content = bytearray(path.read_bytes())
    at = len(content) // 2
    if path.suffix == ".log":
        at = max(start + header.size_bytes - 1 for start, header in iter_headers(content) if start <= at)
    if content:
        content[at] ^= 0x10
    path.write_bytes(content)


def cut(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 2 // 3])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def garble(path: Path) -> None:
    """As long as it was, and nothing of what it was."""
    path.write_bytes(random.Random(5).randbytes(max(path.stat().st_size, 50)))


def zero(path: Path) -> None:
    """What file systems leave of a write that they lost."""
    path.write_bytes(bytes(path.stat().st_size))


def lose(path: Path) -> None:
    path.unlink()


DAMAGES: dict[str, Callable[[Path], None]] = {
    "flip": flip, "cut": cut, "empty": empty, "garble": garble, "zero": zero, "lose": lose,
}  # fmt: skip
