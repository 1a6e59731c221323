"""WriteTxnMarkers and what follows from it: markers that wait for replicas, and the report of those that are committed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from broker.handlers.records.fetch import fetch
from broker.handlers.transactions.describe_producers import describe_producers
from broker.handlers.transactions.write_txn_markers import write_txn_markers
from broker.network.responses.deferred import Deferred
from protocol.errors import ErrorCode
from protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from protocol.messages.fetch import FetchResponse
from protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from replication.marker_appender import _MarkerAppend
from storage.log.partition_log import AppendOrigin
from tests.async_tests import played_by
from tests.broker.handlers.records.test_fetch import asked, row_of
from tests.broker.handlers.replica_broker import Answer, ReplicaBroker, replica_broker
from tests.storage.logs import NOW_MS, batch

Scenario = Callable[[ReplicaBroker], Awaitable[None]]
PRODUCER = 7


def play(folder: Path, scenario: Scenario, **settings: Any) -> None:
    async def run() -> None:
        async with replica_broker(folder, **settings) as broker:
            await scenario(broker)

    asyncio.run(run())


async def write(broker: ReplicaBroker, *values: str, sequence: int = 0) -> None:
    records = batch(*values, producer_id=PRODUCER, producer_epoch=0, base_sequence=sequence, is_transactional=True)
    broker.one.partition.append(records, origin=AppendOrigin.CLIENT, acks=1, now_ms=NOW_MS)
    await broker.one.partition.log.await_appends()


def marking(*, committed: bool = True, topic: str = "t", epoch: int = 0, index: int = 0) -> WriteTxnMarkersRequest:
    marker = WritableTxnMarker(
        producer_id=PRODUCER, producer_epoch=epoch, transaction_result=committed, coordinator_epoch=0,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[index])],
    )  # fmt: skip
    return WriteTxnMarkersRequest(markers=[marker])


def error_of(response: Any) -> ErrorCode:
    (marker,) = response.markers
    return ErrorCode(marker.topics[0].partitions[0].error_code)


async def started(broker: ReplicaBroker, request: WriteTxnMarkersRequest) -> Answer:
    """Its markers are written; whether the replicas have them is another matter."""
    answer = broker.start(write_txn_markers, request, 1)
    await asyncio.sleep(0)
    await broker.one.partition.log.await_appends()
    return answer


async def abort(broker: ReplicaBroker) -> ErrorCode:
    """The transaction index is written by a thread."""
    return await ended(await started(broker, marking(committed=False)))


async def ended(answer: Answer) -> ErrorCode:
    response = await answer.now()
    assert response is not None, "the request waits"
    return error_of(response)


@played_by(play, "tmp_path")
async def test_a_marker_answers_when_the_replicas_have_it(broker: ReplicaBroker) -> None:
    broker.one.lead(isr=(1, 2))
    await write(broker, "a")
    answer = await started(broker, marking())
    assert await answer.now() is None
    broker.one.fetched(1)
    assert await answer.now() is None
    broker.one.fetched(2)
    assert await ended(answer) is ErrorCode.NONE


@played_by(play, "tmp_path")
async def test_a_marker_that_the_replicas_do_not_get_times_out(broker: ReplicaBroker) -> None:
    broker.one.lead(isr=(1, 2))
    await write(broker, "a")
    answer = await started(broker, marking())
    assert await answer.now() is None
    broker.wait(30_000)
    assert await ended(answer) is ErrorCode.REQUEST_TIMED_OUT
    assert broker.one.partition.waiters.produces_count == 0


@played_by(play, "tmp_path")
async def test_replicas_that_are_as_fast_as_the_writing_do_not_end_the_wait(broker: ReplicaBroker) -> None:
    """The first marker is committed before the second is written."""
    broker.one.lead(isr=(1, 2))
    await write(broker, "a")
    (first,), (second,) = marking().markers, marking(epoch=1).markers
    second.producer_id = PRODUCER + 1
    writing = _MarkerAppend(broker.services.partitions, lambda *_: None, "other", NOW_MS)
    await writing.append_all([first], broker.services.serial_queue)
    await broker.one.partition.log.await_appends()
    broker.one.fetched(2)
    broker.turn()
    await writing.append_all([second], broker.services.serial_queue)
    waiting = asyncio.ensure_future(writing.replicas.completed())
    await asyncio.sleep(0)
    await broker.one.partition.log.await_appends()
    assert not waiting.done()
    broker.one.fetched(3)
    broker.turn()
    await waiting
    assert writing.errors == {PRODUCER: {("t", 0): 0}, PRODUCER + 1: {("t", 0): 0}}


@played_by(play, "tmp_path", min_insync_replicas=2)
async def test_a_marker_is_refused_where_too_few_replicas_are_in_sync_and_where_another_leads(
    broker: ReplicaBroker,
) -> None:
    broker.one.lead(isr=(1,))
    assert await ended(broker.start(write_txn_markers, marking(), 0)) is ErrorCode.NOT_ENOUGH_REPLICAS
    broker.one.follow(leader=2, epoch=1, partition_epoch=1)
    assert await ended(broker.start(write_txn_markers, marking(), 0)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await ended(broker.start(write_txn_markers, marking(index=4), 0)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@played_by(play, "tmp_path")
async def test_a_marker_on_its_way_answers_when_the_leadership_ends(broker: ReplicaBroker) -> None:
    broker.one.lead(isr=(1, 2))
    answer = await started(broker, marking())
    assert await answer.now() is None
    broker.one.follow(leader=2, epoch=1)
    assert await ended(answer) is ErrorCode.NOT_LEADER_OR_FOLLOWER


@played_by(play, "tmp_path")
async def test_a_parked_reader_of_committed_records_is_answered_by_the_marker(broker: ReplicaBroker) -> None:
    broker.one.lead(isr=(1,))
    await write(broker, "a", "b")
    waiting = broker.start(fetch, asked(0, wait_ms=500, isolation=1), 12)
    plain = row_of(await broker.start(fetch, asked(0, isolation=0), 12).now())
    assert plain.aborted_transactions is None and plain.last_stable_offset == 0
    assert await waiting.now() is None
    assert await abort(broker) is ErrorCode.NONE
    broker.turn()
    found = row_of(await waiting.now())
    assert [(each.producer_id, each.first_offset) for each in found.aborted_transactions or []] == [(PRODUCER, 0)]
    assert found.last_stable_offset == found.high_watermark == 3


@played_by(play, "tmp_path")
async def test_a_follower_serves_committed_records_with_what_it_knows(broker: ReplicaBroker) -> None:
    broker.one.lead(isr=(1,))
    await write(broker, "a")
    assert await abort(broker) is ErrorCode.NONE
    await write(broker, "b", sequence=1)
    broker.one.follow(leader=2, epoch=1, partition_epoch=1)
    found = row_of(await broker.start(fetch, asked(0, isolation=1), 12).now())
    assert [(each.producer_id, each.first_offset) for each in found.aborted_transactions or []] == [(PRODUCER, 0)]
    assert (found.last_stable_offset, found.high_watermark) == (2, 3)
    end = row_of(await broker.start(fetch, asked(2, isolation=1), 12).now())
    assert not end.records and end.aborted_transactions == []


@played_by(play, "tmp_path")
async def test_a_fetch_reads_the_transaction_index_from_the_disk(broker: ReplicaBroker) -> None:
    broker.one.lead(isr=(1,))
    await write(broker, "a")
    assert await abort(broker) is ErrorCode.NONE
    index = broker.one.partition.log.segments.active.txn_index
    assert index is not None
    index.unload()
    answer = fetch(asked(0, isolation=1), broker.context(12))
    assert isinstance(answer, Deferred), "the records are in memory, the index is not"
    there: asyncio.Future[FetchResponse] = asyncio.get_running_loop().create_future()
    answer.then(there.set_result)
    found = row_of(await there)
    assert [(each.producer_id, each.first_offset) for each in found.aborted_transactions or []] == [(PRODUCER, 0)]
    again = row_of(await broker.start(fetch, asked(0, isolation=1), 12).now())
    assert again.aborted_transactions == found.aborted_transactions


@pytest.mark.parametrize("committed", [True, False])
@played_by(play, "tmp_path", observed_topic="t")
async def test_a_marker_is_reported_once_the_replicas_have_it(broker: ReplicaBroker, committed: bool) -> None:
    broker.one.lead(isr=(1, 2))
    answer = await started(broker, marking(committed=committed))
    assert await answer.now() is None and broker.marked == []
    broker.one.fetched(1)
    assert await ended(answer) is ErrorCode.NONE
    assert broker.marked == [(("t", 0), PRODUCER, committed)]


@played_by(play, "tmp_path", observed_topic="other")
async def test_a_marker_of_another_topic_is_not_reported(broker: ReplicaBroker) -> None:
    broker.one.lead(isr=(1, 2))
    answer = await started(broker, marking())
    broker.one.fetched(1)
    assert await ended(answer) is ErrorCode.NONE
    assert broker.marked == []


@played_by(play, "tmp_path", observed_topic="t")
async def test_a_marker_is_reported_though_its_request_has_timed_out(broker: ReplicaBroker) -> None:
    broker.one.lead(isr=(1, 2))
    answer = await started(broker, marking())
    assert await answer.now() is None
    broker.wait(30_000)
    assert await ended(answer) is ErrorCode.REQUEST_TIMED_OUT
    assert broker.marked == []
    broker.one.fetched(1)
    broker.turn()
    assert broker.marked == [(("t", 0), PRODUCER, True)]
    assert broker.one.partition.waiters.produces_count == 0


@played_by(play, "tmp_path", observed_topic="t")
async def test_a_marker_that_is_lost_with_the_leadership_is_not_reported(broker: ReplicaBroker) -> None:
    broker.one.lead(isr=(1, 2))
    answer = await started(broker, marking())
    assert await answer.now() is None
    broker.one.follow(leader=2, epoch=1)
    assert await ended(answer) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert broker.marked == []


@played_by(play, "tmp_path")
async def test_any_replica_describes_its_producers(broker: ReplicaBroker) -> None:
    broker.one.lead(isr=(1,))
    await write(broker, "a", "b")
    broker.one.follow(leader=2, epoch=1, partition_epoch=1)
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])])
    (found,) = (await broker.start(describe_producers, request, 0).now()).topics[0].partitions
    (producer,) = found.active_producers
    assert (producer.producer_id, producer.last_sequence, producer.current_txn_start_offset) == (PRODUCER, 1, 0)
