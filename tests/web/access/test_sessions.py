"""Sessions begin, end and are bounded."""

from __future__ import annotations

import random

import pytest

from web.access.identity import Identity
from web.access.sessions import SessionLimits, Sessions, TooManySessions

ALICE, BOB, CAROL = (Identity(None, name) for name in ("alice", "bob", "carol"))
LIMITS = SessionLimits(idle_ms=100, lifetime_ms=1_000, limit=3, user_limit=2)


def sessions() -> Sessions:
    return Sessions(random.Random(1), LIMITS)


def test_a_session_is_found_by_its_id_alone() -> None:
    some = sessions()
    first, second = some.begin(ALICE, 0)[0], some.begin(ALICE, 0)[0]
    assert len({first.session_id, first.csrf, second.session_id, second.csrf}) == 4
    assert all(len(each) == 43 for each in (first.session_id, first.csrf))
    assert some.find(first.session_id, 50) is first
    assert some.find(first.csrf, 50) is some.find("", 50) is None
    some.end(first)
    some.end(first)
    assert some.find(first.session_id, 50) is None
    assert first.session_id not in repr(first)
    assert first.csrf not in repr(first)


def test_use_prolongs_a_session_up_to_its_whole_life() -> None:
    some = sessions()
    session = some.begin(ALICE, 0)[0]
    for now_ms in range(99, 1_000, 99):
        assert some.find(session.session_id, now_ms) is session
        assert some.find(session.session_id, now_ms + 98, is_use=False) is session or now_ms + 98 >= 1_000
    assert some.find(session.session_id, 1_000) is None
    assert some.end_old(1_000) == [session]
    assert len(some) == 0


def test_an_idle_session_is_over_before_anybody_ends_it() -> None:
    some = sessions()
    session = some.begin(ALICE, 0)[0]
    assert some.find(session.session_id, 100) is None
    assert some.end_old(99) == []
    assert some.end_old(100) == [session]


def test_one_user_pushes_out_own_sessions_only() -> None:
    some = sessions()
    alice = [some.begin(ALICE, now_ms)[0] for now_ms in (0, 1)]
    some.find(alice[0].session_id, 2)
    bob = some.begin(BOB, 3)[0]
    newest, ended = some.begin(ALICE, 4)
    assert ended == [alice[1]]
    assert some.all() == [alice[0], bob, newest]
    with pytest.raises(TooManySessions):
        some.begin(CAROL, 5)
    assert some.begin(CAROL, 103)[1] == [alice[0], bob]
