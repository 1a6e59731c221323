"""What a leader must not carry from one epoch into another: terms of others that it has not heard of, reads that began
before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from replication.fetch_read import FetchReader, PartitionRead, fill, fill_cold, inspect
from replication.fetch_sessions import FetchSessions
from storage.log.removal.log_truncation import truncate_to
from tests.async_tests import played_by
from tests.replication.replica_world import NOW_MS, Replica, replica, state
from tests.storage.logs import batch

Scenario = Callable[[Replica], Awaitable[None]]
FOLLOWER = 2


def play(folder: Path, scenario: Scenario, **settings: Any) -> None:
    async def run() -> None:
        async with replica(folder, **settings) as one:
            await scenario(one)

    asyncio.run(run())


class Ids:
    def randrange(self, start: int, stop: int) -> int:
        return start


def read_of(one: Replica, offset: int, *, epoch: int = 0, reader: FetchReader | None = None) -> PartitionRead:
    """What a follower's fetch in `epoch` finds now; its records are read later."""
    partition = FetchPartition(
        partition=0, current_leader_epoch=epoch, fetch_offset=offset, partition_max_bytes=1 << 20
    )
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        session_epoch=-1,
        replica_state=ReplicaState(replica_id=FOLLOWER, replica_epoch=5),
        topics=[FetchTopic(topic="t", partitions=[partition])],
    )
    [item] = FetchSessions(1, Ids()).resolve(request, 12, 0).items
    return inspect(item, one.partition, FetchReader(FOLLOWER, 5) if reader is None else reader)


@played_by(play, "tmp_path")
async def test_what_followers_held_counts_no_more_when_another_may_have_led_in_between(one: Replica) -> None:
    """Broker 3 led in epoch 1, of which this one never heard, and had broker 2 cut its log."""
    one.lead(isr=(1, 2, 3), epoch=0)
    end = await one.append("a", "b", "c")
    one.fetched(end)
    assert one.partition.high_watermark == 0  # broker 3 has nothing yet
    one.lead(isr=(1, 2), epoch=2, partition_epoch=2)
    assert one.partition.high_watermark == 0
    one.fetched(1)
    assert one.partition.high_watermark == 1
    one.fetched(end)
    assert one.partition.high_watermark == end


@played_by(play, "tmp_path")
async def test_deletions_that_waited_for_a_replica_end_when_it_is_none_any_more(one: Replica) -> None:
    one.lead(isr=(1,), replicas=(1, 2))
    await one.append("a", "b", "c")
    assert one.partition.delete_records(2) == -1
    seen: list[ErrorCode] = []
    one.partition.own_waiters().when_deleted(2, seen.append)
    one.lead(isr=(1,), epoch=1, partition_epoch=1, replicas=(1,))
    assert seen == [ErrorCode.NONE]


async def replace_the_end(one: Replica) -> None:
    """Another leads now, and has other records from offset 1 on."""
    one.partition.become_follower(state(3, epoch=1, partition_epoch=1))
    await truncate_to(one.partition.log, 1)
    one.partition.truncated()
    records = batch("x", "y", base_offset=1, partition_leader_epoch=1)
    one.partition.append_as_follower(records, leader_high_watermark=0, leader_log_start_offset=0, now_ms=NOW_MS)
    await one.partition.log.await_appends()


@played_by(play, "tmp_path")
async def test_a_follower_gets_no_records_of_an_epoch_that_began_while_its_fetch_waited(one: Replica) -> None:
    """It would append them behind records that the new leader does not have, and never notice."""
    one.lead(isr=(1, 2))
    await one.append("a")
    await one.append("b")
    await one.append("c")
    hot, cold = read_of(one, 2), read_of(one, 2)
    assert hot.has_records
    await replace_the_end(one)
    assert fill(hot, 1 << 20, at_least_one=True) == 0
    assert (hot.error, bytes(hot.records or b"")) == (ErrorCode.FENCED_LEADER_EPOCH, b"")
    assert await fill_cold(cold, 1 << 20, at_least_one=True) == 0
    assert (cold.error, bytes(cold.records or b"")) == (ErrorCode.FENCED_LEADER_EPOCH, b"")


@played_by(play, "tmp_path")
async def test_a_consumer_gets_no_records_that_took_the_place_of_committed_ones_while_its_fetch_waited(
    one: Replica,
) -> None:
    """An unclean election has cut the log, and what was appended since is not committed."""
    one.lead(isr=(1,))
    for value in ("a", "b", "c"):
        await one.append(value)
    readers = FetchReader(), FetchReader(read_committed=True), FetchReader(needs_leader=False)
    waiting = [read_of(one, 1, epoch=-1, reader=reader) for reader in readers for _ in range(2)]
    assert all(read.has_records for read in waiting)
    await replace_the_end(one)
    assert one.partition.log.high_watermark <= 1 < one.partition.log.log_end_offset
    for hot, cold in zip(waiting[::2], waiting[1::2], strict=True):
        assert fill(hot, 1 << 20, at_least_one=True) == 0
        assert (hot.error, bytes(hot.records or b"")) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, b"")
        assert await fill_cold(cold, 1 << 20, at_least_one=True) == 0
        assert (cold.error, bytes(cold.records or b"")) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, b"")


@played_by(play, "tmp_path")
async def test_a_consumer_gets_what_was_committed_when_its_fetch_came_whoever_leads_since(one: Replica) -> None:
    one.lead(isr=(1,))
    await one.append("a")
    read = read_of(one, 0, epoch=-1, reader=FetchReader())
    one.partition.become_follower(state(3, epoch=1, partition_epoch=1))
    assert fill(read, 1 << 20, at_least_one=True) > 0
    assert read.error == ErrorCode.NONE
