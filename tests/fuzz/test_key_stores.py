"""A seeded part of `tests.fuzz.key_stores` for every run of the tests, and any bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from security.stores import ber
from tests.fuzz import key_stores

CASES = 300
BEGINNINGS = (
    b"",
    b"\xfe\xed\xfe\xed\0\0\0\2",
    b"\xfe\xed\xfe\xed\0\0\0\2\0\0\0\1\0\0\0\1\0\0",
    b"\x30\x80\x02\x01\x03\x30",
)


def test_damaged_stores() -> None:
    taken = key_stores.run(1, CASES)
    assert CASES // 10 < taken < CASES * 9 // 10, "the mutations are too weak or too strong to tell anything"


@given(st.sampled_from(BEGINNINGS), st.binary(max_size=200))
def test_any_bytes_are_a_store_or_refused(beginning: bytes, rest: bytes) -> None:
    key_stores.check(beginning + rest)


@given(st.binary(max_size=60))
def test_elements_are_within_what_contains_them(data: bytes) -> None:
    def walk(element: ber.Element) -> int:
        assert 0 <= element.begin < element.start <= element.end <= element.next <= len(data)
        if not element.tag & 0x20:
            return 1
        return 1 + sum(walk(child) for child in element.children())

    try:
        assert walk(ber.parse(data)) <= len(data)
    except ValueError:
        return
