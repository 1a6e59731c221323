"""The time that the broker gives to records does not fall from one offset to the next, whatever they waited for before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from broker.handlers.records.produce import produce
from broker.handlers.records.produce_message_sets import produce_message_sets
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.batch import BatchHeader, crc_is_valid, iter_headers
from protocol.records.legacy import encode_message_set
from protocol.records.record import Record, encode_batch
from runtime.slices import SHORT_ROWS
from storage.log.validation import INLINE_RECORDS
from tests.async_tests import played_by
from tests.broker.handlers.replica_broker import Answer, ReplicaBroker, replica_broker
from tests.storage.logs import NOW_MS, read

Scenario = Callable[[ReplicaBroker], Awaitable[None]]


def play(folder: Path, scenario: Scenario) -> None:
    async def run() -> None:
        async with replica_broker(folder, message_timestamp_type="LogAppendTime") as broker:
            broker.one.lead(isr=(1,))
            await scenario(broker)

    asyncio.run(run())


def records(count: int) -> list[Record]:
    return [Record(at, NOW_MS, b"k", b"%d" % at) for at in range(count)]


def start(broker: ReplicaBroker, content: bytes, version: int) -> Answer:
    data = [PartitionProduceData(index=0, records=content)]
    request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=data)])
    return broker.start(produce if version > 2 else produce_message_sets, request, version)


async def row_of(answer: Answer) -> Any:
    for _ in range(1000):
        response = await answer.now()
        if response is not None:
            return response.responses[0].partition_responses[0]
        await asyncio.sleep(0.001)
    raise AssertionError("no answer")


async def stored(broker: ReplicaBroker) -> list[BatchHeader]:
    await broker.one.partition.log.await_appends()
    content = await read(broker.one.partition.log, 0)
    headers = []
    for position, header in iter_headers(content):
        assert header.is_log_append_time and crc_is_valid(content, position, header)
        headers.append(header)
    return headers


@played_by(play, "tmp_path")
async def test_a_batch_that_takes_long_to_validate(broker: ReplicaBroker) -> None:
    long = start(broker, encode_batch(records(INLINE_RECORDS + 1)), 9)
    broker.clock.now_ms = 1_700
    short = start(broker, encode_batch(records(1)), 9)
    broker.clock.now_ms = 2_000
    rows = [await row_of(short), await row_of(long)]
    assert [(row.base_offset, row.log_append_time_ms) for row in rows] == [(0, 1_700), (1, 2_000)]
    assert [header.max_timestamp for header in await stored(broker)] == [1_700, 2_000]


@played_by(play, "tmp_path")
async def test_a_message_set_that_waits_to_be_converted(broker: ReplicaBroker) -> None:
    async with broker.services.serial_queue.begin():
        long = start(broker, encode_message_set(records(4 * SHORT_ROWS), 1), 2)
        assert await long.now() is None
        broker.clock.now_ms = 1_700
        short = start(broker, encode_batch(records(1)), 9)
        broker.clock.now_ms = 2_000
    rows = [await row_of(short), await row_of(long)]
    assert [(row.base_offset, row.log_append_time_ms) for row in rows] == [(0, 1_700), (1, 2_000)]
    assert [header.max_timestamp for header in await stored(broker)] == [1_700, 2_000]
