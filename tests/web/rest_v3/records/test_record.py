"""A JSON object as a record, and the report about it."""

from __future__ import annotations

from typing import Any

import pytest

from client.event_loop.producer import Delivered
from web.errors import HttpProblem
from web.rest_v3.records.record import RecordToSend, new_record, report_of, text_of


def binary(data: Any) -> dict[str, Any]:
    return {"value": {"type": "BINARY", "data": data}}


@pytest.mark.parametrize(
    ("fields", "value"),
    [
        (binary("AAEC"), b"\0\1\2"),
        (binary("AA"), b"\0"),
        (binary(""), b""),
        (binary(None), None),
        ({"value": {"type": "STRING", "data": "ä"}}, "ä".encode()),
        ({"value": {"type": "JSON", "data": {"a": [1, "ä", None, 1.5]}}}, '{"a":[1,"ä",null,1.5]}'.encode()),
        ({"value": {"type": "JSON", "data": "text"}}, b'"text"'),
        ({"value": {"type": "JSON", "data": 9007199254740993}}, b"9007199254740993"),
        ({"value": {"type": "JSON"}}, None),
        ({"value": None}, None),
        ({}, None),
    ],
)
def test_values(fields: dict[str, Any], value: bytes | None) -> None:
    assert new_record(fields).value == value


def test_all_fields() -> None:
    fields = {
        "partition_id": 3,
        "key": {"type": "STRING", "data": "k"},
        "headers": [{"name": "a", "value": "AQ=="}, {"name": "a", "value": None}, {"name": "b"}],
        "timestamp": "2021-02-05T20:14:42.25+01:00",
    }
    headers = [("a", b"\1"), ("a", None), ("b", None)]
    record = RecordToSend(b"k", None, headers, 3, 1612552482250, "STRING", None)
    assert new_record(fields) == record
    assert report_of("c", record, Delivered("t", 3, 9, 1612552482250)) == {
        "error_code": 200,
        "cluster_id": "c",
        "topic_name": "t",
        "partition_id": 3,
        "offset": 9,
        "timestamp": "2021-02-05T19:14:42.250Z",
        "key": {"type": "STRING", "size": 1},
    }


def test_times_far_away() -> None:
    assert text_of(0) == "1970-01-01T00:00:00.000Z"
    assert new_record({"timestamp": "0001-01-01T00:00:00Z"}).timestamp_ms == -62135596800000


@pytest.mark.parametrize(
    ("fields", "number"),
    [
        (binary("A"), 400),
        (binary("A~=="), 400),
        (binary("ä"), 400),
        (binary(1), 400),
        ({"value": {"type": "STRING", "data": 1}}, 400),
        ({"value": {"type": "STRING", "data": "\ud800"}}, 400),
        ({"value": {"type": "JSON", "data": "\ud800"}}, 400),
        ({"value": {"type": "XML", "data": ""}}, 400),
        ({"value": {"type": 1}}, 400),
        ({"value": "text"}, 400),
        ({"value": {"type": "JSON", "more": 1}}, 400),
        ({"value": {"data": "x"}}, 42206),
        ({"value": {"type": "AVRO", "schema_id": 1, "data": "x"}}, 42206),
        ({"records": []}, 400),
        ({"partition_id": "1"}, 400),
        ({"partition_id": True}, 400),
        ({"partition_id": -1}, 40403),
        ({"headers": {}}, 400),
        ({"headers": ["a"]}, 400),
        ({"headers": [{"name": 1}]}, 400),
        ({"headers": [{"name": "a", "value": "~"}]}, 400),
        ({"headers": [{"name": "\ud800"}]}, 400),
        ({"timestamp": 1}, 400),
        ({"timestamp": "2021-02-05T19:14:42"}, 400),
        ({"timestamp": "now"}, 400),
        ({"timestamp": "2021-02-05"}, 400),
    ],
)
def test_what_is_refused(fields: dict[str, Any], number: int) -> None:
    with pytest.raises(HttpProblem) as raised:
        new_record(fields)
    assert raised.value.number == number
