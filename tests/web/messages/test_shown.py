"""How bytes are shown, and what is searched when a schema registry decodes them."""

from __future__ import annotations

import httpx
import pytest

from barnabas.embedded import EmbeddedBroker
from tests.web.messages.records import Row, Stream, make_topic, write
from tests.web.running import app_client
from tests.web.schemas.fake_registry import URL, FakeRegistry, avro_bytes
from web.messages.shown import Format, indented, shown
from web.surroundings import Surroundings

POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}]}


@pytest.mark.parametrize(
    ("data", "wanted", "form", "text"),
    [
        (b"plain", "auto", "text", "plain"), (b'{"a":1}', "auto", "json", '{"a":1}'), (b" [1]\n", "auto", "json", " [1]\n"),
        (b"{a}", "auto", "text", "{a}"), (b"17", "auto", "text", "17"), (b"17", "json", "json", "17"),
        (b"", "auto", "text", ""), (b"\xff", "auto", "hex", "ff"), (b"a\x00", "auto", "hex", "6100"),
        (b"a\x00", "text", "text", "a\x00"), (b"\xff", "text", "hex", "ff"), (b"x", "hex", "hex", "78"),
        (b"no", "json", "text", "no"), ("é".encode() * 9, "auto", "text", "éééé"), (b"\xff" * 9, "auto", "hex", "ffffffff"),
    ],
)  # fmt: skip
def test_forms(data: bytes, wanted: str, form: str, text: str) -> None:
    made = shown(data, Format(wanted), 8)
    assert (made.format, made.text, made.size_bytes) == (form, text, len(data))
    assert made.is_cut is (len(data) > 8)
    assert bool(made.note) is (wanted in ("text", "json") and form != wanted)


def test_indented_json_keeps_what_is_written() -> None:
    text = '{"n":[1.50,12345678901234567890,{}],"t":"a\\"{,}","e":[]}'
    assert indented(text) == (
        '{\n  "n": [\n    1.50,\n    12345678901234567890,\n    {}\n  ],\n  "t": "a\\"{,}",\n  "e": []\n}'
    )


async def test_a_search_looks_at_what_the_registry_decodes(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "points")
    fake = FakeRegistry()
    schema_id = fake.add_avro(POINT)
    rows = [Row(avro_bytes(schema_id, POINT, {"x": x})) for x in range(50)]
    write(broker, topic, [*rows, Row(avro_bytes(schema_id + 1, POINT, {"x": 1})), Row(b'{"x":7}')])
    surroundings = Surroundings(http=httpx.AsyncClient(transport=fake))
    async with app_client(broker.bootstrap_servers, {"schema.registry.url": URL}, surroundings) as client:

        async def hits(**query: str) -> list[tuple[int, str]]:
            found = Stream.of(await client.get(f"/api/topics/{topic}/messages/search", params=query))
            assert found.last[0] == "end"
            return [(hit["offset"], hit["value"]["format"]) for hit in found.of_name("hit")]

        assert await hits(where="json:x:is:7") == [(7, "avro"), (51, "json")]
        assert await hits(where="json:x:is:7", value_format="text") == [(51, "text")]
        last = (await client.get(f"/api/topics/{topic}/messages/0/50")).json()
        assert (
            last["value"]["format"] == "hex" and last["value"]["schema_id"] == schema_id + 1 and last["value"]["note"]
        )
        details = (await client.get(f"/api/topics/{topic}/messages/0/7")).json()
        assert details["value_forms"]["schema"]["text"] == '{\n  "x": 7\n}'
