"""Which batches count as those of the one producer of a transactional Produce request."""

from __future__ import annotations

from typing import Any

import pytest

from config.broker import BrokerSettings
from protocol.errors import ErrorCode
from protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.async_tests import played_by
from tests.broker.handlers.records.produce_twins import Twins, on_twins
from tests.storage.logs import batch

Row = tuple[str, int, str, int]
"""Topic, partition, error, base offset."""
Place = tuple[str, int, bytes]

VERSION = 9
GOOD = bytes(batch("good"))
UNKNOWN_MAGIC = GOOD[:16] + b"\x03" + GOOD[17:]


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
    return [one.partition.log.offsets.next_offset for one in both.sides[0].replicas]


def unverified(both: Twins) -> None:
    """Nobody asks whether a partition belongs to a transaction."""
    for each in both.sides:
        dynamic: Any = each.broker.shared.services.dynamic_settings
        dynamic.settings = BrokerSettings({"transaction.partition.verification.enable": "false"})


@pytest.mark.parametrize("second", [of_transaction(6), of_transaction(5, 1)], ids=["another", "another epoch"])
@pytest.mark.parametrize("acks", [1, 2])
@played_by(on_twins, "tmp_path")
async def test_transactional_batches_are_of_one_producer(both: Twins, second: bytes, acks: int) -> None:
    unverified(both)
    request = request_of(("t", 0, of_transaction()), ("t", 1, second), transactional_id="x", acks=acks)
    code = "INVALID_PRODUCER_ID_MAPPING"
    assert await answered(both, request) == [("t", 0, code, -1), ("t", 1, code, -1)]
    assert ends(both) == [0, 0]


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
@played_by(on_twins, "tmp_path")
async def test_only_what_may_be_appended_counts_as_a_producers(both: Twins, other: Place, row: Row) -> None:
    unverified(both)
    request = request_of(("t", 0, of_transaction()), other, transactional_id="x")
    assert await answered(both, request) == [("t", 0, "NONE", 0), row]
