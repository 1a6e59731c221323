"""Options are those of Spark's Kafka source; what is wrong is said, and what would be right."""

from __future__ import annotations

from typing import Any

import pytest

import barnabas.spark as _spark  # noqa: F401  installs the private names
from barnabas.spark.client.option_values import SourceOptionError
from barnabas.spark.reading.read_options import Position, Selection, parse_read
from protocol.messages.list_offsets import EARLIEST, LATEST

SERVERS = {"kafka.bootstrap.servers": "one:9092, [::1]:9093"}
READ = SERVERS | {"subscribe": "orders"}


def parse(options: dict[str, str], *, is_streaming: bool = False) -> Any:
    return parse_read(options, is_streaming=is_streaming)


def test_defaults() -> None:
    batch, stream = parse(READ), parse(READ, is_streaming=True)
    assert batch.client.connection.servers == (("one", 9092), ("::1", 9093))
    assert batch.start == Position("startingOffsets", everywhere=EARLIEST)
    assert batch.end == stream.start.__class__("endingOffsets", everywhere=LATEST)
    assert stream.start == Position("startingOffsets", everywhere=LATEST)
    assert (batch.fails_on_loss, batch.include_headers, batch.client.reads_committed) == (True, False, True)
    assert (batch.min_partitions, batch.max_records_per_partition, batch.max_offsets_per_trigger) == (None,) * 3


def test_names_have_any_case_and_values_their_types() -> None:
    options = READ | {
        "FAILONDATALOSS": "False",
        "includeheaders": "true",
        "minPartitions": "7",
        "maxRecordsPerPartition": "100",
        "kafka.Isolation.Level": "read_uncommitted",
        "kafka.request.timeout.ms": "1500",
        "kafka.fetch.max.bytes": "1024",
        "kafka.client.id": "me",
    }
    found = parse(options)
    assert (found.fails_on_loss, found.include_headers, found.min_partitions) == (False, True, 7)
    assert found.max_records_per_partition == 100
    assert not found.client.reads_committed
    assert found.client.connection.request_timeout_ms == 1500
    assert (found.client.connection.client_id, found.client.fetch_bytes) == ("me", 1024)


@pytest.mark.parametrize(
    ("options", "selection"),
    [
        ({"subscribe": "a, b,a"}, Selection(topics=("a", "b"))),
        ({"subscribePattern": "a.*"}, Selection(pattern="a.*")),
        ({"subscribePattern": " a.* "}, Selection(pattern="a.*")),
        ({"assign": ' {"a": [0]} '}, Selection(partitions=(("a", 0),))),
        ({"assign": "{}"}, Selection()),
        ({"assign": '{"a": []}'}, Selection()),
        ({"assign": '{"a": [0, 2], "b": [1]}'}, Selection(partitions=(("a", 0), ("a", 2), ("b", 1)))),
    ],
)
def test_selections(options: dict[str, str], selection: Selection) -> None:
    assert parse(SERVERS | options).selection == selection


def test_values_of_kafkas_clients_have_no_blanks_around_them() -> None:
    given = {"kafka.check.crcs": " false ", "kafka.isolation.level": " read_uncommitted", "kafka.client.id": " me "}
    found = parse(READ | given)
    assert (found.checks_crcs, found.reads_committed, found.client.connection.client_id) == (False, False, "me")


def test_what_a_selection_chooses() -> None:
    existing = {"orders": False, "orders-eu": False, "__offsets": True}
    assert Selection(pattern="orders").of_topics(existing) == ["orders"]
    assert Selection(pattern=".*").of_topics(existing) == ["orders", "orders-eu"]
    assert Selection(pattern=r"[\p{Lower}&&[^x]]++").of_topics(existing) == ["orders"]
    assert Selection(topics=("__offsets", "orders")).of_topics(existing) == ["__offsets", "orders"]
    with pytest.raises(SourceOptionError, match="Topics gone, lost do not exist"):
        Selection(topics=("gone", "lost", "orders")).of_topics(existing)
    assert Selection(topics=("gone", "orders")).of_topics(existing, tolerates_missing=True) == ["orders"]


