from __future__ import annotations

import pytest

from barnabas.pipeline.audit_figures import Offsets, Sequences, table, verdict


@pytest.mark.parametrize(
    ("numbers", "missing", "duplicates"),
    [([1], 0, 0), ([0, 1, 2], 0, 0), ([5, 7, 9], 2, 0), ([5, 5, 5], 0, 2), ([1, 4, 4, 2], 1, 1)],
)
def test_missing_and_repeated_numbers(numbers: list[int], missing: int, duplicates: int) -> None:
    each = Sequences("t", "p", len(numbers), len(set(numbers)), min(numbers), max(numbers))
    assert (each.missing, each.duplicates) == (missing, duplicates)


@pytest.mark.parametrize(("records", "first", "last", "absent"), [(1, 7, 7, 0), (3, 0, 2, 0), (2, 10, 19, 8)])
def test_absent_offsets(records: int, first: int, last: int, absent: int) -> None:
    assert Offsets("t", 0, records, first, last).absent == absent


def test_a_verdict_adds_up() -> None:
    good, gap, twice = Sequences("t", "a", 3, 3, 0, 2), Sequences("t", "b", 2, 2, 0, 4), Sequences("t", "c", 4, 2, 0, 1)
    assert verdict([]) is None
    assert verdict([good]) is None
    assert (
        verdict([good, gap, twice]) == "3 sequence numbers are missing and 2 records are repeated, of 2 of 3 producers"
    )
    once = Sequences("t", "d", 3, 2, 0, 2)
    assert verdict([once]) == "1 sequence number is missing and 1 record is repeated, of 1 of 1 producer"


def test_a_table_has_columns_and_says_what_it_leaves_out() -> None:
    rows = [("a", 1, None), ("long name", 1234.56, "x"), ("b", 2, "y")]
    assert table("title", ("name", "count", "?"), rows, 2) == "\n".join([
        "title",
        "  name       count   ?",
        "  a          1       -",
        "  long name  1234.6  x",
        "  ... and 1 more",
    ])  # fmt: skip
    assert table("none", ("name",), [], 2) == "none\n  name"
    assert table("hostile", ("producer",), [("a\x1b[2J\n",)], 1) == "hostile\n  producer\n  a\\x1b[2J\\n"
