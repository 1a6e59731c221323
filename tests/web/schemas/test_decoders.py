"""Values by their schemas, and values and schemas that mean harm."""

from __future__ import annotations

import base64
import json
import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from hypothesis import given
from hypothesis import strategies as st

from tests.web.schemas.fake_registry import avro_bytes
from web.schemas.contract import DecodeError, RegisteredSchema, SchemaKind
from web.schemas.decoders import decoder_of
from web.schemas.framing import framed, message_path, with_frame

ORDER = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]},
        {"name": "next", "type": ["null", "shop.Order"]},
        {"name": "rate", "type": "double"},
        {"name": "raw", "type": "bytes"},
    ],
}
FREE = {"type": "record", "name": "Free", "fields": [{"name": f"f{n}", "type": "null"} for n in range(200)]}
TREE = {"type": "record", "name": "Tree", "fields": [{"name": "left", "type": ["null", "Tree"]}]}


def decoded(kind: str, text: Any, data: bytes, *, is_exact: bool = False) -> Any:
    schema = RegisteredSchema(7, SchemaKind(kind), text if isinstance(text, str) else json.dumps(text))
    return decoder_of(schema).decode(memoryview(data), is_exact=is_exact)[0]


def avro(schema: Any, datum: Any) -> bytes:
    return avro_bytes(7, schema, datum)[5:]


def test_framing() -> None:
    data = with_frame(258, b"abc")
    assert data == b"\x00\x00\x00\x01\x02abc"
    found = framed(data)
    assert found is not None and (found.schema_id, found.payload.tobytes()) == (258, b"abc")
    assert framed(b"") is framed(b"\x00\x00\x01") is framed(b"\x01\x00\x00\x00\x07") is None


@pytest.mark.parametrize(
    ("data", "path"), [(b"\x00rest", (0,)), (b"\x02\x06rest", (3,)), (b"\x04\x02\x80\x01rest", (1, 64))]
)
def test_the_path_to_a_message(data: bytes, path: tuple[int, ...]) -> None:
    found, rest = message_path(memoryview(data))
    assert (found, rest.tobytes()) == (path, b"rest")


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x04\x02", b"\xff" * 9, b"\x01"])
def test_a_path_that_is_cut_off(data: bytes) -> None:
    with pytest.raises(DecodeError):
        message_path(memoryview(data))


def test_avro_as_people_read_it_and_exactly() -> None:
    at = datetime(2024, 5, 1, 12, tzinfo=UTC)
    last = {"id": 2, "at": at, "price": None, "next": None, "rate": math.nan, "raw": b""}
    data = avro(ORDER, {"id": 1, "at": at, "price": Decimal("7.50"), "next": last, "rate": 0.5, "raw": b"\x00\xff"})
    plain = decoded("AVRO", ORDER, data)
    assert plain["at"] == "2024-05-01T12:00:00+00:00" and plain["price"] == "7.50" and plain["raw"] == "\x00ÿ"
    assert plain["next"]["id"] == 2 and plain["next"]["rate"] == "NaN"
    exact = decoded("AVRO", ORDER, data, is_exact=True)
    assert exact["at"] == 1714564800000 and exact["price"] == {"bytes": "\x02î"}
    assert exact["next"]["shop.Order"]["next"] is None


@pytest.mark.parametrize(
    ("schema", "data", "value"),
    [
        ('"bytes"', b"\x00\x01z", "\x00\x01z"),  # without a length
        ({"type": "bytes"}, b"", ""),
        ('"string"', b"\x06abc", "abc"),
        ({"type": "long", "logicalType": "timestamp-millis"}, b"\xfe" + b"\xff" * 8 + b"\x01", (1 << 63) - 1),
        ({"type": "map", "values": "int"}, b"\x02\x02a\x02\x00", {"a": 1}),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, b"\x02", "B"),
    ],
)
def test_single_values_of_avro(schema: Any, data: bytes, value: Any) -> None:
    assert decoded("AVRO", schema, data) == value


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ('"long"', b""),
        ('"long"', b"\xff" * 20),
        ('"string"', b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ('"string"', b"\x04\xff\xff"),
        (["null", "int"], b"\x12"),
        ('"int"', b"\x02\x02"),
        (TREE, b"\x02" * 100_000 + b"\x00"),  # the reader in C would fall
    ],
)
def test_values_that_are_not_avro(schema: Any, data: bytes) -> None:
    with pytest.raises(DecodeError):
        decoded("AVRO", schema, data)


