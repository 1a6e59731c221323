"""Gaps that compaction leaves between segments: no start takes them for tears, whatever the topic's settings are by then."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from protocol.records.batch import patch
from storage.cleaner import log_cleaner
from storage.log.partition_log import AppendOrigin, PartitionLog
from storage.log.removal.log_truncation import truncate_to
from storage.segments.segment_copy import CleanedSegment
from tests.storage.cleaner.cleaning import Cleanery, batch_of, cleanery, fill, left_in
from tests.storage.logs import append_records


async def test_a_log_that_is_compacted_no_more_keeps_what_lies_behind_gaps(tmp_path: Path) -> None:
    """A start after kill -9 finds them behind the recovery point, which is checkpointed once a minute."""
    async with cleanery(tmp_path, kill=True) as broker:
        await broker.logs.upkeep.checkpoint_recovery_points()
        await fill(broker, 20)
        await broker.put(("a", "end"))
        await broker.roll()
        assert await broker.clean()
        await broker.put(("c", "behind"))
        left = left_in(broker.folder)
    async with cleanery(tmp_path, cleanup_policy="delete") as broker:
        assert left_in(broker.folder) == left
        assert broker.log.log_end_offset == 42


async def test_a_log_that_was_being_compacted_for_the_first_time_keeps_what_lies_behind_gaps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker is killed behind the first exchange of segments, and not compacted any more when it starts again."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    async with cleanery(whole) as broker:
        await broker.logs.upkeep.checkpoint_recovery_points()
        await fill(broker, 20)
        await broker.put(("c", "behind"))
        replace, left = log_cleaner.replace_segments, list[tuple[int, str | None, str | None]]()

        async def replace_and_look(log: PartitionLog, *cleaned: CleanedSegment) -> None:
            await replace(log, *cleaned)
            if not left:
                left.extend(left_in(broker.folder))
                shutil.copytree(whole, killed)

        monkeypatch.setattr(log_cleaner, "replace_segments", replace_and_look)
        assert await broker.clean()
        assert broker.log.offsets.first_dirty_offset == 40
    async with cleanery(killed, cleanup_policy="delete") as broker:
        assert left_in(broker.folder) == left
        assert broker.log.log_end_offset == 41


def sparse(*offsets: int, value: str = "x" * 60) -> bytearray:
    """A batch at each of these offsets, as a leader has them whose records in between were compacted away."""
    return bytearray(b"").join(sparse_batches(*offsets, value=value))


def sparse_batches(*offsets: int, value: str = "x" * 60) -> list[bytearray]:
    batches = []
    for offset in offsets:
        content = batch_of((f"k{offset}", value))
        patch(content, 0, offset, 0)
        batches.append(content)
    return batches


async def copy(broker: Cleanery, *pieces: bytearray) -> None:
    """What a follower does with each piece that it has fetched."""
    for piece in pieces:
        await append_records(broker.log, piece, origin=AppendOrigin.REPLICA)
    broker.log.high_watermark = broker.log.log_end_offset


OFFSETS = (3, 4, 9, 10, 17, 23, 30, 31, 40, 55, 56, 70)


@pytest.mark.parametrize("per_piece", [1, 5, len(OFFSETS)], ids=lambda count: f"{count} batches a piece")
async def test_a_copy_of_a_compacted_log_keeps_what_lies_behind_gaps(tmp_path: Path, per_piece: int) -> None:
    """The leader's topic was compacted once, and is not any more when a new replica copies it. That one rolls at batches
    which do not follow each other, and is killed: a gap that nobody has told it of is no tear."""
    # An index has room for a single entry, so that a piece is taken apart where it comes as a whole.
    topic = {"cleanup_policy": "delete", "segment_bytes": 500, "segment_index_bytes": 24, "index_interval_bytes": 0}
    async with cleanery(tmp_path, kill=True, **topic) as broker:
        await broker.logs.upkeep.checkpoint_recovery_points()
        groups = (OFFSETS[at : at + per_piece] for at in range(1, len(OFFSETS), per_piece))
        await copy(broker, sparse(OFFSETS[0]), *(sparse(*group) for group in groups))
        assert len(broker.log.segments) > 3
    async with cleanery(tmp_path, **topic) as broker:
        assert [offset for offset, _, _ in left_in(broker.folder)] == list(OFFSETS)
        assert broker.log.log_end_offset == OFFSETS[-1] + 1


async def test_a_copy_that_goes_on_after_a_start_keeps_what_lies_behind_gaps(tmp_path: Path) -> None:
    """The segment that is to be rolled is closed: the batch waits until it is open."""
    topic = {"cleanup_policy": "delete", "segment_bytes": 150}
    for offset in OFFSETS:
        async with cleanery(tmp_path, **topic) as broker:
            await copy(broker, sparse(offset))
    async with cleanery(tmp_path, kill=True, **topic) as broker:
        (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    async with cleanery(tmp_path, **topic) as broker:
        assert [offset for offset, _, _ in left_in(broker.folder)] == list(OFFSETS)
        assert broker.log.log_end_offset == OFFSETS[-1] + 1


async def test_a_segment_that_a_copy_with_gaps_has_lost_is_a_tear_all_the_same(tmp_path: Path) -> None:
    """What lies behind it is fetched again; this replica would keep the hole for ever."""
    topic = {"cleanup_policy": "delete", "segment_bytes": 300}
    async with cleanery(tmp_path, kill=True, **topic) as broker:
        await broker.logs.upkeep.checkpoint_recovery_points()
        await copy(broker, *sparse_batches(*OFFSETS))
        lost = list(broker.log.segments)[2]
        before = [offset for offset in OFFSETS if offset < lost.base_offset]
        for path in broker.folder.glob(f"{lost.base_offset:020}.*"):
            path.unlink()
    async with cleanery(tmp_path, **topic) as broker:
        assert [offset for offset, _, _ in left_in(broker.folder)] == before
        assert broker.log.log_end_offset == before[-1] + 1


@pytest.mark.parametrize("has_stopped", [False, True], ids=["at once", "after a stop"])
async def test_a_log_that_was_cut_within_a_gap_keeps_what_comes_next(tmp_path: Path, *, has_stopped: bool) -> None:
    """It ends behind its last record then, and rolls where it ends."""
    topic = {"cleanup_policy": "delete", "segment_bytes": 1000}

    async def go_on(broker: Cleanery) -> None:
        assert broker.log.log_end_offset == 10
        await broker.put(("a", "x" * 800))
        assert [segment.base_offset for segment in broker.log.segments] == [0, 10]

    async with cleanery(tmp_path, kill=not has_stopped, **topic) as broker:
        await broker.logs.upkeep.checkpoint_recovery_points()
        await copy(broker, sparse(0, 1, 2, 20))
        await truncate_to(broker.log, 10)
        if not has_stopped:
            await go_on(broker)
    if has_stopped:
        async with cleanery(tmp_path, kill=True, **topic) as broker:
            await go_on(broker)
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 0\n")
    async with cleanery(tmp_path, **topic) as broker:
        assert [offset for offset, _, _ in left_in(broker.folder)] == [0, 1, 2, 10]


async def test_a_copy_may_leave_out_more_offsets_than_a_segment_can_tell(tmp_path: Path) -> None:
    topic = {"cleanup_policy": "delete", "segment_bytes": 100_000, "index_interval_bytes": 0}
    offsets = [0, 1, 1 << 33, (1 << 33) + 5, 1 << 34, 3 << 33]
    async with cleanery(tmp_path, kill=True, **topic) as broker:
        await broker.logs.upkeep.checkpoint_recovery_points()
        await copy(broker, sparse(*offsets[:2]), sparse(*offsets[2:]))
        assert [segment.base_offset for segment in broker.log.segments] == [0, 1 << 33, 1 << 34, 3 << 33]
    async with cleanery(tmp_path, **topic) as broker:
        assert [offset for offset, _, _ in left_in(broker.folder)] == offsets
    async with cleanery(tmp_path, **topic) as broker:
        await copy(broker, sparse(1 << 36))
        assert [segment.base_offset for segment in broker.log.segments][-1] == 1 << 36
