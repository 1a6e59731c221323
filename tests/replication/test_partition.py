"""A partition as leader and as follower: commits, waiters, the ISR, what it takes over from its leader."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from protocol.errors import ErrorCode, KafkaError
from replication.leader import IsrResponse
from replication.waiting.delayed_queues import COMMITTED_END, LOG_END, STABLE_END
from storage.log.partition_log import AppendOrigin
from storage.log.removal.segment_retention import raise_log_start_offset
from tests.async_tests import played_by
from tests.replication.replica_world import LAG_MS, Replica, replica
from tests.storage.logs import NOW_MS, batch

Scenario = Callable[[Replica], Awaitable[None]]


def play(folder: Path, scenario: Scenario, **settings: Any) -> None:
    async def run() -> None:
        async with replica(folder, **settings) as one:
            await scenario(one)

    asyncio.run(run())


class Waiter:
    """A session of one partition, and the fetch that is parked for it."""

    is_parked = True

    def __init__(self) -> None:
        self.touches = 0
        self.wakes = 0

    def touch(self) -> Waiter:
        self.touches += 1
        return self

    def on_progress(self) -> None:
        self.wakes += 1


def watch(one: Replica, waiter: Waiter, *, read_committed: bool = False, to_log_end: bool = False) -> None:
    interest = LOG_END if to_log_end else STABLE_END if read_committed else COMMITTED_END
    one.partition.own_waiters().watchers_of(interest)[waiter] = None


@played_by(play, "tmp_path")
async def test_an_append_is_committed_when_the_isr_has_it(one: Replica) -> None:
    one.lead(isr=(1, 2))
    end = await one.append("a", "b", acks=-1)
    seen: list[ErrorCode] = []
    one.partition.own_waiters().when_committed(end, seen.append)
    one.fetched(0)
    one.fetched(1)
    assert (seen, one.partition.high_watermark) == ([], 1)
    one.fetched(end)
    assert (seen, one.partition.high_watermark) == ([ErrorCode.NONE], end)


@played_by(play, "tmp_path", min_insync_replicas=2)
async def test_acks_all_is_refused_below_min_insync_replicas_and_others_are_not_committed(one: Replica) -> None:
    one.lead(isr=(1,))
    with pytest.raises(KafkaError) as refused:
        await one.append(acks=-1)
    assert refused.value.code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert await one.append(acks=1) == 1
    assert one.partition.high_watermark == 0
    assert one.partition.spare_isr == -1


@played_by(play, "tmp_path")
async def test_followers_wait_for_the_log_end_and_consumers_for_the_high_watermark(one: Replica) -> None:
    one.lead(isr=(1, 2))
    follower, consumer = Waiter(), Waiter()
    watch(one, follower, to_log_end=True)
    watch(one, consumer)
    end = await one.append()
    await one.append()
    one.around.turn()
    assert (follower.wakes, consumer.wakes) == (1, 0)
    one.fetched(end)
    one.around.turn()
    assert (follower.wakes, consumer.wakes) == (1, 1)
    watch(one, follower, to_log_end=True)
    watch(one, consumer)
    assert one.partition.waiters.fetches_count == 2
    follower.is_parked = False
    assert one.partition.waiters.fetches_count == 1


@played_by(play, "tmp_path")
async def test_a_follower_that_catches_up_joins_the_isr(one: Replica) -> None:
    one.lead(isr=(1,))
    one.around.now_ms = LAG_MS * 2
    end = await one.append()
    one.fetched(0)
    assert one.around.wishes == []
    one.fetched(end)
    (change,) = one.around.wishes
    assert change.isr == (1, 2)
    assert one.partition.wants(change)
    one.answer(change)
    assert (one.partition.assignment.isr, one.partition.assignment.partition_epoch) == ((1, 2), 1)
    assert not one.partition.wants(change)
    assert one.around.metrics.counts == {"expanded": 1}


@played_by(play, "tmp_path")
async def test_a_follower_that_stays_away_leaves_the_isr_and_records_are_committed_without_it(one: Replica) -> None:
    one.lead(isr=(1, 2))
    end = await one.append()
    one.partition.on_tick(LAG_MS)
    assert one.around.wishes == []
    one.partition.on_tick(LAG_MS + 1)
    (change,) = one.around.wishes
    assert (change.isr, one.partition.high_watermark) == ((1,), 0)
    one.around.now_ms = LAG_MS + 1
    one.answer(change)
    assert (one.partition.assignment.isr, one.partition.high_watermark) == ((1,), end)
    assert one.partition.is_under_replicated
    assert one.around.metrics.counts == {"shrunk": 1}


@played_by(play, "tmp_path")
async def test_a_wish_that_failed_is_counted_and_sent_again_where_that_helps(one: Replica) -> None:
    one.lead(isr=(1,))
    one.fetched(0)
    (change,) = one.around.wishes
    one.answer(change, answer=IsrResponse(ErrorCode.UNKNOWN_SERVER_ERROR))
    assert one.around.wishes == [change, change]
    one.answer(change, answer=IsrResponse(ErrorCode.FENCED_LEADER_EPOCH))
    assert one.around.wishes == [change, change]
    assert one.around.metrics.counts == {"failed": 2}


@played_by(play, "tmp_path")
async def test_news_of_the_same_epoch_are_taken_and_old_ones_are_not(one: Replica) -> None:
    assert one.lead(isr=(1, 2), partition_epoch=3)
    end = await one.append()
    assert not one.lead(isr=(1,), partition_epoch=2)
    assert one.partition.assignment.isr == (1, 2)
    assert not one.follow(epoch=9, partition_epoch=2)
    assert one.partition.is_leader
    one.around.now_ms = LAG_MS * 2
    assert not one.lead(isr=(1,), partition_epoch=4)
    assert (one.partition.assignment.isr, one.partition.assignment.partition_epoch, one.partition.high_watermark) == (
        (1,),
        4,
        end,
    )


@played_by(play, "tmp_path")
async def test_the_next_epoch_of_the_same_leader_is_a_new_term(one: Replica) -> None:
    one.lead(isr=(1, 2), epoch=0)
    end = await one.append()
    one.fetched(end)
    assert one.lead(isr=(1, 2), epoch=1, partition_epoch=1)
    leader = one.partition.leader
    assert leader is not None
    assert (leader.epoch_start_offset, leader.followers[2].leo) == (end, end)
    await one.append()
    assert one.partition.log.epochs.end_offset_for(0) == (0, end)


@played_by(play, "tmp_path")
async def test_losing_the_leadership_answers_everybody_who_waits(one: Replica) -> None:
    one.lead(isr=(1, 2))
    end = await one.append(acks=-1)
    seen: list[ErrorCode] = []
    follower, consumer = Waiter(), Waiter()
    one.partition.own_waiters().when_committed(end, seen.append)
    one.partition.own_waiters().when_deleted(end, seen.append)
    watch(one, follower, to_log_end=True)
    watch(one, consumer, read_committed=True)
    assert one.follow(epoch=1, partition_epoch=1)
    one.around.turn()
    assert seen == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    assert (follower.wakes, consumer.wakes) == (1, 1)
    with pytest.raises(KafkaError):
        await one.append()


@played_by(play, "tmp_path")
async def test_a_write_that_ends_after_the_term_moves_no_high_watermark(one: Replica) -> None:
    one.lead(isr=(1, 2))
    end = await one.append("a", "b")
    one.fetched(end)
    assert one.partition.high_watermark == end
    one.follow(epoch=1, partition_epoch=1)
    one.partition.on_written(None)
    assert one.partition.high_watermark == end


@played_by(play, "tmp_path")
async def test_only_replicas_of_the_assignment_may_follow(one: Replica) -> None:
    one.lead(isr=(1, 2), replicas=(1, 2))

    def refusal(replica_id: int, leader_epoch: int, broker_epoch: int = 5) -> ErrorCode:
        with pytest.raises(KafkaError) as refused:
            one.partition.check_replica(replica_id, broker_epoch, leader_epoch)
        return refused.value.code

    assert refusal(3, -1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refusal(3, 0) == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert refusal(1, -1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    one.fetched(0, broker_epoch=5)
    assert refusal(2, 0, broker_epoch=4) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    one.partition.check_replica(2, -1, 0)  # older versions do not say


@played_by(play, "tmp_path")
async def test_records_are_deleted_when_the_last_live_replica_has_moved(one: Replica) -> None:
    one.lead(isr=(1, 2, 3))
    end = await one.append("a", "b", "c")
    one.fetched(end)
    one.fetched(end, replica=3)
    assert one.partition.delete_records(2) == 0
    seen: list[ErrorCode] = []
    one.partition.own_waiters().when_deleted(2, seen.append)
    one.fetched(end, start=2)
    assert seen == []
    one.around.alive.remove(3)
    one.partition.on_tick(0)
    assert seen == [ErrorCode.NONE]
    assert one.partition.low_watermark == 2
    assert one.partition.waiters.deletions_count == 0


@played_by(play, "tmp_path")
async def test_reassignment_is_not_under_replication(one: Replica) -> None:
    one.lead(isr=(1, 2), replicas=(1, 2, 3), adding=(3,))
    assert one.partition.assignment.is_reassigning
    assert (one.partition.assignment.replication_factor, one.partition.is_under_replicated) == (2, False)
    one.partition.on_sent_to_replica(3, 100)
    one.partition.on_sent_to_replica(2, 10)
    assert one.around.metrics.counts == {"reassignment": 100, "replication": 10}


@played_by(play, "tmp_path")
async def test_a_throttle_holds_back_only_followers_out_of_sync(one: Replica) -> None:
    one.lead(isr=(1, 2))
    quota = one.around.quota
    quota.is_exceeded = True
    assert not one.partition.is_throttled(3)
    quota.throttled.add(("t", 0))
    assert one.partition.is_throttled(3)
    assert not one.partition.is_throttled(2)
    one.partition.on_sent_to_replica(2, 70)
    assert quota.recorded == [70]


# --- as a follower ---


def copied(*values: str, base_offset: int, epoch: int = 4) -> bytearray:
    return batch(*values, base_offset=base_offset, partition_leader_epoch=epoch)


async def take(one: Replica, records: bytes | bytearray, *, high_watermark: int, start: int = 0) -> None:
    one.partition.append_as_follower(
        records, leader_high_watermark=high_watermark, leader_log_start_offset=start, now_ms=NOW_MS
    )
    await one.partition.log.await_appends()


@played_by(play, "tmp_path")
async def test_a_follower_takes_over_the_high_watermark_as_far_as_its_log_goes(one: Replica) -> None:
    one.follow(epoch=4)
    consumer = Waiter()
    watch(one, consumer, read_committed=True)
    await take(one, copied("a", "b", base_offset=0), high_watermark=9)
    assert (one.partition.high_watermark, one.partition.last_stable_offset) == (2, 2)
    one.around.turn()
    assert consumer.wakes == 1
    watch(one, consumer, read_committed=True)
    await take(one, copied("c", base_offset=2), high_watermark=2)
    assert (one.partition.log.log_end_offset, one.partition.high_watermark) == (3, 2)
    await take(one, b"", high_watermark=3)
    assert one.partition.high_watermark == 3
    one.around.turn()
    assert consumer.wakes == 2


@played_by(play, "tmp_path")
async def test_a_follower_begins_where_its_leader_begins(one: Replica) -> None:
    one.follow(epoch=4)
    await take(one, copied("a", "b", "c", base_offset=0), high_watermark=2, start=3)
    assert one.partition.log.log_start_offset == 2
    await take(one, b"", high_watermark=3, start=3)
    assert one.partition.log.log_start_offset == 3


@played_by(play, "tmp_path")
async def test_a_follower_takes_no_gap_and_no_overlap_and_a_leader_takes_nothing(one: Replica) -> None:
    one.follow(epoch=4)
    await take(one, copied("a", "b", base_offset=0), high_watermark=2)
    with pytest.raises(KafkaError):
        await take(one, copied("b", base_offset=1), high_watermark=9)
    assert one.partition.high_watermark == 2
    one.lead(epoch=5, partition_epoch=1)
    with pytest.raises(KafkaError) as refused:
        await take(one, copied("c", base_offset=2), high_watermark=3)
    assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@played_by(play, "tmp_path")
async def test_a_follower_that_becomes_leader_starts_its_epoch_behind_all_it_has(one: Replica) -> None:
    one.follow(epoch=4)
    one.partition.append_as_follower(
        copied("a", "b", base_offset=0), leader_high_watermark=1, leader_log_start_offset=0, now_ms=NOW_MS
    )
    one.lead(isr=(1, 2), epoch=5, partition_epoch=1)
    assert one.partition.leader is not None
    assert one.partition.leader.epoch_start_offset == 2
    await one.partition.log.await_appends()
    one.partition.append(batch("c"), origin=AppendOrigin.CLIENT, acks=1, now_ms=NOW_MS)
    await one.partition.log.await_appends()
    assert one.partition.log.epochs.end_offset_for(4) == (4, 2)
    assert one.partition.high_watermark == 0


@played_by(play, "tmp_path")
async def test_the_leader_prefers_a_replica_of_the_consumers_rack_that_has_the_offset(one: Replica) -> None:
    racks = {1: "a", 2: "b", 3: "b"}
    one.lead(isr=(1, 2))
    end = await one.append("x", "y")
    one.fetched(1)

    def preferred(rack: str, offset: int) -> int | None:
        return one.partition.preferred_read_replica(rack, offset, racks.get, 0)

    assert preferred("b", 1) == 2
    assert preferred("b", end) is None  # not there yet
    assert preferred("a", 1) is None
    assert preferred("c", 1) is None
    one.lead(isr=(1,), partition_epoch=1)
    assert preferred("b", 1) is None  # out of sync


@played_by(play, "tmp_path")
async def test_what_changes_without_more_to_read_is_told_with_the_next_answer(one: Replica) -> None:
    """Whoever has seen everything is touched, and stays where he is: nobody waits for a high watermark on the follower's
    side, for another ISR, for a log that retention has shortened."""
    one.lead(isr=(1, 2))
    end = await one.append("a", "b")
    follower, consumer = Waiter(), Waiter()
    watch(one, follower, to_log_end=True)
    one.fetched(end)
    one.around.turn()
    assert (follower.touches, follower.wakes) == (1, 0)
    watch(one, consumer, read_committed=True)
    raise_log_start_offset(one.partition.log, 1)
    assert (follower.touches, consumer.touches) == (2, 1)
    one.lead(isr=(1, 2, 3), partition_epoch=1)
    assert (follower.touches, consumer.touches) == (3, 2)
    one.partition.on_config_changed()
    assert (follower.touches, consumer.touches) == (4, 3)
    one.around.turn()
    assert (follower.wakes, consumer.wakes) == (0, 0)
    await one.append()
    one.around.turn()
    assert (follower.wakes, consumer.wakes) == (1, 0)


@played_by(play, "tmp_path")
async def test_a_member_that_holds_everything_rests_until_there_is_more_or_it_is_no_member(one: Replica) -> None:
    line = SimpleNamespace(last_used_ms=0)
    one.lead(isr=(1, 2))
    end = await one.append()
    one.fetched(0)
    assert one.partition.mark_idle(2, line) is None
    one.fetched(end)
    resting = one.partition.mark_idle(2, line)
    assert resting is not None
    line.last_used_ms = one.around.now_ms = LAG_MS * 9
    await one.append()
    one.partition.on_tick(LAG_MS * 10)
    assert one.around.wishes == [], "the line was used: it was caught up then"
    assert resting.caught_up_ms == LAG_MS * 9
    one.lead(isr=(1,), partition_epoch=1)
    assert not resting.is_idle_on(line)
    one.fetched(end)
    assert one.partition.mark_idle(2, line) is None
