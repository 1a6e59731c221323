"""Fuzzing of all message decoders: `python -m tests.fuzz.messages --cases 100000 [--seed 1]`.

Three kinds of input: mutated valid messages, random bytes, and the most expensive frames that the bounds allow (16
MiB full of the elements of each array in turn). A decoder answers with a message, whose encoding is stable, or with
DecodeError; anything else ends the run with the command that repeats it. The peak of resident memory stays under 150
MB.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from protocol.codec import bounds
from protocol.fields import Field
from protocol.header import decode_request_header
from protocol.messages.metadata import MetadataRequest
from protocol.primitives import DecodeError
from protocol.schema import MAX_ELEMENTS, Message, VersionedMessage
from protocol.varint import encode_uvarint
from tests.fuzz.mutation import mutate
from tests.protocol.instances import classes_and_versions, instance, message_classes, smallest

PEAK_BYTES = 150 * 1000 * 1000
FRAME_BYTES = 16 * 1024 * 1024


def cases(seed: int, count: int) -> Iterator[tuple[type[VersionedMessage], int, bytes]]:
    source = random.Random(seed)
    tables = classes_and_versions()
    for number in range(count):
        cls, version = source.choice(tables)
        if number % 20 == 0:
            yield cls, version, source.randbytes(source.randint(0, 200))
        else:
            yield cls, version, mutate(instance(cls, version, source, longest=2).encode(version), source)


def check(cls: type[VersionedMessage], version: int, data: bytes) -> bool:
    """Whether `data` was taken. Raises whatever a decoder must not raise."""
    with contextlib.suppress(DecodeError):
        decode_request_header(data)
    try:
        message = cls.decode(data, version)
    except DecodeError:
        return False
    wire = message.encode(version)
    again = cls.decode(wire, version)
    assert again.encode(version) == wire, f"{message} does not encode stably"
    assert repr(again) == repr(message)
    return True


def run(seed: int, count: int) -> int:
    """How many of `count` cases were taken."""
    taken = 0
    for number, (cls, version, data) in enumerate(cases(seed, count)):
        try:
            taken += check(cls, version, data)
        except Exception:
            print(f"case {number}: {cls.__name__}.decode(bytes.fromhex({data.hex()!r}), {version})", file=sys.stderr)
            print(f"repeat: python -m tests.fuzz.messages --seed {seed} --cases {number + 1}", file=sys.stderr)
            raise
    return taken


def expensive_frames(cls: type[VersionedMessage], version: int) -> Iterator[bytes]:
    """For each array on the way down: one parent, and as many elements as a frame and the budget hold."""
    for path in _array_paths(cls, version):
        one, two = (_with_elements(cls, version, path, count).encode(version) for count in (1, 2))
        element_bytes = len(two) - len(one)
        # Where the two differ first is the count, or its last byte.
        place = next(i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b)
        element = two[place + 1 : place + 1 + element_bytes]
        kind = path[-1].element
        weight = bounds.weight(kind, version) if isinstance(kind, type) else 1
        spare = sum(bounds.weight(field.element, version) for field in path[:-1] if isinstance(field.element, type))
        count = min(FRAME_BYTES // element_bytes, (MAX_ELEMENTS - spare) // weight)
        if cls.is_flexible(version):
            head = one[:place] + encode_uvarint(count + 1)
        else:
            head = one[: place - 3] + count.to_bytes(4, "big")
        yield b"".join((head, element * count, one[place + 1 + element_bytes :]))


def wide_text() -> bytes:
    """Text of one-byte characters that one other makes four times as large in memory."""
    name = b"x" * 32763 + "𝄞".encode()
    compact = encode_uvarint(len(name) + 1) + name + b"\x00"
    count = FRAME_BYTES // len(compact)
    return encode_uvarint(count + 1) + compact * count + b"\x00\x00\x00\x00"


def _array_paths(cls: type[Message], version: int) -> list[tuple[Field, ...]]:
    paths: list[tuple[Field, ...]] = []
    for field in cls.__fields__:
        if not field.versions.covers(version) or field.kind not in ("array", "struct") or field.tag is not None:
            continue
        if field.kind == "array":
            paths.append((field,))
        if isinstance(field.element, type):
            paths += [(field, *rest) for rest in _array_paths(field.element, version)]
    return paths


def _with_elements(cls: type[Any], version: int, path: tuple[Field, ...], count: int) -> Any:
    message = smallest(cls, version)
    field, rest = path[0], path[1:]
    if field.kind == "struct":
        setattr(message, field.name, _with_elements(field.element, version, rest, count))  # type: ignore[arg-type]
    elif rest:
        setattr(message, field.name, [_with_elements(field.element, version, rest, count)])  # type: ignore[arg-type]
    elif isinstance(field.element, str):
        setattr(message, field.name, [{"string": "ab", "uuid": bytes(range(16))}.get(field.element, 100)] * count)
    else:
        setattr(message, field.name, [_telling(field.element, version)] * count)
    return message


def _telling(cls: Any, version: int) -> Any:
    """A struct whose values are short on the wire and objects of their own in memory."""
    message = smallest(cls, version)
    for field in cls.__fields__:
        if not field.versions.covers(version):
            continue
        if field.kind in ("string", "bytes_", "records"):
            setattr(message, field.name, "ab" if field.kind == "string" else b"ab")
        elif field.kind == "uuid":
            setattr(message, field.name, bytes(range(16)))
        elif field.kind in ("int16", "uint16", "int32", "int64"):
            setattr(message, field.name, 1000)
        elif field.kind == "array" and field.nullable.covers(version):
            setattr(message, field.name, [])
    return message


def run_expensive(classes: list[type[VersionedMessage]]) -> int:
    """How many frames were decoded."""
    frames = 0
    for cls in classes:
        for frame in expensive_frames(cls, cls.max_version):
            frames += 1
            cls.decode(frame, cls.max_version)
    MetadataRequest.decode(wide_text(), 9)
    return frames


def peak_bytes() -> int:
    """Of this program alone; getrusage would count its parent's before exec."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.messages")
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    started = time.monotonic()
    taken = run(options.seed, options.cases)
    frames = run_expensive(message_classes())
    seconds = time.monotonic() - started
    peak = peak_bytes()
    print(f"{options.cases} cases, {taken} taken, {frames} expensive frames, {seconds:.0f} s, peak {peak / 1e6:.0f} MB")
    if peak > PEAK_BYTES:
        print(f"the peak is above {PEAK_BYTES / 1e6:.0f} MB", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
