from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from runtime.watchdog import Watchdog


def test_a_stall_is_reported_with_its_length(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        is_logged = asyncio.Event()
        logger = logging.getLogger("runtime.watchdog")
        log = logging.Handler()
        log.emit = lambda _record: is_logged.set()  # type: ignore[method-assign]
        logger.addHandler(log)
        dog = Watchdog(hang_ms=60_000, on_hang=lambda _: None, stall_ms=20, beat_s=0.01)
        try:
            dog.start()
            threading.Event().wait(0.1)  # the loop stands still
            await asyncio.wait_for(is_logged.wait(), 60)
            dog._stalls.add(30)
        finally:
            dog.close()
            logger.removeHandler(log)

    with caplog.at_level(logging.INFO, "runtime.watchdog"):
        asyncio.run(main())
    first, last = [record for record in caplog.records if record.msg.startswith("event loop stalled")]
    stalls, longest_ms = first.args or ()
    assert stalls == 1
    assert longest_ms >= 50
    assert last.getMessage().startswith("event loop stalled: stalls="), "what was not told yet is told at the end"


def test_a_hang_is_acted_on_while_it_lasts_and_its_place_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    came_back = threading.Event()
    hangs: list[int] = []

    def on_hang(hung_ms: int) -> None:
        hangs.append(hung_ms)
        came_back.set()

    def stands_still_here(dog: Watchdog) -> None:
        dog.start()  # wherever the thread looks first, it finds the loop in here
        assert came_back.wait(60)

    async def main() -> None:
        dog = Watchdog(hang_ms=30, on_hang=on_hang, beat_s=0.005, watch_s=0.01)
        stands_still_here(dog)
        dog.close()

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    assert hangs[0] >= 30
    assert "stands_still_here" in caplog.text


class LooksBetweenBeats(threading.Event):
    """A watch that looks only after the loop has beaten again, however long that takes on this machine."""

    def __init__(self, dog: Watchdog) -> None:
        super().__init__()
        self.has_looked_often = threading.Event()
        self._looks = 0
        self._dog = dog
        self._beats = 0

    def wait(self, timeout: float | None = None) -> bool:
        while self._dog._beats == self._beats:
            if super().wait(0.001):
                return True
        self._beats = self._dog._beats
        self._looks += 1
        if self._looks == 10:  # five times what would be a hang
            self.has_looked_often.set()
        return super().wait(0)


async def test_a_loop_that_runs_is_left_alone() -> None:
    hangs: list[int] = []
    dog = Watchdog(hang_ms=40, on_hang=hangs.append, beat_s=0.002, watch_s=0.02)
    dog._stop = watch = LooksBetweenBeats(dog)
    dog.start()
    has_looked = await asyncio.to_thread(watch.has_looked_often.wait, 20)
    dog.close()
    assert not hangs
    assert has_looked
