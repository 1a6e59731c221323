"""Messages that only Apache Kafka implements (between brokers, stored, old), and those that are newer than 3.9.1, as its own
classes read and wrote them.

The recording is made by `tests.protocol.record_kafka`: one line a message, [class, version, bytes in hex, fields in
Kafka's JSON].
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from protocol.fields import Field
from protocol.primitives import uuid_to_text
from protocol.schema import Message
from tests.protocol.instances import message_classes
from tests.protocol.names import snake_case

RECORDING = Path(__file__).parent / "recorded" / "messages-3.9.1.jsonl"
NEWER_RECORDING = RECORDING.with_name("messages-4.3.0.jsonl")


def recording() -> list[list[Any]]:
    return [json.loads(line) for path in (RECORDING, NEWER_RECORDING) for line in path.read_text().splitlines()]


def assert_same(ours: Message, theirs: dict[str, Any], version: int) -> None:
    fields = {snake_case(name[0].upper() + name[1:]): value for name, value in theirs.items()}
    for field in ours.__fields__:
        value = getattr(ours, field.name)
        if field.name in fields:
            assert_same_value(field.kind, field, value, fields.pop(field.name), version)
        elif field.versions.covers(version) and field.kind != "records":
            assert field.tag is not None and value == field.default
    assert not fields or set(fields) == {"records_size_in_bytes"}


def assert_same_value(kind: Any, field: Field, ours: Any, theirs: Any, version: int) -> None:
    if ours is None or theirs is None:
        assert ours is None and theirs is None
    elif kind == "array":
        assert len(ours) == len(theirs)
        inner = "struct" if isinstance(field.element, type) else field.element
        for one, other in zip(ours, theirs, strict=True):
            assert_same_value(inner, field, one, other, version)
    elif kind == "struct":
        assert_same(ours, theirs, version)
    elif kind == "uuid":
        assert uuid_to_text(ours) == theirs
    elif kind == "bytes_":
        assert ours == base64.b64decode(theirs)
    elif kind != "records":
        assert ours == theirs


def test_nothing_is_missing() -> None:
    names = {name for name, *_ in recording()}
    assert names >= {"LeaderAndIsrRequest", "UpdateMetadataRequest", "StopReplicaResponse", "ControlledShutdownRequest"}
    assert names >= {"OffsetCommitValue", "GroupMetadataValue", "TransactionLogKey", "TransactionLogValue"}
    assert names >= {"ProduceRequest", "ConsumerGroupHeartbeatRequest", "ConsumerGroupCurrentMemberAssignmentValue"}


@pytest.mark.parametrize("name", sorted({name for name, *_ in recording()}))
def test_as_kafka_recorded(name: str) -> None:
    classes = {cls.__name__: cls for cls in message_classes()}
    for other, version, wire, fields in recording():
        if other == name:
            message = classes[name].decode(bytes.fromhex(wire), version)
            assert_same(message, fields, version)
            assert message.encode(version).hex() == wire
