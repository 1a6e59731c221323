"""The checkers of groups: each must speak up at what it is there for, and only then."""

from __future__ import annotations

import pytest

from protocol.records.record import Record, encode_batch
from protocol.stored.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
)
from protocol.topic_partition import TopicPartition
from tests.simulation.disk_survey import FoundBatch
from tests.simulation.groups.checkers.epochs import EpochChecker
from tests.simulation.groups.checkers.ownership import OwnershipChecker
from tests.simulation.groups.checkers.progress import ProgressChecker
from tests.simulation.groups.checkers.records import wrong_records
from tests.simulation.test_checkers import Reports

KEY: TopicPartition = ("in", 0)
OTHER: TopicPartition = ("in", 1)
T = b"t" * 16
Row = tuple[bytes, bytes | None]


class Owners:
    """Members with sessions of 4 s, who let go within 5 s."""

    def __init__(self) -> None:
        self.reports = Reports()
        self.now_s = 0.0
        self.checker = OwnershipChecker(
            self.reports, lambda what: None, lambda: self.now_s, session_s=4.0, rebalance_s=5.0
        )

    def assigned(self, member: str, *keys: TopicPartition, at_s: float, late_s: float = 0.0) -> None:
        self.now_s = at_s + late_s
        self.checker.assigned("g", member, keys, at_s)


def test_a_second_owner_is_told_while_the_first_cannot_have_been_given_up() -> None:
    owners = Owners()
    owners.assigned("m", KEY, at_s=0)
    owners.checker.kept("g", "m", [])  # it has not taken it yet
    owners.checker.answered("g", "m", 2.0)
    owners.assigned("n", KEY, at_s=5.9)
    assert "given to n, though m has it" in owners.reports[0]


@pytest.mark.parametrize("why", ["session", "kept", "joining", "ended", "forgotten", "late", "no_more"])
def test_a_second_owner_is_fine_when_the_first_is_not_one(why: str) -> None:
    owners, at_s, late_s = Owners(), 1.0, 0.0
    owners.assigned("m", KEY, at_s=0)
    match why:
        case "session":
            at_s = 4.0
        case "kept":
            owners.assigned("m", OTHER, at_s=0.5)
            owners.checker.kept("g", "m", [OTHER])
        case "joining":
            owners.checker.joining("g", "m")
        case "ended":
            owners.checker.ended("g", "m")
        case "forgotten":
            owners.checker.forget()
        case "late":
            late_s = 4.0
        case "no_more":
            owners.checker.trusted_no_more("g", "m", [KEY], 0.5)
    owners.assigned("n", KEY, at_s=at_s, late_s=late_s)
    assert not owners.reports


@pytest.mark.parametrize(("at_s", "is_told"), [(6.5, True), (7.5, False)])
def test_who_does_not_let_go_is_an_owner_until_the_rebalance_timeout(at_s: float, is_told: bool) -> None:
    owners = Owners()
    owners.assigned("m", KEY, OTHER, at_s=0)
    owners.checker.answered("g", "m", 2.0)
    owners.assigned("m", OTHER, at_s=3)  # the coordinator may have asked since 2
    owners.checker.answered("g", "m", 6.0)
    owners.assigned("n", KEY, at_s=at_s)
    assert bool(owners.reports) is is_told


def test_what_a_member_had_asked_for_before_it_left_it_does_not_own() -> None:
    owners = Owners()
    owners.assigned("m", KEY, at_s=0)
    owners.now_s = 1.0
    owners.checker.ended("g", "m")
    owners.assigned("m", KEY, at_s=0.9, late_s=0.2)
    owners.checker.trusted_no_more("g", "m", [KEY], 0.9)
    assert owners.checker.owners("g", KEY) == []
    owners.assigned("m", KEY, at_s=1.0)  # it has come again
    owners.assigned("n", KEY, at_s=1.5)
    assert len(owners.reports) == 1


def test_a_group_is_complete_when_each_partition_has_one_owner() -> None:
    owners = Owners()
    owners.assigned("m", KEY, at_s=0)
    assert not owners.checker.is_complete("g", [KEY, OTHER])
    owners.assigned("n", OTHER, at_s=0)
    assert owners.checker.is_complete("g", [KEY, OTHER])
    owners.checker.trusted_no_more("g", "n", [KEY], 0.0)
    assert not owners.checker.is_complete("g", [KEY, OTHER])


