"""Who reads committed transactions alone: where reading ends, on the leader and on a follower, and who is woken when."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from protocol.records.control import ControlType, EndTxnMarker, encode_marker
from replication.waiting.delayed_queues import COMMITTED_END, STABLE_END
from storage.log.partition_log import AppendOrigin
from storage.log.removal.log_truncation import truncate_to
from storage.log.removal.segment_retention import raise_log_start_offset
from tests.async_tests import played_by
from tests.replication.replica_world import Replica, replica
from tests.replication.test_partition import Waiter
from tests.storage.logs import NOW_MS, batch

Scenario = Callable[[Replica], Awaitable[None]]
FROM_LEADER = {"leader_log_start_offset": 0, "now_ms": NOW_MS}


def play(folder: Path, scenario: Scenario, **settings: Any) -> None:
    async def run() -> None:
        async with replica(folder, **settings) as one:
            await scenario(one)

    asyncio.run(run())


def records(producer_id: int, sequence: int = 0, **more: Any) -> bytearray:
    return batch("v", producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True, **more)


def marker(producer_id: int, kind: ControlType = ControlType.COMMIT, **more: Any) -> bytearray:
    return bytearray(encode_marker(EndTxnMarker(kind, 0, NOW_MS), producer_id=producer_id, producer_epoch=0, **more))


async def lead_with(one: Replica, content: bytearray) -> int:
    """Append as leader, for a client or a coordinator; the offset behind it."""
    is_marker = bool(content[22] & 0x20)
    origin = AppendOrigin.COORDINATOR if is_marker else AppendOrigin.CLIENT
    result = one.partition.append(content, origin=origin, acks=1, now_ms=NOW_MS)
    await one.partition.log.await_appends()
    return result.last_offset + 1


def watching(one: Replica, interest: int) -> Waiter:
    waiter = Waiter()
    one.partition.own_waiters().watchers_of(interest)[waiter] = None
    return waiter


@played_by(play, "tmp_path")
async def test_readers_of_committed_records_wait_for_the_stable_offset_alone(one: Replica) -> None:
    one.lead(isr=(1, 2))
    await lead_with(one, records(7))
    stable, committed = watching(one, STABLE_END), watching(one, COMMITTED_END)
    one.fetched(1)
    one.around.turn()
    assert (one.partition.high_watermark, one.partition.last_stable_offset) == (1, 0)
    assert (stable.wakes, committed.wakes) == (0, 1)
    await lead_with(one, marker(7))
    one.around.turn()
    assert stable.wakes == 0, "the marker has yet to be committed"
    one.fetched(2)
    one.around.turn()
    assert (one.partition.last_stable_offset, stable.wakes) == (2, 1)


@played_by(play, "tmp_path")
async def test_the_earliest_open_transaction_counts(one: Replica) -> None:
    one.lead(isr=(1,))
    await lead_with(one, records(7))
    await lead_with(one, records(8))
    await lead_with(one, marker(8))
    assert one.partition.last_stable_offset == 0
    await lead_with(one, marker(7, ControlType.ABORT))
    assert one.partition.last_stable_offset == 4
    assert one.partition.readable_end(read_committed=True) == 4


@played_by(play, "tmp_path")
async def test_a_follower_knows_the_stable_offset_and_wakes_its_own_readers(one: Replica) -> None:
    one.follow(leader=2)
    copied = records(7) + records(7, 1, base_offset=1) + marker(7, ControlType.ABORT, base_offset=2)
    one.partition.append_as_follower(copied, leader_high_watermark=2, **FROM_LEADER)
    await one.partition.log.await_appends()
    stable = watching(one, STABLE_END)
    assert (one.partition.high_watermark, one.partition.last_stable_offset) == (2, 0)
    one.partition.append_as_follower(bytearray(), leader_high_watermark=3, **FROM_LEADER)
    one.around.turn()
    assert (one.partition.last_stable_offset, stable.wakes) == (3, 1)


@played_by(play, "tmp_path")
async def test_readers_are_woken_when_an_open_transaction_is_deleted(one: Replica) -> None:
    one.lead(isr=(1,))
    await lead_with(one, records(7))
    await one.append("a", "b")
    stable = watching(one, STABLE_END)
    assert one.partition.last_stable_offset == 0
    raise_log_start_offset(one.partition.log, 2)  # as retention does
    one.around.turn()
    assert (one.partition.last_stable_offset, stable.wakes) == (2, 1)


@played_by(play, "tmp_path")
async def test_a_cut_opens_a_transaction_again(one: Replica) -> None:
    one.follow(leader=2)
    copied = records(7) + marker(7, ControlType.ABORT, base_offset=1) + batch("x", base_offset=2)
    one.partition.append_as_follower(copied, leader_high_watermark=1, **FROM_LEADER)
    await one.partition.log.await_appends()
    await truncate_to(one.partition.log, 1)
    one.partition.truncated()
    assert one.partition.last_stable_offset == 0
    again = marker(7, base_offset=1)
    one.partition.append_as_follower(again, leader_high_watermark=2, **FROM_LEADER)
    await one.partition.log.await_appends()
    assert one.partition.last_stable_offset == 2
    assert await one.partition.log.reading.aborted_transactions(0, 2) == []
