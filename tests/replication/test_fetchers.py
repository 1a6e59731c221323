"""Copying from a leader: requests, logs, errors, lines, and partitions that come and go meanwhile."""

from __future__ import annotations

import asyncio
import errno

import pytest

from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest
from protocol.messages.list_offsets import ListOffsetsRequest
from protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from runtime.transport import Address
from storage.log import AppendOrigin
from tests.replication.leader_world import (
    BACKOFF_MS,
    ME,
    PORT,
    SOURCE,
    WAIT_MS,
    FollowerWorld,
    Source,
    leader_and_isr,
    play,
)
from tests.storage.logs import all_values, batch, config

TOPIC_ID = bytes(range(16))
TOPIC_ID_2 = bytes(range(16, 32))


def test_records_offsets_epochs_and_the_high_watermark_are_copied() -> None:
    async def program(world: FollowerWorld) -> None:
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
        assert partition.log.end_offset_for_epoch(1) == (1, 2)
        assert partition.log.latest_epoch == 4
        assert world.fetchers.max_lag == 0

    play(program)


def test_requests_of_the_newest_version() -> None:
    async def program(world: FollowerWorld) -> None:
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

    play(program)


@pytest.mark.parametrize(
    ("version", "topic_id", "expected"), [("2.8", TOPIC_ID, 12), ("3.9", bytes(16), 12), ("2.0", TOPIC_ID, 8)]
)
def test_partitions_are_named_where_ids_cannot_be_used(version: str, topic_id: bytes, expected: int) -> None:
    async def program(world: FollowerWorld) -> None:
        led = world.source.lead()
        led.append("a")
        partition = await world.partition(topic_id=topic_id)
        world.follow(partition)
        await world.copied(partition, led)
        assert world.source.versions(FetchRequest) == {expected}
        request = world.source.asked(FetchRequest)[0]
        assert (request.replica_id, request.topics[0].topic) == (ME, "t")

    play(program, version)


def test_sessions_name_only_what_has_changed() -> None:
    async def program(world: FollowerWorld) -> None:
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
        await world.fetchers.leave("t", 1)
        await asyncio.sleep(1)
        gone = [row for request in world.source.asked(FetchRequest) for row in request.forgotten_topics_data]
        assert [(row.topic_id, row.partitions) for row in gone] == [(TOPIC_ID, [1])]

    play(program)


@pytest.mark.parametrize(
    "error",
    [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR],
)
def test_a_lost_session_is_replaced(error: ErrorCode) -> None:
    async def program(world: FollowerWorld) -> None:
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

    play(program)


# --- truncation ---


async def diverged(world: FollowerWorld) -> tuple[object, object]:
    """This broker led in epoch 1 and wrote what nobody has; the source leads in epoch 2."""
    partition = await world.partition(log_config=config(segment_bytes=300))
    old = Source(world.loop, world.network).lead()
    for value in "abc":
        old.append(value, epoch=0)
    for value in "defghi":
        old.append(value, epoch=1)
    partition.become_follower(leader_and_isr(SOURCE, 1))
    for _, _, content in old.batches:
        partition.append_as_follower(content, leader_high_watermark=3, leader_log_start_offset=0, now_ms=0)
    await partition.log.settle()
    led = world.source.lead(leader_epoch=2)
    for value in "abc":
        led.append(value, epoch=0)
    for value in "xy":
        led.append(value, epoch=2)
    return partition, led


def test_the_fetch_tells_where_the_logs_part() -> None:
    async def program(world: FollowerWorld) -> None:
        partition, led = await diverged(world)
        world.follow(partition, epoch=2)
        await world.copied(partition, led)
        assert await all_values(partition.log) == led.values()
        assert partition.log.end_offset_for_epoch(0) == (0, 3)
        assert partition.log.latest_epoch == 2
        assert not world.source.asked(OffsetForLeaderEpochRequest)

    play(program)


def test_older_brokers_ask_where_their_epoch_ends_first() -> None:
    async def program(world: FollowerWorld) -> None:
        partition, led = await diverged(world)
        world.follow(partition, epoch=2)
        await world.copied(partition, led)
        assert await all_values(partition.log) == led.values()
        [asked] = world.source.asked(OffsetForLeaderEpochRequest)
        assert world.source.versions(OffsetForLeaderEpochRequest) == {3}
        row = asked.topics[0].partitions[0]
        assert (asked.replica_id, row.current_leader_epoch, row.leader_epoch) == (ME, 2, 1)
        assert world.source.versions(FetchRequest) == {11}
        assert isinstance(world.source.requests[0][0], OffsetForLeaderEpochRequest)

    play(program, "2.6")


