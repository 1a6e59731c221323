"""A seeded part of `tests.fuzz.group_members` for every run of the tests."""

from __future__ import annotations

from tests.fuzz import group_members

CASES = 250


def test_members_that_send_anything() -> None:
    assert group_members.run(1, CASES) > 10 * CASES / 2, "too little is refused to tell anything"
