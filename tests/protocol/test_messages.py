"""Every message in every version: round trip, equality, repr, and the rules for fields that a version lacks."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from protocol.fields import REQUIRED, Field
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    PartitionData,
)
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.primitives import DecodeError, EncodeError
from protocol.schema import Message, Request, Response, VersionedMessage
from tests.protocol.instances import classes_and_versions, instance, message_classes, smallest

CASES = classes_and_versions()


def test_all_are_here() -> None:
    classes = message_classes()
    requests = [cls for cls in classes if issubclass(cls, Request)]
    responses = [cls for cls in classes if issubclass(cls, Response)]
    assert len(requests) == len(responses) == 77
    assert {request.response_type for request in requests} == set(responses)
    assert len(CASES) == 707


@pytest.mark.parametrize(("cls", "version"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_round_trip(cls: type[VersionedMessage], version: int) -> None:
    source = random.Random(f"{cls.__name__} {version}")
    for message in [smallest(cls, version), *(instance(cls, version, source) for _ in range(4))]:
        wire = message.encode(version)
        again = cls.decode(wire, version)
        assert again == message
        assert again.encode(version) == wire
        assert b"".join(message.encode_chunks(version, b"prefix")) == b"prefix" + wire
        assert cls.decode(memoryview(b"xx" + wire), version, 2) == message
        assert cls.decode(bytearray(wire), version) == message
        assert repr(message).startswith(f"{cls.__name__}(")
        with pytest.raises(DecodeError):
            cls.decode(wire + b"\x00", version)


@pytest.mark.parametrize(("cls", "version"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_every_truncation_is_refused(cls: type[VersionedMessage], version: int) -> None:
    wire = instance(cls, version, random.Random(f"{cls.__name__} {version}"), longest=2).encode(version)
    step = max(1, len(wire) // 60)
    for end in range(0, len(wire), step):
        with pytest.raises(DecodeError):
            cls.decode(wire[:end], version)


def lacking() -> list[tuple[type[VersionedMessage], Field, int]]:
    found = []
    for cls in message_classes():
        for field in cls.__fields__:
            absent = [v for v in range(cls.min_version, cls.max_version + 1) if not field.versions.covers(v)]
            if absent and field.kind in ("int8", "int16", "int32", "int64", "string", "bool_"):
                found.append((cls, field, absent[0]))
    return found


@pytest.mark.parametrize(("cls", "field", "version"), lacking(), ids=str)
def test_field_that_a_version_lacks(cls: type[VersionedMessage], field: Field, version: int) -> None:
    message = instance(cls, version, random.Random(1))
    default = getattr(message, field.name)
    assert default == field.default
    without = message.encode(version)
    setattr(message, field.name, {"string": "other", "bool_": not default}.get(field.kind, 77))
    if field.ignorable:
        assert message.encode(version) == without
        assert getattr(cls.decode(without, version), field.name) == default
    else:
        with pytest.raises(EncodeError, match=field.name):
            message.encode(version)


def test_nothing_but_versions_there_are() -> None:
    message = JoinGroupRequest(group_id="g", session_timeout_ms=1, member_id="", protocol_type="consumer", protocols=[])
    for version in (-1, 10):
        with pytest.raises(EncodeError, match="no version"):
            message.encode(version)
        with pytest.raises(DecodeError, match="no version"):
            JoinGroupRequest.decode(b"", version)


def test_fields_without_default_are_required_and_others_fresh() -> None:
    with pytest.raises(TypeError):
        CreateTopicsRequest()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        CreateTopicsRequest([])  # type: ignore[call-arg]
    one, two = (FetchRequest(max_wait_ms=0, min_bytes=0, topics=[]) for _ in range(2))
    one.forgotten_topics_data.append("x")  # type: ignore[arg-type]
    assert two.forgotten_topics_data == []


@pytest.mark.parametrize("cls", message_classes(), ids=lambda cls: cls.__name__)
def test_a_maker_makes_what_the_class_makes(cls: type[VersionedMessage]) -> None:
    make: Any = cls.maker()
    full = instance(cls, cls.max_version, random.Random(1))
    required = {field.name: getattr(full, field.name) for field in cls.__fields__ if field.default is REQUIRED}
    for values in ({field.name: getattr(full, field.name) for field in cls.__fields__}, required):
        made = make(**values)
        assert type(made) is cls
        assert made == cls(**values)
    lists = [field.name for field in cls.__fields__ if field.default == []]
    assert all(getattr(make(**required), name) is not getattr(make(**required), name) for name in lists)
    with pytest.raises(TypeError):
        make(**required, no_such_field=1)
    with pytest.raises(TypeError):
        make(*required.values(), None)


def test_shared_struct_defaults_cannot_be_changed() -> None:
    partition = PartitionData(partition_index=0, error_code=0, high_watermark=0, records=None)
    with pytest.raises(AttributeError, match="shared default"):
        partition.current_leader.leader_id = 5
    partition.current_leader = LeaderIdAndEpoch(leader_id=5)
    partition.current_leader.leader_id = 6
    other = PartitionData(partition_index=0, error_code=0, high_watermark=0, records=None)
    assert other.current_leader == LeaderIdAndEpoch() and other.current_leader.leader_id == -1
    assert other != partition
    assert copy.copy(partition) == partition == copy.deepcopy(partition)
    free = type(other.current_leader)(leader_id=3)
    free.leader_id = 4
    assert free == LeaderIdAndEpoch(leader_id=4)


def test_messages_are_unhashable_and_have_no_other_attributes() -> None:
    topic = FetchTopic(partitions=[])
    with pytest.raises(TypeError):
        hash(topic)
    with pytest.raises(AttributeError):
        topic.topics = 1  # type: ignore[attr-defined]
    assert topic != 5 and topic != LeaderIdAndEpoch()


def test_records_are_references_both_ways() -> None:
    batches = [bytes(300), b"", None, bytearray(b"z" * 20000), bytes(3_000_000)]
    data = [PartitionProduceData(index=i, records=batch) for i, batch in enumerate(batches)]
    request = ProduceRequest(acks=-1, timeout_ms=1, topic_data=[TopicProduceData(name="t", partition_data=data)])
    for version in range(12):
        chunks = request.encode_chunks(version)
        assert any(chunk is batches[0] for chunk in chunks) and any(chunk is batches[3] for chunk in chunks)
        wire = b"".join(chunks)
        decoded = ProduceRequest.decode(wire, version)
        for expected, partition in zip(batches, decoded.topic_data[0].partition_data, strict=True):
            if expected is None:
                assert partition.records is None
            else:
                assert isinstance(partition.records, memoryview) and partition.records.obj is wire
                assert bytes(partition.records) == expected
        assert decoded == request


def test_values_that_do_not_fit_are_encode_errors() -> None:
    def fetch(**changed: Any) -> FetchResponse:
        values: dict[str, Any] = {"partition_index": 0, "error_code": 0, "high_watermark": 0, "records": None}
        partition = PartitionData(**{**values, **changed})
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])

    def named(**names: Any) -> FetchResponse:
        return FetchResponse(responses=[FetchableTopicResponse(partitions=[], **names)])

    bad: list[dict[str, object]] = [
        {"partition_index": 1 << 31}, {"error_code": None}, {"high_watermark": "5"}, {"records": 7},
        {"aborted_transactions": [3]},
    ]  # fmt: skip
    for changed in bad:
        with pytest.raises(EncodeError):
            fetch(**changed).encode(12)
    for version in (12, 11):
        for name in (None, 5, "x" * 40000, "\ud800"):
            with pytest.raises(EncodeError):
                named(topic=name).encode(version)
    with pytest.raises(EncodeError, match="16 bytes"):
        named(topic_id=b"short").encode(13)
    with pytest.raises(EncodeError):
        FetchResponse(responses=None).encode(13)  # type: ignore[arg-type]


def test_eq_needs_the_same_kind() -> None:
    class Alike(Message):
        __slots__ = ()

    assert Alike() != FetchTopic(partitions=[])
