"""What is on its way to the disk: who is answered, and when nobody can be."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from storage.log import log_replacement
from storage.log.partition_log import AppendOrigin
from tests.storage.logs import NOW_MS, Outcome, all_values, append, batch, config, open_log, world


async def test_a_retry_of_what_is_on_its_way_is_answered_though_the_log_is_held(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as place:
        log = await open_log(place, str(tmp_path))
        identity = {"producer_id": 3, "producer_epoch": 0}
        await append(log, "a", base_sequence=0, **identity)
        gate = threading.Event()
        place.environment.queue.run(lambda: gate.wait(30))
        first, again = Outcome(), Outcome()
        for done in (first, again):
            result = log.append(
                batch("b", base_sequence=1, **identity),
                leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=NOW_MS, done=done,
            )  # fmt: skip
            if done is first:
                log_replacement.buffer_appends(log)
        assert result.duplicate
        gate.set()
        await log.await_appends()
        log_replacement.release(log)
        await log.await_appends()
        assert first.is_written and again.is_written
        await log.close()


def test_a_job_that_fails_by_a_mistake_fails_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody waits for ever, and nothing behind it is reported as written."""

    async def run() -> None:
        async with world(str(tmp_path)) as place:
            log = await open_log(place, str(tmp_path))
            await append(log, "a")

            def mistake() -> None:
                raise ValueError("a mistake")

            log.writer.jobs.run_or_fail(mistake)
            done = Outcome()
            log.append(batch("b"), leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=NOW_MS, done=done)
            await log.await_appends()
            assert [error and error.code for error in done.errors] == [ErrorCode.KAFKA_STORAGE_ERROR]
            assert place.failed and log.log_end_offset == 1
            await log.close(flush=False)

    asyncio.run(run())
    assert "a mistake" in caplog.text


async def test_what_was_held_begins_a_segment_behind_what_is_still_on_its_way(tmp_path: Path) -> None:
    async with world(str(tmp_path)) as place:
        log = await open_log(place, str(tmp_path), config(segment_bytes=200))
        await append(log, "a" * 60)
        gate = threading.Event()
        place.environment.queue.run(lambda: gate.wait(30))
        outcomes = [Outcome(), Outcome(), Outcome()]
        for text, done in zip("bcd", outcomes, strict=True):
            if text == "d":
                log_replacement.buffer_appends(log)
            log.append(
                batch(text * 60), leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=NOW_MS, done=done
            )  # fmt: skip
        log_replacement.release(log)
        gate.set()
        await log.await_appends()
        assert all(done.is_written for done in outcomes)
        assert [segment.base_offset for segment in log.segments] == [0, 1, 2, 3]
        assert [value for _, value in await all_values(log)] == [text * 60 for text in "abcd"]
        await log.close()