def test_a_leader_that_has_deleted_everything_here_begins_the_log_anew() -> None:
    async def program(world: FollowerWorld) -> None:
        partition, _ = await diverged(world)
        led = world.source.lead(leader_epoch=2, start_offset=40, high_watermark=40)
        led.append("z", "zz")
        world.follow(partition, epoch=2)
        await world.copied(partition, led)
        assert partition.log.log_start_offset == 40
        assert await all_values(partition.log) == [(40, "z"), (41, "zz")]
        assert world.source.versions(ListOffsetsRequest) == {9}
        asked = [request.topics[0].partitions[0].timestamp for request in world.source.asked(ListOffsetsRequest)]
        assert asked == [-1, -2]

    play(program)


def test_after_an_unclean_election_the_log_ends_where_the_leaders_does() -> None:
    async def program(world: FollowerWorld) -> None:
        partition, _ = await diverged(world)
        led = world.source.lead(leader_epoch=2)
        led.append("a")
        led.epochs = type(led.epochs)()  # a leader that knows nothing of epochs
        world.follow(partition, epoch=2)
        await world.until(lambda: partition.log.log_end_offset == 1)
        assert partition.high_watermark == 1

    play(program, "2.6")


def test_a_log_that_begins_within_a_batch() -> None:
    async def program(world: FollowerWorld) -> None:
        led = world.source.lead()
        led.append("a", "b", "c", "d")
        led.append("e")
        led.delete_before(2)
        partition = await world.partition()
        world.follow(partition)
        await world.copied(partition, led)
        assert partition.log.log_start_offset == 2
        assert await all_values(partition.log) == led.values()

    play(program)


def test_the_leaders_start_is_taken_over() -> None:
    async def program(world: FollowerWorld) -> None:
        led = world.source.lead()
        led.append("a")
        led.append("b")
        partition = await world.partition()
        world.follow(partition)
        await world.copied(partition, led)
        led.delete_before(1)
        await world.until(lambda: partition.log.log_start_offset == 1)
        await world.until(
            lambda: any(
                row.log_start_offset == 1
                for request in world.source.asked(FetchRequest)
                for topic in request.topics
                for row in topic.partitions
            )
        )

    play(program)


def test_the_leader_hears_of_a_log_that_was_shortened_here() -> None:
    async def program(world: FollowerWorld) -> None:
        led = world.source.lead()
        led.append("a", "b")
        partition = await world.partition()
        world.follow(partition)
        await world.copied(partition, led)
        partition.log.raise_log_start_offset(1)
        await world.until(
            lambda: (
                world.source.asked(FetchRequest)[-1].topics != []
                and world.source.asked(FetchRequest)[-1].topics[0].partitions[0].log_start_offset == 1
            )
        )

    play(program)


# --- errors ---


def test_a_fenced_follower_waits_for_its_next_assignment() -> None:
    async def program(world: FollowerWorld) -> None:
        led = world.source.lead(leader_epoch=5)
        led.append("a")
        partition = await world.partition()
        world.follow(partition, epoch=4)
        await world.until(lambda: world.fetchers.failed_partitions_count == 1)
        asked = len(world.source.requests)
        await asyncio.sleep(60)
        assert len(world.source.requests) == asked
        assert partition.log.log_end_offset == 0
        await world.fetchers.leave("t", 0)
        world.follow(partition, epoch=5)
        await world.copied(partition, led)
        assert world.fetchers.failed_partitions_count == 0

    play(program)


@pytest.mark.parametrize(
    "error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
)
def test_a_refused_follower_asks_again_after_a_pause_and_holds_up_nobody(error: ErrorCode) -> None:
    async def program(world: FollowerWorld) -> None:
        refused, other = world.source.lead("t", 0, error=error), world.source.lead("t", 1)
        partitions = [await world.partition("t", index) for index in (0, 1)]
        for partition in partitions:
            world.follow(partition)
        await asyncio.sleep(5)
        named = [
            row.partition
            for request in world.source.asked(FetchRequest)
            for topic in request.topics
            for row in topic.partitions
            if row.partition == 0
        ]
        assert 4 <= len(named) <= 10  # once a second, and some times at first
        other.append("x")
        world.source.wake()
        await world.copied(partitions[1], other)
        refused.error = ErrorCode.NONE
        refused.append("y")
        await world.copied(partitions[0], refused)

    play(program)


