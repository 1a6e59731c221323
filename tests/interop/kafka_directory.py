"""What is written into a data directory before another broker, or a tool, has to read it: every kind of record there is.

All codecs, records of idempotent and transactional producers (committed, aborted, both at once), a compacted and a deleted
topic, groups with committed offsets, deleted records, several segments, headers, nulls, timestamps of the producer's choice.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from storage.checkpoint import decode_offsets
from tests.interop.retried_requests import answered, bounds, end_of, wait_until_ends_at
from tests.oracle.folder import paths
from tests.oracle.process import wait_until

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
OLD_CODECS = CODECS[:4]
START_MS = int(time.time() - 7200) * 1000
"""Of the first records: producers that wrote long ago would be forgotten at the next start."""
SMALL_SEGMENTS = {"segment.bytes": "8192", "index.interval.bytes": "512", "retention.ms": "-1"}
TOPICS: Mapping[str, tuple[int, Mapping[str, str]]] = {
    **{f"codec-{codec}": (1, SMALL_SEGMENTS) for codec in CODECS},
    "mixed": (2, {"retention.ms": "-1"}),
    "transactions": (1, {**SMALL_SEGMENTS, "segment.bytes": "4096"}),
    "appendtime": (1, {"message.timestamp.type": "LogAppendTime"}),
    "compacted": (
        1,
        {
            "cleanup.policy": "compact",
            "segment.bytes": "4096",
            "index.interval.bytes": "512",
            "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": "86400000",
        },
    ),
    "shortened": (1, SMALL_SEGMENTS),
    "doomed": (2, SMALL_SEGMENTS),
    "empty": (1, {}),
}
SETTINGS = {
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "log.retention.check.interval.ms": "3600000",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "auto.create.topics.enable": "false",
    "log.index.size.max.bytes": "65536",
    "log.segment.delete.delay.ms": "1000",
    "log.flush.start.offset.checkpoint.interval.ms": "1000",
}
"""Of the broker that is written to."""


@dataclass(frozen=True)
class Seen:
    """A record as a consumer sees it."""

    offset: int
    timestamp: tuple[int, int]
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass
class Content:
    """What clients can see of a broker: to be the same before and after another one had its directory."""

    records: dict[tuple[str, int, str], list[Seen]] = field(default_factory=dict)
    """By topic, partition and isolation level."""
    bounds: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    committed: dict[tuple[str, str, int], tuple[int, str | None]] = field(default_factory=dict)


def fill(bootstrap: str, *, has_transactions: bool = True) -> None:
    """Write everything."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [
        NewTopic(name, num_partitions=count, replication_factor=1, config=dict(config))
        for name, (count, config) in TOPICS.items()
    ]
    for created in admin.create_topics(wanted).values():
        created.result(30)
    for codec in CODECS:
        produce(bootstrap, f"codec-{codec}", 400, {"compression.type": codec, "batch.num.messages": "20"})
    _produce_mixed(bootstrap)
    produce(bootstrap, "appendtime", 30, {})
    for topic in ("shortened", "doomed"):
        produce(bootstrap, topic, 300, {"enable.idempotence": "true", "batch.num.messages": "10"})
    _produce_compacted(bootstrap)
    if has_transactions:
        transact(bootstrap, "transactions", "first", rounds=30)
        _transact_compacted(bootstrap)
    for deleted in admin.delete_records([TopicPartition("shortened", 0, 137)]).values():
        deleted.result(30)
    commit(bootstrap, "readers", "codec-gzip", 0, 123, "as far as I came")
    commit(bootstrap, "readers", "mixed", 1, 7, "")
    commit(bootstrap, "others", "mixed", 0, 3, "")
    consume_as_group(bootstrap, "members", "codec-none")
    for gone in admin.delete_topics(["doomed"], operation_timeout=30).values():
        gone.result(30)


