from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from runtime.watchdog import Watchdog


def test_a_stall_is_reported_with_its_length(caplog: pytest.LogCaptureFixture) -> None:
    stalls: list[int] = []

    async def main() -> Watchdog:
        seen = asyncio.Event()

        def on_stall(stall_ms: int) -> None:
            stalls.append(stall_ms)
            seen.set()

        dog = Watchdog(hang_ms=60_000, on_hang=lambda _: None, on_stall=on_stall, stall_ms=20, beat_s=0.01)
        dog.start()
        threading.Event().wait(0.1)  # the loop stands still
        await asyncio.wait_for(seen.wait(), 10)
        dog.close()
        return dog

    with caplog.at_level(logging.WARNING):
        dog = asyncio.run(main())
    assert stalls[0] >= 50
    assert dog.stalls_count >= 1
    assert dog.longest_stall_ms >= stalls[0]
    assert "event loop stalled" in caplog.text


def test_a_hang_is_acted_on_while_it_lasts_and_its_place_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    came_back = threading.Event()
    hangs: list[int] = []

    def on_hang(hung_ms: int) -> None:
        hangs.append(hung_ms)
        came_back.set()

    def stands_still_here() -> None:
        assert came_back.wait(20)

    async def main() -> None:
        dog = Watchdog(hang_ms=30, on_hang=on_hang, beat_s=0.005, watch_s=0.01)
        dog.start()
        stands_still_here()
        dog.close()

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    assert hangs[0] >= 30
    assert "stands_still_here" in caplog.text


def test_a_loop_that_runs_is_left_alone() -> None:
    async def main() -> int:
        dog = Watchdog(hang_ms=40, on_hang=lambda _: pytest.fail("no hang"), beat_s=0.002, watch_s=0.02)
        dog.start()
        await asyncio.sleep(0.1)
        dog.close()
        return dog.stalls_count

    assert asyncio.run(main()) >= 0
