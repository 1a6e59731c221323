"""What reading costs the event loop: a consumer that goes on where it ended is not looked for, and bytes that have to be
waited for are asked for once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from storage.log.partition_log import PartitionLog
from storage.log.reading import log_reader
from tests.doubles.file_system import Call, ControlledFileSystem
from tests.storage.logs import World, append, config, open_log, read, values_of, world

VALUE = "x" * 200_000
BATCHES = 6
CONSUMER_BYTES = 256 * 1024  # more than a batch, less than two


class Asked(ControlledFileSystem):
    """Notes what is asked of the `.log`; `is_cold` as of pages that have to come from the disk."""

    def __init__(self) -> None:
        super().__init__()
        self.is_cold = False
        self.hot: list[tuple[int, int]] = []
        self.waited: list[tuple[int, int]] = []
        self.on("read_at read_hot", "*.log", self._note)

    def _note(self, call: Call) -> Any:
        length, position = call.arguments
        is_hot = call.operation == "read_hot"
        (self.hot if is_hot else self.waited).append((position, length))
        return None if is_hot and self.is_cold else call.proceed()

    def forget(self) -> None:
        self.hot.clear()
        self.waited.clear()


async def log_of_batches(one: World, directory: Path) -> PartitionLog:
    log = await open_log(one, str(directory), config(index_interval_bytes=4096))
    for _ in range(BATCHES):
        await append(log, VALUE)
    return log


async def test_a_consumer_that_goes_on_is_not_looked_for_in_the_log(tmp_path: Path) -> None:
    asked = Asked()
    async with world(str(tmp_path), filesystem=asked) as one:
        log = await log_of_batches(one, tmp_path)
        for offset in range(BATCHES):
            content = await read(log, offset, max_bytes=CONSUMER_BYTES)
            assert values_of(content) == [(offset, VALUE)]  # the next one is cut
            if not offset:
                asked.forget()  # it had to be looked for
        batch_bytes = log.size_bytes // BATCHES
        assert [position for position, _ in asked.hot] == [batch_bytes * at for at in range(1, BATCHES)]
        assert not asked.waited
        await log.close()


async def test_what_has_to_be_waited_for_is_tried_once(tmp_path: Path) -> None:
    asked = Asked()
    async with world(str(tmp_path), filesystem=asked) as one:
        log = await log_of_batches(one, tmp_path)
        assert len(values_of(await read(log, 0, max_bytes=CONSUMER_BYTES))) == 1
        asked.forget()
        asked.is_cold = True
        assert values_of(await read(log, 1, max_bytes=CONSUMER_BYTES)) == [(1, VALUE)]
        assert asked.hot == asked.waited
        assert [length for _, length in asked.hot] == [CONSUMER_BYTES]
        await log.close()


async def test_a_loader_leaves_long_pieces_to_a_thread(tmp_path: Path) -> None:
    asked = Asked()
    async with world(str(tmp_path), filesystem=asked) as one:
        log = await log_of_batches(one, tmp_path)
        asked.forget()
        content = await log.reading.read_cold(0, limit_offset=BATCHES, max_bytes=2 * CONSUMER_BYTES, at_least_one=True)
        assert [offset for offset, _ in values_of(bytes(content))] == [0, 1]
        assert max(length for _, length in asked.hot) < CONSUMER_BYTES / 2
        assert asked.waited == [(0, 2 * CONSUMER_BYTES)]
        await log.close()


async def test_a_reader_that_is_far_behind_is_read_for_in_a_thread_though_its_bytes_are_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_reader, "CATCHING_UP_BYTES", len(VALUE) * BATCHES // 2)
    asked = Asked()
    async with world(str(tmp_path), filesystem=asked) as one:
        log = await log_of_batches(one, tmp_path)
        batch_bytes = log.size_bytes // BATCHES
        asked.forget()
        for offset in range(BATCHES):
            assert values_of(await read(log, offset, max_bytes=CONSUMER_BYTES)) == [(offset, VALUE)]
        in_threads = [position // batch_bytes for position, length in asked.waited if length == CONSUMER_BYTES]
        on_the_loop = [position // batch_bytes for position, length in asked.hot if length > batch_bytes // 2]
        assert in_threads + on_the_loop == list(range(BATCHES))
        assert 1 < len(in_threads) < BATCHES - 1
        asked.forget()
        assert values_of(await read(log, 0, max_bytes=1000)) == [(0, VALUE)]  # that one batch, however large
        assert not asked.waited
        await log.close()
