"""Topics that change, read by the Python source and by Spark's own connector, at once and as a stream: what is read equals what
was produced. Topics have transactions, gaps of compaction and deleted records; they grow, or are deleted and made again.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.interop.spark.job_cases import consume
from tests.interop.spark.sources import (
    PARTITIONS,
    Produced,
    Streamed,
    administer,
    create,
    fill_mixed,
    is_created,
    load,
    rows,
    until,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(900)]


def feed(servers: str, produced: Produced, topic: str, numbers: range, partitions: int = PARTITIONS) -> None:
    """Records that tell their numbers, in batches of a codec, every third one with a header."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "compression.type": "zstd", "linger.ms": 20})
    for n in numbers:
        headers = [("n", b"%d" % n)] if n % 3 == 0 else None
        produced.produce(producer, topic, n, b"%d" % n, key=b"k%d" % (n % 5), partition=n % partitions, headers=headers)
    assert producer.flush(60) == 0


def read(spark: SparkSession, form: str, servers: str, topic: str, **options: object) -> list[tuple[object, ...]]:
    return rows(load(spark, form, servers, subscribe=topic, **options))


def delete_records(servers: str, topic: str, partition: int, before: int) -> None:
    from confluent_kafka import TopicPartition

    administer(servers, lambda client: client.delete_records([TopicPartition(topic, partition, before)]))


def make_again(servers: str, topic: str) -> None:
    administer(servers, lambda client: client.delete_topics([topic]))
    until(lambda: is_created(servers, topic), "the deletion")


def test_a_stream_of_all_codecs_and_committed_transactions(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path, form: str
) -> None:
    create(servers, topic)
    produced = fill_mixed(servers, topic)
    with Streamed(spark, form, servers, tmp_path, subscribe=topic, maxOffsetsPerTrigger=1500) as stream:
        found = stream.wait(len(produced.rows))
    assert found == produced.rows
    assert len(stream.batches) > 1


def test_compaction_leaves_gaps(spark: SparkSession, servers: str, topic: str, tmp_path: Path, form: str) -> None:
    from confluent_kafka import Producer

    create(servers, topic, 1, cleanup_policy="compact", segment_bytes="4096", min_cleanable_dirty_ratio="0.01")
    producer = Producer({"bootstrap.servers": servers, "batch.num.messages": 20, "linger.ms": 5})
    produced = Produced()
    for n in range(2000):
        key = b"once-%d" % n if n % 100 == 0 else b"often-%d" % (n % 7)
        produced.produce(producer, topic, n, b"v%d" % n, key=key, partition=0)
    assert producer.flush(60) == 0
    until(lambda: len(consume(servers, topic)) < 500, "compaction")
    found = read(spark, form, servers, topic)
    offsets = {row[2] for row in found}
    assert found == [row for row in produced.rows if row[2] in offsets]
    assert offsets >= set({row[3]: row[2] for row in produced.rows}.values()), "the last record of each key"
    with Streamed(spark, form, servers, tmp_path, subscribe=topic) as stream:
        assert stream.wait(len(found)) == found


def test_records_that_have_expired_are_left_out(spark: SparkSession, servers: str, topic: str, tmp_path: Path) -> None:
    from confluent_kafka import Producer

    create(servers, topic)
    producer, produced = Producer({"bootstrap.servers": servers}), Produced()
    for n in range(60):
        expires_at = {0: b"1", 1: b"4102444800000", 2: b"never"}[n // PARTITIONS % 3]
        headers = [("barnabas-expires-at", expires_at)]
        produced.produce(producer, topic, n, b"%d" % n, partition=n % PARTITIONS, headers=headers)
    assert producer.flush(60) == 0
    left = [row for row in produced.rows if ("barnabas-expires-at", b"1") not in (row[7] or ())]
    assert 0 < len(left) < len(produced.rows)
    assert read(spark, "barnabas", servers, topic) == produced.rows
    assert read(spark, "barnabas", servers, topic, skipExpired="true") == left
    with Streamed(spark, "barnabas", servers, tmp_path, subscribe=topic, skipExpired="true") as stream:
        assert stream.wait(len(left)) == left


def test_records_deleted_before_a_read(spark: SparkSession, servers: str, topic: str, form: str) -> None:
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped, unused-ignore]
    from pyspark.errors import PySparkException

    create(servers, topic)
    produced = Produced()
    feed(servers, produced, topic, range(300))
    delete_records(servers, topic, 0, 40)
    there = [row for row in produced.rows if row[1] != 0 or row[2] >= 40]
    assert read(spark, form, servers, topic) == there
    start = {topic: {"0": 10, "1": 90, "2": 0}}
    with pytest.raises(
        (PySparkException, Py4JJavaError), match="offsets 10 to 39 are gone" if form == "barnabas" else "failOnDataLoss"
    ):
        read(spark, form, servers, topic, startingOffsets=start)
    found = read(spark, form, servers, topic, startingOffsets=start, failOnDataLoss="false")
    assert found == [row for row in there if row[1] != 1 or row[2] >= 90]


