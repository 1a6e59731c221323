"""The cleaner's limit of bytes a second."""

from __future__ import annotations

import sys

from storage.cleaner.cleaner_throttle import CleanerThrottle


def test_what_was_moved_is_waited_for() -> None:
    throttle = CleanerThrottle()
    assert throttle.wait_ms(1000, 0) == 0
    throttle.moved(500)
    assert throttle.wait_ms(1000, 0) == 500
    assert throttle.wait_ms(1000, 300) == 200
    assert throttle.wait_ms(1000, 500) == 0
    throttle.moved(100)
    assert throttle.wait_ms(1000, 60_500) == 0, "time that has passed pays as well"


def test_another_limit_holds_for_what_was_moved_before() -> None:
    throttle = CleanerThrottle()
    throttle.wait_ms(1, 0)
    throttle.moved(1_000_000)
    assert throttle.wait_ms(1, 0) == 1_000_000_000
    assert throttle.wait_ms(1_000_000, 0) == 1000


def test_no_limit_is_no_wait() -> None:
    throttle = CleanerThrottle()
    throttle.wait_ms(sys.float_info.max, 0)
    throttle.moved(1 << 40)
    assert throttle.wait_ms(sys.float_info.max, 1) == 0
