"""Checkpoint files of a log directory, as bytes: the frame they share, and the one with an offset a partition. Pure.

    0                        version of the format
    2                        number of lines that follow
    orders 0 1204            topic, partition, offset
    orders 1 977

`recovery-point-offset-checkpoint`, `log-start-offset-checkpoint`, `replication-offset-checkpoint` and
`cleaner-offset-checkpoint` look like this; `leader-epoch-checkpoint` has lines of its own in the same frame.

Rules: pure; reading and replacing files is the caller's. What Apache Kafka wrote is read, and what is written here
Apache Kafka reads. A file that does not follow its format is a CorruptCheckpoint, never a guess; an empty file holds
nothing, for Apache Kafka leaves such ones.
Source: Kafka CheckpointFile, OffsetCheckpointFile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from sys import intern

from protocol.topic_partition import TopicPartition

_VERSION = "0"


class CorruptCheckpoint(ValueError):
    """The file is not what its name promises."""


def encode_lines(lines: Iterable[str]) -> bytes:
    """The frame around `lines`."""
    body = list(lines)
    return "\n".join([_VERSION, str(len(body)), *body, ""]).encode()


def decode_lines(content: bytes) -> list[str]:
    """The lines inside the frame. Raises CorruptCheckpoint."""
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
    """Plain decimal digits, and not what else `int()` takes."""
    return text.isascii() and text.isdigit()


def decode_integer(text: str) -> int:
    """Raises CorruptCheckpoint."""
    if not _is_digits(text.removeprefix("-")):
        raise CorruptCheckpoint(f"{text!r} is no number")
    return int(text)


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """A checkpoint of one offset for each (topic, partition)."""
    return encode_lines(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())


def decode_offsets(content: bytes) -> dict[TopicPartition, int]:
    """Raises CorruptCheckpoint."""
    offsets: dict[TopicPartition, int] = {}
    for line in decode_lines(content):
        fields = line.split()
        if len(fields) != 3:
            raise CorruptCheckpoint(f"{line!r} is no topic, partition and offset")
        topic, partition, offset = fields
        offsets[intern(topic), decode_integer(partition)] = decode_integer(offset)
    return offsets
