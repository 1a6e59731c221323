"""Whatever the bytes say, a decoder's work and memory stay bounded by what was sent and by `max_elements`."""

from __future__ import annotations

import random
import struct
import sys
from typing import Any

import pytest

from protocol import codec
from protocol.codec import bounds
from protocol.fields import Field
from protocol.messages.fetch import FetchRequest, FetchTopic
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.produce import ProduceRequest
from protocol.primitives import DecodeError
from protocol.schema import Message, VersionedMessage
from tests.protocol.instances import classes_and_versions, instance, message_classes, smallest

CASES = classes_and_versions()
COLLECTOR_BYTES = 16  # in front of every object that may refer to others; getsizeof leaves it out
HUGE_COUNTS = [
    struct.pack(">i", 0x7FFFFFFF), struct.pack(">i", 500_001), struct.pack(">i", -5), b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\xff\x01", b"\xc0\x84\x3d",
]  # fmt: skip


@pytest.mark.parametrize(("cls", "version"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_huge_numbers_everywhere(cls: type[VersionedMessage], version: int) -> None:
    """Every length and count of the message is among the places that are overwritten."""
    source = random.Random(f"bounds {cls.__name__} {version}")
    wire = instance(cls, version, source, longest=2).encode(version)
    decode = cls.decoder(version)
    step = max(1, len(wire) // 150)
    for position in range(0, len(wire) + 1, step):
        for count in HUGE_COUNTS:
            try:
                message, end = decode(wire[:position] + count + wire[position + len(count) :], 0, 1000)
            except DecodeError:
                continue
            assert end <= len(wire) + len(count)
            again = message.encode(version)
            assert cls.decode(again, version).encode(version) == again


def arrays(cls: type[Message], version: int) -> list[tuple[type[Message], Field]]:
    found = []
    for field in cls.__fields__:
        if field.versions.covers(version):
            if field.kind == "array":
                found.append((cls, field))
            if isinstance(field.element, type):
                found += arrays(field.element, version)
    return found


def one_element(field: Field, version: int) -> Any:
    if isinstance(field.element, str):
        return {"string": "abc", "uuid": bytes(range(16))}.get(field.element, 100)
    return rich(field.element, version)


def rich(cls: type[Message] | None, version: int) -> Message:
    """A struct in which every value is an object of its own, and every array is empty."""
    assert cls is not None
    values: dict[str, object] = {}
    for field in cls.__fields__:
        if not field.versions.covers(version):
            continue
        if field.kind == "struct":
            values[field.name] = rich(field.element, version)  # type: ignore[arg-type]
        elif field.kind == "array":
            values[field.name] = []
        elif field.kind in ("string", "bytes_", "records", "uuid"):
            values[field.name] = {"string": "ab", "uuid": bytes(range(16))}.get(field.kind, b"ab")
        else:
            values[field.name] = {"bool_": True, "float64": 1.5, "int8": 100}.get(field.kind, 30_000)
    return cls(**values)


def size_in_memory(value: object) -> int:
    """Of the object and what it alone refers to; small ints, empty strings and defaults are shared."""
    if isinstance(value, Message):
        inner = sum(size_in_memory(getattr(value, field.name)) for field in value.__fields__)
        return COLLECTOR_BYTES + sys.getsizeof(value) + inner
    if isinstance(value, list):
        return COLLECTOR_BYTES + sys.getsizeof(value) + sum(map(size_in_memory, value))
    if value is None or value in ("", b"") or (isinstance(value, int) and -5 <= value <= 256):
        return 0
    return sys.getsizeof(value)


@pytest.mark.parametrize("cls", message_classes(), ids=lambda cls: cls.__name__)
def test_weights_are_no_less_than_memory(cls: type[VersionedMessage]) -> None:
    version = cls.max_version
    for _, field in arrays(cls, version):
        if not isinstance(field.element, type):
            continue
        element = rich(field.element, version)
        assert size_in_memory(element) <= bounds.weight(field.element, version) * bounds.WEIGHT_BYTES


@pytest.mark.parametrize("cls", message_classes(), ids=lambda cls: cls.__name__)
def test_smallest_element_is_no_more_than_it_takes(cls: type[VersionedMessage]) -> None:
    """Else the count of an honest message would be refused."""
    for version in range(cls.min_version, cls.max_version + 1):
        for _, field in arrays(cls, version):
            if isinstance(field.element, type):
                flexible = cls.is_flexible(version)
                encode = codec.compile_encoder(field.element, version, flexible)
                shortest = b"".join(encode(smallest(field.element, version), b""))
                assert bounds.smallest_size(field.element, version, flexible) == len(shortest) > 0


def metadata(topics: int) -> bytes:
    return MetadataRequest(topics=[MetadataRequestTopic(name="t")] * topics).encode(1)


def test_budget_of_one_array() -> None:
    wire = metadata(1000)
    weight = bounds.weight(MetadataRequestTopic, 1)
    assert len(MetadataRequest.decode(wire, 1, max_elements=1000 * weight).topics or []) == 1000
    with pytest.raises(DecodeError, match="too many"):
        MetadataRequest.decode(wire, 1, max_elements=1000 * weight - 1)


def test_default_budget() -> None:
    count = 500_001 // bounds.weight(MetadataRequestTopic, 1) + 1
    with pytest.raises(DecodeError, match="too many"):
        MetadataRequest.decode(metadata(count), 1)


def test_budget_counts_nested_arrays_together() -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata=None)
    topics = [OffsetCommitRequestTopic(name="t", partitions=[partition] * 100)] * 10
    wire = OffsetCommitRequest(group_id="g", topics=topics).encode(8)
    needed = 10 * bounds.weight(OffsetCommitRequestTopic, 8) + 1000 * bounds.weight(OffsetCommitRequestPartition, 8)
    OffsetCommitRequest.decode(wire, 8, max_elements=needed)
    with pytest.raises(DecodeError, match="too many"):
        OffsetCommitRequest.decode(wire, 8, max_elements=needed - 1)


def test_count_larger_than_what_is_left() -> None:
    wire = bytearray(metadata(3))
    struct.pack_into(">i", wire, 0, 100)
    with pytest.raises(DecodeError, match="longer than the input"):
        MetadataRequest.decode(wire, 1)


def test_null_where_none_may_be() -> None:
    for data in (b"\xff\xff\xff\xff", struct.pack(">ih", 1, -1)):
        with pytest.raises(DecodeError, match="must not be null"):
            MetadataRequest.decode(data, 0)
    assert MetadataRequest.decode(b"\xff\xff\xff\xff", 1).topics is None
    assert MetadataRequest.decode(b"\x80\x00\x00\x00", 1).topics is None  # any negative count, as in Kafka


def test_long_strings() -> None:
    for size in (127, 128, 16383, 16384, 32767):
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic="x" * size, partitions=[])])
        assert FetchRequest.decode(request.encode(12), 12) == request
    request.topics[0].topic = ""
    wire = request.encode(12)
    at = wire.rindex(b"\x01\x01\x00\x01\x01\x00")  # name, partitions, tags; forgotten, rack, tags
    with pytest.raises(DecodeError):
        FetchRequest.decode(wire[:at] + b"\x81\x80\x02" + b"x" * 32768 + wire[at + 1 :], 12)