def test_a_follower_ahead_of_its_leader_asks_again() -> None:
    async def program(world: FollowerWorld) -> None:
        led = world.source.lead(leader_epoch=1)
        partition = await world.partition()
        world.follow(partition, epoch=2)
        await asyncio.sleep(3)
        led.leader_epoch = 2
        led.append("a")
        await world.copied(partition, led)

    play(program)


def test_damaged_records_are_fetched_again() -> None:
    async def program(world: FollowerWorld) -> None:
        led = world.source.lead(corrupts=True)
        led.append("a")
        partition = await world.partition()
        world.follow(partition)
        await asyncio.sleep(3)
        assert partition.log.next_offset == 0
        assert world.fetchers.failed_partitions_count == 0
        assert 2 <= len(world.source.asked(FetchRequest)) <= 10
        led.corrupts = False
        await world.copied(partition, led)

    play(program)


def test_a_log_whose_disk_fails_stops_alone() -> None:
    async def program(world: FollowerWorld) -> None:
        many = [world.source.lead("t", index) for index in (0, 1)]
        partitions = [await world.partition("t", index) for index in (0, 1)]
        for partition in partitions:
            world.follow(partition)
        await world.until(lambda: len(world.source.asked(FetchRequest)) > 1)
        world.storage.fail("/logs/t-0", errno.EIO)
        for led in many:
            led.append("a")
        world.source.wake()
        await world.copied(partitions[1], many[1])
        await world.until(lambda: world.fetchers.failed_partitions_count == 1)
        assert world.failed == ["/logs/t-0"]
        world.fetchers.forget("t", 0)
        many[1].append("b")
        world.source.wake()
        await world.copied(partitions[1], many[1])

    play(program)


def test_a_truncation_that_fails_stops_the_partition() -> None:
    async def program(world: FollowerWorld) -> None:
        partition, _ = await diverged(world)
        world.storage.fail("/logs/t-0", errno.EIO)
        world.follow(partition, epoch=2)
        await world.until(lambda: world.fetchers.failed_partitions_count == 1)

    play(program)


# --- the line ---


def test_a_lost_connection_is_made_again_after_a_pause_with_everything_named() -> None:
    async def program(world: FollowerWorld) -> None:
        led = world.source.lead()
        led.append("a")
        partition = await world.partition()
        world.follow(partition)
        await world.copied(partition, led)
        world.source.lose_connections()
        led.append("b")
        lost_s = world.loop.time()
        await world.copied(partition, led)
        assert BACKOFF_MS / 1000 <= world.loop.time() - lost_s < 2 * BACKOFF_MS / 1000
        assert world.source.asked(FetchRequest)[-1].topics
        assert await all_values(partition.log) == led.values()

    play(program)


def test_a_silent_leader_costs_the_connection_after_the_timeout() -> None:
    async def program(world: FollowerWorld) -> None:
        led = world.source.lead()
        partition = await world.partition()
        world.follow(partition)
        await world.until(lambda: len(world.source.asked(FetchRequest)) > 1)
        world.source.is_silent = True
        await asyncio.sleep(10)
        world.source.is_silent = False
        led.append("a")
        await world.copied(partition, led)
        assert len(world.source.connections) > 2

    play(program)


def test_a_broker_that_is_nowhere_is_looked_for_again() -> None:
    async def program(world: FollowerWorld) -> None:
        led = world.source.lead()
        led.append("a")
        world.addresses.clear()
        partition = await world.partition()
        world.follow(partition)
        await asyncio.sleep(5)
        assert partition.log.log_end_offset == 0
        world.addresses[SOURCE] = Address("source", PORT)
        await world.copied(partition, led)

    play(program)


def test_a_broker_that_is_gone_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async def program(world: FollowerWorld) -> None:
        led = world.source.lead()
        led.append("a")
        partition = await world.partition()
        address = world.addresses.pop(SOURCE)
        world.follow(partition)
        await asyncio.sleep(10.5)
        world.addresses[SOURCE] = address
        await world.copied(partition, led)

    with caplog.at_level("INFO", "replication"):
        play(program)
    told = [record.getMessage() for record in caplog.records if "source broker" in record.getMessage()]
    assert len(told) == 2
    assert told[1] == f"source broker answers again: broker={SOURCE} failures=11"


