"""Which old segments go: the plan, the log that carries it out, the files that stay for a while."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import KafkaError
from protocol.records.record import Record, encode_batch
from storage.log.partition_log import PartitionLog
from storage.log.removal.log_truncation import truncate_to
from storage.log.removal.retention_rules import Expired, SegmentExtent, expired_segments
from storage.log.removal.segment_retention import delete_old_segments, delete_records
from tests.storage.directories.test_log_manager import TOPIC_ID, broker
from tests.storage.logs import NOW_MS, World, all_values, append, append_records, config, open_log, world

HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Limits:
    retention_ms: int = -1
    retention_bytes: int = -1
    deletes_by_retention: bool = True


def segments(*rows: tuple[int, int, int | None]) -> list[SegmentExtent]:
    return [SegmentExtent(*row) for row in rows]


THREE = segments((10, 100, 1_000), (20, 100, 2_000), (30, 100, 3_000))


@pytest.mark.parametrize(
    ("name", "extents", "limits", "known", "expected"),
    [
        ("nothing is limited", THREE, Limits(), {}, Expired()),
        ("nothing is old", THREE, Limits(retention_ms=5_000), {}, Expired()),
        ("exactly the limit is not older", THREE, Limits(retention_ms=4_000), {"now_ms": 5_000}, Expired()),
        ("one is older", THREE, Limits(retention_ms=3_999), {"now_ms": 5_000}, Expired(by_time=1)),
        ("all are older", THREE, Limits(retention_ms=10), {"now_ms": 5_000}, Expired(by_time=3)),
        (
            "a young one keeps the old behind it",
            segments((10, 100, 9_000), (20, 100, 1), (30, 100, 1)), Limits(retention_ms=10), {"now_ms": 9_000}, Expired(),
        ),
        (
            "a timestamp of the future keeps its segment",
            segments((10, 100, 10**15), (20, 100, 1)), Limits(retention_ms=0), {"now_ms": 9_000}, Expired(),
        ),
        (
            "an empty active segment stays",
            segments((10, 100, 1), (10, 0, None)), Limits(retention_ms=10), {"now_ms": 9_000}, Expired(by_time=1),
        ),
        ("a lone empty segment stays", segments((0, 0, None)), Limits(retention_ms=0, retention_bytes=0), {}, Expired()),
        ("the size is kept", THREE, Limits(retention_bytes=300), {}, Expired()),
        ("without the first it would be too small", THREE, Limits(retention_bytes=201), {}, Expired()),
        ("without the first it is just large enough", THREE, Limits(retention_bytes=200), {}, Expired(by_size=1)),
        ("no bytes at all", THREE, Limits(retention_bytes=0), {}, Expired(by_size=3)),
        ("behind the high watermark", THREE, Limits(retention_bytes=0), {"high_watermark": 29}, Expired(by_size=2)),
        ("far behind the high watermark", THREE, Limits(retention_ms=0), {"high_watermark": 9, "now_ms": 9_000}, Expired()),
        ("records were deleted", THREE, Limits(), {"log_start_offset": 20}, Expired(by_start_offset=2)),
        ("within a segment", THREE, Limits(), {"log_start_offset": 19}, Expired(by_start_offset=1)),
        ("all records were deleted", THREE, Limits(), {"log_start_offset": 30}, Expired(by_start_offset=2)),
        (
            "the start lies behind the high watermark of a follower",
            THREE, Limits(), {"log_start_offset": 20, "high_watermark": 15}, Expired(by_start_offset=1),
        ),
        (
            "one after the other",
            THREE, Limits(retention_ms=1_500, retention_bytes=100), {"log_start_offset": 10, "now_ms": 5_000},
            Expired(by_start_offset=1, by_size=1, by_time=1),
        ),
        (
            "only compacted",
            THREE, Limits(0, 0, deletes_by_retention=False), {"log_start_offset": 10, "now_ms": 9_000},
            Expired(by_start_offset=1),
        ),
        (
            "nobody knows how old",
            segments((10, 100, 1), (20, 100, None), (30, 100, 1)), Limits(retention_ms=10), {"now_ms": 9_000},
            Expired(by_time=1, undated=1),
        ),
        (
            "nobody needs to know how old",
            segments((10, 100, None), (20, 100, None)), Limits(retention_bytes=50), {}, Expired(by_size=1),
        ),
    ],
)  # fmt: skip
def test_the_plan(
    name: str, extents: list[SegmentExtent], limits: Limits, known: dict[str, int], expected: Expired
) -> None:
    facts = {"log_start_offset": 0, "high_watermark": 30, "now_ms": 5_000} | known
    assert expired_segments(extents, limits, **facts) == expected, name


_EXTENTS = st.lists(
    st.tuples(st.integers(1, 5), st.integers(0, 50), st.one_of(st.none(), st.integers(-1, 100))), min_size=1, max_size=6
).map(lambda rows: [SegmentExtent(sum(row[0] for row in rows[: at + 1]), *rows[at][1:]) for at in range(len(rows))])


@given(
    extents=_EXTENTS,
    limits=st.builds(Limits, st.integers(-1, 60), st.integers(-1, 150), st.booleans()),
    log_start_offset=st.integers(0, 30),
    high_watermark=st.integers(0, 30),
    now_ms=st.integers(0, 120),
)
def test_what_goes_may_go(
    extents: list[SegmentExtent], limits: Limits, log_start_offset: int, high_watermark: int, now_ms: int
) -> None:
    """No record above the high watermark goes, none that is young and within the size; and nothing is left to go."""
    facts = {"log_start_offset": log_start_offset, "high_watermark": high_watermark, "now_ms": now_ms}
    expired = expired_segments(extents, limits, **facts)
    gone, kept = extents[: expired.count], extents[expired.count :]
    assert all(each.end_offset <= high_watermark for each in gone)
    kept_bytes = sum(each.size_bytes for each in kept)
    for at, each in enumerate(gone):
        below_start = each.end_offset <= log_start_offset
        too_large = 0 <= limits.retention_bytes <= kept_bytes + sum(later.size_bytes for later in gone[at + 1 :])
        is_old = each.newest_ms is not None and 0 <= limits.retention_ms < now_ms - each.newest_ms
        assert below_start or (limits.deletes_by_retention and (too_large or is_old))
    if kept and expired.undated is None:
        again = expired_segments(kept, limits, **facts)
        assert again.count == 0, "the next look finds nothing"
    elif kept:
        assert expired.undated == expired.count and kept[0].newest_ms is None


# --- a log ---


def with_log(tmp_path: Path, body: Callable[[World, PartitionLog], Coroutine[Any, Any, None]], **settings: Any) -> None:
    async def run() -> None:
        async with world(str(tmp_path)) as doors:
            log = await open_log(doors, str(tmp_path), config(**({"segment_bytes": 900} | settings)))
            await body(doors, log)
            assert not doors.failed
            await log.close()

    asyncio.run(run())


async def fill(log: PartitionLog, count: int = 30, *, hours_apart: float = 1) -> list[int]:
    """`count` records so far apart, the last one from now; all committed. Answers the segments' base offsets."""
    for at in range(count):
        age_ms = int((count - 1 - at) * hours_apart * HOUR_MS)
        await append(log, f"{at:0100}", timestamp=NOW_MS - age_ms)
    log.high_watermark = log.log_end_offset
    return [segment.base_offset for segment in log.segments]


