"""A file that cannot be read is told as such, also where its bytes seem to be in memory; a disk that reports an IO error
takes its directory offline, as in Apache Kafka."""

from __future__ import annotations

import errno
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from protocol.errors import ErrorCode, KafkaError
from runtime.disk.os_filesystem import OsFile, OsFileSystem
from storage.log.partition_log import PartitionLog
from tests.storage.logs import append, open_log, world


async def read(log: PartitionLog) -> object:
    return log.reading.read(0, limit_offset=1, max_bytes=1000, at_least_one=True)


async def read_cold(log: PartitionLog) -> object:
    return await log.reading.read_cold(0, limit_offset=1, max_bytes=1000, at_least_one=True)


async def search(log: PartitionLog) -> object:
    return await log.reading.offset_for_timestamp(0)


WAYS: list[tuple[Callable[[PartitionLog], Awaitable[object]], type[object], str]] = [
    (read, OsFile, "read_hot"),
    (read_cold, OsFile, "read_hot"),
    (read_cold, OsFile, "read_at"),
    (read_cold, OsFileSystem, "open"),
    (search, OsFile, "read_at"),
]


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way[0].__name__}, {way[2]} fails")
async def test_a_read_that_fails(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: tuple[Callable[[PartitionLog], Awaitable[object]], type[object], str],
    number: int,
) -> None:
    def broken(*_arguments: object, **_options: object) -> None:
        raise OSError(number, os.strerror(number))

    reading, owner, call = way
    async with world(str(tmp_path)) as here:
        log = await open_log(here, str(tmp_path / "t-0"))
        await append(log, "a")
        await log.close()
        log = await open_log(here, str(tmp_path / "t-0"), is_clean=True, recovery_point=1)
        if call != "open":
            await read_cold(log)
        if call == "read_at":
            monkeypatch.setattr(OsFile, "read_hot", lambda *_arguments: None)
        monkeypatch.setattr(owner, call, broken)
        with pytest.raises(KafkaError, match=os.strerror(number)) as caught:
            await reading(log)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert [(path, error.errno) for path, error in here.failed] == (
            [(log.directory, number)] if number == errno.EIO else []
        )
        monkeypatch.undo()
