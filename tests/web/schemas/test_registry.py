"""The client of a schema registry: what it asks, how often, and what it does without an answer."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

from tests.doubles.clock import ManualClock
from tests.web.schemas.fake_registry import FakeRegistry, avro_bytes
from web.schemas import registry as registry_module
from web.schemas.contract import DecodeError, RegistryUnavailable, SchemaKind
from web.schemas.framing import with_frame
from web.schemas.registry import FAILURE_MS, OUTAGE_MS, SchemaRegistry

POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}]}


async def test_a_schema_is_asked_for_once() -> None:
    fake = FakeRegistry()
    schema_id = fake.add_avro(POINT)
    registry, data = fake.client(), avro_bytes(schema_id, POINT, {"x": 3})
    assert registry.decode_known(data) is None
    found = await asyncio.gather(*(registry.decode(data) for _ in range(20)))
    assert all(each == ({"x": 3}, schema_id, SchemaKind.AVRO, "Point") for each in found)
    assert registry.decode_known(data) == found[0]
    assert fake.asked == [f"/schemas/ids/{schema_id}"]


async def test_schemas_with_references() -> None:
    fake = FakeRegistry()
    line = {
        "type": "record",
        "name": "Line",
        "fields": [{"name": "a", "type": "Point"}, {"name": "b", "type": "Point"}],
    }
    fields = [{"name": "line", "type": "Line"}, {"name": "centre", "type": "Point"}]
    shape = {"type": "record", "name": "Shape", "fields": fields}
    point_id = fake.add_avro(POINT)
    line_id = fake.add_avro(line, {"Point": point_id})
    shape_id = fake.add_avro(shape, {"Line": line_id, "Point": point_id})
    value = (await fake.client().decode(with_frame(shape_id, b"\x02\x04\x06"))).value
    assert value == {"line": {"a": {"x": 1}, "b": {"x": 2}}, "centre": {"x": 3}}
    assert len(fake.asked) == 3

    common = FileDescriptorProto(name="any", syntax="proto3", package="c")
    common.message_type.add(name="C").field.add(
        name="n", number=1, type=FieldDescriptorProto.TYPE_INT32, label=FieldDescriptorProto.LABEL_OPTIONAL
    )
    main = FileDescriptorProto(name="any", syntax="proto3", dependency=["common/c.proto"])
    main.message_type.add(name="M").field.add(
        name="c", number=1, type=FieldDescriptorProto.TYPE_MESSAGE, type_name=".c.C",
        label=FieldDescriptorProto.LABEL_OPTIONAL,
    )  # fmt: skip
    main_id = fake.add_proto(main, {"common/c.proto": fake.add_proto(common)})
    found = await fake.client().decode(with_frame(main_id, b"\x00\x0a\x02\x08\x05"))
    assert found == ({"c": {"n": 5}}, main_id, SchemaKind.PROTOBUF, "M")


async def test_an_id_that_fails_is_not_asked_for_again_for_a_while() -> None:
    fake, clock = FakeRegistry(), ManualClock()
    registry = fake.client(clock)
    for _ in range(3):
        with pytest.raises(DecodeError, match="does not know schema 5"):
            await registry.decode(with_frame(5, b""))
        with pytest.raises(DecodeError, match="does not know schema 5"):
            registry.decode_known(with_frame(5, b""))
    assert len(fake.asked) == 1
    clock.now_ms += FAILURE_MS
    with pytest.raises(DecodeError):
        await registry.decode(with_frame(5, b""))
    assert len(fake.asked) == 2


async def test_a_registry_that_comes_back() -> None:
    fake, clock = FakeRegistry(), ManualClock()
    registry, data = fake.client(clock), avro_bytes(fake.add_avro(POINT), POINT, {"x": 3})
    fake.is_down = True
    with pytest.raises(RegistryUnavailable, match="refused"):
        await registry.decode(data)
    fake.is_down = False
    with pytest.raises(RegistryUnavailable):
        await registry.decode(data)
    clock.now_ms += OUTAGE_MS
    assert (await registry.decode(data)).value == {"x": 3}


async def test_a_second_registry_and_a_login() -> None:
    fake = FakeRegistry()
    fake.login = ("user", "secret")
    data = avro_bytes(fake.add_avro(POINT), POINT, {"x": 3})
    with pytest.raises(RegistryUnavailable, match="401"):
        await fake.client().decode(data)

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.host != "first" or request.headers["authorization"]
        return httpx.Response(503)

    transport = httpx.AsyncClient(
        mounts={"http://first": httpx.MockTransport(answer), "http://registry.test": fake}, transport=fake
    )
    registry = SchemaRegistry(
        transport, ["http://first:1/", "http://registry.test:8081/"], ManualClock(), login=("user", "secret")
    )
    assert (await registry.decode(data)).value == {"x": 3}


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, content=b"<html>"),
        httpx.Response(200, json=[]),
        httpx.Response(200, json={"schema": 5}),
        httpx.Response(200, json={"schema": '"int"', "references": 5}),
        httpx.Response(200, json={"schema": '"int"', "references": [{"name": "x"}]}),
        httpx.Response(200, json={"schema": '"int"', "references": [{"name": "x", "subject": "y", "version": "z"}]}),
        httpx.Response(302, headers={"location": "http://elsewhere/"}),
        httpx.Response(200, json={"schema": "", "schemaType": "XML"}),
        httpx.Response(200, json={"schema": " " * (registry_module.MAX_ANSWER_BYTES + 1)}),
    ],
)
async def test_answers_that_are_none(answer: httpx.Response) -> None:
    client = httpx.AsyncClient(transport=httpx.MockTransport(lambda _: answer))
    with pytest.raises((RegistryUnavailable, DecodeError)):
        await SchemaRegistry(client, ["http://r"], ManualClock()).decode(with_frame(5, b"\x02"))


async def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "MAX_SCHEMAS", 2)
    monkeypatch.setattr(registry_module, "MAX_FAILURES", 2)
    fake = FakeRegistry()
    ids = [fake.add_avro("int") for _ in range(4)]
    registry = fake.client()
    for each in ids:
        assert (await registry.decode(with_frame(each, b"\x02"))).value == 1
    assert [registry.decode_known(with_frame(each, b"\x02")) is None for each in ids] == [True, True, False, False]
    for each in range(4):
        with pytest.raises(DecodeError):
            await registry.decode(with_frame(each, b""))
    assert len(registry._failed) == 2


async def test_what_is_not_framed_or_too_long_is_not_decoded() -> None:
    registry = FakeRegistry().client(max_decoded_bytes=10)
    for data, text in ((b"{}", "zero byte"), (with_frame(1, b"x" * 11), "11 bytes")):
        with pytest.raises(DecodeError, match=text):
            await registry.decode(data)