def offsets(records: list[tuple[int, str]]) -> list[int]:
    return [offset for offset, _ in records]


def names(folder: Path, pattern: str) -> list[str]:
    return sorted(path.name for path in folder.glob(pattern))


def test_segments_whose_newest_record_is_too_old_go(tmp_path: Path) -> None:
    async def body(doors: World, log: PartitionLog) -> None:
        base_offsets = await fill(log)
        raised: list[int] = []
        log.start_listener = SimpleNamespace(on_start_raised=lambda: raised.append(log.log_start_offset))
        deleted = await delete_old_segments(log)
        # Record 30 - 10 is ten hours less one old: the last one that is kept by age.
        expected = max(offset for offset in base_offsets if offset <= 19)
        assert deleted == base_offsets.index(expected) > 0
        assert log.log_start_offset == expected and raised == [expected]
        assert offsets(await all_values(log)) == list(range(expected, 30))
        assert sorted(doors.doomed) == [str(path) for path in sorted((tmp_path / "t-0").glob("*.deleted"))]
        assert names(tmp_path / "t-0", "*.log") == [f"{each:020d}.log" for each in base_offsets if each >= expected]
        with pytest.raises(KafkaError, match="not in"):
            log.reading.read(0, limit_offset=30, max_bytes=1000, at_least_one=True)
        assert await delete_old_segments(log) == 0

    with_log(tmp_path, body, retention_ms=10 * HOUR_MS)