@pytest.mark.parametrize(
    "schema",
    [
        "no JSON at all",
        "5",
        '{"type": "record"}',
        '{"type": "record", "name": "A", "fields": [{"name": "x", "type": "Missing"}]}',
        {"type": "array", "items": "null"},
        {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}},
        {"type": "fixed", "name": "F", "size": -1},
        {"type": "array", "items": ["int", FREE]},
        '{"type": "array", "items": ' * 500 + '"int"' + "}" * 500,
        '{"type": "array", "items": ' * 40_000 + '"int"' + "}" * 40_000,
    ],
)
def test_schemas_of_avro_that_are_refused(schema: Any) -> None:
    with pytest.raises(DecodeError, match="schema 7 cannot be used"):
        decoded("AVRO", schema, b"\x02\x02")


def test_types_inside_types_that_take_no_bytes() -> None:
    schema: Any = "null"
    for level in range(20):
        fields = [{"name": "a", "type": schema}, {"name": "b", "type": f"L{level - 1}" if level else "null"}]
        schema = {"type": "record", "name": f"L{level}", "fields": fields}
    with pytest.raises(DecodeError, match="too many values"):
        decoded("AVRO", schema, b"")


@given(st.binary(max_size=60))
def test_no_bytes_do_harm(data: bytes) -> None:
    for kind, text in (
        ("AVRO", ORDER),
        ("AVRO", TREE),
        ("PROTOBUF", base64.b64encode(PROTO.SerializeToString()).decode()),
    ):
        try:
            json.dumps(decoded(kind, text, data), allow_nan=False)
        except DecodeError:
            continue


def test_json_schema() -> None:
    schema = '{"title": "Order", "type": "object"}'
    assert decoded("JSON", schema, b'{"a": [1, null]}') == {"a": [1, None]}
    for wrong in (b'{"a":', b"NaN", b"1e999", b"\xff", b"[" * 100_000):
        with pytest.raises(DecodeError):
            decoded("JSON", schema, wrong)


# --- Protobuf ---


def proto(name: str = "x.proto") -> FileDescriptorProto:
    file = FileDescriptorProto(name=name, syntax="proto3", package="shop")
    file.dependency.extend(["google/protobuf/timestamp.proto", "confluent/meta.proto", "confluent/type/decimal.proto"])
    order = file.message_type.add(name="Order")
    for number, (field, kind, of) in enumerate(
        [
            ("order_id", FieldDescriptorProto.TYPE_INT64, ""),
            ("placed_at", FieldDescriptorProto.TYPE_MESSAGE, ".google.protobuf.Timestamp"),
            ("next", FieldDescriptorProto.TYPE_MESSAGE, ".shop.Order"),
            ("price", FieldDescriptorProto.TYPE_MESSAGE, ".confluent.type.Decimal"),
            ("rate", FieldDescriptorProto.TYPE_DOUBLE, ""),
        ],
        1,
    ):
        row = order.field.add(name=field, number=number, type=kind, label=FieldDescriptorProto.LABEL_OPTIONAL)
        if of:
            row.type_name = of
    inner = order.nested_type.add(name="Line")
    inner.field.add(
        name="count", number=1, type=FieldDescriptorProto.TYPE_INT32, label=FieldDescriptorProto.LABEL_OPTIONAL
    )
    return file


PROTO = proto()


