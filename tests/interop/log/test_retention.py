"""The same records under the same limits: this broker and Apache Kafka let the same segments go."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.record import Record, encode_batch
from tests.differential.wire import Wire
from tests.interop.conftest import need_java
from tests.oracle.barnabas import Barnabas
from tests.oracle.broker import Broker
from tests.oracle.folder import paths
from tests.oracle.kafka import ApacheKafka
from tests.oracle.process import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(400)]

HOUR_MS = 3_600_000
RECORDS = 60
TIMEOUT_S = 60
SETTINGS = {
    "log.retention.check.interval.ms": "300",
    "log.initial.task.delay.ms": "300",
    "log.segment.delete.delay.ms": "500",
    "log.cleaner.backoff.ms": "300",
    "auto.create.topics.enable": "false",
}
SEGMENTS = {"segment.bytes": "1200", "file.delete.delay.ms": "400"}
# What is set from the start, and what is set after that has been carried out.
TOPICS: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]] = {
    "unlimited": ({"retention.ms": "-1"}, {}),
    "old": ({"retention.ms": str(20 * HOUR_MS + HOUR_MS // 2)}, {}),
    "all-old": ({"retention.ms": str(HOUR_MS // 2)}, {}),
    "large": ({"retention.ms": "-1", "retention.bytes": "3000"}, {}),
    "nothing": ({"retention.ms": "-1", "retention.bytes": "0"}, {}),
    "both": ({"retention.ms": str(30 * HOUR_MS), "retention.bytes": "4000"}, {}),
    "lowered": ({"retention.ms": str(40 * HOUR_MS)}, {"retention.ms": str(10 * HOUR_MS + HOUR_MS // 2)}),
    "raised": ({"retention.ms": str(15 * HOUR_MS)}, {"retention.ms": str(50 * HOUR_MS)}),
    "compacted-too": ({"retention.ms": str(20 * HOUR_MS + HOUR_MS // 2), "cleanup.policy": "compact,delete"}, {}),
    "shortened": ({"retention.ms": "-1"}, {}),
}
SHORTENED_TO = 25


@pytest.fixture(scope="module", params=["barnabas", "kafka"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    need_java()
    with Barnabas(SETTINGS) if request.param == "barnabas" else ApacheKafka(SETTINGS) as running:
        yield running


def produce(broker: Broker, topic: str) -> None:
    """A record an hour, each in a batch of its own; the last one is from now."""
    now_ms = int(time.time() * 1000)
    wire = Wire("127.0.0.1", broker.port)
    for at in range(RECORDS):
        timestamp = now_ms - (RECORDS - 1 - at) * HOUR_MS
        batch = encode_batch([Record(0, timestamp, f"key-{at}".encode(), b"v" * 100, [])])
        rows = [PartitionProduceData(index=0, records=batch)]
        request = ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=topic, partition_data=rows)],
        )
        response = wire.ask(request, 9, TIMEOUT_S)
        assert response.responses[0].partition_responses[0].error_code == 0
    wire.close()


def starts(admin: AdminClient) -> dict[str, int]:
    asked = {TopicPartition(topic, 0): OffsetSpec.earliest() for topic in TOPICS}
    return {place.topic: answer.result(TIMEOUT_S).offset for place, answer in admin.list_offsets(asked).items()}


def settled_starts(admin: AdminClient) -> dict[str, int]:
    """Where the logs start when three looks of the broker's retention have changed nothing."""
    seen = [starts(admin)]

    def is_settled() -> bool:
        seen.append(starts(admin))
        return len(seen) > 4 and all(each == seen[-1] for each in seen[-4:])

    assert wait_until(is_settled, TIMEOUT_S, 0.5)
    return seen[-1]


def segments(broker: Broker, topic: str) -> dict[int, Path]:
    """The files of a log by the offset at which they begin."""
    return {int(path.stem): path for path in sorted((broker.data / f"{topic}-0").glob("*.log"))}


@dataclass(frozen=True)
class Full:
    """A log before anything went: where each segment begins and ends, and how large it is."""

    ranges: Sequence[tuple[int, int]]
    sizes: Sequence[int]

    def start(self, limits: Mapping[str, str]) -> int:
        """Where the log begins when what the limits do not keep is gone: whole segments, the oldest first."""
        retention_ms, retention_bytes = int(limits["retention.ms"]), int(limits.get("retention.bytes", "-1"))
        excess = sum(self.sizes) - retention_bytes if retention_bytes >= 0 else -1
        start = 0
        for (_, end), size in zip(self.ranges, self.sizes, strict=True):
            excess -= size
            is_old = 0 <= retention_ms <= (RECORDS - end) * HOUR_MS  # by its last record
            if not is_old and excess < 0:
                break
            start = end
        return start

    def bases(self, start: int) -> list[int]:
        """Those of the segments that a log which begins at `start` still has."""
        return [base for base, end in self.ranges if end > start] or [start]


def full(broker: Broker, topic: str) -> Full:
    files = segments(broker, topic)
    return Full(list(pairwise([*files, RECORDS])), [path.stat().st_size for path in files.values()])


_seen: dict[str, object] = {}


def test_the_same_segments_go(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    # Nothing goes while records are still coming, or what goes would depend on when.
    made = [NewTopic(topic, 1, 1, config={**SEGMENTS, "retention.ms": "-1"}) for topic in TOPICS]
    for created in admin.create_topics(made).values():
        created.result(TIMEOUT_S)
    for topic in TOPICS:
        produce(broker, topic)
    logs = {topic: full(broker, topic) for topic in TOPICS}
    found: dict[str, object] = {"full": logs}
    expected = {topic: SHORTENED_TO if topic == "shortened" else 0 for topic in TOPICS}
    deleted = admin.delete_records([TopicPartition("shortened", 0, SHORTENED_TO)])
    for answer in deleted.values():
        answer.result(TIMEOUT_S)
    for step in (0, 1):
        changes = [
            ConfigResource(ResourceType.TOPIC, topic, {**SEGMENTS, **settings[step]})
            for topic, settings in TOPICS.items()
            if settings[step]
        ]
        for altered in admin.alter_configs(changes).values():
            altered.result(TIMEOUT_S)
        for topic, log in logs.items():
            expected[topic] = max(expected[topic], log.start({**TOPICS[topic][0], **TOPICS[topic][step]}))

        def is_done() -> bool:
            left = {topic: list(segments(broker, topic)) for topic in TOPICS}
            return starts(admin) == expected and left == {one: logs[one].bases(expected[one]) for one in TOPICS}

        assert wait_until(is_done, TIMEOUT_S), (starts(admin), expected)
        found[f"starts {step}"] = settled_starts(admin)
        assert wait_until(lambda: not paths(Path(broker.data), "*/*.deleted"), TIMEOUT_S), "the files go in the end"
        found[f"segments {step}"] = {topic: list(segments(broker, topic)) for topic in TOPICS}
    earlier = _seen.setdefault("found", found)
    assert found == earlier, "as the other broker"
    first = found["starts 0"]
    assert isinstance(first, dict)
    assert first["unlimited"] == 0 and first["all-old"] >= RECORDS - 9 and first["nothing"] == RECORDS
    assert first["shortened"] == SHORTENED_TO
