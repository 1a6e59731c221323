"""Segments that brokers of before record batches wrote: served by us as by Apache Kafka 3.9.1, from the same bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.records.any_format import iter_any_headers, iter_any_records
from protocol.records.compression import Compression
from protocol.records.legacy import encode_message, encode_message_set
from protocol.records.record import Record, encode_batch
from tests.differential.wire import NoResponse, Wire
from tests.interop.conftest import need_java
from tests.oracle import tools
from tests.oracle.barnabas import Barnabas
from tests.oracle.broker import Broker
from tests.oracle.kafka import ApacheKafka
from tests.oracle.process import wait_until

pytestmark = pytest.mark.oracle
TOPIC = "old"
MARCH = 1_700_000_000_000
END_OFFSET = 301
CODECS = (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4)


def sample(start: int, end: int) -> list[Record]:
    return [Record(at, MARCH + at * 1000, b"k%d" % (at % 7), b"value %d" % at * 3) for at in range(start, end)]


def segments() -> dict[int, bytes]:
    """By base offset: one of format v0, one of v1, one that goes on with batches and ends with the smallest message."""
    old = [
        b"".join(
            encode_message_set(sample(at, at + 5), magic, compression=CODECS[at // 5 % 4])
            for at in range(start, start + 100, 5)
        )
        for magic, start in ((0, 0), (1, 100))
    ]
    stamped = encode_message_set(sample(200, 205), 1, compression=Compression.GZIP, log_append_time_ms=MARCH + 210_000)
    mixed = encode_message_set(sample(205, 210), 1) + b"".join(
        encode_batch(sample(at, at + 10), base_offset=at, compression=CODECS[at // 10 % 4], partition_leader_epoch=0)
        for at in range(210, 300, 10)
    )
    return {0: old[0], 100: old[1], 200: stamped + mixed + encode_message(0, 300, 0, None, None)}


def come_upon_old_segments(broker: Broker) -> Path:
    """Start again with them in the place of a topic's own; answers its folder."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
    broker.stop()
    folder = broker.data / f"{TOPIC}-0"
    for path in folder.glob("0*"):
        path.unlink()
    for base_offset, content in segments().items():
        path = folder / f"{base_offset:020d}.log"
        path.write_bytes(content)
        # Apache Kafka takes a file's time for the time of records without any, and searches no further than that.
        os.utime(path, (MARCH / 1000 - 3600, MARCH / 1000 - 3600))
    (broker.data / ".kafka_cleanshutdown").unlink()
    broker.start()
    return folder


@pytest.fixture(scope="module", params=["barnabas", "kafka"])
def served(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker that found the segments when it started."""
    need_java()
    settings = {
        "log.index.interval.bytes": "300",
        "offsets.topic.replication.factor": "1",
        "log.retention.ms": "-1",  # the records are as old as their timestamps say
    }
    with Barnabas(settings) if request.param == "barnabas" else ApacheKafka(settings) as broker:
        come_upon_old_segments(broker)
        assert wait_until(lambda: fetched_row(broker, 0, 4, 1).error_code == 0, 60, 0.1)
        yield broker


def asked(broker: Broker, request: Any, version: int) -> Any:
    wire = Wire("127.0.0.1", broker.port)
    try:
        answer = wire.ask(request, version, 60)
    finally:
        wire.close()
    assert not isinstance(answer, NoResponse), answer
    return answer


def fetched_row(broker: Broker, offset: int, version: int, max_bytes: int) -> Any:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=TOPIC, partitions=[partition])])
    (row,) = asked(broker, request, version).responses[0].partitions
    return row


def fetched(broker: Broker, offset: int, version: int, max_bytes: int = 1 << 20) -> bytes:
    row = fetched_row(broker, offset, version, max_bytes)
    assert (row.error_code, row.high_watermark) == (0, END_OFFSET)
    return bytes(row.records or b"")


def records_in(content: bytes) -> list[Record]:
    return [
        Record(record.offset, record.timestamp, record.key, record.value)
        for position, header in iter_any_headers(content)
        for record in iter_any_records(content, position, header, 1 << 22)
    ]


@pytest.mark.parametrize("version", [4, 12])
def test_clients_of_today_get_what_is_there(served: Broker, version: int) -> None:
    offset, found = 0, b""
    while offset < END_OFFSET:
        content = fetched(served, offset, version)
        found += content
        offset = records_in(content)[-1].offset + 1
    assert found == b"".join(segments().values())
    for offset in (1, 99, 103, 204, 211, 300):
        assert offset in [record.offset for record in records_in(fetched(served, offset, version, max_bytes=1))]


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_clients_of_old_get_what_they_understand(served: Broker, version: int) -> None:
    expected = records_in(b"".join(segments().values()))
    offset, found = 0, []
    while offset < END_OFFSET:
        content = fetched(served, offset, version)
        assert all(header.magic <= version // 2 for _, header in iter_any_headers(content))
        batch = [record for record in records_in(content) if record.offset >= offset]
        found += batch
        offset = batch[-1].offset + 1
    assert [(each.offset, each.key, each.value) for each in found] == [
        (each.offset, each.key, each.value) for each in expected
    ]
    if version >= 2:
        assert [each.timestamp for each in found] == [each.timestamp for each in expected]
    else:
        assert {each.timestamp for each in found} == {-1}


@pytest.mark.parametrize(
    ("timestamp", "offset"),
    [
        (MARCH, 100),
        (MARCH + 100_500, 101),
        (MARCH + 199_000, 199),
        (MARCH + 206_000, 200),
        (MARCH + 250_000, 250),
        (MARCH + 999_000, -1),
        (-1, END_OFFSET),
        (-2, 0),
    ],
)
def test_offsets_by_time(served: Broker, timestamp: int, offset: int) -> None:
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=[partition])])
    (row,) = asked(served, request, 5).topics[0].partitions
    assert (row.error_code, row.offset) == (0, offset)


def test_what_recovery_made_of_them_passes_apache_kafkas_inspection(tmp_path: Path) -> None:
    need_java()
    with Barnabas({"log.index.interval.bytes": "300"}, tmp_path) as broker:
        folder = come_upon_old_segments(broker)
        broker.stop()
        files = sorted(folder.glob("0*.log")) + sorted(folder.glob("0*index"))
        assert len(files) == 9
        told = tools.run("dump-log", ["--files", ",".join(map(str, files)), "--deep-iteration"])
    assert "isvalid: true" in told
    for complaint in ("isvalid: false", "mismatch", "Exception", "not found", "Index timestamp"):
        assert complaint.lower() not in told.lower(), told[-3000:]
