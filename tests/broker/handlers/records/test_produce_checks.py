"""What refuses a Produce request as a whole, partitions that it names more than once, and which refusal comes first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from config.broker import BrokerSettings
from metadata.image import ClusterImage, MetadataCache, PartitionImage, TopicImage
from protocol.errors import ErrorCode
from protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.broker.handlers.records.produce_twins import Twins, on_twins
from tests.replication.replica_world import ME
from tests.storage.logs import batch

Row = tuple[str, int, str, int]
"""Topic, partition, error, base offset."""
Place = tuple[str, int, bytes]

VERSION = 9
GOOD = bytes(batch("good"))
TWO = GOOD + GOOD
WRONG_CRC = GOOD[:-1] + bytes([GOOD[-1] ^ 1])
UNKNOWN_MAGIC = GOOD[:16] + b"\x03" + GOOD[17:]
SHORT = GOOD[:8] + (10).to_bytes(4, "big") + GOOD[12:]


def of_transaction(producer_id: int = 5, producer_epoch: int = 0) -> bytes:
    return bytes(
        batch(
            "t", producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=0, is_transactional=True
        )
    )  # fmt: skip


def request_of(*places: Place, acks: int = 1, transactional_id: str | None = None) -> ProduceRequest:
    """Each place as a topic of its own, also when it is of the same as the one before."""
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=1_000,
        topic_data=[
            TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=index, records=records)])
            for topic, index, records in places
        ],
    )


def as_one_topic(request: ProduceRequest) -> ProduceRequest:
    data = [each for topic in request.topic_data for each in topic.partition_data]
    request.topic_data = [TopicProduceData(name=request.topic_data[0].name, partition_data=data)]
    return request


async def answered(both: Twins, request: ProduceRequest) -> list[Row]:
    for each in both.sides:
        each.peer.stream.writes.clear()
    both.send(both.frame(request, VERSION))
    (answer,) = await both.compare()
    response = ProduceResponse.decode(answer[5:], VERSION)
    return [
        (topic.name, row.index, ErrorCode(row.error_code).name, row.base_offset)
        for topic in response.responses
        for row in topic.partition_responses
    ]


def ends(both: Twins) -> list[int]:
    return [one.partition.log.next_offset for one in both.sides[0].replicas]


def play(folder: Path, steps: Sequence[tuple[ProduceRequest, list[Row]]], expected_ends: list[int]) -> None:
    async def scenario(both: Twins) -> None:
        for request, expected in steps:
            assert await answered(both, request) == expected
        assert ends(both) == expected_ends

    on_twins(folder, scenario)


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (UNKNOWN_MAGIC, "CORRUPT_MESSAGE"),
        (SHORT, "CORRUPT_MESSAGE"),
        (of_transaction(), "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    ],
)
def test_one_partitions_records_refuse_the_request(tmp_path: Path, bad: bytes, code: str) -> None:
    request = request_of(("t", 0, GOOD), ("t", 1, bad), ("u", 7, GOOD))
    play(tmp_path, [(request, [("t", 0, code, -1), ("t", 1, code, -1), ("u", 7, code, -1)])], [0, 0])


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (WRONG_CRC, "CORRUPT_MESSAGE"),
        (TWO, "INVALID_RECORD"),
        (b"", "INVALID_RECORD"),
        (of_transaction()[:-1], "INVALID_RECORD"),
    ],
)
def test_others_refuse_their_own_partition(tmp_path: Path, bad: bytes, code: str) -> None:
    request = as_one_topic(request_of(("t", 0, GOOD), ("t", 1, bad)))
    play(tmp_path, [(request, [("t", 0, "NONE", 0), ("t", 1, code, -1)])], [1, 0])


def test_without_an_answer_what_refuses_the_request_closes_the_connection(tmp_path: Path) -> None:
    async def scenario(both: Twins) -> None:
        both.send(both.frame(request_of(("t", 0, GOOD), ("t", 1, UNKNOWN_MAGIC), acks=0), VERSION))
        assert await both.compare() == []
        assert both.sides[0].peer.stream.is_closed
        assert ends(both) == [0, 0]

    on_twins(tmp_path, scenario)


def unverified(both: Twins) -> None:
    """Nobody asks whether a partition belongs to a transaction."""
    for each in both.sides:
        dynamic: Any = each.broker.shared.services.dynamic_settings
        dynamic.settings = BrokerSettings({"transaction.partition.verification.enable": "false"})


@pytest.mark.parametrize("second", [of_transaction(6), of_transaction(5, 1)], ids=["another", "another epoch"])
@pytest.mark.parametrize("acks", [1, 2])
def test_transactional_batches_are_of_one_producer(tmp_path: Path, second: bytes, acks: int) -> None:
    async def scenario(both: Twins) -> None:
        unverified(both)
        request = request_of(("t", 0, of_transaction()), ("t", 1, second), transactional_id="x", acks=acks)
        code = "INVALID_PRODUCER_ID_MAPPING"
        assert await answered(both, request) == [("t", 0, code, -1), ("t", 1, code, -1)]
        assert ends(both) == [0, 0]

    on_twins(tmp_path, scenario)


@pytest.mark.parametrize(
    ("other", "row"),
    [
        (("t", 7, of_transaction(6)), ("t", 7, "UNKNOWN_TOPIC_OR_PARTITION", -1)),
        (("t", 1, of_transaction(6) * 2), ("t", 1, "INVALID_RECORD", -1)),
        (("t", 1, UNKNOWN_MAGIC), ("t", 1, "CORRUPT_MESSAGE", -1)),
        (("t", 1, GOOD), ("t", 1, "NONE", 0)),
        (("t", 1, of_transaction()), ("t", 1, "NONE", 0)),
    ],
)
def test_only_what_may_be_appended_counts_as_a_producers(tmp_path: Path, other: Place, row: Row) -> None:
    async def scenario(both: Twins) -> None:
        unverified(both)
        request = request_of(("t", 0, of_transaction()), other, transactional_id="x")
        assert await answered(both, request) == [("t", 0, "NONE", 0), row]

    on_twins(tmp_path, scenario)


@pytest.mark.parametrize("in_one_topic", [True, False])
@pytest.mark.parametrize(
    ("records", "row", "end"),
    [
        ((WRONG_CRC, TWO[: len(GOOD)], bytes(batch("b", "c"))), ("t", 0, "NONE", 0), 2),
        ((GOOD, WRONG_CRC), ("t", 0, "CORRUPT_MESSAGE", -1), 0),
        # Refused, and appended all the same: as Apache Kafka does.
        ((TWO, GOOD), ("t", 0, "INVALID_RECORD", -1), 1),
        ((GOOD, TWO), ("t", 0, "INVALID_RECORD", -1), 1),
        ((TWO, b""), ("t", 0, "INVALID_RECORD", -1), 0),
    ],
)
def test_of_a_partition_named_again_the_last_batch_counts(
    tmp_path: Path, records: tuple[bytes, ...], row: Row, end: int, *, in_one_topic: bool
) -> None:
    request = request_of(*(("t", 0, each) for each in records))
    if in_one_topic:
        as_one_topic(request)
    play(tmp_path, [(request, [row])], [end, 0])


def test_a_topic_named_again_is_answered_once(tmp_path: Path) -> None:
    request = request_of(("t", 1, GOOD), ("u", 0, GOOD), ("u", 0, TWO), ("t", 0, GOOD))
    rows = [("t", 1, "NONE", 0), ("t", 0, "NONE", 0), ("u", 0, "UNKNOWN_TOPIC_OR_PARTITION", -1)]
    play(tmp_path, [(request, rows)], [1, 1])


@pytest.mark.parametrize("acks", [-2, 2])
def test_acks_that_there_are_not_are_told_last(tmp_path: Path, acks: int) -> None:
    request = request_of(("u", 0, GOOD), ("t", 0, b""), ("t", 1, TWO), acks=acks)
    rows = [("u", 0, "UNKNOWN_TOPIC_OR_PARTITION", -1), ("t", 0, "INVALID_RECORD", -1), ("t", 1, "INVALID_RECORD", -1)]
    other = request_of(("t", 0, WRONG_CRC), acks=acks)
    play(tmp_path, [(request, rows), (other, [("t", 0, "INVALID_REQUIRED_ACKS", -1)])], [0, 0])


@pytest.mark.parametrize(
    ("records", "acks", "code"),
    [
        (GOOD, 1, "INVALID_TOPIC_EXCEPTION"),
        (WRONG_CRC, 1, "INVALID_TOPIC_EXCEPTION"),
        (GOOD, 2, "INVALID_REQUIRED_ACKS"),
        (b"", 1, "INVALID_RECORD"),
        (TWO, 2, "INVALID_RECORD"),
    ],
)
def test_an_internal_topic_is_told_after_the_batch(tmp_path: Path, records: bytes, acks: int, code: str) -> None:
    internal = "__consumer_offsets"

    async def scenario(both: Twins) -> None:
        row = PartitionImage(ME, 0, (ME,), (ME,), (), 0, 1)
        for each in both.sides:
            metadata: MetadataCache = each.broker.shared.services.metadata
            metadata.publish(ClusterImage("c", ME, {}, {internal: TopicImage(internal, bytes(16), {0: row})}, {}))
        request = request_of((internal, 0, records), (internal, 999, records), acks=acks)
        rows = [(internal, 0, code, -1), (internal, 999, "UNKNOWN_TOPIC_OR_PARTITION", -1)]
        assert await answered(both, request) == rows

    on_twins(tmp_path, scenario)
