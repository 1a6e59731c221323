"""Several values in one field of a log line."""

from __future__ import annotations

from runtime.log_texts import counted, listed


def test_values_are_separated_by_commas_and_none_is_a_dash() -> None:
    assert (listed([1, 2]), listed([])) == ("1,2", "-")
    assert (counted({"NONE": 3, 7: 1}), counted({})) == ("NONE:3,7:1", "-")
