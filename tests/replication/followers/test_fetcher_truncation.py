"""Fetchers whose log has parted from the leader's: where it is cut, and where it begins anew."""

from __future__ import annotations

from protocol.messages.fetch import FetchRequest
from protocol.messages.list_offsets import ListOffsetsRequest
from protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from storage.log.removal.segment_retention import raise_log_start_offset
from tests.async_tests import played_by
from tests.replication.leader_world import ME, FollowerWorld, diverged, play
from tests.storage.logs import all_values

TOPIC_ID = bytes(range(16))


@played_by(play)
async def test_the_fetch_tells_where_the_logs_part(world: FollowerWorld) -> None:
    partition, led = await diverged(world)
    world.follow(partition, epoch=2)
    await world.copied(partition, led)
    assert await all_values(partition.log) == led.values()
    assert partition.log.epochs.end_offset_for(0) == (0, 3)
    assert partition.log.epochs.latest_epoch == 2
    assert not world.source.asked(OffsetForLeaderEpochRequest)


@played_by(lambda program: play(program, "2.6"))
async def test_older_brokers_ask_where_their_epoch_ends_first(world: FollowerWorld) -> None:
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


@played_by(play)
async def test_a_leader_that_has_deleted_everything_here_begins_the_log_anew(world: FollowerWorld) -> None:
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


@played_by(lambda program: play(program, "2.6"))
async def test_after_an_unclean_election_the_log_ends_where_the_leaders_does(world: FollowerWorld) -> None:
    partition, _ = await diverged(world)
    led = world.source.lead(leader_epoch=2)
    led.append("a")
    led.epochs = type(led.epochs)()  # a leader that knows nothing of epochs
    world.follow(partition, epoch=2)
    await world.until(lambda: partition.log.log_end_offset == 1)
    assert partition.high_watermark == 1


@played_by(play)
async def test_a_log_that_begins_within_a_batch(world: FollowerWorld) -> None:
    led = world.source.lead()
    led.append("a", "b", "c", "d")
    led.append("e")
    led.delete_before(2)
    partition = await world.partition()
    world.follow(partition)
    await world.copied(partition, led)
    assert partition.log.log_start_offset == 2
    assert await all_values(partition.log) == led.values()


@played_by(play)
async def test_the_leaders_start_is_taken_over(world: FollowerWorld) -> None:
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


@played_by(play)
async def test_the_leader_hears_of_a_log_that_was_shortened_here(world: FollowerWorld) -> None:
    led = world.source.lead()
    led.append("a", "b")
    partition = await world.partition()
    world.follow(partition)
    await world.copied(partition, led)
    raise_log_start_offset(partition.log, 1)
    await world.until(
        lambda: (
            world.source.asked(FetchRequest)[-1].topics != []
            and world.source.asked(FetchRequest)[-1].topics[0].partitions[0].log_start_offset == 1
        )
    )
