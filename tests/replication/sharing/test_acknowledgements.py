"""The form of acknowledgements."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import pytest

from protocol.errors import ErrorCode, KafkaError
from protocol.share_states import AcknowledgeType
from replication.sharing.acknowledgements import BATCHES_MAX, AckBatch, check_form, ranges_of_types

GAP, ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType


@pytest.mark.parametrize(
    ("batches", "can_renew", "is_renew", "is_right"),
    [
        ([], True, False, True),
        ([(0, 9, [1])], True, False, True),
        ([(0, 2, [0, 1, 3])], True, False, True),
        ([(0, 9, [1]), (9, 12, [2])], True, False, True),
        ([(0, 9, [1]), (8, 12, [2])], True, False, False),
        ([(9, 0, [1])], True, False, False),
        ([(-2, 0, [1])], True, False, False),
        ([(0, 9, [])], True, False, False),
        ([(0, 9, [1, 1])], True, False, False),
        ([(0, 2**63 - 1, [1])], True, False, True),
        ([(-(2**63), 2**63 - 1, [1, 1])], True, False, False),
        ([(0, 9, [-1])], True, False, False),
        ([(0, 9, [5])], True, True, False),
        ([(0, 9, [4])], True, True, True),
        ([(0, 9, [4])], True, False, False),
        ([(0, 9, [4])], False, True, False),
        ([(0, 0, [1])] * BATCHES_MAX, True, False, True),
        ([(0, 0, [1])] * (BATCHES_MAX + 1), True, False, False),
    ],
    ids=count(),
)
def test_the_form_is_checked_before_anything_else(
    batches: list[tuple[int, int, list[int]]], can_renew: bool, is_renew: bool, is_right: bool
) -> None:
    asked = [AckBatch(*batch) for batch in batches]
    if is_right:
        check_form(asked, can_renew=can_renew, is_renew=is_renew)
        return
    with pytest.raises(KafkaError) as refused:
        check_form(asked, can_renew=can_renew, is_renew=is_renew)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("first", "last", "types", "ranges"),
    [
        (5, 9, [1], [(5, 9, ACCEPT)]),
        (5, 7, [2, 2, 2], [(5, 7, RELEASE)]),
        (5, 9, [1, 1, 3, 0, 4], [(5, 6, ACCEPT), (7, 7, REJECT), (8, 8, GAP), (9, 9, RENEW)]),
    ],
)
def test_neighbours_of_one_type_are_one_range(
    first: int, last: int, types: Sequence[int], ranges: list[tuple[int, int, AcknowledgeType]]
) -> None:
    assert list(ranges_of_types(AckBatch(first, last, types))) == ranges


@pytest.mark.parametrize("types", [[], [7], [1, 7], [1, 1, 1], [1, 2, 1]])
def test_other_types_and_numbers_of_types_are_refused(types: list[int]) -> None:
    with pytest.raises(KafkaError) as refused:
        list(ranges_of_types(AckBatch(0, 1, types)))
    assert refused.value.code is ErrorCode.INVALID_REQUEST
