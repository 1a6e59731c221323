"""Transactions in Apache Kafka's own files: written by a transactional producer of librdkafka, served by us as by Kafka.

One ZooKeeper, one data directory. Apache Kafka 3.9.1 writes it and is asked everything that depends on transactions;
then it goes, our broker opens the same directory and is asked the same. What our broker writes in its turn, Apache Kafka's
own tool reads.
"""

from __future__ import annotations

import re
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tests.differential.batches import batch, headers
from tests.differential.wire import Wire
from tests.interop.conftest import need_java
from tests.interop.kafka_directory import transact
from tests.oracle import tools
from tests.oracle.barnabas import Barnabas
from tests.oracle.broker import Broker
from tests.oracle.kafka import KafkaServer
from tests.oracle.process import wait_until
from tests.oracle.zookeeper import ZooKeeper

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.timeout(300)]

CLOSED, OPEN = "closed", "open"
TOPICS = (CLOSED, OPEN)
"""In one every transaction has ended; in the other one hangs, from somewhere in the middle."""
SEGMENTS = {"segment.bytes": "2000", "index.interval.bytes": "300", "retention.ms": "-1"}
SETTINGS = {
    "transaction.partition.verification.enable": "false",
    "log.index.size.max.bytes": "65536",
    "log.initial.task.delay.ms": "3600000",
}
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
ENTRY = struct.Struct(">hqqqq")
TIMEOUT_S = 60


@dataclass
class Written:
    """A directory as Apache Kafka left it, what it answered before, and the ZooKeeper it was in."""

    zookeeper: ZooKeeper
    directory: Path
    answers: dict[str, Any]


