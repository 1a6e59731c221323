"""What a log knows of transactions after a crash at any moment is what its records say."""

from __future__ import annotations

import asyncio

import pytest

from protocol.errors import KafkaError
from protocol.records.batch import iter_headers
from storage.log.partition_log import PartitionLog
from storage.log.producers.producer_state import ProducerStates
from storage.log.removal.log_truncation import truncate_to
from storage.segments.segment_files import TXN_INDEX_SUFFIX
from storage.segments.txn_index import AbortedTxn, decode_transactions
from tests.async_tests import played_by
from tests.storage.log.producers.transacting import Transactional
from tests.storage.logs import append, config, read
from tests.storage.machine import Machine, on_a_machine


async def told_by_records(log: PartitionLog) -> tuple[list[AbortedTxn], bytes]:
    """The aborted transactions, and all producers, as a walk over every record finds them."""
    producers, aborted = ProducerStates(), []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        content = await read(log, offset)
        for position, header in iter_headers(content):
            ended = producers.replay(content, position, header)
            if ended is not None and ended.is_aborted:
                aborted.append(producers.aborted(ended))
            offset = header.next_offset
    return aborted, producers.to_snapshot()


async def check(machine: Machine, log: PartitionLog) -> None:
    aborted, producers = await told_by_records(log)
    assert await log.reading.aborted_transactions(0, 1 << 40) == aborted
    assert log.producers.states.to_snapshot() == producers
    filesystem = machine.filesystem
    stored: list[AbortedTxn] = []
    for segment in log.segments:
        path = segment.path(TXN_INDEX_SUFFIX)
        if filesystem.exists(path):
            stored += decode_transactions(filesystem.read_bytes(path))
    assert stored == aborted


async def work(machine: Machine, log: PartitionLog) -> None:
    """Transactions over some segments, with a flush and a cut in the middle. Ends early with the process."""
    random = machine.loop.random
    producers = [Transactional(log, producer_id) for producer_id in (1, 2, 3)]
    try:
        for turn in range(24):
            one = producers[turn % 3]
            await one.write(f"{turn} " * 20)
            if random.random() < 0.6:
                await (one.abort() if random.random() < 0.7 else one.commit())
            if turn == 9:
                await log.flush()
            if turn == 15:
                await truncate_to(log, log.log_end_offset - 5)
                producers = [Transactional(log, producer_id, epoch=1) for producer_id in (1, 2, 3)]
    except KafkaError:
        assert log.failure is not None


@pytest.mark.parametrize("power", [True, False])
def test_a_crash_at_any_moment(power: bool) -> None:
    calls, is_over = 1, False
    while not is_over:
        is_over = _is_over_after(calls, power=power)
        calls += 1 if power else 5
    assert calls > 200


def _is_over_after(calls: int, *, power: bool) -> bool:
    """Crash in the call number `calls`; whether all is done with fewer."""
    over = False

    async def program(machine: Machine) -> None:
        nonlocal over
        log = await machine.start()
        struck = False

        def strike() -> None:
            nonlocal struck
            struck = True

        machine.storage.strike_after(calls, strike)
        task = asyncio.ensure_future(work(machine, log))
        highest = 0
        while not struck and not task.done():
            highest = max(highest, log.offsets.recovery_point)
            await asyncio.sleep(0.001)
        over = not struck
        # The checkpoint may have been written at any moment, last when the cut had lowered it.
        recovery_point = log.offsets.recovery_point if machine.checkpoints else highest
        task.cancel()
        if power:
            machine.storage.crash_power()
        after = await machine.start(recovery_point)
        await check(machine, after)
        last = Transactional(after, 9)
        await last.write("more")
        await last.abort()
        await check(machine, after)

    on_a_machine(calls, program)
    return over


EACH_FLUSHED = config(segment_bytes=900, flush_messages=1)


async def check_behind_flushed_writes(machine: Machine, log: PartitionLog) -> None:
    """Each write is flushed, so that the recovery point is behind the first segment before this one is on the disk."""
    log.configure(EACH_FLUSHED)
    for _ in range(20):
        await append(log, "x" * 100)
        if len(log.segments) > 1:
            break
    machine.storage.crash_power()
    await check(machine, await machine.start(log.offsets.recovery_point))


@pytest.mark.parametrize("seed", range(6))
@played_by(on_a_machine, "seed")
async def test_an_abort_that_was_cut_off_does_not_come_back_in_the_index(machine: Machine) -> None:
    machine.readers_delay_ms = 1000.0  # rolled segments are flushed late
    log = await machine.start()
    log.configure(EACH_FLUSHED)
    one = Transactional(log, 1)
    await one.write("a")
    await one.abort()
    end_offset = log.log_end_offset
    await one.write("b")
    await one.abort()
    await log.flush()
    await truncate_to(log, end_offset + 1)
    await check_behind_flushed_writes(machine, log)


@pytest.mark.parametrize("seed", range(6))
@played_by(on_a_machine, "seed")
async def test_an_index_that_a_recovery_has_made_again_is_on_the_disk(machine: Machine) -> None:
    log = await machine.start()
    one = Transactional(log, 1)
    await one.write("a")
    await one.abort()
    machine.storage.crash_process()
    machine.readers_delay_ms = 1000.0
    log = await machine.start(0)
    await check_behind_flushed_writes(machine, log)
