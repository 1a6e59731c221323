"""Segments with offsets too far apart for an index: split by this broker as by Apache Kafka 3.9.1, from the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from protocol.records.any_format import iter_any_headers
from protocol.records.record import Record, encode_batch
from tests.interop.conftest import need_java
from tests.oracle.barnabas import Barnabas
from tests.oracle.broker import Broker
from tests.oracle.kafka import ApacheKafka

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(200)]

TOPIC = "wide"
NOW_MS = 1_700_000_000_000
FAR = 1 << 31
# Two records a batch. The last one of a batch is what has to fit.
OFFSETS = (0, 5, FAR - 3, FAR - 1, FAR + 7, 2 * FAR + 3)


def batch_at(offset: int) -> bytes:
    records = [Record(at, NOW_MS + at, b"k%d" % (offset + at), b"v%d" % (offset + at), []) for at in range(2)]
    return encode_batch(records, base_offset=offset, partition_leader_epoch=0)


def segments_in(folder: Path) -> dict[int, list[int]]:
    """Base offsets of batches by that of their segment; of segments with any."""
    found = {
        int(path.stem): [header.base_offset for _, header in iter_any_headers(path.read_bytes())]
        for path in sorted(folder.glob("*.log"))
    }
    return {base_offset: offsets for base_offset, offsets in found.items() if offsets}


def come_upon_a_wide_segment(broker: Broker) -> Path:
    """Start again, as if after a kill, with it in the place of a topic's own."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    topic = NewTopic(TOPIC, 1, 1, config={"cleanup.policy": "compact", "retention.ms": "-1"})
    admin.create_topics([topic])[TOPIC].result(20)
    broker.stop()
    folder = broker.data / f"{TOPIC}-0"
    for path in folder.glob("0*"):
        path.unlink()
    (folder / f"{0:020d}.log").write_bytes(b"".join(map(batch_at, OFFSETS)))
    (broker.data / ".kafka_cleanshutdown").unlink()
    broker.start()
    return folder


@pytest.fixture(scope="module", params=["barnabas", "kafka"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    need_java()
    # There is a moment in which a segment that is being cleaned has no file of its name.
    settings = {"offsets.topic.replication.factor": "1", "log.cleaner.enable": "false"}
    with Barnabas(settings) if request.param == "barnabas" else ApacheKafka(settings) as running:
        yield running


def test_a_start_splits_the_segment_and_serves_all_of_it(broker: Broker) -> None:
    folder = come_upon_a_wide_segment(broker)
    assert segments_in(folder) == {0: [0, 5, FAR - 3], FAR - 1: [FAR - 1, FAR + 7], 2 * FAR + 3: [2 * FAR + 3]}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        offsets: list[int] = []
        while len(offsets) < 2 * len(OFFSETS):
            message = consumer.poll(20)
            assert message is not None and message.error() is None
            offset = message.offset()
            assert offset is not None and message.value() == b"v%d" % offset
            offsets.append(offset)
        assert offsets == [offset + at for offset in OFFSETS for at in range(2)]
    finally:
        consumer.close()