def test_the_active_segment_rolls_and_goes_when_all_of_it_is_old(tmp_path: Path) -> None:
    async def body(doors: World, log: PartitionLog) -> None:
        count = len(await fill(log, 10))
        doors.clock.now_ms += 3 * HOUR_MS
        assert await delete_old_segments(log) == count
        assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (10, 10, 0)
        assert names(tmp_path / "t-0", "*.log") == [f"{10:020d}.log"]
        assert await delete_old_segments(log) == 0, "an empty segment stays"
        assert (await append(log, "next", timestamp=doors.clock.now_ms)).base_offset == 10
        log.high_watermark = 11
        assert await delete_old_segments(log) == 0
        await log.flush()
        assert log.offsets.recovery_point == 11

    with_log(tmp_path, body, retention_ms=2 * HOUR_MS)


def test_what_is_not_committed_stays(tmp_path: Path) -> None:
    async def body(doors: World, log: PartitionLog) -> None:
        base_offsets = await fill(log, 20)
        doors.clock.now_ms += 1000 * HOUR_MS
        log.high_watermark = base_offsets[2] - 1
        assert await delete_old_segments(log) == 1
        assert log.log_start_offset == base_offsets[1]
        log.high_watermark = 19
        await delete_old_segments(log)
        assert log.log_start_offset == base_offsets[-1], "the active one holds a record that is not committed"

    with_log(tmp_path, body, retention_ms=HOUR_MS)


def test_the_log_is_kept_at_its_size(tmp_path: Path) -> None:
    async def body(_: World, log: PartitionLog) -> None:
        await fill(log)
        first_bytes = log.segments.first.written_bytes
        assert await delete_old_segments(log) > 0
        assert 2000 <= log.size_bytes < 2000 + first_bytes
        log.configure(config(segment_bytes=900, retention_bytes=0))
        await delete_old_segments(log)
        assert (log.size_bytes, log.log_start_offset) == (0, 30)

    with_log(tmp_path, body, retention_bytes=2000, retention_ms=-1)


def test_limits_that_change_count_at_the_next_look(tmp_path: Path) -> None:
    async def body(_: World, log: PartitionLog) -> None:
        base_offsets = await fill(log)
        assert await delete_old_segments(log) == 0
        for hours in (20, 25, 5):
            log.configure(config(segment_bytes=900, retention_ms=hours * HOUR_MS))
            await delete_old_segments(log)
            kept = 29 - hours if hours != 25 else 9  # a limit that is raised brings nothing back
            assert log.log_start_offset == max(offset for offset in base_offsets if offset <= kept)

    with_log(tmp_path, body, retention_ms=-1)


@pytest.mark.parametrize(("policy", "goes"), [("delete", True), ("compact,delete", True), ("compact", False)])
def test_a_topic_that_is_only_compacted_loses_only_what_was_deleted(tmp_path: Path, policy: str, goes: bool) -> None:
    async def body(doors: World, log: PartitionLog) -> None:
        base_offsets = await fill(log)
        delete_records(log, base_offsets[2] + 1)
        doors.clock.now_ms += 1000 * HOUR_MS
        await delete_old_segments(log)
        assert log.segments.first.base_offset == (30 if goes else base_offsets[2])
        assert log.log_start_offset == (30 if goes else base_offsets[2] + 1)

    with_log(tmp_path, body, retention_ms=HOUR_MS, cleanup_policy=policy)