def write(bootstrap: str) -> Producer:
    """Transactions over many segments. The producer that comes back has one open."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [NewTopic(topic, num_partitions=1, replication_factor=1, config=SEGMENTS) for topic in TOPICS]
    for created in admin.create_topics(wanted).values():
        created.result(30)
    transact(bootstrap, CLOSED, "closed", rounds=20)
    transact(bootstrap, OPEN, "before", rounds=9)
    hanging = Producer({"bootstrap.servers": bootstrap, "transactional.id": "hangs", "transaction.timeout.ms": 900000})
    hanging.init_transactions(60)
    hanging.begin_transaction()
    hanging.produce(OPEN, b"never decided", partition=0)
    assert hanging.flush(60) == 0
    transact(bootstrap, OPEN, "behind", rounds=9)
    return hanging


def ask(bootstrap: str) -> dict[str, Any]:
    """Everything that depends on transactions, as plain data."""
    wire, answers = Wire(*address(bootstrap)), {}
    try:
        assert wait_until(lambda: all(is_served(wire, topic) for topic in TOPICS), TIMEOUT_S)
        for topic in TOPICS:
            (end,) = listed(wire, topic, LATEST, isolation=0)[1:2]
            for timestamp in (LATEST, EARLIEST, MAX_TIMESTAMP, 0):
                for isolation in (0, 1):
                    answers[f"{topic} at {timestamp}, {isolation}"] = listed(wire, topic, timestamp, isolation)
            for max_bytes in (1, 500, 1 << 20):
                for offset in range(0, end + 1, 1 if max_bytes == 500 else 5):
                    for isolation in (0, 1):
                        answers[f"{topic} from {offset}, {max_bytes} bytes, {isolation}"] = fetched(
                            wire, topic, offset, max_bytes, isolation
                        )
            answers[f"producers of {topic}"] = producers(wire, topic)
    finally:
        wire.close()
    return answers


def is_served(wire: Wire, topic: str) -> bool:
    """A broker that has just started learns what it leads a moment later, and which topics there are after that."""
    row = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[row])])
    is_led = wire.ask(request, 7, TIMEOUT_S).topics[0].partitions[0].error_code == 0
    return bool(is_led and fetch_row(wire, topic, 0, 1, 0).error_code == 0)


def listed(wire: Wire, topic: str, timestamp: int, isolation: int) -> tuple[int, int, int]:
    row = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation, topics=[ListOffsetsTopic(name=topic, partitions=[row])]
    )
    (answer,) = wire.ask(request, 7, TIMEOUT_S).topics[0].partitions
    assert answer.error_code == 0, answer
    return answer.timestamp, answer.offset, answer.error_code


def fetch_row(wire: Wire, topic: str, offset: int, max_bytes: int, isolation: int) -> Any:
    row = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, isolation_level=isolation, topics=[FetchTopic(topic=topic, partitions=[row])]
    )
    (answer,) = wire.ask(request, 12, TIMEOUT_S).responses[0].partitions
    return answer


def fetched(wire: Wire, topic: str, offset: int, max_bytes: int, isolation: int) -> Any:
    answer = fetch_row(wire, topic, offset, max_bytes, isolation)
    assert answer.error_code == 0, answer
    aborted, records = answer.aborted_transactions, bytes(answer.records or b"")
    if aborted is not None:
        # A broker may name transactions that begin behind the records: how many depends on where it looks in the index.
        ends = [header["base_offset"] for header in headers(records) if isinstance(header, dict)]
        aborted = [each for each in aborted if ends and each.first_offset <= ends[-1]]
    return (
        answer.high_watermark,
        answer.last_stable_offset,
        answer.log_start_offset,
        None if aborted is None else [(each.producer_id, each.first_offset) for each in aborted],
        records.hex(),
    )


def producers(wire: Wire, topic: str) -> list[tuple[int, ...]]:
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0])])
    (answer,) = wire.ask(request, 0, TIMEOUT_S).topics[0].partitions
    assert answer.error_code == 0, answer
    return sorted(
        (
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.last_timestamp,
            each.coordinator_epoch,
            each.current_txn_start_offset,
        )
        for each in answer.active_producers
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    need_java()
    with ZooKeeper() as zookeeper:
        kafka = KafkaServer(zookeeper.connect, settings=SETTINGS, folder=tmp_path_factory.mktemp("kafka"))
        with kafka:
            hanging = write(kafka.bootstrap_servers)
            answers = ask(kafka.bootstrap_servers)
        del hanging
        yield Written(zookeeper, kafka.data, answers)


def ours(written: Written, folder: Path) -> Barnabas:
    """Our broker on a copy of the directory."""
    broker = Barnabas(SETTINGS, folder, zookeeper=written.zookeeper.connect)
    shutil.copytree(written.directory, broker.data)
    return broker


def files(broker: Broker | Path, topic: str, suffix: str) -> dict[str, bytes]:
    data = broker if isinstance(broker, Path) else broker.data
    return {path.name: path.read_bytes() for path in sorted((data / f"{topic}-0").glob(f"*{suffix}"))}


def assert_same(answers: dict[str, Any], expected: dict[str, Any]) -> None:
    differing = [asked for asked in expected if answers.get(asked) != expected[asked]]
    assert not differing, "\n".join(
        f"{asked}:\n  {str(expected[asked])[:400]}\n  {str(answers.get(asked))[:400]}" for asked in differing[:5]
    )
    assert answers.keys() == expected.keys()


def test_there_is_something_to_serve(written: Written) -> None:
    for topic in TOPICS:
        assert len(files(written.directory, topic, ".log")) > 4
        entries = sum(len(content) for content in files(written.directory, topic, ".txnindex").values()) // ENTRY.size
        assert entries >= 6
    full = written.answers[f"{CLOSED} from 0, {1 << 20} bytes, 1"]
    assert full[3], "aborted transactions"
    hanging = written.answers[f"{OPEN} from 0, 500 bytes, 1"]
    assert hanging[1] < hanging[0], "the last stable offset is behind the high watermark"


def test_a_directory_of_a_clean_stop_is_served_alike(written: Written, tmp_path: Path) -> None:
    with ours(written, tmp_path) as broker:
        assert_same(ask(broker.bootstrap_servers), written.answers)
    for topic in TOPICS:
        assert files(broker, topic, ".txnindex") == files(written.directory, topic, ".txnindex")


@pytest.mark.parametrize("loss", ["killed", "no transaction indexes", "no snapshots", "broken transaction indexes"])
def test_what_is_lost_is_made_again(written: Written, tmp_path: Path, loss: str) -> None:
    broker = ours(written, tmp_path)
    if loss != "broken transaction indexes":
        (broker.data / ".kafka_cleanshutdown").unlink()
        (broker.data / "recovery-point-offset-checkpoint").unlink()  # or the segments below it would be left alone
    for topic in TOPICS:
        folder = broker.data / f"{topic}-0"
        for path in folder.glob("*"):
            if path.suffix == {"no transaction indexes": ".txnindex", "no snapshots": ".snapshot"}.get(loss):
                path.unlink()
            elif loss == "broken transaction indexes" and path.suffix == ".txnindex":
                content = path.read_bytes()
                path.write_bytes(content[:-3] if len(content) > ENTRY.size else b"\0" * 40)
    with broker:
        answers = ask(broker.bootstrap_servers)
    assert_same(answers, written.answers)
    for topic in TOPICS:
        assert files(broker, topic, ".txnindex") == files(written.directory, topic, ".txnindex")


def test_apache_kafka_goes_on_where_we_stopped(written: Written, tmp_path: Path) -> None:
    """We end the hanging transaction and write others; Apache Kafka opens the directory again and agrees."""
    with ours(written, tmp_path) as broker:
        append(broker.bootstrap_servers)
        answers = ask(broker.bootstrap_servers)
    dumped_as_written(broker.data)
    again = KafkaServer(written.zookeeper.connect, settings=SETTINGS, folder=tmp_path)
    with again:
        assert_same(ask(again.bootstrap_servers), answers)
    log = again.log_tail(1 << 20)
    assert "Recovering unflushed segment" not in log and "corrupt" not in log.lower(), log


def test_a_hanging_transaction_is_found_and_aborted_with_apache_kafkas_tool(written: Written, tmp_path: Path) -> None:
    with ours(written, tmp_path) as broker:
        wire = Wire(*address(broker.bootstrap_servers))
        assert wait_until(lambda: is_served(wire, OPEN), TIMEOUT_S)
        partition = ["--topic", OPEN, "--partition", "0"]
        server = ["--bootstrap-server", broker.bootstrap_servers]
        text = tools.run("transactions", [*server, "describe-producers", *partition])
        rows = [line.split() for line in text.splitlines() if line[:1].isdigit()]
        assert len(rows) == len(written.answers[f"producers of {OPEN}"])
        (hanging,) = [row for row in rows if row[5] != "None"]
        stable = listed(wire, OPEN, LATEST, isolation=1)[1]
        assert int(hanging[5]) == stable
        tools.run("transactions", [*server, "abort", *partition, "--start-offset", hanging[5]])
        assert listed(wire, OPEN, LATEST, isolation=1)[1] == listed(wire, OPEN, LATEST, isolation=0)[1] > stable
        wire.close()


def address(bootstrap: str) -> tuple[str, int]:
    host, port = bootstrap.split(":")
    return host, int(port)


def append(bootstrap: str) -> None:
    """As producer and coordinator: overlapping transactions, committed and aborted, over several segments."""
    wire = Wire(*address(bootstrap))
    assert wait_until(lambda: all(is_served(wire, topic) for topic in TOPICS), TIMEOUT_S)
    hanging = next(row for row in producers(wire, OPEN) if row[5] >= 0)
    end(wire, OPEN, hanging[0], hanging[1], committed=False, coordinator_epoch=max(hanging[4], 0))
    made = [new_producer(wire) for _ in range(2)]
    for topic in TOPICS:
        for turn in range(15):
            for each in made:
                records = batch(
                    b"more %d" % turn * 9, attributes=0x10, producer_id=each.producer_id,
                    producer_epoch=each.producer_epoch, base_sequence=turn,
                )  # fmt: skip
                data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
                request = ProduceRequest(transactional_id="ours", acks=-1, timeout_ms=10000, topic_data=[data])
                assert wire.ask(request, 9, TIMEOUT_S).responses[0].partition_responses[0].error_code == 0
            for at, each in enumerate(made):
                end(wire, topic, each.producer_id, each.producer_epoch, committed=(turn + at) % 3 == 0)
    wire.close()


def new_producer(wire: Wire) -> Any:
    """Its id and epoch; a broker that gets no block of ids from its controller in time has the client ask again."""
    answers: list[Any] = []

    def is_made() -> bool:
        answers.append(
            wire.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60000), 4, TIMEOUT_S)
        )
        return bool(answers[-1].error_code == 0)

    assert wait_until(is_made, TIMEOUT_S), answers[-1]
    return answers[-1]


def end(wire: Wire, topic: str, producer_id: int, epoch: int, *, committed: bool, coordinator_epoch: int = 0) -> None:
    marker = WritableTxnMarker(
        producer_id=producer_id, producer_epoch=epoch, transaction_result=committed, coordinator_epoch=coordinator_epoch,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
    )  # fmt: skip
    answer = wire.ask(WriteTxnMarkersRequest(markers=[marker]), 1, TIMEOUT_S)
    assert answer.markers[0].topics[0].partitions[0].error_code == 0, answer


def dumped_as_written(data: Path) -> None:
    """Apache Kafka's DumpLogSegments reads our transaction indexes and snapshots as what we wrote."""
    for topic in TOPICS:
        paths = sorted((data / f"{topic}-0").glob("*.txnindex"))
        assert len(paths) > 4
        text = tools.run("dump-log", ["--files", ",".join(map(str, paths))])
        shown = [tuple(map(int, numbers)) for numbers in re.findall(_ENTRY_LINE, text)]
        assert shown == [row for path in paths for row in ENTRY.iter_unpack(path.read_bytes())]
        snapshots = sorted((data / f"{topic}-0").glob("*.snapshot"))
        bases = {path.stem for path in (data / f"{topic}-0").glob("*.log")}
        assert {path.stem for path in snapshots} >= bases - {"0" * 20}, "one a segment"
        text = tools.run("dump-log", ["--files", ",".join(map(str, snapshots))])
        counts = [struct.unpack_from(">i", path.read_bytes(), 6)[0] for path in snapshots]
        assert len(re.findall(r"^producerId: \d+ ", text, re.MULTILINE)) == sum(counts)


_ENTRY_LINE = r"version: (\d+) producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)"
