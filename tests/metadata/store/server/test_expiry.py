"""When sessions are over: by ticks, and not because this process stood still."""

from __future__ import annotations

from metadata.store.server.expiry import Expiry


def test_a_session_lives_its_timeout_and_at_most_a_tick_longer() -> None:
    for touched_ms in range(0, 1_000, 130):
        expiry = Expiry(1_000, 0)
        expiry.touch(1, 3_000, touched_ms)
        over_ms = next(now_ms for now_ms in range(1_000, 10_000, 1_000) if list(expiry.due(now_ms)))
        assert touched_ms + 3_000 <= over_ms <= touched_ms + 4_000
        assert len(expiry) == 0


def test_a_sign_of_life_moves_it_and_never_back() -> None:
    expiry = Expiry(1_000, 0)
    expiry.touch(1, 3_000, 0)
    expiry.touch(2, 3_000, 0)
    expiry.touch(1, 3_000, 2_500)
    expiry.touch(1, 0, 2_600)
    assert [list(expiry.due(now_ms)) for now_ms in range(1_000, 8_000, 1_000)] == [[], [], [], [2], [], [1], []]


def test_who_is_forgotten_is_not_due() -> None:
    expiry = Expiry(1_000, 0)
    expiry.touch(1, 1_000, 0)
    expiry.forget(1)
    expiry.forget(1)
    assert [list(expiry.due(now_ms)) for now_ms in (1_000, 2_000, 3_000)] == [[], [], []]


def test_time_in_which_this_process_stood_still_does_not_count() -> None:
    expiry = Expiry(1_000, 0)
    expiry.touch(1, 3_000, 0)
    assert list(expiry.due(1_000)) == []
    assert list(expiry.due(61_000)) == []
    expiry.touch(2, 3_000, 61_100)
    assert [list(expiry.due(now_ms)) for now_ms in (62_000, 63_000, 64_000, 65_000)] == [[], [1], [], [2]]
