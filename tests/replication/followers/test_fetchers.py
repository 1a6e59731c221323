"""Copying from a leader: requests, logs, and partitions that come and go meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest
from protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from storage.log.partition_log import AppendOrigin
from storage.log.removal.segment_retention import raise_log_start_offset
from tests.async_tests import played_by
from tests.replication.leader_world import ME, SOURCE, WAIT_MS, FollowerWorld, diverged, leader_and_isr, play
from tests.storage.logs import all_values, batch

TOPIC_ID = bytes(range(16))
TOPIC_ID_2 = bytes(range(16, 32))


@played_by(play)
async def test_records_offsets_epochs_and_the_high_watermark_are_copied(world: FollowerWorld) -> None:
    led = world.source.lead(topic_id=TOPIC_ID, leader_epoch=4)
    led.append("a", "b", epoch=1)
    led.append("c", epoch=4)
    partition = await world.partition(topic_id=TOPIC_ID)
    world.follow(partition, epoch=4)
    await world.copied(partition, led)
    led.append("d", commit=False)
    world.source.wake()
    await world.until(lambda: partition.log.log_end_offset == 4)
    assert partition.high_watermark == 3
    led.high_watermark = 4
    await world.copied(partition, led)
    assert await all_values(partition.log) == led.values()
    assert partition.log.epochs.end_offset_for(1) == (1, 2)
    assert partition.log.epochs.latest_epoch == 4
    assert world.fetchers.max_lag == 0


@played_by(play)
async def test_requests_of_the_newest_version(world: FollowerWorld) -> None:
    led = world.source.lead(topic_id=TOPIC_ID, leader_epoch=4)
    led.append("a", "b", epoch=1)
    partition = await world.partition(topic_id=TOPIC_ID)
    world.follow(partition, epoch=4)
    await world.copied(partition, led)
    await world.until(lambda: len(world.source.asked(FetchRequest)) > 1)
    first, second = world.source.asked(FetchRequest)[:2]
    assert world.source.versions(FetchRequest) == {17}
    assert (first.replica_state.replica_id, first.replica_state.replica_epoch) == (ME, 77)
    assert (first.min_bytes, first.max_bytes, first.max_wait_ms) == (1, 10 << 20, WAIT_MS)
    [topic] = first.topics
    [row] = topic.partitions
    assert (topic.topic_id, row.partition) == (TOPIC_ID, 0)
    assert (row.fetch_offset, row.current_leader_epoch, row.last_fetched_epoch) == (0, 4, -1)
    assert (row.log_start_offset, row.partition_max_bytes) == (0, 1 << 20)
    row = second.topics[0].partitions[0]
    assert (row.fetch_offset, row.last_fetched_epoch) == (2, 1)
    assert not world.source.asked(OffsetForLeaderEpochRequest)


@pytest.mark.parametrize(
    ("version", "topic_id", "expected"), [("2.8", TOPIC_ID, 12), ("3.9", bytes(16), 12), ("2.0", TOPIC_ID, 8)]
)
@played_by(lambda version, program: play(program, version), "version")
async def test_partitions_are_named_where_ids_cannot_be_used(
    world: FollowerWorld, topic_id: bytes, expected: int
) -> None:
    led = world.source.lead()
    led.append("a")
    partition = await world.partition(topic_id=topic_id)
    world.follow(partition)
    await world.copied(partition, led)
    assert world.source.versions(FetchRequest) == {expected}
    request = world.source.asked(FetchRequest)[0]
    assert (request.replica_id, request.topics[0].topic) == (ME, "t")


@played_by(play)
async def test_sessions_name_only_what_has_changed(world: FollowerWorld) -> None:
    many = [world.source.lead("t", index, topic_id=TOPIC_ID) for index in range(5)]
    partitions = [await world.partition("t", index, topic_id=TOPIC_ID) for index in range(5)]
    for led, partition in zip(many, partitions, strict=True):
        led.append("x")
        world.follow(partition)
    for led, partition in zip(many, partitions, strict=True):
        await world.copied(partition, led)
    await asyncio.sleep(1)
    asked = len(world.source.asked(FetchRequest))
    many[3].append("y")
    world.source.wake()
    await world.copied(partitions[3], many[3])
    await asyncio.sleep(1)
    later = world.source.asked(FetchRequest)[asked - 1 :]
    named = [row.partition for request in later for topic in request.topics for row in topic.partitions]
    assert named == [3]
    assert len({request.session_id for request in later}) == 1
    epochs = [request.session_epoch for request in later]
    assert epochs == list(range(epochs[0], epochs[0] + len(epochs)))
    await world.fetchers.stop_following("t", 1)
    await asyncio.sleep(1)
    gone = [row for request in world.source.asked(FetchRequest) for row in request.forgotten_topics_data]
    assert [(row.topic_id, row.partitions) for row in gone] == [(TOPIC_ID, [1])]


@pytest.mark.parametrize(
    "error",
    [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR],
)
@played_by(play)
async def test_a_lost_session_is_replaced(world: FollowerWorld, error: ErrorCode) -> None:
    led = world.source.lead()
    partition = await world.partition()
    world.follow(partition)
    await world.until(lambda: len(world.source.asked(FetchRequest)) > 2)
    world.source.top_error = error
    await world.until(lambda: world.source.top_error == ErrorCode.NONE)
    led.append("a")
    world.source.wake()
    await world.copied(partition, led)
    assert [request.session_epoch for request in world.source.asked(FetchRequest)].count(0) == 2


# --- partitions that leave ---


@played_by(play)
async def test_an_answer_that_comes_after_a_partition_has_left_is_nobodys(world: FollowerWorld) -> None:
    led, other = world.source.lead("t", 0), world.source.lead("t", 1)
    partitions = [await world.partition("t", index) for index in (0, 1)]
    for partition in partitions:
        world.follow(partition)
    await asyncio.sleep(2.1)
    await world.fetchers.stop_following("t", 0)
    led.append("a")
    other.append("b")
    world.source.wake()
    await world.copied(partitions[1], other)
    assert partitions[0].log.offsets.next_offset == 0


@played_by(play)
async def test_an_answer_in_the_epoch_before_is_nobodys(world: FollowerWorld) -> None:
    led = world.source.lead()
    partition = await world.partition()
    world.follow(partition, epoch=0)
    await asyncio.sleep(2.1)
    led.append("old")
    world.source.wake()  # on its way
    await world.fetchers.stop_following("t", 0)
    led.batches.clear()
    led.leader_epoch, led.epochs, led.high_watermark = 1, type(led.epochs)(), 0
    led.append("new", epoch=1)
    world.follow(partition, epoch=1)
    await world.copied(partition, led)
    assert await all_values(partition.log) == [(0, "new")]


@played_by(play)
async def test_leaving_waits_for_the_cut_that_is_under_way(world: FollowerWorld) -> None:
    partition, _ = await diverged(world)
    world.disk.min_delay_ms = world.disk.max_delay_ms = 200.0
    world.follow(partition, epoch=2)
    await world.until(lambda: partition.log.log_end_offset == 3)  # cut in memory, not yet on the disk
    leaving = [asyncio.ensure_future(world.fetchers.stop_following("t", 0)) for _ in range(2)]
    await asyncio.sleep(0.01)
    assert not any(each.done() for each in leaving)
    await asyncio.gather(*leaving)
    partition.become_leader(leader_and_isr(ME, 3, 1))  # and appends: the log takes them
    assert partition.log.log_end_offset == partition.log.offsets.next_offset == 3
    await asyncio.sleep(5)
    assert partition.log.log_end_offset == 3
    assert ("t", 0) not in next(iter(world.fetchers))


@played_by(play)
async def test_only_what_is_written_is_acknowledged(world: FollowerWorld) -> None:
    led = world.source.lead()
    partition = await world.partition()
    world.follow(partition)
    await world.until(lambda: len(world.source.asked(FetchRequest)) > 1)
    world.disk.slow_probability = 1.0
    world.disk.min_delay_ms = world.disk.max_delay_ms = 100.0
    world.source.max_batches = 1
    for value in "abcde":
        led.append(value)
    seen = len(world.source.requests)
    world.source.wake()
    while partition.log.log_end_offset < 5:
        await asyncio.sleep(0.005)
        for request in world.source.asked(FetchRequest)[seen:]:
            for topic in request.topics:
                assert topic.partitions[0].fetch_offset <= partition.log.log_end_offset
    await world.copied(partition, led)
    assert await all_values(partition.log) == led.values()


@played_by(play)
async def test_an_error_while_something_else_is_written_is_an_error_and_no_more(world: FollowerWorld) -> None:
    """The log may have writes under way that no answer of this leader has brought."""
    led = world.source.lead(leader_epoch=1, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    partition = await world.partition()
    world.disk.slow_probability = 1.0
    world.disk.min_delay_ms = world.disk.max_delay_ms = 300.0
    partition.become_leader(leader_and_isr(ME, 0))
    partition.append(batch("a"), origin=AppendOrigin.CLIENT, acks=1, now_ms=0)
    world.follow(partition, epoch=1)
    await world.until(lambda: len(world.source.requests) > 2)
    led.error = ErrorCode.NONE
    led.append("b", epoch=1)
    await world.copied(partition, led)


# --- many ---


@played_by(play, fetchers_count=3)
async def test_fetchers_share_the_partitions_and_go_when_they_have_none(world: FollowerWorld) -> None:
    many = [world.source.lead("t", index) for index in range(8)]
    partitions = [await world.partition("t", index) for index in range(8)]
    for led, partition in zip(many, partitions, strict=True):
        led.append("x")
        world.follow(partition)
    for led, partition in zip(many, partitions, strict=True):
        await world.copied(partition, led)
    assert len(world.fetchers) == 3
    assert {len(fetcher) for fetcher in world.fetchers} <= {2, 3}
    assert world.fetchers.min_fetch_rate() > 0
    for index in range(8):
        await world.fetchers.stop_following("t", index)
    world.fetchers.finish_assignment()
    assert len(world.fetchers) == 0
    await world.until(lambda: len(world.tasks) == 0)


@played_by(play)
async def test_the_number_of_fetchers_may_change(world: FollowerWorld) -> None:
    many = [world.source.lead("t", index) for index in range(8)]
    partitions = [await world.partition("t", index) for index in range(8)]
    for partition in partitions:
        world.follow(partition)
    await asyncio.sleep(1)
    [fetcher] = world.fetchers
    settings = fetcher._settings
    await world.fetchers.change_settings(
        type(settings)(**{name: getattr(settings, name) for name in settings.__slots__} | {"fetchers_count": 4})
    )
    assert len(world.fetchers) == 4
    for led, partition in zip(many, partitions, strict=True):
        led.append("x")
        await world.copied(partition, led)


@played_by(play)
async def test_a_partition_that_is_followed_while_its_log_is_exchanged_goes_on_with_the_new_one(
    world: FollowerWorld,
) -> None:
    """A change of `num.replica.fetchers` takes partitions up again, and among them one whose log just moves."""
    led = world.source.lead()
    led.append("a", "b")
    partition, moved = await world.partition(), await world.partition("t", 1)
    world.follow(partition)
    await world.copied(partition, led)
    moved.append_as_follower(led.batches[0][2], leader_high_watermark=2, leader_log_start_offset=0, now_ms=0)
    await moved.log.await_appends()
    partition.replace_log(moved.log)
    world.fetchers.follow(partition, SOURCE, 0)  # when the exchange is through
    for value in "cde":
        led.append(value)
        world.source.wake()
        began_s = world.loop.time()
        await world.copied(partition, led)
        assert world.loop.time() - began_s < 0.5, "nothing is fetched twice, and refused"
    assert await all_values(partition.log) == led.values()


@played_by(play)
async def test_closing_ends_everything_at_once(world: FollowerWorld) -> None:
    world.source.lead()
    partition = await world.partition()
    world.follow(partition)
    await asyncio.sleep(2.1)
    began_s = world.loop.time()
    await world.fetchers.close()
    assert world.loop.time() == began_s
    assert len(world.tasks) == 0
    world.follow(partition, epoch=1)
    assert len(world.fetchers) == 0


def test_closing_while_something_is_written_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def program(world: FollowerWorld) -> None:
        led = world.source.lead()
        led.append("a", "b")
        partition = await world.partition()
        world.follow(partition)
        await world.copied(partition, led)
        world.disk.slow_probability = 1.0
        world.disk.min_delay_ms = world.disk.max_delay_ms = 100.0
        led.append("c")
        world.source.wake()
        await world.until(lambda: partition.log.offsets.next_offset == 3)
        assert partition.log.log_end_offset == 2
        [fetcher] = world.fetchers
        raise_log_start_offset(partition.log, 1)  # which the leader is to be told
        fetcher.close()
        await asyncio.sleep(1)
        assert partition.log.log_end_offset == 3

    play(program)
    assert "task failed" not in caplog.text


@played_by(play)
async def test_a_broker_that_is_about_to_stop_follows_nobody_new(world: FollowerWorld) -> None:
    many = [world.source.lead("t", index) for index in (0, 1)]
    first, second = [await world.partition("t", index) for index in (0, 1)]
    world.follow(first)
    await world.until(lambda: len(world.source.requests) > 1)
    world.fetchers.stop_accepting()
    world.follow(second)
    for led in many:
        led.append("x")
    world.source.wake()
    await world.copied(first, many[0])  # until it is told to stop
    await asyncio.sleep(5)
    assert second.log.log_end_offset == 0


@played_by(play)
async def test_throttled_replicas_that_lag_wait_and_others_do_not(world: FollowerWorld) -> None:
    world.quota.limit_bytes_per_second = 1000
    world.quota.throttle("t", ["0:1", "1:9"], ME)
    world.source.max_batches = 1
    many = [world.source.lead("t", index) for index in (0, 1)]
    for led in many:
        for _ in range(20):
            led.append("x" * 1000)
    partitions = [await world.partition("t", index) for index in (0, 1)]
    began_s = world.loop.time()
    for partition in partitions:
        world.follow(partition)
    await world.copied(partitions[1], many[1])
    assert world.loop.time() - began_s < 1
    assert partitions[0].log.log_end_offset < 5
    await world.copied(partitions[0], many[0])
    assert 10 < world.loop.time() - began_s < 40  # 20 KB at 1000 bytes a second
    # In sync now: throttled no more, whatever the rate is.
    many[0].append("y" * 5000)
    world.source.wake()
    began_s = world.loop.time()
    await world.copied(partitions[0], many[0])
    many[0].append("z" * 5000)
    world.source.wake()
    await world.copied(partitions[0], many[0])
    assert world.loop.time() - began_s < 0.5
