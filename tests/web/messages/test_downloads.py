"""Records as files over HTTP."""

from __future__ import annotations

import csv
import io
import json

import pytest

from barnabas.embedded import EmbeddedBroker
from tests.web.messages.records import Row, make_topic, write
from tests.web.running import app_client
from web.messages.downloads import csv_line

DOWNLOAD = "/api/topics/{}/messages/download"
T0 = 1_700_000_000_000


async def test_a_file_has_every_record(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "downloaded", 2)
    rows = [Row(b"v%d" % n, b"k", n % 2, [("h", b"a")], T0 + n) for n in range(5_000)]
    write(broker, topic, [*rows, Row(None, b"\xff", 0, [("h", None)], T0)])
    async with app_client(broker.bootstrap_servers) as client:
        response = await client.get(DOWNLOAD.format(topic))
        assert response.headers["content-disposition"] == 'attachment; filename="downloaded.jsonl"'
        lines = [json.loads(line) for line in response.text.splitlines()]
        assert len(lines) == 5_001
        assert [line["offset"] for line in lines if line["partition"] == 0] == list(range(2_501))
        assert next(line for line in lines if line["value"] == "v4999") == {
            "partition": 1, "offset": 2_499, "timestamp": T0 + 4_999, "headers": [{"name": "h", "value": "a"}],
            "key": "k", "value": "v4999",
        }  # fmt: skip
        assert next(line for line in lines if line["value"] is None) == {
            "partition": 0, "offset": 2_500, "timestamp": T0, "headers": [{"name": "h", "value": None}],
            "key_base64": "/w==", "value": None,
        }  # fmt: skip
        some = await client.get(DOWNLOAD.format(topic), params={"where": "value:matches:^v[0-9]$", "limit": 3})
        assert len(some.text.splitlines()) == 3
        table = await client.get(DOWNLOAD.format(topic), params={"format": "csv", "partitions": "1", "limit": 2})
        assert table.headers["content-type"] == "text/csv; charset=utf-8"
        read = list(csv.DictReader(io.StringIO(table.text)))
        assert [(row["offset"], row["key"], row["value"]) for row in read] == [("0", "k", "v1"), ("1", "k", "v3")]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "＝1"])
def test_no_cell_is_a_formula(text: str) -> None:
    line = csv_line({"partition": 0, "offset": 0, "timestamp": -1, "headers": [], "key": text, "value": f'"{text}'})
    [row] = csv.reader(io.StringIO(line.decode(), newline=""))
    assert row[4] == f"'{text}" and row[2] == "-1"


async def test_what_is_refused(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "broken-off")
    write(broker, topic, [Row(b"a")])
    async with app_client(broker.bootstrap_servers) as client:
        for query in ({"format": "xml"}, {"start": "last"}, {"cursor": "AA"}):
            assert (await client.get(DOWNLOAD.format(topic), params=query)).status_code in (400, 422)