def fill_old(bootstrap: str) -> None:
    """Message sets of formats v0 and v1, where a broker still writes them."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    versions = {"v0": "0.9.0", "v1": "0.10.0"}
    wanted = [
        NewTopic(
            f"{name}-{codec}", num_partitions=1, replication_factor=1,
            config={**SMALL_SEGMENTS, "message.format.version": version, "compression.type": compression},
        )
        for name, version in versions.items()
        for codec, compression in zip(OLD_CODECS, ("uncompressed", *OLD_CODECS[1:]), strict=True)
    ]  # fmt: skip
    for created in admin.create_topics(wanted).values():
        created.result(30)
    for name in versions:
        for codec in OLD_CODECS:
            produce(bootstrap, f"{name}-{codec}", 200, {"batch.num.messages": "20"}, has_headers=False)


def produce(
    bootstrap: str, topic: str, count: int, settings: Mapping[str, str], *, first: int = 0, has_headers: bool = True
) -> None:
    """Records with keys that repeat, rising times, and sometimes headers; every one must be acknowledged."""
    refused: list[str] = []
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **settings})
    for number in range(first, first + count):
        producer.produce(
            topic,
            key=f"key-{number % 50}".encode(),
            value=f"value {number} of {topic} ".encode() * 3,
            partition=0,
            timestamp=START_MS + number * 1000,
            headers=[("number", str(number).encode()), ("none", None)] if has_headers and number % 3 == 0 else [],
            on_delivery=lambda error, _message: refused.append(str(error)) if error else None,
        )
        producer.poll(0)
    assert producer.flush(60) == 0 and not refused, refused[:3]


def _produce_mixed(bootstrap: str) -> None:
    """Nulls, empty texts, odd headers, times that fall."""
    producer = Producer({"bootstrap.servers": bootstrap})
    rows = [
        (None, b"no key"),
        (b"no value", None),
        (b"", b""),
        ("schlüssel".encode(), b"\x00\xff\xfe"),
        (b"k", b"v" * 5000),
    ]
    for partition in (0, 1):
        for at, (key, value) in enumerate(rows * 4):
            headers = [("", b""), ("same", b"1"), ("same", None)] if at % 2 else []
            producer.produce(
                "mixed", key=key, value=value, partition=partition, timestamp=START_MS - at * 7, headers=headers
            )
        assert producer.flush(60) == 0


def _produce_compacted(bootstrap: str) -> None:
    for turn in range(8):
        produce(
            bootstrap, "compacted", 120, {"enable.idempotence": "true", "batch.num.messages": "10"}, first=turn * 120
        )


def _transact_compacted(bootstrap: str) -> None:
    end = end_of(bootstrap, "compacted") + 6 * 11
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "compacting"})
    producer.init_transactions(60)
    for turn in range(6):
        producer.begin_transaction()
        for number in range(10):
            producer.produce("compacted", key=f"key-{number}".encode(), value=None if number == 3 else b"t" * 60)
        assert producer.flush(60) == 0  # an abort forgets what was not sent
        if turn % 3 == 2:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
    wait_until_ends_at(bootstrap, "compacted", end)


def transact(bootstrap: str, topic: str, name: str, *, rounds: int) -> None:
    """Two producers whose transactions overlap; every third is aborted. Returns when all of it is in the log."""
    end = end_of(bootstrap, topic) + rounds * 5
    one, two = (
        Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{name}-{number}", "linger.ms": 0})
        for number in (1, 2)
    )
    for producer in (one, two):
        producer.init_transactions(60)
    for turn in range(rounds):
        one.begin_transaction()
        two.begin_transaction()
        for producer, letter in ((one, "a"), (two, "b"), (one, "c")):
            producer.produce(topic, key=letter.encode(), value=f"{name} {turn} {letter}".encode() * 4, partition=0)
            assert producer.flush(60) == 0
        for at, producer in enumerate((one, two)):
            if (turn + at) % 3 == 0:
                producer.abort_transaction(60)
            else:
                producer.commit_transaction(60)
    wait_until_ends_at(bootstrap, topic, end)


def commit(bootstrap: str, group: str, topic: str, partition: int, offset: int, metadata: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition(topic, partition, offset, metadata)], asynchronous=False)
    consumer.close()


def consume_as_group(bootstrap: str, group: str, topic: str) -> None:
    """A member joins, reads, commits and leaves: group records of every state."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.subscribe([topic])
    assert consumer.consume(50, 60)
    consumer.commit(asynchronous=False)
    consumer.close()


