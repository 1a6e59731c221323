"""Encodes and decodes checkpoint files of a log directory: their common frame, and offsets by partition. Pure.

    0                        version of the format
    2                        number of lines that follow
    orders 0 1204            topic, partition, offset
    orders 1 977

`recovery-point-offset-checkpoint`, `log-start-offset-checkpoint`, `replication-offset-checkpoint` and
`cleaner-offset-checkpoint` look like this; `leader-epoch-checkpoint` has other lines in the same frame.

Rules: pure; the caller reads and replaces files. Files are exchangeable with Apache Kafka's. A file that does not follow
its format raises CorruptCheckpoint and is never guessed at; an empty file has no entries, because Apache Kafka leaves such
files.
Source: Kafka CheckpointFile, OffsetCheckpointFile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from sys import intern

from protocol.topic_partition import TopicPartition

_VERSION = "0"


class CorruptCheckpoint(ValueError):
    """The file does not follow the format of a checkpoint."""


def encode_lines(lines: Iterable[str]) -> bytes:
    """Return the content of a checkpoint file with `lines`."""
    body = list(lines)
    return "\n".join([_VERSION, str(len(body)), *body, ""]).encode()


def decode_lines(content: bytes) -> list[str]:
    """Return the lines inside the frame. Raises CorruptCheckpoint."""
    if not content:
        return []
    lines = _text(content).split("\n")
    if lines[-1] == "":
        lines.pop()
    if not lines or lines[0] != _VERSION:
        raise CorruptCheckpoint(f"version {lines[0] if lines else ''!r} is not known")
    count = lines[1] if len(lines) > 1 else ""
    body = lines[2:]
    if not _is_digits(count) or int(count) != len(body):
        raise CorruptCheckpoint(f"{len(body)} lines, but it says {count!r}")
    return body


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise CorruptCheckpoint("not UTF-8") from error


def _is_digits(text: str) -> bool:
    """Return whether `text` is ASCII decimal digits; `int()` accepts more."""
    return text.isascii() and text.isdigit()


def decode_integer(text: str) -> int:
    """Decode one number of a line. Raises CorruptCheckpoint."""
    if not _is_digits(text.removeprefix("-")):
        raise CorruptCheckpoint(f"{text!r} is no number")
    return int(text)


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Encode a checkpoint with one offset for each (topic, partition)."""
    return encode_lines(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())


def decode_offsets(content: bytes) -> dict[TopicPartition, int]:
    """Decode a checkpoint of offsets. Raises CorruptCheckpoint."""
    offsets: dict[TopicPartition, int] = {}
    for line in decode_lines(content):
        fields = line.split()
        if len(fields) != 3:
            raise CorruptCheckpoint(f"{line!r} is no topic, partition and offset")
        topic, partition, offset = fields
        offsets[intern(topic), decode_integer(partition)] = decode_integer(offset)
    return offsets