def test_protobuf() -> None:
    text = base64.b64encode(PROTO.SerializeToString()).decode()
    value = decoded("PROTOBUF", text, b"\x00\x08\x05\x12\x02\x08\x01\x29" + b"\x00" * 6 + b"\xf8\x7f")
    assert value == {"orderId": "5", "placedAt": "1970-01-01T00:00:01Z", "rate": "NaN"}
    assert decoded("PROTOBUF", text, b"\x04\x00\x00\x08\x03") == {"count": 3}
    for wrong in (b"", b"\x02\x08", b"\x00\x08", b"\x00" + nested(500), b"\x04\x00\x06"):
        with pytest.raises(DecodeError):
            decoded("PROTOBUF", text, wrong)


def nested(depth: int) -> bytes:
    data = b""
    for _ in range(depth):
        length, size = len(data), b""
        while length > 127:
            size += bytes([length & 127 | 128])
            length >>= 7
        data = b"\x1a" + size + bytes([length]) + data
    return data


@pytest.mark.parametrize("text", ["no base64!", base64.b64encode(b"\xff\xff").decode()])
def test_files_of_protobuf_that_are_refused(text: str) -> None:
    with pytest.raises(DecodeError, match="schema 7 cannot be used"):
        decoded("PROTOBUF", text, b"\x00")


def test_a_missing_import_is_named() -> None:
    file = FileDescriptorProto(name="x.proto", dependency=["other.proto"])
    with pytest.raises(DecodeError, match=r"other\.proto"):
        decoded("PROTOBUF", base64.b64encode(file.SerializeToString()).decode(), b"\x00")


def test_short_messages_with_many_values_are_refused() -> None:
    file = FileDescriptorProto(name="x.proto", syntax="proto3")
    wide, message = file.message_type.add(name="Wide"), file.message_type.add(name="List")
    for number in range(1, 2_001):
        wide.field.add(
            name=f"f{number}",
            number=number,
            type=FieldDescriptorProto.TYPE_BOOL,
            label=FieldDescriptorProto.LABEL_OPTIONAL,
        )
    message.field.add(
        name="rows", number=1, type=FieldDescriptorProto.TYPE_MESSAGE, type_name=".Wide",
        label=FieldDescriptorProto.LABEL_REPEATED,
    )  # fmt: skip
    text = base64.b64encode(file.SerializeToString()).decode()
    assert len(decoded("PROTOBUF", text, b"\x02\x02" + b"\x0a\x00" * 3)["rows"]) == 3
    with pytest.raises(DecodeError, match="too many values"):
        decoded("PROTOBUF", text, b"\x02\x02" + b"\x0a\x00" * 2_000)


def test_messages_are_those_of_protobuf_itself() -> None:
    """A value with a map and a list reads as it was written."""
    file = FileDescriptorProto(name="m.proto", syntax="proto3", package="m")
    message = file.message_type.add(name="M")
    entry = message.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    for number, name in enumerate(("key", "value"), 1):
        entry.field.add(
            name=name, number=number, type=FieldDescriptorProto.TYPE_STRING, label=FieldDescriptorProto.LABEL_OPTIONAL
        )
    message.field.add(
        name="tags", number=1, type=FieldDescriptorProto.TYPE_MESSAGE, type_name=".m.M.TagsEntry",
        label=FieldDescriptorProto.LABEL_REPEATED,
    )  # fmt: skip
    message.field.add(
        name="all", number=2, type=FieldDescriptorProto.TYPE_INT32, label=FieldDescriptorProto.LABEL_REPEATED
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    written = message_factory.GetMessageClass(pool.FindMessageTypeByName("m.M"))()
    written.tags["<script>"] = "x"
    written.all.extend([1, 2])
    text = base64.b64encode(file.SerializeToString()).decode()
    value = decoded("PROTOBUF", text, b"\x00" + written.SerializeToString())
    assert value == {"tags": {"<script>": "x"}, "all": [1, 2]}