def tagged(tags: bytes) -> bytes:
    """Metadata v12 with this section of tagged fields."""
    wire = MetadataRequest(topics=[]).encode(12)
    assert wire.endswith(b"\x00")
    return wire[:-1] + tags


def test_unknown_tags_are_skipped() -> None:
    plain = MetadataRequest(topics=[])
    assert MetadataRequest.decode(tagged(b"\x02\x05\x03abc\x90\x4e\x00"), 12) == plain
    assert MetadataRequest.decode(tagged(b"\x02\x05\x01a\x05\x01b"), 12) == plain  # twice, as Kafka allows
    assert MetadataRequest.decode(tagged(b"\x80\x01" + b"".join(b"\x05\x01a" for _ in range(128))), 12) == plain
    huge = b"\xff\xff\xff\xff\x0f"
    for broken in (b"\x01", b"\x01\x05", b"\x01\x05\x04abc", b"\x01\x05" + huge, b"\xff" + huge, b"\x05\x01\x00"):
        with pytest.raises(DecodeError):
            MetadataRequest.decode(tagged(broken), 12)


def test_known_tags() -> None:
    request = FetchRequest(cluster_id="c", max_wait_ms=0, min_bytes=0, topics=[])
    wire = request.encode(12)
    assert wire.endswith(b"\x01\x00\x02\x02c")
    assert FetchRequest.decode(wire, 12).cluster_id == "c"
    stem = wire.removesuffix(b"\x01\x00\x02\x02c")
    assert FetchRequest.decode(stem + b"\x02\x00\x02\x02c\x00\x02\x02d", 12).cluster_id == "d"  # the last one counts
    assert FetchRequest.decode(stem + b"\x02\x09\x01x\x00\x02\x02d", 12).cluster_id == "d"  # in any order
    assert FetchRequest.decode(stem + b"\x01\x00\x01\x00", 12).cluster_id is None
    for broken in (b"\x01\x00\x03\x02c", b"\x01\x00\x01\x02c", b"\x01\x00\x09\x02c", b"\x01\x00\x02\x09c"):
        with pytest.raises(DecodeError):
            FetchRequest.decode(stem + broken, 12)


def test_records_longer_than_the_input() -> None:
    head = struct.pack(">hhii h1s ii", -1, 1, 1, 1, 1, b"t", 1, 0)
    for length in (1, 1000, 0x7FFFFFFF):
        with pytest.raises(DecodeError):
            ProduceRequest.decode(head[:2] + head[4:] + struct.pack(">i", length), 0)