@pytest.mark.parametrize(
    ("options", "start", "end"),
    [
        (
            {"startingOffsets": "EARLIEST", "endingOffsets": "latest"},
            Position("startingOffsets", everywhere=EARLIEST),
            Position("endingOffsets", everywhere=LATEST),
        ),
        (
            {"startingOffsets": '{"t": {"0": 23, "1": -2}}', "endingOffsets": '{"t": {"0": 50, "1": -1}}'},
            Position("startingOffsets", offsets={("t", 0): 23, ("t", 1): -2}),
            Position("endingOffsets", offsets={("t", 0): 50, ("t", 1): -1}),
        ),
        (
            {"startingTimestamp": "5", "startingOffsets": "earliest", "endingOffsetsByTimestamp": '{"t": {"0": 9}}'},
            Position("startingTimestamp", timestamp_ms=5),
            Position("endingOffsetsByTimestamp", timestamps_ms={("t", 0): 9}),
        ),
    ],
)
def test_positions(options: dict[str, str], start: Position, end: Position) -> None:
    found = parse(READ | options)
    assert (found.start, found.end) == (start, end)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            READ | {"subscrib": "x"},
            r"'subscrib' is not known. Did you mean 'subscribe'\? Valid are: assign, .*subscribePattern",
        ),
        (READ | {"kafka.isolation.levl": "x"}, "Did you mean 'kafka.isolation.level'"),
        (READ | {"kafka.sasl.kerberos.x": "x"}, "'kafka.sasl.kerberos.x' is not known.*kafka.security.protocol"),
        (READ | {"kafka.group.id": "x"}, "'kafka.group.id' of Kafka's clients has no effect here: leave it out"),
        (
            READ | {"kafka.security.protocol": "TLS"},
            "protocol=TLS is not one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
        ),
        (READ | {"kafka.ssl.truststore.location": "/x"}, "needs kafka.security.protocol=SSL"),
        (
            READ | {"kafka.ssl.engine.factory.class": "a.B", "kafka.security.protocol": "ssl"},
            "kafka.ssl.engine.factory.class cannot be used",
        ),
        ({"subscribe": "x"}, "kafka.bootstrap.servers is missing"),
        (READ | {"kafka.bootstrap.servers": "one:x"}, "HOST:PORT"),
        (READ | {"kafka.bootstrap.servers": " , "}, "HOST:PORT"),
        (SERVERS, "Exactly one of the options subscribe, subscribePattern, assign is needed; none was given"),
        (READ | {"assign": "{}"}, "'subscribe' and 'assign' was given"),
        (SERVERS | {"assign": "[]"}, r"assign is JSON such as"),
        (SERVERS | {"assign": '{"a": ["0"]}'}, r"assign is JSON such as"),
        (SERVERS | {"subscribePattern": "("}, "regular expression of Java"),
        (SERVERS | {"subscribePattern": "a{,2}"}, "regular expression of Java"),
        (SERVERS | {"subscribePattern": ""}, "subscribePattern is empty: ''"),
        (SERVERS | {"subscribePattern": "  "}, "subscribePattern is empty: '  '"),
        (SERVERS | {"subscribe": " , "}, "subscribe names nothing: ' , '"),
        (READ | {"startingOffsets": " "}, "startingOffsets is earliest, latest or JSON"),
        (READ | {"startingOffsets": "now"}, "startingOffsets is earliest, latest or JSON"),
        (READ | {"startingOffsets": "{"}, "startingOffsets is JSON such as"),
        (READ | {"startingOffsets": '{"t": {"x": 1}}'}, "startingOffsets is JSON such as"),
        (READ | {"startingOffsets": '{"t": {"0": -3}}'}, "startingOffsets is JSON such as"),
        (READ | {"startingOffsets": "latest"}, "cannot be latest"),
        (READ | {"startingOffsets": '{"t": {"0": -1}}'}, "cannot be latest"),
        (READ | {"endingOffsets": "earliest"}, "cannot be earliest"),
        (READ | {"endingOffsets": "checkpoint"}, "log files"),
        (READ | {"startingTimestamp": "-1"}, "whole number from 0 up"),
        (READ | {"startingTimestamp": "²"}, "whole number from 0 up"),
        (READ | {"startingOffsetsByTimestampStrategy": "x"}, "one of error, latest"),
        (READ | {"failOnDataLoss": "no"}, "true or false, not 'no'"),
        (READ | {"minPartitions": "0"}, "whole number from 1 up"),
        (READ | {"maxOffsetsPerTrigger": "9"}, "belongs to streaming reads"),
    ],
)
def test_what_is_wrong_in_a_batch_read(options: dict[str, str], problem: str) -> None:
    with pytest.raises(SourceOptionError, match=problem):
        parse(options)


def test_what_is_wrong_in_a_stream() -> None:
    with pytest.raises(SourceOptionError, match="a stream has no end"):
        parse(READ | {"endingOffsets": "latest"}, is_streaming=True)
    with pytest.raises(SourceOptionError, match="log files in a batch"):
        parse({"path": "/data", "subscribe": "a"}, is_streaming=True)


def test_a_read_of_log_files_needs_no_brokers() -> None:
    found = parse({"path": "/a,/b", "subscribe": "orders", "endingOffsets": "checkpoint"})
    assert (found.paths, found.client) == (("/a", "/b"), None)
    assert found.end.is_checkpoint
