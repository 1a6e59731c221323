"""Produced records that the disk has yet to take: they count as memory of requests, whoever waits for them."""

from __future__ import annotations

import errno

import pytest

from broker.network.memory_budget import LEAST_WAITING_BYTES
from storage.log import log_replacement
from tests.async_tests import played_by
from tests.broker.handlers.records.produce_twins import OTHER, Twins, on_twins, request_of, teach
from tests.replication.replica_world import ME
from tests.storage.logs import batch

RECORDS = bytes(batch("x" * 6_000))
SMALL_RECORDS = bytes(batch("x"))


def hold_writes(both: Twins) -> None:
    """Appends stay in memory until `write`."""
    both.each_replica(lambda one: log_replacement.buffer_appends(one.partition.log))


def write(both: Twins) -> None:
    both.each_replica(lambda one: log_replacement.release(one.partition.log))


def used_bytes(both: Twins) -> list[int]:
    return [side.broker.budget.used_bytes for side in both.sides]


def ends(both: Twins) -> list[int]:
    """What was appended, written or not."""
    return [side.replicas[0].partition.log.offsets.next_offset for side in both.sides]


@played_by(on_twins, "tmp_path")
async def test_without_an_answer_they_are_counted_and_nobody_waits_for_them(both: Twins) -> None:
    await teach(both, 9, acks=0)
    hold_writes(both)
    both.send(both.frame(request_of(RECORDS, acks=0), 9))
    assert used_bytes(both) == [len(RECORDS)] * 2
    both.send(both.frame(request_of(SMALL_RECORDS, SMALL_RECORDS, acks=0), 9))
    assert used_bytes(both) == [len(RECORDS) + 2 * LEAST_WAITING_BYTES] * 2
    both.send(both.frame(request_of(SMALL_RECORDS, acks=1), 9))
    assert ends(both) == [5, 5]
    assert await both.compare() == []
    write(both)
    assert len(await both.compare()) == 1
    assert used_bytes(both) == [0, 0]


@played_by(on_twins, "tmp_path")
async def test_without_an_answer_the_next_ones_wait_for_room(both: Twins) -> None:
    await teach(both, 9, acks=0)
    hold_writes(both)
    for side in both.sides:
        side.broker.budget.limit_bytes = 3 * (len(RECORDS) + 100)
    both.send(*(both.frame(request_of(RECORDS, acks=0), 9) for _ in range(10)))
    assert ends(both) == [5, 5]
    assert not any(side.peer.stream.is_reading for side in both.sides)
    write(both)
    await both.compare()
    assert ends(both) == [12, 12]
    assert used_bytes(both) == [0, 0]
    assert all(side.peer.stream.is_reading for side in both.sides)


@pytest.mark.parametrize("acks", [0, 1, -1])
@played_by(on_twins, "tmp_path", isr=(ME, OTHER))
async def test_they_are_counted_until_they_are_written_although_their_client_is_gone(both: Twins, acks: int) -> None:
    await teach(both, 9)
    hold_writes(both)
    both.send(both.frame(request_of(RECORDS, RECORDS, acks=acks), 9))
    both.reconnect()
    assert used_bytes(both) == [2 * len(RECORDS)] * 2
    write(both)
    await both.compare()
    assert used_bytes(both) == [0, 0]
    assert all(not side.replicas[0].partition.waiters.produces_count for side in both.sides)


def parked_bytes(both: Twins) -> list[int]:
    return [side.broker.budget.parked_bytes for side in both.sides]


@played_by(on_twins, "tmp_path", isr=(ME, OTHER))
async def test_what_waits_for_replicas_is_counted_until_it_is_written(both: Twins) -> None:
    await teach(both, 9)
    hold_writes(both)
    both.send(both.frame(request_of(RECORDS, acks=-1), 9))
    assert min(used_bytes(both)) >= len(RECORDS)
    assert parked_bytes(both) == [0, 0]
    write(both)
    assert used_bytes(both) == [0, 0]
    assert parked_bytes(both) == [LEAST_WAITING_BYTES] * 2
    both.reconnect()
    assert parked_bytes(both) == [0, 0]


@played_by(on_twins, "tmp_path", isr=(ME, OTHER))
async def test_what_is_written_is_not_counted_when_it_waits_for_replicas(both: Twins) -> None:
    both.send(both.frame(request_of(RECORDS, acks=-1), 9))
    await both.compare()
    assert used_bytes(both) == [0, 0]
    assert parked_bytes(both) == [LEAST_WAITING_BYTES] * 2
    both.reconnect()
    assert parked_bytes(both) == [0, 0]


@played_by(on_twins, "tmp_path", isr=(ME, OTHER))
async def test_they_are_counted_when_their_client_was_answered_too_late(both: Twins) -> None:
    await teach(both, 9)
    hold_writes(both)
    both.send(both.frame(request_of(RECORDS, acks=-1), 9))
    for side in both.sides:
        side.broker.turns.advance(1_100)
    assert len(await both.compare()) == 3
    assert used_bytes(both) == [len(RECORDS)] * 2
    write(both)
    await both.compare()
    assert used_bytes(both) == [0, 0]


@pytest.mark.parametrize("is_gone", [False, True])
@played_by(on_twins, "tmp_path")
async def test_they_are_counted_no_longer_when_the_log_fails(both: Twins, *, is_gone: bool) -> None:
    await teach(both, 9, acks=0)
    hold_writes(both)
    for acks in (0, 1):
        both.send(both.frame(request_of(RECORDS, acks=acks), 9))
    if is_gone:
        both.reconnect()
    both.each_replica(lambda one: one.partition.log.writer.refusals.fail(OSError(errno.EIO, "the disk is gone")))
    for side in both.sides:
        side.peer.go_on()
        assert not side.broker.budget.used_bytes
        for one in side.replicas:
            await one.partition.log.close(flush=False)
