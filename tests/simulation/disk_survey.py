"""What the files of a machine say, read without the broker's code: where each partition's log ends.

The walk knows batch format v2 and nothing else: whole batches with a right checksum and rising, unbroken offsets.
`durable` reads what a loss of power is sure to leave, else what stands in the page cache. A copy in another directory that is
marked to have everything is the log where there is none: the next start gives it the name. Of two folders with the name it
keeps the one that goes further.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from crc32c import crc32c

from protocol.topic_partition import TopicPartition
from tests.simulation.filesystem import SimStorage

_FOLDER = re.compile(
    r"(?P<directory>.*)/(?P<topic>[^/]+)-(?P<partition>\d+)(?P<copy>\.[0-9a-f]{32}-future)?/(?P<base>\d{20})\.log"
)
_MARK = "moved"
_HEAD = struct.Struct(">qiibIhi")  # base offset, length, leader epoch, magic, crc, attributes, last offset delta
_BATCH_OVERHEAD_BYTES = 12
_CRC_FROM = 21
_SMALLEST_BATCH_BYTES = 61


@dataclass(frozen=True, slots=True)
class FoundBatch:
    base_offset: int
    next_offset: int
    leader_epoch: int
    content: bytes


def start_of(batches: Sequence[FoundBatch]) -> int:
    return batches[0].base_offset if batches else 0


def end_of(batches: Sequence[FoundBatch]) -> int:
    return batches[-1].next_offset if batches else 0


def partition_logs(
    storage: SimStorage, *, durable: bool, starts: Mapping[TopicPartition, int] | None = None
) -> dict[TopicPartition, list[FoundBatch]]:
    """The sound beginning of each partition's log. Where `starts` says that a log starts, what lies before counts for
    nothing: a replica may have other records there, or a gap."""
    found = log_folders(storage, durable=durable, starts=starts)
    return {key: max(folders.values(), key=_progress) for key, folders in found.items()}


def _progress(batches: list[FoundBatch]) -> tuple[int, int]:
    return (batches[-1].leader_epoch, batches[-1].next_offset) if batches else (-1, 0)


def log_folders(
    storage: SimStorage, *, durable: bool, starts: Mapping[TopicPartition, int] | None = None
) -> dict[TopicPartition, dict[str, list[FoundBatch]]]:
    """The same for each folder that is a partition's, by its path."""
    logs: dict[TopicPartition, dict[str, list[tuple[int, bytes]]]] = {}
    copies: dict[TopicPartition, dict[str, list[tuple[int, bytes]]]] = {}
    contents = dict(storage.contents(durable=durable))
    for path, content in contents.items():
        match = _FOLDER.fullmatch(path)
        if match is not None:
            key, folder = (match["topic"], int(match["partition"])), path.rpartition("/")[0]
            if match["copy"] is None:
                logs.setdefault(key, {}).setdefault(folder, []).append((int(match["base"]), content))
            elif f"{folder}/{_MARK}" in contents:
                copies.setdefault(key, {}).setdefault(folder, []).append((int(match["base"]), content))
    starts = starts or {}
    return {
        key: {
            folder: list(_sound_beginning(sorted(segments), starts.get(key, 0)))
            for folder, segments in sorted(folders.items())
        }
        for key, folders in sorted((copies | logs).items())
    }


def _sound_beginning(segments: list[tuple[int, bytes]], start_offset: int) -> Iterator[FoundBatch]:
    next_offset = segments[0][0]
    for base_offset, content in segments:
        if base_offset != next_offset and base_offset > start_offset:
            return
        position = 0
        for batch in sound_batches(content):
            if batch.next_offset <= start_offset:
                next_offset = batch.next_offset
                position += len(batch.content)
                continue
            if batch.base_offset != next_offset and batch.base_offset > start_offset:
                return
            next_offset = batch.next_offset
            position += len(batch.content)
            yield batch
        if position < len(content):
            return


def sound_batches(content: bytes) -> Iterator[FoundBatch]:
    """Whole batches from the beginning on, up to the first that is not sound."""
    position = 0
    while len(content) - position >= _SMALLEST_BATCH_BYTES:
        base_offset, length, epoch, magic, crc, _, delta = _HEAD.unpack_from(content, position)
        end = position + _BATCH_OVERHEAD_BYTES + length
        if magic != 2 or end > len(content) or end - position < _SMALLEST_BATCH_BYTES:
            return
        batch = content[position:end]
        if crc32c(batch[_CRC_FROM:]) != crc:
            return
        yield FoundBatch(base_offset, base_offset + delta + 1, epoch, batch)
        position = end
