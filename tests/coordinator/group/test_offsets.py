"""Offsets of one group: what keeps them, and which partitions they are of. tests/scenarios/groups tells which commit wins."""

from __future__ import annotations

from coordinator.group.offset_commits import metadata_is_too_large
from coordinator.group.offsets import CommittedOffset, GroupOffsets

PLACE = ("t", 0)
OTHER_PLACE = ("t", 1)


def commit(offset: int) -> CommittedOffset:
    return CommittedOffset(offset, -1, "", 0)


def test_the_offset_under_an_open_transaction_does_not_expire() -> None:
    offsets = GroupOffsets()
    offsets.replay_commit(PLACE, commit(1), 10, transaction_of=None)
    offsets.replay_commit(OTHER_PLACE, commit(1), 10, transaction_of=None)
    offsets.replay_commit(PLACE, commit(2), 11, transaction_of=7)
    assert offsets.expired(1_000, 10, lambda _: 0) == [OTHER_PLACE]
    offsets.end_transaction(7, committed=False)
    assert offsets.expired(1_000, 10, lambda _: 0) == [PLACE, OTHER_PLACE]


def test_the_partitions_of_a_group_are_those_of_open_transactions_too() -> None:
    offsets = GroupOffsets()
    offsets.replay_commit(PLACE, commit(2), 11, transaction_of=7)
    offsets.add_pending([OTHER_PLACE], is_transactional=True)
    assert offsets.topic_partitions() == [OTHER_PLACE, PLACE]
    assert offsets.of_partitions([("u", 0), PLACE, OTHER_PLACE]) == [PLACE, OTHER_PLACE]


def test_a_transactional_removal_takes_back_its_own_commit() -> None:
    offsets = GroupOffsets()
    offsets.replay_removal(PLACE, transaction_of=7)
    offsets.replay_commit(PLACE, commit(1), 10, transaction_of=7)
    offsets.replay_removal(PLACE, transaction_of=7)
    assert not offsets.is_in_use


def test_two_commits_under_way_are_two() -> None:
    offsets = GroupOffsets()
    offsets.add_pending([PLACE])
    offsets.add_pending({PLACE: commit(1)})
    offsets.remove_pending([PLACE])
    assert offsets.is_unstable(PLACE)
    offsets.remove_pending([PLACE])
    assert not offsets.is_in_use


def test_metadata_is_measured_in_utf16_units() -> None:
    assert not metadata_is_too_large(None, 0)
    assert not metadata_is_too_large("0123456789", 10)
    assert metadata_is_too_large("0123456789x", 10)
    # Two units each, four bytes of UTF-8; an umlaut is one unit.
    assert not metadata_is_too_large("\U0001f600" * 5, 10)
    assert metadata_is_too_large("\U0001f600" * 5 + "x", 10)
    assert not metadata_is_too_large("\u00e4" * 10, 10)