def test_a_broker_that_moved_is_followed_at_once() -> None:
    async def program(world: FollowerWorld) -> None:
        world.source.lead()
        first = await world.partition("t", 0)
        world.follow(first)
        await world.until(lambda: len(world.source.requests) > 1)
        elsewhere = Source(world.loop, world.network, "elsewhere")
        await elsewhere.listen()
        moved, led = elsewhere.lead("t", 0), elsewhere.lead("t", 1)
        moved.append("a")
        led.append("b")
        world.source.is_silent = True  # as a machine that was taken away
        world.addresses[SOURCE] = Address("elsewhere", PORT)
        second = await world.partition("t", 1)
        began_s = world.loop.time()
        world.follow(second)
        await world.copied(second, led)
        await world.copied(first, moved)
        assert world.loop.time() - began_s < 0.5

    play(program)


def test_newcomers_do_not_wait_behind_a_fetch_that_waits() -> None:
    async def program(world: FollowerWorld) -> None:
        world.source.lead("t", 0)
        first = await world.partition("t", 0)
        world.follow(first)
        await asyncio.sleep(2.1)  # a fetch is parked at the leader
        led = world.source.lead("t", 1)
        led.append("a")
        second = await world.partition("t", 1)
        began_s = world.loop.time()
        world.follow(second)
        world.fetchers.settle()
        await world.copied(second, led)
        assert world.loop.time() - began_s < 0.1
        connections = len(world.source.connections)
        await asyncio.sleep(0.2)
        world.fetchers.settle()  # nothing is new: nothing is dropped
        await asyncio.sleep(0.05)
        assert len(world.source.connections) == connections == 2

    play(program)


def test_newcomers_that_follow_each_other_closely_wait_for_a_pause_and_no_longer() -> None:
    async def program(world: FollowerWorld) -> None:
        partitions, led = [], []
        for index in range(4):
            led.append(world.source.lead("t", index))
            led[index].append("a")
            partitions.append(await world.partition("t", index))
        for index in range(4):
            world.follow(partitions[index])
            world.fetchers.settle()
            await asyncio.sleep(0.02)
        began_s = world.loop.time()
        for index in range(4):
            await world.copied(partitions[index], led[index])
        assert world.loop.time() - began_s < 0.2
        await asyncio.sleep(5)
        assert len(world.source.connections) <= 3

    play(program)


def test_a_follower_that_was_faster_than_its_leader_asks_again_though_a_fetch_waits() -> None:
    async def program(world: FollowerWorld) -> None:
        led = [world.source.lead("t", index, leader_epoch=index) for index in range(2)]
        partitions = [await world.partition("t", index) for index in range(2)]
        for index in range(2):
            world.follow(partitions[index], epoch=2 * index)
        led[1].append("a")
        await asyncio.sleep(0.03)
        began_s = world.loop.time()
        led[1].leader_epoch = 2
        await world.copied(partitions[1], led[1])
        assert world.loop.time() - began_s < 0.2  # replica.fetch.wait.max.ms is 500

    play(program)


def test_what_many_partitions_are_refused_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def program(world: FollowerWorld) -> None:
        partitions = []
        for index in range(50):
            world.source.lead("t", index, leader_epoch=5 if index < 20 else 1)
            partitions.append(await world.partition("t", index))
        for partition in partitions:
            world.follow(partition, epoch=2)
        await world.until(lambda: world.fetchers.failed_partitions_count == 20)
        await asyncio.sleep(0.01)

    with caplog.at_level("INFO", "replication"):
        play(program)
    told = [record.getMessage() for record in caplog.records if "partitions=" in record.getMessage()]
    assert [text for text in told if "UNKNOWN_LEADER_EPOCH" in text] == [
        f"leader refused a follower: source={SOURCE} step=Fetch error=UNKNOWN_LEADER_EPOCH partitions=30 such_as=t-20"
    ]
    assert [text for text in told if "FENCED" in text] == [
        f"replica fetching stopped until the next assignment: source={SOURCE} error=FENCED_LEADER_EPOCH partitions=20 "
        "such_as=t-0"
    ]


