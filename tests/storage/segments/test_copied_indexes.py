"""Batches that come together, as a follower and a copy take them, are indexed one by one: either broker finds its way in what
was copied as in what was produced, and starts with it."""

from __future__ import annotations

from pathlib import Path
from struct import iter_unpack

import pytest

from storage.log.partition_log import AppendOrigin, PartitionLog
from storage.log.unused_file import close_unused_file
from tests.storage.logs import NOW_MS, all_values, append_records, batch, config, open_log, world

BATCHES = 200


def batches(count: int = BATCHES) -> list[bytearray]:
    return [
        batch("v" * (at % 50), base_offset=at, timestamp=NOW_MS + at, partition_leader_epoch=0) for at in range(count)
    ]


async def append_each(log: PartitionLog) -> None:
    for one in batches():
        await append_records(log, one, origin=AppendOrigin.REPLICA)


async def append_all(log: PartitionLog, pieces: int) -> None:
    each = BATCHES // pieces
    for at in range(pieces):
        piece = bytearray(b"".join(batches()[at * each : (at + 1) * each]))
        await append_records(log, piece, origin=AppendOrigin.REPLICA)


def indexes(directory: Path) -> dict[str, list[tuple[int, ...]]]:
    found = {path.name: list(iter_unpack(">II", path.read_bytes())) for path in directory.glob("*.index")}
    return found | {path.name: list(iter_unpack(">qI", path.read_bytes())) for path in directory.glob("*.timeindex")}


@pytest.mark.parametrize("interval_bytes", [0, 300, 4096])
@pytest.mark.parametrize("pieces", [1, 4])
async def test_pieces_are_indexed_as_single_batches_are(tmp_path: Path, pieces: int, interval_bytes: int) -> None:
    settings = config(index_interval_bytes=interval_bytes)
    async with world(str(tmp_path)) as one:
        for name in ("single", "pieces"):
            folder = tmp_path / name
            folder.mkdir()
            log = await open_log(one, str(folder), settings)
            await (append_each(log) if name == "single" else append_all(log, pieces))
            await log.close()
    expected = indexes(tmp_path / "single" / "t-0")
    assert len(expected["00000000000000000000.index"]) > 1
    assert indexes(tmp_path / "pieces" / "t-0") == expected


@pytest.mark.parametrize("is_closed", [False, True])
async def test_no_segment_has_more_entries_than_its_indexes_may_have(tmp_path: Path, is_closed: bool) -> None:
    """Apache Kafka does not start on one that needs more when it is recovered."""
    settings = config(index_interval_bytes=300, segment_index_bytes=120)
    async with world(str(tmp_path)) as one:
        log = await open_log(one, str(tmp_path), settings)
        if is_closed:  # it is opened by the append
            await close_unused_file(log)
            await close_unused_file(log)
        await append_all(log, 2)
        assert await all_values(log) == [(at, "v" * (at % 50)) for at in range(BATCHES)]
        needed = [segment.written_bytes // 301 for segment in log.segments]
        await log.close()
    found = indexes(tmp_path / "t-0")
    counts = {name: len(entries) for name, entries in found.items()}
    assert all(count <= (120 // 8 if name.endswith(".index") else 120 // 12) for name, count in counts.items())
    assert len(needed) > 5
    assert max(needed) <= 120 // 12
