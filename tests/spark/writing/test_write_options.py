"""Options and columns of a write; rows become records."""

from __future__ import annotations

import pytest

import barnabas.spark as _spark  # noqa: F401  installs the private names
from barnabas.spark.client.option_values import SourceOptionError
from barnabas.spark.writing.rows import RowFormat, row_format
from barnabas.spark.writing.write_options import DECISION_TOPIC, parse_write

SERVERS = {"kafka.bootstrap.servers": "one:9092"}
HEADERS = "array<struct<key:string,value:binary>>"


def test_defaults_and_values() -> None:
    found = parse_write(SERVERS)
    assert (found.topic, found.compression.name, found.decision_topic) == (None, "NONE", DECISION_TOPIC)
    assert found.transaction_timeout_ms == 900_000
    options = {"topic": " t ", "kafka.compression.type": "ZSTD", "kafka.batch.size": "5000000", "decisionTopic": "d"}
    found = parse_write(
        SERVERS | options | {"kafka.transaction.timeout.ms": "7", "kafka.isolation.level": "read_committed"}
    )
    assert (found.topic, found.compression.name, found.decision_topic) == ("t", "ZSTD", "d")
    assert found.batch_bytes == found.max_request_bytes == 1024 * 1024
    assert found.transaction_timeout_ms == 7


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"tpic": "x"}, r"'tpic' is not known. Did you mean 'topic'\?"),
        ({"kafka.acks": "1"}, "kafka.acks is all, not '1'"),
        ({"kafka.compression.type": "brotli"}, "one of none, gzip, snappy, lz4, zstd"),
        ({"kafka.linger.ms": "1"}, "'kafka.linger.ms' of Kafka's clients has no effect"),
        ({"topic": " "}, "topic is empty: ' '"),
        ({"decisionTopic": ""}, "decisionTopic is empty: ''"),
    ],
)
def test_what_is_wrong(options: dict[str, str], problem: str) -> None:
    with pytest.raises(SourceOptionError, match=problem):
        parse_write(SERVERS | options)


@pytest.mark.parametrize(
    ("types", "topic", "problem"),
    [
        ({"value": "int"}, "t", "Column 'value' is binary or string, not int"),
        ({"value": "string", "prise": "int"}, "t", "Column 'prise' is not written. Valid are: key, value, topic"),
        ({"key": "string"}, "t", "Column 'value' is missing"),
        ({"value": "string"}, None, "Either the option 'topic' or a column 'topic'"),
        ({"value": "string", "headers": "map<string,string>"}, "t", "Column 'headers' is array<struct"),
    ],
)
def test_columns_that_are_wrong(types: dict[str, str], topic: str | None, problem: str) -> None:
    with pytest.raises(SourceOptionError, match=problem):
        row_format(types, topic)


def test_rows_become_records() -> None:
    form = row_format(
        {
            "topic": "string",
            "value": "string",
            "key": "binary",
            "headers": HEADERS,
            "partition": "int",
            "timestamp": "timestamp",
        },
        None,
    )
    values = [
        ("a", "v", bytearray(b"k"), [("h", b"1"), {"key": "i", "value": None}], 3, 1_769_853_600_123),
        ("b", None, None, None, None, None),
    ]
    first, second = form.outgoing(values, lambda: 77)
    assert (first.topic, first.partition) == ("a", 3)
    assert (first.record.key, first.record.value, first.record.timestamp) == (b"k", b"v", 1_769_853_600_123)
    assert first.record.headers == [("h", b"1"), ("i", None)]
    assert (second.topic, second.partition, second.record.timestamp) == ("b", None, 77)
    assert (second.record.key, second.record.value, second.record.headers) == (None, None, [])


def test_the_option_topic_counts_before_the_column_and_one_is_needed() -> None:
    form = RowFormat(("value", "topic"), "fixed")
    assert [row.topic for row in form.outgoing([(b"v", "other"), (b"w", None)], lambda: 0)] == ["fixed", "fixed"]
    with pytest.raises(SourceOptionError, match="names no topic"):
        list(RowFormat(("value", "topic"), None).outgoing([(b"v", None)], lambda: 0))
