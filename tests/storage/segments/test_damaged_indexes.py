"""Index files that are not what a reader has in memory of them: while the log is cut, and when somebody has damaged them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from protocol.errors import ErrorCode, KafkaError
from storage.log.partition_log import PartitionLog
from storage.log.removal.log_truncation import truncate_to
from storage.log.removal.truncation_marker import TRUNCATION_MARKER
from storage.segments.segment_files import segment_path
from tests.doubles.file_system import ControlledFileSystem
from tests.storage.logs import NOW_MS, World, append, config, open_log, read, values_of, world

COUNT = 1600  # with an entry each: more than a page of the index is in its file, and in no memory
EACH_INDEXED = {"index_interval_bytes": 0}


async def filled(here: World, directory: Path, **settings: int) -> PartitionLog:
    log = await open_log(here, str(directory), config(**EACH_INDEXED, **settings))
    for number in range(COUNT):
        await append(log, f"v{number}")
    return log


def offset_index(log: PartitionLog) -> str:
    return segment_path(log.directory, 0, ".index")


def file_entries(log: PartitionLog) -> int:
    return os.path.getsize(offset_index(log)) // 8


async def test_who_reads_while_the_log_is_cut_is_answered_when_it_is(tmp_path: Path) -> None:
    """The index in memory is the one before the cut, its file is shorter."""
    filesystem = ControlledFileSystem()
    async with world(str(tmp_path), filesystem=filesystem) as here:
        log = await filled(here, tmp_path)
        assert file_entries(log) == 1024
        cuts = filesystem.shut_on("unlink", f"*/{TRUNCATION_MARKER}", late=True)
        cut = asyncio.ensure_future(truncate_to(log, 700))
        await cuts.reached()
        assert file_entries(log) < 1024
        assert values_of(await read(log, 30, limit=31)) == [(30, "v30")], "of a page that stays as it is"
        reading = asyncio.ensure_future(read(log, 600, limit=640))
        by_time = asyncio.ensure_future(log.reading.offset_for_timestamp(0))
        for _ in range(64):  # whatever it gives to the reader threads
            await here.environment.readers.run(lambda: None)
        assert not reading.done()
        cuts.open()
        await cut
        assert values_of(await reading) == [(at, f"v{at}") for at in range(600, 640)]
        found = await by_time
        assert found is not None and found.offset == 0
        await log.close()


async def test_what_was_read_of_an_index_before_a_cut_is_read_again(tmp_path: Path) -> None:
    """By then the file may have grown again, with other entries."""
    async with world(str(tmp_path)) as here:
        log = await filled(here, tmp_path)
        reader = log.reading.reader.cold
        waits, run_in_thread, pages = asyncio.Event(), reader._readers.run, []

        class Readers:
            async def run(self, job):  # type: ignore[no-untyped-def]
                content = await run_in_thread(job)
                pages.append(len(content))
                if len(pages) == 1:
                    await waits.wait()
                return content

        reader._readers = Readers()  # type: ignore[assignment]
        reading = asyncio.ensure_future(read(log, 900, limit=901))
        while not pages:
            await here.environment.readers.run(lambda: None)
        await truncate_to(log, 0)
        for number in range(COUNT):
            await append(log, "longer" * (number % 3), epoch=1)
        waits.set()
        assert values_of(await reading) == [(900, "")]
        assert len(pages) > 1
        await log.close()


@pytest.mark.parametrize("is_active", [True, False])
async def test_an_index_that_became_shorter_is_a_storage_error(
    tmp_path: Path, is_active: bool, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {} if is_active else {"segment_bytes": 100_000}
    async with world(str(tmp_path)) as here:
        log = await filled(here, tmp_path, **settings)
        end_offset = log.log_end_offset
        await log.close()
    async with world(str(tmp_path)) as here:
        kwargs = {"is_clean": True, "recovery_point": end_offset}
        log = await open_log(here, str(tmp_path), config(**EACH_INDEXED, **settings), **kwargs)
        await read(log, 1200, max_bytes=1)  # which opens the segment, and needs none of what its index has in the file
        os.truncate(offset_index(log), 80)
        with pytest.raises(KafkaError) as refused:
            await read(log, 30, limit=31)
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert "damaged" in str(refused.value) and "index is damaged" in caplog.text
        if not is_active:  # what is no place for appends is opened again
            assert values_of(await read(log, 30, limit=31)) == [(30, "v30")]
        assert log.failure is None
        await log.close()


@pytest.mark.parametrize("damage", ["lost", "shorter", "longer", "falls"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
async def test_an_index_that_cannot_be_right_is_made_again_by_a_cut(tmp_path: Path, suffix: str, damage: str) -> None:
    async with world(str(tmp_path)) as here:
        log = await open_log(here, str(tmp_path), config(**EACH_INDEXED))
        for number in range(COUNT):
            await append(log, f"v{number}", timestamp=NOW_MS + number)
        assert file_entries(log) == 1024
        path, filesystem = segment_path(log.directory, 0, suffix), here.environment.filesystem
        content = bytes(filesystem.read_bytes(path))
        if damage == "lost":
            filesystem.unlink(path)
        else:
            damaged = {"shorter": content[:240], "longer": content + b"?", "falls": content[48:] + content[:48]}
            filesystem.write_bytes(path, damaged[damage])
        await truncate_to(log, 1200)
        assert log.failure is None and here.failed == []
        for number in (0, 1, 700, 1199):
            assert values_of(await read(log, number, limit=number + 1)) == [(number, f"v{number}")]
            found = await log.reading.offset_for_timestamp(NOW_MS + number)
            assert found is not None and found.offset == number
        await log.flush()
        await log.close()
        assert filesystem.read_bytes(path)[: len(content)] == content[: len(filesystem.read_bytes(path))]
        assert filesystem.stat(path).size_bytes // (8 if suffix == ".index" else 12) in (1199, 1200)
