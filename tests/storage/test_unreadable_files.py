"""A file that cannot be read is told as such, also where its bytes seem to be in memory."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from protocol.errors import ErrorCode, KafkaError
from runtime.disk.os_filesystem import OsFile
from tests.storage.logs import append, open_log, world


def test_a_read_that_waits_and_then_fails_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    async def run() -> None:
        async with world(str(tmp_path)) as here:
            log = await open_log(here, str(tmp_path / "t-0"))
            await append(log, "a")
            monkeypatch.setattr(OsFile, "read_hot", broken)
            with pytest.raises(KafkaError, match="Input/output error") as caught:
                await log.reading.read_cold(0, limit_offset=1, max_bytes=1000, at_least_one=True)
            assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
            monkeypatch.undo()

    asyncio.run(run())
