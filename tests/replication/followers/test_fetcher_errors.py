"""Fetchers that are refused, whose disk fails, whose connection is lost."""

from __future__ import annotations

import asyncio
import errno

import pytest

from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest
from replication.followers.follower import Fetch
from replication.followers.refused_fetches import Refusals
from runtime.network.transport import Address
from tests.async_tests import played_by
from tests.replication.leader_world import BACKOFF_MS, PORT, SOURCE, FollowerWorld, Source, diverged, play
from tests.storage.logs import all_values

TOPIC_ID = bytes(range(16))
# --- errors ---


@played_by(play)
async def test_a_fenced_follower_waits_for_its_next_assignment(world: FollowerWorld) -> None:
    led = world.source.lead(leader_epoch=5)
    led.append("a")
    partition = await world.partition()
    world.follow(partition, epoch=4)
    await world.until(lambda: world.fetchers.failed_partitions_count == 1)
    asked = len(world.source.requests)
    await asyncio.sleep(60)
    assert len(world.source.requests) == asked
    assert partition.log.log_end_offset == 0
    await world.fetchers.stop_following("t", 0)
    world.follow(partition, epoch=5)
    await world.copied(partition, led)
    assert world.fetchers.failed_partitions_count == 0


@pytest.mark.parametrize(
    "error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
)
@played_by(play)
async def test_a_refused_follower_asks_again_after_a_pause_and_holds_up_nobody(
    world: FollowerWorld, error: ErrorCode
) -> None:
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


@played_by(play)
async def test_a_follower_ahead_of_its_leader_asks_again(world: FollowerWorld) -> None:
    led = world.source.lead(leader_epoch=1)
    partition = await world.partition()
    world.follow(partition, epoch=2)
    await asyncio.sleep(3)
    led.leader_epoch = 2
    led.append("a")
    await world.copied(partition, led)


@played_by(play)
async def test_damaged_records_are_fetched_again(world: FollowerWorld) -> None:
    led = world.source.lead(corrupts=True)
    led.append("a")
    partition = await world.partition()
    world.follow(partition)
    await asyncio.sleep(3)
    assert partition.log.offsets.next_offset == 0
    assert world.fetchers.failed_partitions_count == 0
    assert 2 <= len(world.source.asked(FetchRequest)) <= 10
    led.corrupts = False
    await world.copied(partition, led)


@played_by(play)
async def test_a_log_whose_disk_fails_stops_alone(world: FollowerWorld) -> None:
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


@played_by(play)
async def test_a_truncation_that_fails_stops_the_partition(world: FollowerWorld) -> None:
    partition, _ = await diverged(world)
    world.storage.fail("/logs/t-0", errno.EIO)
    world.follow(partition, epoch=2)
    await world.until(lambda: world.fetchers.failed_partitions_count == 1)


# --- the line ---


@played_by(play)
async def test_a_lost_connection_is_made_again_after_a_pause_with_everything_named(world: FollowerWorld) -> None:
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


@played_by(play)
async def test_a_silent_leader_costs_the_connection_after_the_timeout(world: FollowerWorld) -> None:
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


@played_by(play)
async def test_a_broker_that_is_nowhere_is_looked_for_again(world: FollowerWorld) -> None:
    led = world.source.lead()
    led.append("a")
    world.addresses.clear()
    partition = await world.partition()
    world.follow(partition)
    await asyncio.sleep(5)
    assert partition.log.log_end_offset == 0
    world.addresses[SOURCE] = Address("source", PORT)
    await world.copied(partition, led)


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
    assert told[1] == f"source broker responds again: broker={SOURCE} failures=11"


@pytest.mark.parametrize("is_connecting", [False, True])
@played_by(play)
async def test_a_broker_that_moved_is_followed_at_once(world: FollowerWorld, is_connecting: bool) -> None:
    world.source.lead()
    first = await world.partition("t", 0)
    world.follow(first)
    await world.until(lambda: len(world.source.requests) > 1)
    if is_connecting:  # and hears nothing, not even a refusal
        world.source.lose_connections()
        world.network.cut("me", "source")
        await asyncio.sleep(BACKOFF_MS / 1000 + 0.2)
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


