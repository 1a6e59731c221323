"""Fetch, for followers and for consumers of leaders and followers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.handlers.records.fetch import fetch
from broker.observability.metric_table import FETCHES_EXPIRED
from config.broker import BrokerSettings
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData, ReplicaState
from storage.log.partition_log import PartitionLog
from storage.log.reading.log_reading import LogReading
from tests.async_tests import played_by
from tests.broker.handlers.replica_broker import Answer, ReplicaBroker, replica_broker
from tests.storage.logs import NOW_MS, batch, values_of

Scenario = Callable[[ReplicaBroker], Awaitable[None]]
NEWEST_BY_NAME = 12


def play(folder: Path, scenario: Scenario, **settings: Any) -> None:
    async def run() -> None:
        async with replica_broker(folder, **settings) as broker:
            await scenario(broker)

    asyncio.run(run())


def asked(
    offset: int,
    *,
    replica: int = -1,
    wait_ms: int = 0,
    epoch: int = -1,
    last_epoch: int = -1,
    start: int = -1,
    rack: str = "",
    isolation: int = 0,
    **more: Any,
) -> FetchRequest:
    return FetchRequest(
        replica_id=replica,
        max_wait_ms=wait_ms,
        min_bytes=1,
        isolation_level=isolation,
        topics=[
            FetchTopic(
                topic="t",
                partitions=[
                    FetchPartition(
                        partition=0,
                        current_leader_epoch=epoch,
                        fetch_offset=offset,
                        last_fetched_epoch=last_epoch,
                        log_start_offset=start,
                        partition_max_bytes=1 << 20,
                    )
                ],
            )
        ],
        rack_id=rack,
        **more,
    )


def start(broker: ReplicaBroker, request: FetchRequest, version: int = NEWEST_BY_NAME) -> Answer:
    return broker.start(fetch, request, version)


async def row(broker: ReplicaBroker, request: FetchRequest, version: int = NEWEST_BY_NAME) -> PartitionData:
    """The only row of an answer that comes at once."""
    return row_of(await start(broker, request, version).now())


def row_of(response: Any) -> PartitionData:
    assert response is not None, "the fetch waits"
    assert response.error_code == 0
    (topic,) = response.responses
    (found,) = topic.partitions
    assert isinstance(found, PartitionData)
    return found


def values(found: PartitionData) -> list[str]:
    return [value for _, value in values_of(bytes(found.records or b""))]


@played_by(play, "tmp_path")
async def test_a_follower_reads_to_the_log_end_and_commits_by_it_a_consumer_reads_what_is_committed(
    broker: ReplicaBroker,
) -> None:
    broker.one.lead(isr=(1, 2))
    end = await broker.one.append("a", "b")
    consumed = await row(broker, asked(0))
    assert (values(consumed), consumed.high_watermark) == ([], 0)
    copied = await row(broker, asked(0, replica=2))
    assert (values(copied), copied.high_watermark) == (["a", "b"], 0)
    assert (await row(broker, asked(end, replica=2))).high_watermark == end
    assert values(await row(broker, asked(0))) == ["a", "b"]


@played_by(play, "tmp_path")
async def test_a_fetch_between_the_high_watermark_and_the_log_end_is_empty(broker: ReplicaBroker) -> None:
    broker.one.lead(isr=(1, 2))
    await broker.one.append("a")
    found = await row(broker, asked(1))
    assert (found.error_code, values(found)) == (0, [])
    assert (await row(broker, asked(2))).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@played_by(play, "tmp_path")
async def test_fetches_that_wait_in_vain_are_counted(broker: ReplicaBroker) -> None:
    broker.one.lead(isr=(1, 2))
    waiting = [start(broker, asked(0, replica=2, wait_ms=500)), start(broker, asked(0, wait_ms=500))]
    waiting.append(start(broker, asked(0, wait_ms=400)))
    broker.wait(500)
    assert all([row_of(await each.now()).error_code == 0 for each in waiting])
    expired = {one.labels: one.value for one in broker.metrics.samples() if one.metric is FETCHES_EXPIRED}
    assert expired == {("follower",): 1, ("consumer",): 2}


@played_by(play, "tmp_path")
async def test_a_parked_follower_is_answered_by_an_append_and_a_parked_consumer_by_the_commit(
    broker: ReplicaBroker,
) -> None:
    broker.one.lead(isr=(1, 2))
    follower = start(broker, asked(0, replica=2, wait_ms=500))
    consumer = start(broker, asked(0, wait_ms=500))
    assert await follower.now() is None
    end = await broker.one.append("a")
    assert values(row_of(await follower.now())) == ["a"]
    assert await consumer.now() is None
    start(broker, asked(end, replica=2, wait_ms=500))
    assert values(row_of(await consumer.now())) == ["a"]


@played_by(play, "tmp_path")
async def test_a_parked_follower_is_answered_when_the_leadership_ends(broker: ReplicaBroker) -> None:
    broker.one.lead(isr=(1, 2))
    follower = start(broker, asked(0, replica=2, wait_ms=500))
    broker.one.follow(epoch=1, partition_epoch=1)
    assert row_of(await follower.now()).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert broker.one.partition.waiters.fetches_count == 0


@played_by(play, "tmp_path")
async def test_a_new_leader_epoch_answers_those_who_are_parked_in_the_old_one(broker: ReplicaBroker) -> None:
    broker.one.lead(isr=(1, 2), epoch=0)
    follower = start(broker, asked(0, replica=2, epoch=0, wait_ms=500))
    broker.one.lead(isr=(1, 2), epoch=1, partition_epoch=1)
    assert row_of(await follower.now()).error_code == ErrorCode.FENCED_LEADER_EPOCH
    broker.one.follow(epoch=2, partition_epoch=2)
    consumer = start(broker, asked(0, epoch=2, wait_ms=500))
    assert await consumer.now() is None
    broker.one.follow(epoch=3, partition_epoch=3)
    assert row_of(await consumer.now()).error_code == ErrorCode.FENCED_LEADER_EPOCH


@played_by(play, "tmp_path")
async def test_versions_15_and_up_name_the_replica_with_its_broker_epoch(broker: ReplicaBroker) -> None:
    broker.one.lead(isr=(1, 2))
    await broker.one.append("a")
    request = asked(0, replica_state=ReplicaState(replica_id=2, replica_epoch=77))
    request.topics[0].topic = ""
    assert values(await row(broker, request, 17)) == ["a"]
    assert broker.one.partition.leader is not None
    assert broker.one.partition.leader.followers[2].broker_epoch == 77


@pytest.mark.parametrize(
    ("replica", "epoch", "error"),
    [
        (2, 3, ErrorCode.NONE),
        (2, 2, ErrorCode.FENCED_LEADER_EPOCH),
        (2, 4, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (9, 3, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (9, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (1, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
@played_by(play, "tmp_path")
async def test_who_may_follow(broker: ReplicaBroker, replica: int, epoch: int, error: ErrorCode) -> None:
    broker.one.lead(isr=(1, 2), epoch=3)
    assert (await row(broker, asked(0, replica=replica, epoch=epoch))).error_code == error


@played_by(play, "tmp_path")
async def test_a_follower_whose_log_went_another_way_is_told_where_and_is_not_believed(broker: ReplicaBroker) -> None:
    one = broker.one
    one.lead(isr=(1, 2), epoch=3)
    await one.append("a", "b")
    one.lead(isr=(1, 2), epoch=6, partition_epoch=1)
    await one.append("c")
    found = await row(broker, asked(3, replica=2, epoch=6, last_epoch=4))
    assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (3, 2)
    assert values(found) == []
    assert one.partition.leader is not None
    assert one.partition.leader.followers[2].leo == -1
    assert (await row(broker, asked(2, replica=2, epoch=6, last_epoch=3))).diverging_epoch.epoch == -1
    assert (await row(broker, asked(0, replica=2, epoch=6, last_epoch=7))).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@played_by(play, "tmp_path")
async def test_a_follower_below_the_log_start_is_out_of_range_even_if_it_diverges(broker: ReplicaBroker) -> None:
    broker.one.lead(isr=(1,), replicas=(1,), epoch=3)
    end = await broker.one.append("a", "b")
    broker.one.partition.delete_records(end)
    broker.one.lead(isr=(1,), replicas=(1, 2), epoch=4, partition_epoch=1)
    found = await row(broker, asked(0, replica=2, epoch=4, last_epoch=2))
    assert found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@played_by(play, "tmp_path")
async def test_an_offset_out_of_range_says_nothing_about_a_follower(broker: ReplicaBroker) -> None:
    broker.one.lead(isr=(1, 2))
    assert (await row(broker, asked(5, replica=2))).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert broker.one.partition.leader is not None
    assert broker.one.partition.leader.followers[2].leo == -1


@played_by(play, "tmp_path")
async def test_a_followers_session_answers_what_changed(broker: ReplicaBroker) -> None:
    broker.one.lead(isr=(1, 2))
    first = await start(broker, asked(0, replica=2, session_epoch=0)).now()
    assert first.session_id > 0
    end = await broker.one.append("a")
    going_on = asked(0, replica=2, session_id=first.session_id, session_epoch=1)
    going_on.topics = []
    assert values(row_of(await start(broker, going_on).now())) == ["a"]
    committed = await row(broker, asked(end, replica=2, session_id=first.session_id, session_epoch=2))
    assert committed.high_watermark == end
    going_on = asked(0, replica=2, session_id=first.session_id, session_epoch=3)
    going_on.topics = []
    assert (await start(broker, going_on).now()).responses == []


@played_by(play, "tmp_path")
async def test_a_throttled_follower_gets_nothing_but_its_place_is_noted(broker: ReplicaBroker) -> None:
    quota = broker.one.around.quota
    broker.one.lead(isr=(1,))
    await broker.one.append("a")
    quota.throttled.add(("t", 0))
    assert values(await row(broker, asked(0, replica=2))) == ["a"]
    assert sum(quota.recorded) > 0
    quota.is_exceeded = True
    waiting = start(broker, asked(0, replica=2, wait_ms=500))
    assert await waiting.now() is None
    broker.wait(500)
    assert values(row_of(await waiting.now())) == []
    assert broker.one.partition.leader is not None
    assert broker.one.partition.leader.followers[2].leo == 0


# --- the nearest replica ---


@played_by(play, "tmp_path")
async def test_a_consumer_is_sent_to_the_replica_in_its_rack(broker: ReplicaBroker) -> None:
    broker.one.lead(isr=(1, 2, 3))
    end = await broker.one.append("a")
    for replica in (2, 3):
        await row(broker, asked(end, replica=replica, start=0))
    sent_on = await row(broker, asked(0, rack="b", wait_ms=500))
    assert (sent_on.preferred_read_replica, values(sent_on), sent_on.high_watermark) == (2, [], end)
    for request, version in ((asked(0, rack="a"), 12), (asked(0, rack="z"), 12), (asked(0), 12), (asked(0), 10)):
        served = await row(broker, request, version)
        assert (served.preferred_read_replica, values(served)) == (-1, ["a"])


@played_by(play, "tmp_path")
async def test_a_follower_serves_consumers_that_know_of_it_up_to_its_high_watermark(broker: ReplicaBroker) -> None:
    partition = broker.one.partition
    broker.one.follow(epoch=4)

    async def take(records: bytes | bytearray, high_watermark: int) -> None:
        partition.append_as_follower(
            records, leader_high_watermark=high_watermark, leader_log_start_offset=0, now_ms=NOW_MS
        )
        await partition.log.await_appends()

    await take(batch("a", partition_leader_epoch=4) + batch("b", base_offset=1, partition_leader_epoch=4), 1)
    assert values(await row(broker, asked(0, epoch=4), 11)) == ["a"]
    assert (await row(broker, asked(0, epoch=4), 10)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await row(broker, asked(0, epoch=3), 11)).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (await row(broker, asked(0, replica=3, epoch=4), 11)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await row(broker, asked(2, epoch=4), 11)).error_code == ErrorCode.NONE
    assert (await row(broker, asked(3, epoch=4), 11)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    waiting = start(broker, asked(1, epoch=4, wait_ms=500, isolation=1), 11)
    assert await waiting.now() is None
    await take(b"", 2)
    assert values(row_of(await waiting.now())) == ["b"]
    assert values(await row(broker, asked(0, replica=-2), 11)) == ["a", "b"]


@played_by(play, "tmp_path")
async def test_a_partition_that_follows_nobody_serves_nobody(broker: ReplicaBroker) -> None:
    broker.one.lead(isr=(1,), replicas=(1,))
    await broker.one.append("a")
    waiting = start(broker, asked(1, wait_ms=500), 12)
    broker.one.partition.stop()
    assert row_of(await waiting.now()).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


# --- partitions that are not here ---


def both(wait_ms: int, other: int) -> FetchRequest:
    """t-0, and another partition of t."""
    request = asked(0, wait_ms=wait_ms)
    request.topics[0].partitions.append(FetchPartition(partition=other, fetch_offset=0, partition_max_bytes=100))
    return request


@played_by(play, "tmp_path")
async def test_a_partition_that_others_hold_is_answered_at_once_and_one_that_nobody_has_is_not(
    broker: ReplicaBroker,
) -> None:
    broker.one.lead(isr=(1,), replicas=(1,))
    cache = broker.services.metadata
    topic = cache.image.topics["t"]
    elsewhere = replace(topic, partitions={**topic.partitions, 1: replace(topic.partitions[0], leader=2)})
    cache.publish(replace(cache.image, topics={"t": elsewhere}))
    response = await start(broker, both(500, other=1)).now()
    assert [(row.partition_index, row.error_code) for row in response.responses[0].partitions] == [
        (0, ErrorCode.NONE),
        (1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ]
    assert [row.aborted_transactions for row in response.responses[0].partitions] == [None, None]

    waiting = start(broker, both(500, other=7))
    assert await waiting.now() is None
    broker.wait(500)
    response = await waiting.now()
    assert [(row.partition_index, row.error_code) for row in response.responses[0].partitions] == [
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (0, ErrorCode.NONE),
    ]
    assert response.responses[0].partitions[0].aborted_transactions == []


@played_by(play, "tmp_path")
async def test_a_fetch_that_is_hurried_while_it_reads_from_the_disk_answers_once(
    broker: ReplicaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.one.lead(isr=(1,), replicas=(1,))
    hot = LogReading.read
    monkeypatch.setattr(LogReading, "read", lambda *_args, **_more: None)  # cold
    parked = fetch(asked(0, wait_ms=500), broker.context(NEWEST_BY_NAME))
    answers: list[Any] = []
    parked.then(answers.append)  # type: ignore[union-attr]
    await broker.one.append("a")
    broker.turn()
    assert answers == [], "the disk is asked"
    parked.expedite()  # type: ignore[union-attr]
    monkeypatch.setattr(LogReading, "read", hot)
    for _ in range(1_000):
        await asyncio.sleep(0)
        if not len(broker.services.tasks):
            break
    assert [values(row_of(answer)) for answer in answers] == [["a"]]


@played_by(play, "tmp_path")
async def test_a_read_from_the_disk_that_fails_in_a_way_nobody_knows_is_answered(
    broker: ReplicaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.one.lead(isr=(1,), replicas=(1,))
    await broker.one.append("a")

    async def read_cold(*_args: Any, **_more: Any) -> bytes:
        raise ZeroDivisionError

    monkeypatch.setattr(LogReading, "read", lambda *_args, **_more: None)
    monkeypatch.setattr(LogReading, "read_cold", read_cold)
    assert (await row(broker, asked(0))).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def damage(log: PartitionLog, offset: int) -> None:
    """No batch can be as short as the one at `offset` says, one of those that are all as long."""
    path = Path(log.segments.active.path(".log"))
    content = bytearray(path.read_bytes())
    position = len(content) // log.log_end_offset * offset
    content[position + 8 : position + 12] = bytes(4)
    path.write_bytes(content)


@played_by(play, "tmp_path")
async def test_who_waits_for_many_bytes_hears_of_a_damaged_place_at_once(broker: ReplicaBroker) -> None:
    broker.one.lead(isr=(1,), replicas=(1,))
    for value in "abcd":
        await broker.one.append(value)
    damage(broker.one.partition.log, 1)
    request = asked(3, wait_ms=500)
    request.min_bytes = 1 << 20
    assert (await row(broker, request)).error_code == ErrorCode.CORRUPT_MESSAGE

    request = asked(4, wait_ms=500)
    request.min_bytes = 1 << 20
    parked = start(broker, request)
    assert await parked.now() is None
    await broker.one.append("e")
    broker.turn()
    assert row_of(await parked.now()).error_code == ErrorCode.CORRUPT_MESSAGE


async def with_equal_batches(broker: ReplicaBroker, count: int) -> int:
    """A log with so many batches of one record; how large each of them is."""
    broker.one.lead(isr=(1,), replicas=(1,))
    for _ in range(count):
        await broker.one.append("x" * 1000)
    return broker.one.partition.log.size_bytes // count


def waiting_for(min_bytes: int, *, partition_max_bytes: int = 1 << 20, offset: int = 0, **more: Any) -> FetchRequest:
    request = asked(offset, wait_ms=500, **more)
    request.min_bytes = min_bytes
    request.topics[0].partitions[0].partition_max_bytes = partition_max_bytes
    return request


@played_by(play, "tmp_path")
async def test_no_fetch_waits_for_more_than_it_may_be_given(broker: ReplicaBroker) -> None:
    await with_equal_batches(broker, 7)
    for max_bytes in (0, 1, 5_000):
        found = await row(broker, waiting_for(10_000, max_bytes=max_bytes))
        assert len(found.records or b"") >= max_bytes
    assert await start(broker, waiting_for(10_000, max_bytes=50_000)).now() is None
    broker.services.settings = BrokerSettings({"fetch.max.bytes": "5000"})
    assert len((await row(broker, waiting_for(10_000, max_bytes=50_000))).records or b"") == 5_000


@played_by(play, "tmp_path")
async def test_a_first_batch_above_the_limit_of_its_partition_counts_whole(broker: ReplicaBroker) -> None:
    batch_bytes = await with_equal_batches(broker, 7)
    for limit_bytes in (0, 500, batch_bytes - 1):
        found = await row(broker, waiting_for(batch_bytes, partition_max_bytes=limit_bytes))
        assert len(found.records or b"") == batch_bytes
        waiting = start(broker, waiting_for(batch_bytes + 1, partition_max_bytes=limit_bytes))
        assert await waiting.now() is None
        waiting.abandon()


@played_by(play, "tmp_path")
async def test_only_the_first_batch_of_all_counts_whole_and_only_when_the_fetch_comes(broker: ReplicaBroker) -> None:
    batch_bytes = await with_equal_batches(broker, 2)
    request = waiting_for(batch_bytes, partition_max_bytes=500, offset=2)
    waiting = start(broker, request)
    assert await waiting.now() is None
    await broker.one.append("x" * 1000)
    assert await waiting.now() is None, "it counts as much as the partition's limit"
    broker.wait(500)
    assert len(row_of(await waiting.now()).records or b"") == batch_bytes


@played_by(play, "tmp_path")
async def test_a_first_batch_that_is_cold_ends_the_wait(broker: ReplicaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    batch_bytes = await with_equal_batches(broker, 2)
    monkeypatch.setattr(LogReading, "read", lambda *_args, **_more: None)
    answer = start(broker, waiting_for(batch_bytes, partition_max_bytes=500))
    for _ in range(1_000):
        found = await answer.now()
        if found is not None:
            break
    assert len(row_of(found).records or b"") == batch_bytes
