"""The histories that made Kafka lose records or let replicas differ, played with what was wrong and with what is right.

Each history names its proposal. `old` plays the rule of that time, and must show the damage: a history that does no damage
under the old rule proves nothing about the new one.
"""

from __future__ import annotations

import pytest

from protocol.errors import ErrorCode
from replication.followers.follower import AskEpoch, Fetch, Stopped, TruncateTo
from tests.replication.model import ModelFollower, ModelLog, elect, model_log, same_records

HOW = [
    pytest.param({"truncates_on_fetch": True}, id="diverging-epoch"),
    pytest.param({"truncates_on_fetch": False}, id="asked-epoch"),
]
OLD = {"truncates_on_fetch": False, "asks_epochs": False}


def values(log: ModelLog) -> list[str]:
    return [value for _, value in log.records]


def follow(log: ModelLog, leader: ModelLog, epoch: int, how: dict[str, bool]) -> ModelFollower:
    follower = ModelFollower(log, leader, leader_epoch=epoch, **how)
    follower.catch_up()
    return follower


# --- KIP-101, first scenario: cut to the high watermark, then elected before it could copy again ---


def restarted_follower_is_elected(how: dict[str, bool]) -> tuple[ModelLog, ModelLog]:
    """A leads, B has everything but does not know yet that "m2" is committed. B restarts, then A dies."""
    a = model_log((0, "m1"), (0, "m2"), high_watermark=2)
    b = model_log((0, "m1"), (0, "m2"), high_watermark=1)
    restarted = ModelFollower(b, a, leader_epoch=0, **how)
    while not isinstance(restarted.state.step, Fetch):
        restarted._do()
    elect(b, 1)  # before its first fetch was answered
    b.append(1, "m3")
    follow(a, b, 1, how)
    return a, b


def test_cutting_to_the_high_watermark_loses_a_committed_record() -> None:
    a, b = restarted_follower_is_elected(OLD)
    assert "m2" not in values(b)
    assert "m2" not in values(a) or not same_records(a, b)


@pytest.mark.parametrize("how", HOW)
def test_a_follower_that_restarts_keeps_what_its_leader_has(how: dict[str, bool]) -> None:
    a, b = restarted_follower_is_elected(how)
    assert values(a) == values(b) == ["m1", "m2", "m3"]


# --- KIP-101, second scenario: both lose power, one of them what it had not flushed ---


def both_lose_power(how: dict[str, bool]) -> tuple[ModelLog, ModelLog]:
    """A comes back with "m2", which B lost; B comes back first, leads, and writes something else there."""
    a = model_log((0, "m1"), (0, "m2"), high_watermark=2)
    b = model_log((0, "m1"), high_watermark=1)
    elect(b, 1)
    b.append(1, "m3")
    b.append(1, "m4")
    follow(a, b, 1, how)
    return a, b


def test_logs_cut_to_high_watermarks_differ_for_ever() -> None:
    a, b = both_lose_power(OLD)
    assert a.log_end_offset == b.log_end_offset
    assert not same_records(a, b)


@pytest.mark.parametrize("how", HOW)
def test_logs_cut_by_epoch_are_the_same(how: dict[str, bool]) -> None:
    a, b = both_lose_power(how)
    assert values(a) == values(b) == ["m1", "m3", "m4"]


# --- KIP-279: two fast elections, and each log has an epoch that the other has not ---


def two_fast_elections() -> tuple[ModelLog, ModelLog]:
    """B led in epoch 1 and wrote three records; A was elected in epoch 2 without them and wrote two; B leads again."""
    b = model_log((0, "m1"), (1, "b1"), (1, "b2"), (1, "b3"), high_watermark=1)
    a = model_log((0, "m1"), (2, "a1"), (2, "a2"), high_watermark=1)
    elect(b, 3)
    return a, b