def test_epochs_of_members_grow_and_what_is_over_commits_nothing() -> None:
    reports = Reports()
    checker = EpochChecker(reports)
    checker.answered("g", "m", 3)
    assert not checker.is_over("g", "m", 2)
    checker.answered("g", "m", 2)
    assert "fell from 3 to 2" in reports.pop()
    checker.ended("g", "m")
    assert checker.is_over("g", "m", 3)
    checker.joining("g", "m")
    assert checker.is_over("g", "m", 2) and not checker.is_over("g", "m", 3)
    checker.answered("g", "m", 4)
    checker.ended("g", "m")
    checker.answered("g", "m", 5)
    assert checker.is_over("g", "m", 4) and not checker.is_over("g", "m", 5) and not checker.is_over("g", "n", 3)
    checker.late_commit_accepted("g", "m", 3, 0)
    assert "was accepted" in reports.pop()
    checker.leaving_for_a_while("g", "m")
    assert not checker.is_over("g", "m", 4)
    checker.forget()
    checker.late_commit_accepted("g", "m", 3, 0)
    checker.answered("g", "m", 1)
    assert not reports
    checker.answered("g", "m", 0)
    assert reports


def test_offsets_of_a_group_never_go_back_and_everything_is_read() -> None:
    reports = Reports()
    checker = ProgressChecker(reports, lambda what: None)
    checker.read("g", KEY, 0, "a")
    for offset in (1, 2):
        checker.committing("g", KEY, offset)
        checker.committed("g", KEY, offset, 0)
    checker.fetched("g", KEY, 2, 2, 0)
    checker.fetched("g", KEY, 0, 1, 0)  # it was asked for before
    checker.at_rest("g", KEY, {0: "a"})
    assert not reports
    checker.fetched("g", KEY, 2, 1, 0)
    assert "went back to 1" in reports.pop()
    checker.fetched("g", KEY, 2, 7, 0)
    assert "nobody has sent" in reports.pop()
    checker.committing("g", KEY, 1)
    checker.fetched("g", KEY, 2, 1, 0)  # in doubt
    checker.refused("g", KEY, 1)
    checker.fetched("g", KEY, 2, 1, 0)
    assert "went back to 1" in reports.pop()
    checker.at_rest("g", KEY, {0: "a", 1: "b"})
    assert "1 of 2 records" in reports.pop()
    checker.forget()
    checker.fetched("g", KEY, 2, 1, 0)
    checker.excuse(KEY)
    checker.at_rest("g", KEY, {0: "a", 1: "b"})
    assert not reports


def group(epoch: int) -> Row:
    return (
        ConsumerGroupMetadataKey(group_id="g").encode_stored(3),
        ConsumerGroupMetadataValue(epoch=epoch).encode_stored(0),
    )


def target(epoch: int) -> Row:
    return (
        ConsumerGroupTargetAssignmentMetadataKey(group_id="g").encode_stored(6),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch).encode_stored(0),
    )


def member(member_id: str, epoch: int | None, assigned: tuple[int, ...] = (), pending: tuple[int, ...] = ()) -> Row:
    """`epoch` is None for a tombstone."""
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id=member_id).encode_stored(8)
    if epoch is None:
        return key, None
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=epoch,
        previous_member_epoch=0,
        state=0,
        assigned_partitions=[CurrentTopicPartitions(topic_id=T, partitions=list(assigned))],
        partitions_pending_revocation=[CurrentTopicPartitions(topic_id=T, partitions=list(pending))],
    )
    return key, value.encode_stored(0)


def log_of(*batches: list[Row]) -> list[FoundBatch]:
    return [
        FoundBatch(n, n + len(rows), 0, encode_batch([Record(i, 0, *row) for i, row in enumerate(rows)]))
        for n, rows in enumerate(batches)
    ]


@pytest.mark.parametrize(
    ("batches", "text"),
    [
        ([[group(1), target(1), member("m", 1, (0, 1))], [group(2), target(2)], [member("m", 1, (0,), (1,))]], None),
        ([[group(2), target(2)], [member("m", 2, (0,))], [member("m", None), member("n", 2, (0,))]], None),
        ([[group(2), target(2)], [member("m", 2, (0,))], [member("n", 2, (0,)), member("m", None)]], None),
        ([[group(2), target(2)], [member("m", -2, (0,))], [member("m", 2, (0,))]], None),
        ([[group(2)], [group(1)]], "group epoch 1 after 2"),
        ([[group(2), target(2)], [target(1)]], "target epoch 1 after 2"),
        ([[group(2), target(2)], [member("m", 2)], [member("m", 1)]], "m: epoch 1 after 2"),
        ([[group(2), target(2)], [member("m", 3)]], "m has epoch 3, the group 2"),
        ([[group(2), target(2)], [member("m", 2, (0,))], [member("n", 2, (0,))]], "is at m and at n"),
        ([[group(2), target(2)], [member("m", 2, (), (0,))], [member("n", 2, (0,))]], "is at m and at n"),
    ],
)
def test_the_log_of_a_group(batches: list[list[Row]], text: str | None) -> None:
    found = list(wrong_records(log_of(*batches)))
    assert (not found) if text is None else (len(found) == 1 and text in found[0]), found