@pytest.mark.long
@pytest.mark.parametrize("fails", [True, False])
def test_records_deleted_behind_a_stream(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path, form: str, fails: bool
) -> None:
    create(servers, topic)
    produced = Produced()
    feed(servers, produced, topic, range(300))
    options = {"subscribe": topic, "failOnDataLoss": str(fails).lower()}
    with Streamed(spark, form, servers, tmp_path, **options) as first:
        assert first.wait(300) == produced.rows
    feed(servers, produced, topic, range(300, 600))
    delete_records(servers, topic, 0, 150)  # the stream has read 100
    with Streamed(spark, form, servers, tmp_path, first, **options) as second:
        if fails:
            assert "failOnDataLoss" in second.error()
            return
        found = second.wait(550)
    assert found == [row for row in produced.rows if row[1] != 0 or not 100 <= row[2] < 150]


@pytest.mark.long
def test_a_topic_that_grows(spark: SparkSession, servers: str, topic: str, tmp_path: Path, form: str) -> None:
    from confluent_kafka.admin import NewPartitions

    create(servers, topic)
    produced = Produced()
    feed(servers, produced, topic, range(900))
    options = {"subscribe": topic, "maxOffsetsPerTrigger": 200}
    with Streamed(spark, form, servers, tmp_path, **options) as first:
        assert first.wait(900) == produced.rows
        administer(servers, lambda client: client.create_partitions([NewPartitions(topic, PARTITIONS + 2)]))
        feed(servers, produced, topic, range(900, 1400), PARTITIONS + 2)
        assert first.wait(1400) == produced.rows
    assert max(first.batches) <= 200
    feed(servers, produced, topic, range(1400, 1700), PARTITIONS + 2)
    with Streamed(spark, form, servers, tmp_path, first, **options) as second:
        assert second.wait(1700) == produced.rows
    assert max(second.batches) <= 200, "also the first batch of a restarted query is limited"
    assert read(spark, form, servers, topic) == produced.rows


@pytest.mark.long
@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize("count", [150, 600], ids=["shorter", "longer"])
def test_a_topic_that_is_made_again(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path, form: str, fails: bool, count: int
) -> None:
    """Between two runs of a query. Spark's connector knows no ids of topics: it does not see that a topic that is longer than
    before is another one, and reads only what is behind its offsets."""
    create(servers, topic)
    before, again = Produced(), Produced()
    feed(servers, before, topic, range(300))
    options = {"subscribe": topic, "failOnDataLoss": str(fails).lower()}
    with Streamed(spark, form, servers, tmp_path, **options) as first:
        assert first.wait(300) == before.rows
    make_again(servers, topic)
    feed(servers, again, topic, range(1000, 1000 + count))
    sees_it = form == "barnabas" or count < 300
    with Streamed(spark, form, servers, tmp_path, first, **options) as second:
        if fails and sees_it:
            assert "failOnDataLoss" in second.error()
            return
        if form == "barnabas":
            found = second.wait(300 + count)
            assert found == sorted(before.rows + again.rows, key=lambda row: row[:3])
            return
        feed(servers, again, topic, range(2000, 2900))
        newest = {b"%d" % n for n in range(2897, 2900)}
        second.wait_for(lambda found: newest <= {row[4] for row in found})
    later = second.rows[300:]
    assert {row[4] for row in later} >= {b"%d" % n for n in range(2300, 2900)}, "what comes behind the old offsets"
    assert sorted(later, key=lambda row: row[:3]) == [row for row in again.rows if row in later], "and nothing else"


@pytest.mark.long
@pytest.mark.parametrize(("form", "fails"), [("barnabas", True), ("barnabas", False), ("kafka", True)])
def test_a_topic_that_is_made_again_in_mid_stream(
    spark: SparkSession, servers: str, topic: str, tmp_path: Path, form: str, fails: bool
) -> None:
    """While the query runs. Spark's connector is not asked to go on: whether it does depends on the moment, as it gives up a
    topic that is missing within a second."""
    create(servers, topic)
    before, again = Produced(), Produced()
    feed(servers, before, topic, range(300))
    options = {"subscribe": topic, "failOnDataLoss": str(fails).lower()}
    with Streamed(spark, form, servers, tmp_path, **options) as stream:
        stream.wait(300)
        administer(servers, lambda client: client.delete_topics([topic]))
        if fails:
            assert stream.error()
            return
        until(lambda: is_created(servers, topic), "the deletion")
        feed(servers, again, topic, range(1000, 1600))  # more than before
        found = stream.wait(900)
    assert found == sorted(before.rows + again.rows, key=lambda row: row[:3])
