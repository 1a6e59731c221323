"""Gaps that compaction leaves between segments: no start takes them for tears, whatever the topic's settings are by then."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from storage.log import PartitionLog
from storage.segment_copy import CleanedSegment
from tests.storage.cleaning import cleanery, fill, left_in


def test_a_log_that_is_compacted_no_more_keeps_what_lies_behind_gaps(tmp_path: Path) -> None:
    """A start after kill -9 finds them behind the recovery point, which is checkpointed once a minute."""

    async def run() -> None:
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

    asyncio.run(run())


def test_a_log_that_was_being_compacted_for_the_first_time_keeps_what_lies_behind_gaps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker is killed behind the first exchange of segments, and not compacted any more when it starts again."""

    async def run() -> None:
        whole, killed = tmp_path / "whole", tmp_path / "killed"
        whole.mkdir()
        async with cleanery(whole) as broker:
            await broker.logs.upkeep.checkpoint_recovery_points()
            await fill(broker, 20)
            await broker.put(("c", "behind"))
            replace, left = PartitionLog.replace_segments, list[tuple[int, str | None, str | None]]()

            async def replace_and_look(log: PartitionLog, *cleaned: CleanedSegment) -> None:
                await replace(log, *cleaned)
                if not left:
                    left.extend(left_in(broker.folder))
                    shutil.copytree(whole, killed)

            monkeypatch.setattr(PartitionLog, "replace_segments", replace_and_look)
            assert await broker.clean()
            assert broker.log.first_dirty_offset == 40
        async with cleanery(killed, cleanup_policy="delete") as broker:
            assert left_in(broker.folder) == left
            assert broker.log.log_end_offset == 41

    asyncio.run(run())