# --- partitions that leave ---


def test_an_answer_that_comes_after_a_partition_has_left_is_nobodys() -> None:
    async def program(world: FollowerWorld) -> None:
        led, other = world.source.lead("t", 0), world.source.lead("t", 1)
        partitions = [await world.partition("t", index) for index in (0, 1)]
        for partition in partitions:
            world.follow(partition)
        await asyncio.sleep(2.1)
        await world.fetchers.leave("t", 0)
        led.append("a")
        other.append("b")
        world.source.wake()
        await world.copied(partitions[1], other)
        assert partitions[0].log.next_offset == 0

    play(program)


def test_an_answer_in_the_epoch_before_is_nobodys() -> None:
    async def program(world: FollowerWorld) -> None:
        led = world.source.lead()
        partition = await world.partition()
        world.follow(partition, epoch=0)
        await asyncio.sleep(2.1)
        led.append("old")
        world.source.wake()  # on its way
        await world.fetchers.leave("t", 0)
        led.batches.clear()
        led.leader_epoch, led.epochs, led.high_watermark = 1, type(led.epochs)(), 0
        led.append("new", epoch=1)
        world.follow(partition, epoch=1)
        await world.copied(partition, led)
        assert await all_values(partition.log) == [(0, "new")]

    play(program)


def test_leaving_waits_for_the_cut_that_is_under_way() -> None:
    async def program(world: FollowerWorld) -> None:
        partition, _ = await diverged(world)
        world.disk.min_delay_ms = world.disk.max_delay_ms = 200.0
        world.follow(partition, epoch=2)
        await world.until(lambda: partition.log.log_end_offset == 3)  # cut in memory, not yet on the disk
        leaving = [asyncio.ensure_future(world.fetchers.leave("t", 0)) for _ in range(2)]
        await asyncio.sleep(0.01)
        assert not any(each.done() for each in leaving)
        await asyncio.gather(*leaving)
        partition.become_leader(leader_and_isr(ME, 3, 1))  # and appends: the log takes them
        assert partition.log.log_end_offset == partition.log.next_offset == 3
        await asyncio.sleep(5)
        assert partition.log.log_end_offset == 3
        assert ("t", 0) not in next(iter(world.fetchers))

    play(program)


def test_only_what_is_written_is_acknowledged() -> None:
    async def program(world: FollowerWorld) -> None:
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

    play(program)


def test_an_error_while_something_else_is_written_is_an_error_and_no_more() -> None:
    """The log may have writes under way that no answer of this leader has brought."""

    async def program(world: FollowerWorld) -> None:
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

    play(program)


# --- many ---


def test_fetchers_share_the_partitions_and_go_when_they_have_none() -> None:
    async def program(world: FollowerWorld) -> None:
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
            await world.fetchers.leave("t", index)
        world.fetchers.settle()
        assert len(world.fetchers) == 0
        await world.until(lambda: len(world.tasks) == 0)

    play(program, fetchers_count=3)


def test_the_number_of_fetchers_may_change() -> None:
    async def program(world: FollowerWorld) -> None:
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

    play(program)


def test_closing_ends_everything_at_once() -> None:
    async def program(world: FollowerWorld) -> None:
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

    play(program)


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
        await world.until(lambda: partition.log.next_offset == 3)
        assert partition.log.log_end_offset == 2
        [fetcher] = world.fetchers
        partition.log.raise_log_start_offset(1)  # which the leader is to be told
        fetcher.close()
        await asyncio.sleep(1)
        assert partition.log.log_end_offset == 3

    play(program)
    assert "task failed" not in caplog.text


def test_a_broker_that_is_about_to_stop_follows_nobody_new() -> None:
    async def program(world: FollowerWorld) -> None:
        many = [world.source.lead("t", index) for index in (0, 1)]
        first, second = [await world.partition("t", index) for index in (0, 1)]
        world.follow(first)
        await world.until(lambda: len(world.source.requests) > 1)
        world.fetchers.take_no_more()
        world.follow(second)
        for led in many:
            led.append("x")
        world.source.wake()
        await world.copied(first, many[0])  # until it is told to stop
        await asyncio.sleep(5)
        assert second.log.log_end_offset == 0

    play(program)


def test_throttled_replicas_that_lag_wait_and_others_do_not() -> None:
    async def program(world: FollowerWorld) -> None:
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

    play(program)
