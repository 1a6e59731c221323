"""Where the expired batches of a log end: against a list, over many segments and pieces, hot and cold."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from protocol.records.record import Record, encode_batch
from runtime.slices import Slices
from storage.log.partition_log import PartitionLog
from storage.log.removal.expired_batches import ExpiredBatches, find_expired
from storage.segments.segment import NO_TIMESTAMP
from tests.doubles.clock import ManualClock
from tests.storage.log.reading.test_read_cost import Asked
from tests.storage.logs import NOW_MS, append, append_records, config, open_log, world

Batch = tuple[int, int]
"""(newest timestamp, offset behind it)"""


async def filled(log: PartitionLog, timestamps: list[int], records_each: int = 1) -> list[Batch]:
    batches = []
    for timestamp in timestamps:
        records = [Record(at, timestamp, None, b"v" * 20, []) for at in range(records_each)]
        result = await append_records(log, bytearray(encode_batch(records)))
        batches.append((timestamp, result.last_offset + 1))
    return batches


async def look(log: PartitionLog, before_ms: int, *, start: int = 0, limit: int | None = None) -> ExpiredBatches:
    return await find_expired(
        log.reading.reader,
        Slices(log.environment.clock),
        start_offset=start,
        limit_offset=log.log_end_offset if limit is None else limit,
        before_ms=before_ms,
    )


def expected(batches: list[Batch], before_ms: int, start: int, limit: int) -> ExpiredBatches:
    end = following = start
    for timestamp, batch_end in batches:
        if batch_end <= start:
            continue
        if batch_end > limit:
            break
        if timestamp >= before_ms:
            return ExpiredBatches(end, following, timestamp)
        following = batch_end
        if timestamp != NO_TIMESTAMP:
            end = following
    return ExpiredBatches(end, following, None)


@pytest.mark.parametrize(
    ("timestamps", "before_ms", "found"),
    [
        ([], 5, ExpiredBatches(0, 0, None)),
        ([5, 6, 7], 5, ExpiredBatches(0, 0, 5)),
        ([5, 6, 7], 6, ExpiredBatches(1, 1, 6)),
        ([5, 6, 7], 8, ExpiredBatches(3, 3, None)),
        ([9, 1, 2], 8, ExpiredBatches(0, 0, 9)),
        ([1, 9, 2], 8, ExpiredBatches(1, 1, 9)),
        ([1, 1 << 62, 2], NOW_MS, ExpiredBatches(1, 1, 1 << 62)),
        ([NO_TIMESTAMP, NO_TIMESTAMP], 8, ExpiredBatches(0, 2, None)),
        ([NO_TIMESTAMP, 9], 8, ExpiredBatches(0, 1, 9)),
        ([NO_TIMESTAMP, 1, NO_TIMESTAMP], 8, ExpiredBatches(2, 3, None)),
    ],
)
async def test_batches_expire_in_order(
    tmp_path: Path, timestamps: list[int], before_ms: int, found: ExpiredBatches
) -> None:
    async with world(str(tmp_path)) as one:
        log = await open_log(one, str(tmp_path))
        await filled(log, timestamps)
        assert await look(log, before_ms) == found
        await log.close()


async def test_what_is_not_committed_stays(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as one:
        log = await open_log(one, str(tmp_path))
        await filled(log, [1, 1, 1], records_each=2)
        for limit, end in ((0, 0), (1, 0), (2, 2), (3, 2), (6, 6)):
            assert await look(log, 5, limit=limit) == ExpiredBatches(end, end, None)
        await log.close()


@pytest.mark.parametrize("seed", range(8))
async def test_any_log_against_a_list(tmp_path: Path, seed: int) -> None:
    """Timestamps rise with disorder; some are missing. Each look continues the one before, and time goes on."""
    chance, asked = random.Random(seed), Asked()
    async with world(str(tmp_path), clock=ManualClock(NOW_MS), filesystem=asked) as one:
        settings = config(
            segment_bytes=chance.choice((400, 3_000, 1 << 20)), index_interval_bytes=chance.choice((0, 100, 4_096))
        )
        log = await open_log(one, str(tmp_path), settings)
        disorder = chance.choice((0, 3, 100))
        timestamps = [
            NO_TIMESTAMP if chance.random() < 0.05 else 1_000 + at + chance.randint(-disorder, disorder)
            for at in range(300)
        ]
        batches = await filled(log, timestamps, records_each=chance.choice((1, 3)))
        if chance.random() < 0.5:
            await log.close()
            log = await open_log(one, str(tmp_path), settings)
        at = 0
        for before_ms in sorted(chance.sample(range(900, 1_450), 12)):
            asked.is_cold = chance.random() < 0.5
            limit = chance.choice((log.log_end_offset, chance.randint(at, log.log_end_offset)))
            found = await look(log, before_ms, start=at, limit=limit)
            assert found == expected(batches, before_ms, at, limit)
            at = found.next_offset
        await log.close()


async def test_the_index_leads_near_the_end(tmp_path: Path) -> None:
    """Of a log of which all but the last record has expired, a small part is read."""
    asked = Asked()
    async with world(str(tmp_path), filesystem=asked) as one:
        log = await open_log(one, str(tmp_path), config(index_interval_bytes=200))
        await filled(log, list(range(1, 2_001)))
        asked.forget()
        asked.is_cold = True
        assert await look(log, 2_000) == ExpiredBatches(1_999, 1_999, 2_000)
        assert sum(length for _, length in asked.waited) < 0.05 * log.size_bytes
        await log.close()


async def test_the_newest_record_of_a_batch_counts(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as one:
        log = await open_log(one, str(tmp_path))
        await append(log, "a", "b", timestamp=5, step_ms=10)
        assert await look(log, 15) == ExpiredBatches(0, 0, 15)
        assert await look(log, 16) == ExpiredBatches(2, 2, None)
        await log.close()