def test_records_without_timestamps_are_as_old_as_their_file(tmp_path: Path) -> None:
    async def body(doors: World, log: PartitionLog) -> None:
        for at in range(20):
            record = Record(at, -1, f"k{at}".encode(), b"v" * 100, [])
            await append_records(log, bytearray(encode_batch([record])))
        log.high_watermark = 20
        base_offsets = [segment.base_offset for segment in log.segments]
        for at, base_offset in enumerate(base_offsets):
            written_s = NOW_MS / 1000 - (10 - at) * 3600
            os.utime(tmp_path / "t-0" / f"{base_offset:020d}.log", (written_s, written_s))
        assert await delete_old_segments(log) == 2  # those of 10 and 9 hours ago
        assert log.log_start_offset == base_offsets[2]
        doors.clock.now_ms += 100 * HOUR_MS
        await delete_old_segments(log)
        assert log.log_start_offset == 20

    with_log(tmp_path, body, retention_ms=int(8.5 * HOUR_MS))


def test_ages_are_learned_from_the_files_of_a_log_that_nobody_reads(tmp_path: Path) -> None:
    """After a start every segment is closed, and stays so."""

    async def run() -> None:
        async with world(str(tmp_path)) as doors:
            log = await open_log(doors, str(tmp_path), config(segment_bytes=900))
            base_offsets = await fill(log)
            await log.close()
            limited = config(segment_bytes=900, retention_ms=10 * HOUR_MS)
            log = await open_log(doors, str(tmp_path), limited, is_clean=True, recovery_point=30)
            log.high_watermark = 30
            expected = max(offset for offset in base_offsets if offset <= 19)
            assert await delete_old_segments(log) == base_offsets.index(expected)
            assert all(segment.file is None for segment in log.segments)
            doors.clock.now_ms += 1000 * HOUR_MS
            await delete_old_segments(log)
            assert log.log_start_offset == log.segments.first.base_offset == 30
            await append(log, "on it goes")
            assert await all_values(log) == [(30, "on it goes")]
            await log.close()

    asyncio.run(run())


@pytest.mark.parametrize("interval_bytes", [200, 4096], ids=["indexed", "too small to be indexed"])
@pytest.mark.parametrize("damage", ["none", "no indexes", "empty", "torn", "padded", "no time index"])
def test_an_age_is_right_whatever_the_indexes_are_like(tmp_path: Path, damage: str, interval_bytes: int) -> None:
    async def run() -> None:
        async with world(str(tmp_path)) as doors:
            settings = config(segment_bytes=3000, index_interval_bytes=interval_bytes, retention_ms=10 * HOUR_MS)
            log = await open_log(doors, str(tmp_path), settings)
            base_offsets = await fill(log, 60)
            await log.close()
            for path in [*(tmp_path / "t-0").glob("*.index"), *(tmp_path / "t-0").glob("*.timeindex")]:
                content = path.read_bytes()
                match damage:
                    case "none":
                        pass
                    case "no indexes":
                        path.unlink()
                    case "empty":
                        path.write_bytes(b"")
                    case "torn":
                        path.write_bytes(content[:-3])
                    case "padded":
                        path.write_bytes(content + bytes(24 * 10))
                    case _ if path.suffix == ".timeindex":
                        path.unlink()
            log = await open_log(doors, str(tmp_path), settings, is_clean=True, recovery_point=60)
            log.high_watermark = 60
            await delete_old_segments(log)
            assert log.log_start_offset == max(offset for offset in base_offsets if offset <= 49)
            await log.close()

    asyncio.run(run())