def wait_until_compacted(bootstrap: str, directories: Sequence[Path], timeout_s: float = 90) -> None:
    """The cleaner has been through the compacted topic up to its active segment, and has nothing left to do."""
    assert wait_until(lambda: any(map(_is_compacted, directories)), timeout_s), "the compacted topic is not clean"
    left = len(read(bootstrap, "compacted", 0, "read_uncommitted"))
    assert left < 700, f"{left} records are left in the compacted topic"


def _is_compacted(directory: Path) -> bool:
    checkpoint = directory / "cleaner-offset-checkpoint"
    if not checkpoint.exists():
        return False
    first_dirty = decode_offsets(checkpoint.read_bytes()).get(("compacted", 0))
    bases = [int(path.stem) for path in (directory / "compacted-0").glob("*.log")]
    return bool(bases) and first_dirty == max(bases)


def seal_compacted(bootstrap: str) -> None:
    """No more cleaning: what is there now is there later."""
    settings = {**TOPICS["compacted"][1], "min.compaction.lag.ms": "9000000000000"}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for changed in admin.alter_configs([ConfigResource(ResourceType.TOPIC, "compacted", set_config=settings)]).values():
        changed.result(30)


def read(bootstrap: str, topic: str, partition: int, isolation: str) -> list[Seen]:
    """Every record of a partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reads-all",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )
    try:
        low, high = bounds(consumer, topic, partition)
        consumer.assign([TopicPartition(topic, partition, low)])
        seen: list[Seen] = []
        while low < high:
            message = consumer.poll(60)
            assert message is not None, f"{topic}-{partition} ends at {seen[-1:]}, not at {high}"
            if message.error():
                if message.error().name() == "_PARTITION_EOF":
                    break
                raise AssertionError(str(message.error()))
            headers = tuple((name, value) for name, value in message.headers() or ())
            seen.append(Seen(message.offset(), message.timestamp(), message.key(), message.value(), headers))
        return seen
    finally:
        consumer.close()


def content(bootstrap: str, groups: Sequence[str] = ("readers", "others", "members")) -> Content:
    """What clients see of everything, once every topic has its leaders."""
    _wait_for_leaders(bootstrap)
    found = Content()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "looks"})
    partitions = [
        (topic, partition) for topic, (count, _) in TOPICS.items() if topic != "doomed" for partition in range(count)
    ]
    for topic, partition in partitions:
        found.bounds[topic, partition] = bounds(consumer, topic, partition)
        for isolation in ("read_uncommitted", "read_committed"):
            found.records[topic, partition, isolation] = read(bootstrap, topic, partition, isolation)
    consumer.close()
    for group in groups:
        reader = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        asked = [TopicPartition(*each) for each in partitions]
        for row in answered(lambda r=reader, a=asked: r.committed(a, timeout=30)):  # type: ignore[misc]
            if row.offset >= 0:
                found.committed[group, row.topic, row.partition] = (row.offset, row.metadata)
        reader.close()
    return found


def _wait_for_leaders(bootstrap: str, timeout_s: float = 60) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = {topic: count for topic, (count, _) in TOPICS.items() if topic != "doomed"}
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        topics = admin.list_topics(timeout=timeout_s).topics
        led = {
            name: sum(partition.leader >= 0 and partition.error is None for partition in topic.partitions.values())
            for name, topic in topics.items()
        }
        if all(led.get(topic) == count for topic, count in wanted.items()):
            return
        time.sleep(0.2)
    raise AssertionError(f"partitions with leaders: {led}, not {wanted}")


def log_files(directories: Sequence[Path], *suffixes: str) -> list[Path]:
    """Files of partitions' folders, those set aside excepted, by what their names end with."""
    return sorted(
        path
        for folder in directories
        for path in paths(folder, "*-*/*")
        if path.name.endswith(suffixes) and not path.parent.name.endswith("-delete")
    )