@played_by(play)
async def test_closing_does_not_wait_for_a_connection_that_does_not_come_about(world: FollowerWorld) -> None:
    world.source.lead()
    world.network.cut("me", "source")
    world.follow(await world.partition())
    await asyncio.sleep(1)
    began_s = world.loop.time()
    await world.fetchers.close()
    assert world.loop.time() - began_s < 0.1


@played_by(play)
async def test_newcomers_do_not_wait_behind_a_fetch_that_waits(world: FollowerWorld) -> None:
    world.source.lead("t", 0)
    first = await world.partition("t", 0)
    world.follow(first)
    await asyncio.sleep(2.1)  # a fetch is parked at the leader
    led = world.source.lead("t", 1)
    led.append("a")
    second = await world.partition("t", 1)
    began_s = world.loop.time()
    world.follow(second)
    world.fetchers.finish_assignment()
    await world.copied(second, led)
    assert world.loop.time() - began_s < 0.1
    connections = len(world.source.connections)
    await asyncio.sleep(0.2)
    world.fetchers.finish_assignment()  # nothing is new: nothing is dropped
    await asyncio.sleep(0.05)
    assert len(world.source.connections) == connections == 2


@played_by(play)
async def test_newcomers_that_follow_each_other_closely_wait_for_a_pause_and_no_longer(world: FollowerWorld) -> None:
    partitions, led = [], []
    for index in range(4):
        led.append(world.source.lead("t", index))
        led[index].append("a")
        partitions.append(await world.partition("t", index))
    for index in range(4):
        world.follow(partitions[index])
        world.fetchers.finish_assignment()
        await asyncio.sleep(0.02)
    began_s = world.loop.time()
    for index in range(4):
        await world.copied(partitions[index], led[index])
    assert world.loop.time() - began_s < 0.2
    await asyncio.sleep(5)
    assert len(world.source.connections) <= 3


@played_by(play)
async def test_an_answer_that_has_begun_to_come_is_not_dropped_for_newcomers(world: FollowerWorld) -> None:
    """Where large answers take longer than the pause between newcomers, nothing else would ever be copied."""
    led = world.source.lead("t", 0)
    first = await world.partition("t", 0)
    world.follow(first)
    await world.until(lambda: len(world.source.requests) > 1)
    world.source.answers_take_s, world.source.max_batches = 0.4, 1
    for value in "abcde":
        led.append(value)
    world.source.wake()
    for index in range(1, 25):
        await asyncio.sleep(0.15)
        world.source.lead("t", index)
        world.follow(await world.partition("t", index))
        world.fetchers.finish_assignment()
    assert first.log.log_end_offset == 5, "newcomers came all the time"


@played_by(play)
async def test_a_follower_that_was_faster_than_its_leader_asks_again_though_a_fetch_waits(world: FollowerWorld) -> None:
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


def test_what_is_usual_for_a_moment_is_told_when_it_lasts(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals(SOURCE)
    told = []
    with caplog.at_level("INFO", "replication"):
        for key in (("t", 0), ("t", 1), ("t", 1), ("t", 2)):
            refusals.note(key, Fetch(0, 0), ErrorCode.UNKNOWN_TOPIC_ID)
            refusals.log()
            told.append(len(caplog.messages))
        refusals.note(("t", 3), Fetch(0, 0), ErrorCode.KAFKA_STORAGE_ERROR)
        refusals.log()
    assert told == [0, 0, 1, 1] and len(caplog.messages) == 2
    assert "partitions=1 example=t-1 error=UNKNOWN_TOPIC_ID" in caplog.messages[0]


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

    with caplog.at_level("DEBUG", "replication"):
        play(program)
    told = [record.getMessage() for record in caplog.records if "partitions=" in record.getMessage()]
    assert [text for text in told if "UNKNOWN_LEADER_EPOCH" in text] == [
        f"leader refused requests of a follower: broker={SOURCE} step=Fetch partitions=30 example=t-20 "
        "error=UNKNOWN_LEADER_EPOCH"
    ]
    assert [text for text in told if "FENCED" in text] == [
        f"replica fetching stopped until the next LeaderAndIsr: broker={SOURCE} partitions=20 example=t-0 "
        "error=FENCED_LEADER_EPOCH"
    ]
