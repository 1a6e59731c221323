"""Looking up aborted transactions over many segments: each entry once, others run in between, damage is told."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path

import pytest

from protocol.errors import ErrorCode, KafkaError
from storage.log.partition_log import PartitionLog
from storage.segments import txn_index
from storage.segments.segment import Segment
from storage.segments.segment_files import TXN_INDEX_SUFFIX
from storage.segments.txn_index import AbortedTxn, encode_transactions
from tests.storage.logs import World, append, config, open_log, read, world

SEGMENTS, OF_EACH = 20, 120
SMALL = config(segment_bytes=400)


def aborted_in(base_offset: int) -> list[AbortedTxn]:
    """As if another transaction had been open all the time: every later index has to be asked as well."""
    return [AbortedTxn(1, 0, base_offset + 1 + at, 0) for at in range(OF_EACH)]


def write_index(segment: Segment, content: bytes) -> None:
    Path(segment.path(TXN_INDEX_SUFFIX)).write_bytes(content)


async def with_aborted(here: World, directory: Path) -> tuple[PartitionLog, list[AbortedTxn]]:
    """A log as a start finds it, and what its transaction indexes hold, none of which was read yet."""
    log = await open_log(here, str(directory), SMALL)
    while len(log.segments) < SEGMENTS:
        await append(log, "x" * 300)
    await log.close()
    entries: list[AbortedTxn] = []
    for segment in log.segments:
        write_index(segment, encode_transactions(aborted_in(segment.base_offset)))
        entries += aborted_in(segment.base_offset)
    end_offset = log.log_end_offset
    return await open_log(here, str(directory), SMALL, is_clean=True, recovery_point=end_offset), entries


async def told_cold(log: PartitionLog) -> list[AbortedTxn]:
    """What a consumer is told that reads from the start."""
    end_offset = log.log_end_offset
    _, told = await log.reading.read_cold_with_aborted(0, limit_offset=end_offset, max_bytes=1 << 20, at_least_one=True)
    return told


def test_no_entry_is_looked_at_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with world(str(tmp_path)) as here:
            log, entries = await with_aborted(here, tmp_path)
            made = 0

            def counted(*columns: int) -> AbortedTxn:
                nonlocal made
                made += 1
                return AbortedTxn(*columns)

            monkeypatch.setattr(txn_index, "AbortedTxn", counted)
            assert await log.reading.aborted_transactions(0, log.log_end_offset) == entries
            assert made == len(entries)
            made = 0
            assert await told_cold(log) == entries
            assert made == len(entries)
            await log.close()

    asyncio.run(run())


def test_others_run_while_many_are_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when all of them are in memory."""

    async def run() -> None:
        async with world(str(tmp_path)) as here:
            log, entries = await with_aborted(here, tmp_path)
            assert await log.reading.aborted_transactions(0, log.log_end_offset) == entries
            assert await read(log, 0, max_bytes=1)
            assert log.reading.aborted_in(0, log.size_bytes) is None, "it would take long"
            times, turns, loop = count(0, 5), 0, asyncio.get_running_loop()
            monkeypatch.setattr(here.clock, "monotonic_ms", lambda: next(times))

            def turn() -> None:
                nonlocal turns
                turns += 1
                loop.call_soon(turn)

            loop.call_soon(turn)
            assert await log.reading.aborted_transactions(0, log.log_end_offset) == entries
            assert turns >= SEGMENTS - 1
            await log.close()

    asyncio.run(run())


@pytest.mark.parametrize("is_in_memory", [False, True])
async def test_an_entry_of_no_known_version_is_a_storage_error(tmp_path: Path, is_in_memory: bool) -> None:
    async with world(str(tmp_path)) as here:
        log, _ = await with_aborted(here, tmp_path)
        write_index(log.segments.first, b"\x00\x01" + encode_transactions(aborted_in(0))[2:])
        await read(log, 0, max_bytes=1)  # which opens the segment
        if is_in_memory:
            with pytest.raises(KafkaError):
                await told_cold(log)
            with pytest.raises(KafkaError) as refused:
                log.reading.aborted_in(0, 1)
        else:
            assert log.reading.aborted_in(0, 1) is None
            with pytest.raises(KafkaError) as refused:
                await told_cold(log)
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        await log.close()
