from __future__ import annotations

import pytest

from client.letters.headers import Letter
from relay.dead_letters.selection import LetterSelection

LETTER = Letter(
    reason="Connection TIMED out", exception="java.net.SocketTimeoutException", group="billing", source_topic="a"
)


@pytest.mark.parametrize(
    ("selection", "is_taken"),
    [
        (LetterSelection(), True),
        (LetterSelection(reason="timed OUT"), True),
        (LetterSelection(reason="refused"), False),
        (LetterSelection(exception="sockettimeout", source_topic="a", group="billing"), True),
        (LetterSelection(source_topic="b"), False),
        (LetterSelection(group="shipping"), False),
        (LetterSelection(since_ms=100, until_ms=101), True),
        (LetterSelection(since_ms=101), False),
        (LetterSelection(until_ms=100), False),
        (LetterSelection(from_offset=7, until_offset=8), True),
        (LetterSelection(from_offset=8), False),
        (LetterSelection(until_offset=7), False),
    ],
)
def test_a_letter_is_meant_by_all_that_is_given(selection: LetterSelection, is_taken: bool) -> None:
    assert selection.takes(LETTER, 7, 100) is is_taken


def test_a_letter_without_a_reason_has_none_to_be_found_by() -> None:
    assert not LetterSelection(reason="").takes(Letter(), 0, 0)
