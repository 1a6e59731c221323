"""Fuzzing of everything that looks into record batches: `python -m tests.fuzz.records --cases 100000 [--seed 1]`.

Mutated batches of all codecs, most of them with a CRC that fits the damage, so that it gets past the checksum, and
random bytes. Whoever reads them answers InvalidBatch or KafkaError and nothing else; what the full check takes every
other reader takes; what a producer may store, a consumer can read. Memory stays bounded by what is allowed.
"""

from __future__ import annotations

import argparse
import random
import struct
import sys
import time
from collections.abc import Callable
from functools import partial

from config.broker import BrokerSettings
from config.topic import LogConfig
from protocol.errors import KafkaError
from protocol.records.batch import HEADER_BYTES, InvalidBatch, crc_is_valid, crc_of, iter_headers, magic_at, read_header
from protocol.records.compression import Compression, compress, decompress
from protocol.records.control import ControlType, EndTxnMarker, encode_marker, read_marker
from protocol.records.fields import check_full
from protocol.records.record import Record, encode_batch, iter_records, recompress
from protocol.records.structure import check_structure
from storage.log.producers.producer_state import CorruptSnapshot, ProducerStates
from storage.log.validation import AppendOrigin, ValidationLevel, validate
from tests.fuzz.mutation import mutate

MAX_BYTES = 1 << 20
NOW_MS = 1_700_000_000_000
_SETTINGS = BrokerSettings({})
_TOPICS = [
    LogConfig.from_settings(_SETTINGS, overrides)
    for overrides in (
        {},
        {"cleanup.policy": "compact"},
        {"message.timestamp.type": "LogAppendTime"},
        {"message.timestamp.before.max.ms": "1000"},
        {"compression.type": "lz4"},
        {"compression.type": "uncompressed"},
    )
]


def random_batch(source: random.Random) -> bytes:
    """A valid one."""
    if source.random() < 0.1:
        marker = EndTxnMarker(source.choice(tuple(ControlType)), source.randint(0, 9), NOW_MS)
        return encode_marker(marker, producer_id=source.randint(0, 9), producer_epoch=0)
    same_size = source.randint(0, 150) if source.random() < 0.4 else None

    def payload() -> bytes | None:
        size = source.choice((-1, 0, 1, 60, 100, 9000)) if same_size is None else same_size
        return None if size < 0 else source.randbytes(size % 17) + bytes(max(size - 17, 0))

    records = [
        Record(
            0, NOW_MS + source.randint(-50, 50), payload() if source.random() < 0.5 else b"key", payload(),
            [("name", payload())] if source.random() < 0.2 else [],
        )
        for _ in range(source.choice((1, 1, 2, 5, 40, 200)))
    ]  # fmt: skip
    has_producer = source.random() < 0.5
    return encode_batch(
        records,
        compression=source.choice(tuple(Compression)),
        producer_id=source.randint(0, 9) if has_producer else -1,
        producer_epoch=0 if has_producer else -1,
        base_sequence=source.randint(0, 99) if has_producer else -1,
    )


def damaged_batch(source: random.Random) -> bytes:
    """Damage to the whole, to the header, to the records behind it, or to what they were before compression."""
    batch = random_batch(source)
    kind = source.randrange(5)
    if kind == 0:
        return mutate(batch, source)
    if kind == 1:
        header = bytearray((mutate(batch[:HEADER_BYTES], source) + bytes(HEADER_BYTES))[:HEADER_BYTES])
        header[16] = 2 if source.random() < 0.95 else header[16]
        damaged = header + batch[HEADER_BYTES:]
    elif kind == 2:
        damaged = bytearray(batch[:HEADER_BYTES]) + mutate(batch[HEADER_BYTES:], source)
    else:
        codec = read_header(batch).compression
        block = mutate(decompress(codec, batch[HEADER_BYTES:], MAX_BYTES * 8), source)
        damaged = bytearray(batch[:HEADER_BYTES]) + compress(codec, block)
    if source.random() < 0.9:
        struct.pack_into(">i", damaged, 8, len(damaged) - 12)
    struct.pack_into(">I", damaged, 17, crc_of(damaged, 0, len(damaged)))
    return bytes(damaged)


def _taken(read: Callable[[], object]) -> bool:
    try:
        read()
    except KafkaError:
        return False
    return True


def check(data: bytes, source: random.Random) -> bool:
    """Whether `data` is a batch that even the full check takes. Raises whatever a reader must not raise."""
    magic_at(data)
    _taken(lambda: list(iter_headers(data)))
    _check_append(data, source)
    try:
        header = read_header(data)
    except InvalidBatch:
        return False
    crc_is_valid(data, 0, header)
    if header.is_control:
        _taken(lambda: read_marker(data, 0, header))
    _taken(lambda: ProducerStates().replay(data, 0, header))
    is_full = _taken(lambda: check_full(data, 0, header, MAX_BYTES))
    is_sound = _taken(lambda: check_structure(data, 0, header, MAX_BYTES))
    is_read = _taken(lambda: _check_read(data))
    if is_full and header.last_offset_delta == header.records_count - 1:
        assert is_sound, "taken by the full check, refused by the structure check"
    if is_read and is_full:
        again = recompress(data, 0, header, source.choice(tuple(Compression)), None, MAX_BYTES)
        assert list(iter_records(again, 0, read_header(again), MAX_BYTES)) == _records(data)
    return is_full


def _records(data: bytes) -> list[Record]:
    return list(iter_records(data, 0, read_header(data), MAX_BYTES))


def _check_read(data: bytes) -> None:
    header = read_header(data)
    records = _records(data)
    assert len(records) == max(header.records_count, 0)


def _check_append(data: bytes, source: random.Random) -> None:
    append = partial(
        validate, bytearray(data), config=source.choice(_TOPICS), now_ms=NOW_MS,
        produce_version=source.choice((2, 3, 9)), level=source.choice(tuple(ValidationLevel)),
    )  # fmt: skip
    _taken(lambda: append(origin=AppendOrigin.REPLICA))
    try:
        checked = append(origin=AppendOrigin.CLIENT)
    except KafkaError:
        return
    position = 0
    for header in checked.headers:
        stored = read_header(checked.records, position)
        assert (stored.crc, stored.attributes, stored.max_timestamp) == (
            header.crc,
            header.attributes,
            header.max_timestamp,
        )
        assert crc_is_valid(checked.records, position, stored)
        assert stored.records_count == stored.last_offset_delta + 1 > 0
        position += header.size_bytes
    assert position == len(checked.records)


def check_snapshot(data: bytes) -> None:
    try:
        states = ProducerStates.from_snapshot(data)
    except CorruptSnapshot:
        return
    assert ProducerStates.from_snapshot(states.to_snapshot()).to_snapshot() == states.to_snapshot()


def run(seed: int, count: int) -> int:
    """How many of `count` cases the full check took."""
    source = random.Random(seed)
    taken = 0
    for number in range(count):
        data = source.randbytes(source.randint(0, 200)) if number % 20 == 0 else damaged_batch(source)
        if number % 10 == 0:
            check_snapshot(data)
        try:
            taken += check(data, source)
        except BaseException:
            print(f"case {number} of: python -m tests.fuzz.records --seed {seed} --cases {count}", file=sys.stderr)
            print(data.hex(), file=sys.stderr)
            raise
    return taken


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.records")
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    started = time.monotonic()
    taken = run(options.seed, options.cases)
    print(f"{options.cases} cases, {taken} taken, {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