def test_appends_and_reads_go_on_while_segments_go(tmp_path: Path) -> None:
    async def body(doors: World, log: PartitionLog) -> None:
        await fill(log)
        doors.clock.now_ms += 1000 * HOUR_MS
        deleting = asyncio.ensure_future(delete_old_segments(log))
        for at in range(30, 50):
            assert (await append(log, f"{at:0100}", timestamp=doors.clock.now_ms)).base_offset == at
            log.high_watermark = log.log_end_offset
        await deleting
        assert log.log_start_offset >= 29
        assert offsets(await all_values(log)) == list(range(log.log_start_offset, 50))

    with_log(tmp_path, body, retention_ms=HOUR_MS)


def test_a_cut_and_retention_do_not_meet(tmp_path: Path) -> None:
    async def body(doors: World, log: PartitionLog) -> None:
        await fill(log)
        doors.clock.now_ms += 1000 * HOUR_MS
        cutting = asyncio.ensure_future(truncate_to(log, 15))
        await asyncio.sleep(0)
        assert await delete_old_segments(log) == 0
        await cutting
        assert (log.log_start_offset, log.log_end_offset) == (0, 15)
        await delete_old_segments(log)
        assert (log.log_start_offset, log.log_end_offset) == (15, 15)

    with_log(tmp_path, body, retention_ms=HOUR_MS)


def test_producers_are_not_forgotten_with_their_records(tmp_path: Path) -> None:
    async def run() -> None:
        async with world(str(tmp_path)) as doors:
            log = await open_log(doors, str(tmp_path), config(segment_bytes=900))
            for at in range(30):
                await append(log, f"{at:0100}", timestamp=NOW_MS, producer_id=7, producer_epoch=1, base_sequence=at)
            log.high_watermark = 30
            await log.flush()
            await log.await_appends()
            log = await open_log(doors, str(tmp_path), config(segment_bytes=900, retention_bytes=0), recovery_point=0)
            log.high_watermark = 30
            await delete_old_segments(log)
            assert log.log_start_offset == 30
            log = await open_log(doors, str(tmp_path), config(), recovery_point=30, log_start_offset=30)
            (producer,) = log.producers.states.describe()
            assert (producer.producer_id, producer.last_sequence) == (7, 29)
            await log.close()

    asyncio.run(run())


# --- all logs ---


def test_the_files_stay_for_the_time_that_their_topic_gives_them(tmp_path: Path) -> None:
    async def run() -> None:
        overrides = {"segment.bytes": "900", "retention.bytes": "1000", "file.delete.delay.ms": "60"}
        async with broker(tmp_path, overrides=overrides) as one:
            log = await one.logs.log_for("t", 0, TOPIC_ID)
            await fill(log)
            await one.logs.log_for("idle", 0, TOPIC_ID)
            await one.logs.retention.delete_old_segments()
            assert log.log_start_offset > 0
            folder = tmp_path / "t-0"
            assert names(folder, "*.deleted")
            while names(folder, "*.deleted"):
                one.clock.now_ms += 100
                await asyncio.sleep(0.001)
        async with broker(tmp_path, overrides={}) as two:
            assert two.logs.logs["t", 0].log_start_offset == log.log_start_offset

    asyncio.run(run())


def test_what_was_set_aside_is_gone_after_a_kill(tmp_path: Path) -> None:
    async def run() -> None:
        overrides = {"segment.bytes": "900", "retention.bytes": "1000"}
        async with broker(tmp_path, overrides=overrides, kill=True) as one:
            log = await one.logs.log_for("t", 0, TOPIC_ID)
            await fill(log)
            await one.logs.retention.delete_old_segments()
            start_offset = log.log_start_offset
            assert names(tmp_path / "t-0", "*.deleted")
        async with broker(tmp_path, overrides=overrides) as two:
            assert not names(tmp_path / "t-0", "*.deleted")
            log = two.logs.logs["t", 0]
            assert (log.log_start_offset, log.log_end_offset) == (start_offset, 30)
            assert offsets(await all_values(log)) == list(range(start_offset, 30))

    asyncio.run(run())
