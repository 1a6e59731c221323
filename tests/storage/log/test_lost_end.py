"""The last segment is lost after a clean stop, which leaves the log's end in a checkpoint alone: a follower that believed it
would never ask for these records again."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.log.unused_file import close_unused_file
from tests.storage.cleaner.cleaning import Cleanery, cleanery, left_in
from tests.storage.logs import all_values

TOPIC = {"cleanup_policy": "delete"}
RECORDS, LAST = 38, 36
MESSAGE = "log ends below its recovery point, records are missing"


async def write(broker: Cleanery, *, rolls: bool = True) -> None:
    """The last segment begins at 36. `rolls`: by itself, since there is no room in the one before; or it is told to."""
    for number in range(RECORDS):
        if not rolls and number == LAST:
            await broker.roll()
        await broker.put((f"u{number}", "x"))
    assert broker.log.segments.active.base_offset == LAST


def lose(folder: Path, *suffixes: str, offset: int = LAST) -> None:
    for suffix in suffixes:
        (folder / f"{offset:020}{suffix}").unlink()


ALL = (".log", ".index", ".timeindex", ".snapshot")


@pytest.mark.parametrize("lost", ["its .log", "all that was written last", "all of its files"])
async def test_the_end_is_looked_up_where_a_segment_may_be_missing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, lost: str
) -> None:
    """What tells of it: an index without its segment; no snapshot at the end; a last segment as full as a finished one."""
    is_full = lost == "all of its files"
    topic = TOPIC | {"segment_bytes": 300 if is_full else 1 << 20}
    async with cleanery(tmp_path, **topic) as broker:
        await write(broker, rolls=is_full)
        folder = broker.folder
    if lost == "its .log":
        lose(folder, ".log")
    else:
        lose(folder, *ALL)
    if lost == "all that was written last":
        lose(folder, ".snapshot", offset=RECORDS)
    async with cleanery(tmp_path, **topic) as broker:
        assert broker.log.log_end_offset == broker.log.offsets.recovery_point == LAST
        assert f"{MESSAGE}: path={folder} end_offset={LAST} recovery_point={RECORDS}" in caplog.text
        assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == f"0\n1\nt 0 {LAST}\n"
        assert await broker.put(("new", "x")) == LAST
    assert [offset for offset, _, _ in left_in(folder)] == list(range(LAST + 1))
    caplog.clear()
    async with cleanery(tmp_path, **topic) as broker:
        assert broker.log.log_end_offset == LAST + 1
        assert MESSAGE not in caplog.text


@pytest.mark.parametrize("first", ["append", "read"])
async def test_an_end_that_nothing_else_tells_of_is_told_when_the_last_segment_is_first_opened(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, first: str
) -> None:
    topic = TOPIC | {"segment_bytes": 1 << 20}
    async with cleanery(tmp_path, **topic) as broker:
        await write(broker, rolls=False)
        folder = broker.folder
    lose(folder, *ALL)
    async with cleanery(tmp_path, **topic) as broker:
        assert broker.log.log_end_offset == RECORDS
        assert MESSAGE not in caplog.text
        for _ in range(2):
            if first == "read":
                await all_values(broker.log)
            else:
                await broker.put(("new", "x"))
            await close_unused_file(broker.log)
        assert caplog.text.count(MESSAGE) == 1
        assert f"{MESSAGE}: path={folder} end_offset={LAST} recovery_point={RECORDS}" in caplog.text


@pytest.mark.parametrize("segment_bytes", [300, 1 << 20])
async def test_a_log_that_has_all_of_its_files_ends_where_it_did(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, segment_bytes: int
) -> None:
    """However full its last segment is, and with an index that is a stranger's."""
    topic = TOPIC | {"segment_bytes": segment_bytes}
    for count in range(1, 12):
        async with cleanery(tmp_path, **topic) as broker:
            assert await broker.put((f"u{count}", "x")) == count - 1
            folder = broker.folder
        (folder / f"{1000:020}.index").write_bytes(b"")
    async with cleanery(tmp_path, **topic) as broker:
        assert [offset for offset, _ in await all_values(broker.log)] == list(range(11))
    assert MESSAGE not in caplog.text


async def test_no_file_is_asked_where_nothing_is_missing(tmp_path: Path) -> None:
    """A log that was recovered, and is not written to, has its snapshot from the clean stop before."""
    topic = TOPIC | {"segment_bytes": 1 << 20}
    async with cleanery(tmp_path, **topic) as broker:
        await write(broker, rolls=False)
        folder = broker.folder
    for is_killed in (True, False):
        async with cleanery(tmp_path, kill=is_killed, **topic) as broker:
            assert broker.log.log_end_offset == RECORDS
    content = (folder / f"{LAST:020}.log").read_bytes()
    (folder / f"{LAST:020}.log").write_bytes(content[: len(content) // 2])  # which any look would find out
    async with cleanery(tmp_path, **topic) as broker:
        assert broker.log.log_end_offset == RECORDS


async def test_a_damage_that_is_found_while_the_end_is_looked_up_is_left_to_who_reads(tmp_path: Path) -> None:
    """After a clean stop nothing is cut off that may be sound."""
    topic = TOPIC | {"segment_bytes": 300}
    async with cleanery(tmp_path, **topic) as broker:
        await write(broker)
        folder = broker.folder
    lose(folder, *ALL)
    before = sorted(folder.glob("*.log"))[-1]
    content = bytearray(before.read_bytes())
    content[8:12] = b"\xff" * 4  # the first batch's length
    before.write_bytes(content)
    async with cleanery(tmp_path, **topic) as broker:
        assert broker.log.log_end_offset == RECORDS
        assert before.read_bytes() == content