def test_an_answer_without_its_epoch_leaves_logs_that_differ() -> None:
    a, b = two_fast_elections()
    follower = ModelFollower(a, b, leader_epoch=3, truncates_on_fetch=False)
    assert follower.state.step == AskEpoch(2)
    # As before: where the first epoch after the one asked for begins, and nothing about which one that ends.
    follower.state.on_epoch(-1, b.known.entries[-1][1])
    assert follower.state.step == TruncateTo(3, is_last=True)
    follower.catch_up()
    assert a.log_end_offset == b.log_end_offset
    assert not same_records(a, b)


@pytest.mark.parametrize("how", HOW)
def test_an_answer_with_its_epoch_cuts_until_both_agree(how: dict[str, bool]) -> None:
    a, b = two_fast_elections()
    follow(a, b, 3, how)
    assert values(a) == values(b) == ["m1", "b1", "b2", "b3"]
    assert a.epochs.end_offset_for(1) == b.epochs.end_offset_for(1) == (1, 4)


@pytest.mark.parametrize("how", HOW)
def test_many_fast_elections(how: dict[str, bool]) -> None:
    """Every other epoch is the other's: each answer leads one epoch further down."""
    ours, theirs = model_log((0, "m1"), high_watermark=1), model_log((0, "m1"), high_watermark=1)
    for epoch in range(1, 20):
        (ours if epoch % 2 else theirs).append(epoch, f"r{epoch}")
    elect(theirs, 20)
    follower = follow(ours, theirs, 20, how)
    assert ours.records == theirs.records
    cuts = [step for step in follower.steps if isinstance(step, TruncateTo)]
    assert len(cuts) > 5


@pytest.mark.parametrize("how", HOW)
def test_an_epoch_in_which_nothing_was_written(how: dict[str, bool]) -> None:
    """A was elected and wrote nothing before it lost the leadership again: its latest epoch is in nobody's log."""
    a = model_log((0, "m1"), (0, "m2"), high_watermark=2)
    b = model_log((0, "m1"), (0, "m2"), high_watermark=2)
    elect(a, 1)
    elect(b, 2)
    b.append(2, "m3")
    follow(a, b, 2, how)
    assert values(a) == ["m1", "m2", "m3"]
    assert a.epochs.end_offset_for(1) == (0, 2)


# --- KIP-320: a leader that does not know that it leads no more ---


def test_a_zombie_leader_is_not_believed() -> None:
    """The follower is in epoch 2 already; the old leader refuses it, so nothing of epoch 1 is copied after that."""
    b = model_log((0, "m1"), (1, "zombie"), high_watermark=1)
    a = model_log((0, "m1"), high_watermark=1)
    follower = ModelFollower(a, b, leader_epoch=2)
    assert isinstance(follower.state.step, Fetch)
    follower.state.on_error(ErrorCode.UNKNOWN_LEADER_EPOCH, 0)
    assert follower.state.retry_at_ms > 0
    assert values(a) == ["m1"]


def test_a_zombie_follower_is_not_served() -> None:
    """It is in an epoch that is over, and waits for the controller to say so."""
    follower = ModelFollower(model_log((0, "m1")), model_log((0, "m1"), (2, "m2")), leader_epoch=1)
    follower.state.on_error(ErrorCode.FENCED_LEADER_EPOCH, 0)
    assert follower.state.step == Stopped(ErrorCode.FENCED_LEADER_EPOCH)


# --- unclean elections (KAFKA-1211, KAFKA-2334) ---


@pytest.mark.parametrize("how", HOW)
def test_after_an_unclean_election_nobody_keeps_what_the_new_leader_lacks(how: dict[str, bool]) -> None:
    a = model_log((0, "m1"), (0, "m2"), (0, "m3"), high_watermark=3)
    b = model_log((0, "m1"), high_watermark=1)
    elect(b, 1)
    for number in range(5):
        b.append(1, f"n{number}")
    follow(a, b, 1, how)
    assert values(a) == values(b)
    assert a.high_watermark <= a.log_end_offset
