"""A stream's offsets: limits, new partitions, topics that go or come again, and what a checkpoint says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="checkpoints are read by Arrow's file systems; make interop has it")

import barnabas.spark as _spark  # noqa: F401  installs the private names
from barnabas.spark.client.option_values import SourceOptionError
from barnabas.spark.reading.checkpoint import newest_offsets, parse_batch
from barnabas.spark.reading.fetching import DataLost
from barnabas.spark.reading.read_options import parse_read
from barnabas.spark.reading.stream_offsets import StreamOffsets
from barnabas.spark.reading.streaming import Stream, reported
from protocol.records.record import Record, encode_batch
from tests.spark.cluster import Cluster

A, B = ("orders", 0), ("orders", 1)
ONE, TWO = b"1" * 16, b"2" * 16


def fill(cluster: Cluster, key: tuple[str, int], count: int, start: int = 0) -> None:
    cluster.leaders.setdefault(key, 0)
    cluster.starts[key] = start
    cluster.logs[key] = b"".join(
        encode_batch([Record(n, 1000 + n, None, b"")], base_offset=n) for n in range(start, count)
    )


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster({})
    cluster.ids["orders"] = ONE
    fill(cluster, A, 100)
    fill(cluster, B, 50)
    return cluster


def stream(cluster: Cluster, **options: str) -> Stream:
    given = {"kafka.bootstrap.servers": "x:1", "subscribe": "orders", "startingOffsets": "earliest"} | options
    parsed = parse_read(given, is_streaming=True)
    return Stream(cluster.client(), parsed, reported(parsed))


def at(a: int | None, b: int | None, topic_id: bytes = ONE) -> StreamOffsets:
    from protocol.primitives import uuid_to_text

    offsets = {key: offset for key, offset in ((A, a), (B, b)) if offset is not None}
    return StreamOffsets(offsets, {"orders": uuid_to_text(topic_id)})


def spans(stream: Stream, start: StreamOffsets, end: StreamOffsets) -> list[tuple[int, int, int]]:
    return [(each.partition, each.start, each.end) for each in stream.ranges(start, end)]


def test_offsets_go_through_json() -> None:
    offsets = at(12, 9)
    stored = json.loads(json.dumps(offsets.to_json()))
    assert stored["orders"].items() >= {"0": 12, "1": 9}.items()
    assert StreamOffsets.from_json(stored) == offsets
    assert StreamOffsets.from_json({"t": {"0": 5}}) == StreamOffsets({("t", 0): 5}, {})


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        ({}, at(0, 0)),
        ({"startingOffsets": "latest"}, at(100, 50)),
        ({"startingOffsets": '{"orders": {"0": 7, "1": -1}}'}, at(7, 50)),
        ({"startingTimestamp": "1020"}, at(20, 20)),
        ({"startingTimestamp": "1060", "startingOffsetsByTimestampStrategy": "latest"}, at(60, 50)),
        ({"startingOffsetsByTimestamp": '{"orders": {"0": 1099, "1": 0}}'}, at(99, 0)),
    ],
)
def test_where_a_stream_begins(cluster: Cluster, options: dict[str, str], offsets: StreamOffsets) -> None:
    assert stream(cluster, **options).initial() == offsets


def test_where_it_cannot_begin(cluster: Cluster) -> None:
    with pytest.raises(
        SourceOptionError, match="No record has the time of startingTimestamp or a later one in orders-1"
    ):
        stream(cluster, startingTimestamp="1060").initial()
    with pytest.raises(SourceOptionError, match=r"Missing: orders-1\. Not read: orders-5"):
        stream(cluster, startingOffsets='{"orders": {"0": 7, "5": 0}}').initial()
    with pytest.raises(SourceOptionError, match="Topic gone does not exist"):
        stream(cluster, subscribe="gone").initial()
    reader = parse_read({"kafka.bootstrap.servers": "x:1", "assign": '{"orders": [0, 9]}'}, is_streaming=True)
    assigned = Stream(cluster.client(), reader, reported(reader))
    with pytest.raises(SourceOptionError, match="assign names partitions that do not exist: orders-9"):
        assigned.initial()


def test_batches_are_limited_in_proportion(cluster: Cluster) -> None:
    one = stream(cluster)
    assert one.latest(at(0, 0), 30) == at(20, 10)
    assert one.latest(at(20, 10), 1000) == at(100, 50)
    assert one.latest(at(20, 10), None) == at(100, 50)


def test_before_spark_4_2_the_start_comes_from_the_checkpoint(cluster: Cluster, tmp_path: Path) -> None:
    one = stream(cluster, maxOffsetsPerTrigger="30", checkpointLocation=str(tmp_path))
    assert one.known_start() == at(0, 0)
    folder = tmp_path / "offsets"
    folder.mkdir()
    for batch, offsets in ((9, at(4, 2)), (10, at(20, 10))):
        (folder / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps(offsets.to_json())}')
        (folder / f".{batch}.crc").write_bytes(b"")
    again = stream(cluster, maxOffsetsPerTrigger="30", checkpointLocation=str(tmp_path))
    assert again.known_start() == at(20, 10)
    assert again.latest(again.known_start(), 30) == at(40, 20)
    assert again.known_start() == at(40, 20)
    with pytest.raises(SourceOptionError, match="maxOffsetsPerTrigger needs the option checkpointLocation"):
        stream(cluster, maxOffsetsPerTrigger="30").known_start()
    assert stream(cluster).known_start() is None


def test_what_a_file_of_a_checkpoint_says(tmp_path: Path) -> None:
    text = 'v1\n{"conf":{}}\n{"orders":{"0":5,"1":1}}\n{"other":{"0":9}}\n-\n{"orders":{"0":3,"1":2}}\n17'
    assert parse_batch(text, lambda topic: topic == "orders") == StreamOffsets({A: 5, B: 2}, {})
    assert parse_batch(text, lambda topic: topic == "none") is None
    with pytest.raises(ValueError, match="version 'v2'"):
        parse_batch("v2\n{}", lambda topic: True)
    assert newest_offsets(str(tmp_path / "nothing"), lambda topic: True) is None


def test_a_bounded_run_ends_where_the_topics_ended(cluster: Cluster) -> None:
    one = stream(cluster)
    one.fix_end()
    fill(cluster, A, 300)
    assert one.latest(at(0, 0), 90) == at(60, 30)
    assert one.latest(at(60, 30), 90) == at(100, 50)
    assert one.latest(at(100, 50), 90) == at(100, 50)


@pytest.mark.parametrize("most", [None, 1000])
def test_offsets_never_go_back(cluster: Cluster, most: int | None) -> None:
    fill(cluster, A, 80)  # the high watermark of a new leader
    assert stream(cluster).latest(at(90, 10), most) == at(90, 50)


def test_offsets_never_go_back_where_spark_does_not_say_the_start(cluster: Cluster, tmp_path: Path) -> None:
    one = stream(cluster)
    assert one.latest(one.known_start(), None) == at(100, 50)
    fill(cluster, A, 80)
    assert one.latest(one.known_start(), None) == at(100, 50)
    assert spans(one, at(100, 50), at(100, 50)) == []
    fill(cluster, A, 120)
    assert one.latest(one.known_start(), None) == at(120, 50)

    folder = tmp_path / "offsets"
    folder.mkdir()
    (folder / "3").write_text(f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps(at(130, 60).to_json())}')
    again = stream(cluster, checkpointLocation=str(tmp_path))
    assert again.latest(again.known_start(), None) == at(130, 60)


def test_a_bounded_run_does_not_end_before_its_start(cluster: Cluster) -> None:
    fill(cluster, A, 80)
    one = stream(cluster)
    one.fix_end()
    assert one.latest(at(90, 10), None) == at(90, 50)


def test_new_partitions_begin_at_their_first_record(cluster: Cluster) -> None:
    one = stream(cluster)
    assert one.latest(at(100, None), 1000) == at(100, 50)
    assert spans(one, at(90, None), at(100, 50)) == [(0, 90, 100), (1, 0, 50)]
    fill(cluster, B, 50, start=4)
    with pytest.raises(DataLost, match="orders-1 is new, and its first 4 offsets are gone"):
        one.ranges(at(90, None), at(100, 50))
    assert spans(stream(cluster, failOnDataLoss="false"), at(90, None), at(100, 50)) == [(0, 90, 100), (1, 4, 50)]


def test_a_topic_that_was_made_again_is_another_one(cluster: Cluster) -> None:
    cluster.ids["orders"] = TWO
    one = stream(cluster)
    end = one.latest(at(60, 20), None)
    assert end == at(100, 50, TWO)
    with pytest.raises(DataLost, match="topic orders was deleted and made again"):
        one.ranges(at(60, 20), end)
    assert spans(stream(cluster, failOnDataLoss="false"), at(60, 20), end) == [(0, 0, 100), (1, 0, 50)]


def test_partitions_that_are_gone_are_reported(cluster: Cluster) -> None:
    with pytest.raises(DataLost, match="orders-1 are no more"):
        stream(cluster).ranges(at(60, 20), at(100, None))
    assert spans(stream(cluster, failOnDataLoss="false"), at(60, 20), at(100, None)) == [(0, 60, 100)]


def test_a_topic_that_is_gone_is_an_error_unless_that_is_tolerated(cluster: Cluster) -> None:
    strict, tolerant = stream(cluster), stream(cluster, failOnDataLoss="false")
    for one in (strict, tolerant):
        one.ranges(at(0, 0), at(10, 10))
    cluster.leaders.clear()
    with pytest.raises(SourceOptionError, match="Topic orders does not exist"):
        strict.latest(at(10, 10), None)
    assert tolerant.latest(at(10, 10), None) == StreamOffsets({}, {})


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_topic_that_one_broker_does_not_know_yet_is_not_gone(cluster: Cluster, fails: str) -> None:
    """A broker that has just started answers before it knows the topics."""
    one = stream(cluster, failOnDataLoss=fails)
    one.ranges(at(0, 0), at(10, 10))
    leaders = dict(cluster.leaders)
    cluster.leaders.clear()
    cluster.clock.at_pause += [lambda: None, lambda: cluster.leaders.update(leaders)]
    assert one.latest(at(10, 10), None) == at(100, 50)


def test_an_end_before_the_start_is_reported(cluster: Cluster) -> None:
    with pytest.raises(DataLost, match="orders-0 ended at offset 60 before, and now at 50"):
        stream(cluster).ranges(at(60, 0), at(50, 0))
    found: list[Any] = spans(stream(cluster, failOnDataLoss="false"), at(60, 0), at(50, 3))
    assert found == [(1, 0, 3)]
