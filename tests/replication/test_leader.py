"""The leader's rules: the high watermark, who is caught up, who joins and leaves the ISR, what the controller answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import ErrorCode
from replication.leader import (
    REFUSAL_PAUSE_MS,
    REFUSED_ERRORS,
    Effect,
    HighWatermarkAdvanced,
    IsrChange,
    IsrChangeFailed,
    IsrChangeRequested,
    IsrCommitted,
    IsrResponse,
    LeaderState,
    LeadingBroker,
)

LAG_MS = 1_000
ME = 1


def leader(
    *,
    isr: tuple[int, ...] = (1,),
    replicas: tuple[int, ...] = (),
    leo: int = 0,
    high_watermark: int = 0,
    min_insync_replicas: int = 1,
    leader_epoch: int = 3,
    is_alive: Callable[[int], bool] = lambda _broker_id: True,
    **more: Any,
) -> LeaderState:
    return LeaderState(
        LeadingBroker(ME, LAG_MS, is_alive),
        leader_epoch=leader_epoch,
        partition_epoch=7,
        isr=isr,
        replicas=replicas or isr,
        leo=leo,
        high_watermark=high_watermark,
        min_insync_replicas=min_insync_replicas,
        **more,
    )


def fetch(
    state: LeaderState, replica: int, offset: int, now_ms: int = 0, start: int = 0, epoch: int = 5
) -> list[Effect]:
    return state.on_follower_fetch(
        replica, broker_epoch=epoch, fetch_offset=offset, log_start_offset=start, leo=state.leo, now_ms=now_ms
    )


def wish_of(effects: list[Effect]) -> IsrChange:
    (wish,) = [effect for effect in effects if isinstance(effect, IsrChangeRequested)]
    return wish.change


def answer_to(change: IsrChange, partition_epoch: int = 8) -> IsrResponse:
    return IsrResponse(ErrorCode.NONE, change.leader_epoch, change.isr, partition_epoch)


# --- the high watermark ---


def test_a_leader_alone_commits_what_it_holds_when_elected() -> None:
    assert leader(leo=7, high_watermark=4).on_elected() == [HighWatermarkAdvanced(7)]


def test_a_leader_alone_commits_each_append() -> None:
    state = leader(leo=7, high_watermark=7)
    assert state.on_append(9) == 9
    assert state.on_append(9) is None


def test_hw_waits_for_a_replica_of_the_isr_that_has_not_fetched() -> None:
    state = leader(isr=(1, 2), leo=5, high_watermark=5)
    assert state.on_append(9) is None
    assert state.high_watermark == 5


def test_hw_is_what_all_of_the_isr_hold() -> None:
    state = leader(isr=(1, 2, 3), leo=10)
    assert fetch(state, 2, 10) == []
    assert fetch(state, 3, 4) == [HighWatermarkAdvanced(4)]
    assert fetch(state, 3, 10) == [HighWatermarkAdvanced(10)]


def test_hw_does_not_fall_when_a_follower_reads_from_further_back() -> None:
    state = leader(isr=(1, 2), leo=10)
    fetch(state, 2, 10)
    assert fetch(state, 2, 3) == []
    assert state.high_watermark == 10


def test_hw_does_not_move_while_the_isr_is_smaller_than_min_insync_replicas() -> None:
    state = leader(replicas=(1, 2), min_insync_replicas=2)
    assert state.is_under_min_isr
    assert state.on_append(3, now_ms=LAG_MS) is None
    assert state.on_min_insync_replicas(1, LAG_MS) == [HighWatermarkAdvanced(3)]


def test_min_insync_replicas_counts_no_more_than_there_are_replicas() -> None:
    state = leader(min_insync_replicas=3)
    assert not state.is_under_min_isr
    assert state.on_append(3) == 3


def test_a_checkpoint_past_the_log_end_is_cut_to_it() -> None:
    assert leader(leo=3, high_watermark=9).high_watermark == 3


def test_hw_waits_for_a_replica_outside_the_isr_that_is_caught_up_and_alive() -> None:
    alive = {1, 2}
    state = leader(replicas=(1, 2), leo=10, high_watermark=0, is_alive=alive.__contains__)
    state.epoch_start_offset = 100  # so it cannot join yet
    state.followers[2].begin_epoch(leader_leo=0, is_in_sync=True, now_ms=0)
    assert fetch(state, 2, 6, now_ms=LAG_MS) == [HighWatermarkAdvanced(6)]
    assert state.on_append(12, now_ms=LAG_MS) is None
    alive.remove(2)
    assert state.on_append(13, now_ms=LAG_MS) == 13


def test_hw_waits_no_longer_for_an_outsider_than_the_lag_allows() -> None:
    state = leader(replicas=(1, 2), leo=10, high_watermark=0)
    state.epoch_start_offset = 100
    state.followers[2].begin_epoch(leader_leo=0, is_in_sync=True, now_ms=0)
    assert fetch(state, 2, 6, now_ms=LAG_MS) == [HighWatermarkAdvanced(6)]
    assert state.on_tick(LAG_MS) == []
    assert state.on_tick(LAG_MS + 1) == [HighWatermarkAdvanced(10)]


def test_a_new_epoch_of_the_same_leader_keeps_what_followers_hold() -> None:
    first = leader(isr=(1, 2), leo=10)
    fetch(first, 2, 10)
    second = leader(isr=(1, 2), leo=10, high_watermark=10, previous=first, leader_epoch=4, now_ms=50)
    assert second.followers[2].leo == 10
    assert second.followers[2].caught_up_ms == 50
    newcomer = leader(isr=(1, 2), leo=10, high_watermark=10, leader_epoch=4, now_ms=50)
    assert newcomer.followers[2].leo == -1


def test_a_leader_that_missed_an_epoch_knows_nothing_of_its_followers() -> None:
    first = leader(isr=(1, 2), leo=10)
    fetch(first, 2, 10)
    later = leader(isr=(1, 2), leo=10, previous=first, leader_epoch=5, now_ms=50)
    assert later.followers[2].leo == -1
    assert later.followers[2].caught_up_ms == 50


# --- caught up ---


@pytest.mark.parametrize(
    ("fetches", "caught_up_ms"),
    [
        pytest.param([(100, 10)], 100, id="at the leader's end: now"),
        pytest.param([(100, 4), (200, 9)], 0, id="behind the end of the previous fetch: still as at the election"),
        pytest.param([(100, 4), (200, 10)], 200, id="at the end now"),
        pytest.param([(100, 4), (200, 8), (300, 9)], 0, id="never there"),
    ],
)
def test_caught_up_time(fetches: list[tuple[int, int]], caught_up_ms: int) -> None:
    state = leader(isr=(1, 2), leo=10)
    for now_ms, offset in fetches:
        fetch(state, 2, offset, now_ms)
    assert state.followers[2].caught_up_ms == caught_up_ms


def test_a_follower_that_reached_the_end_of_its_previous_fetch_was_caught_up_then() -> None:
    state = leader(isr=(1, 2), leo=10)
    fetch(state, 2, 5, now_ms=100)
    state.on_append(20)
    fetch(state, 2, 10, now_ms=250)  # 10 was the end at the fetch of 100
    assert state.followers[2].caught_up_ms == 100
    state.on_append(40)
    fetch(state, 2, 20, now_ms=400)
    assert state.followers[2].caught_up_ms == 250


# --- the ISR ---


def test_a_lagging_member_leaves_and_the_hw_moves_only_when_that_is_agreed() -> None:
    state = leader(isr=(1, 2, 3), leo=10)
    fetch(state, 2, 10, now_ms=1)
    assert state.on_tick(LAG_MS) == []
    change = wish_of(state.on_tick(LAG_MS + 1))
    assert (change.isr, change.added, change.partition_epoch) == ((1, 2), None, 7)
    assert state.maximal_isr == (1, 2, 3)
    assert state.on_tick(LAG_MS * 9) == []  # one wish at a time
    assert state.on_isr_response(change, answer_to(change), LAG_MS + 5) == [
        IsrCommitted((1, 2), 8, is_expansion=False),
        HighWatermarkAdvanced(10),
    ]
    assert (state.isr, state.partition_epoch, state.pending) == ((1, 2), 8, None)


def test_a_member_at_the_leaders_end_never_lags() -> None:
    state = leader(isr=(1, 2), leo=10)
    fetch(state, 2, 10)
    assert state.on_tick(LAG_MS * 100) == []


def test_a_follower_that_has_what_is_committed_joins_and_counts_at_once() -> None:
    state = leader(replicas=(1, 2), leo=0)
    state.on_append(10, now_ms=LAG_MS)
    assert state.high_watermark == 10
    assert fetch(state, 2, 9, now_ms=LAG_MS) == []
    change = wish_of(fetch(state, 2, 10, now_ms=LAG_MS))
    assert (change.isr, change.added) == ((1, 2), 2)
    assert state.on_append(12, now_ms=LAG_MS * 5) is None  # counts already
    assert state.isr == (1,)
    assert state.on_isr_response(change, answer_to(change), LAG_MS) == [IsrCommitted((1, 2), 8, is_expansion=True)]
    assert fetch(state, 2, 12, now_ms=LAG_MS) == [HighWatermarkAdvanced(12)]


def test_a_follower_does_not_join_before_it_has_reached_the_leaders_own_epoch() -> None:
    state = leader(replicas=(1, 2), leo=10, high_watermark=4, epoch_start_offset=10, min_insync_replicas=2)
    assert fetch(state, 2, 9) == []
    assert wish_of(fetch(state, 2, 10)).isr == (1, 2)


def test_a_follower_that_is_not_alive_does_not_join() -> None:
    state = leader(replicas=(1, 2), is_alive=lambda broker_id: broker_id != 2)
    assert fetch(state, 2, 0) == []


def _expanding() -> tuple[LeaderState, IsrChange]:
    state = leader(replicas=(1, 2), leo=10)
    state.on_elected(LAG_MS)
    return state, wish_of(fetch(state, 2, 10))


@pytest.mark.parametrize("error", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_a_refused_wish_is_forgotten(error: ErrorCode) -> None:
    state, change = _expanding()
    assert state.on_isr_response(change, IsrResponse(error), 0) == [IsrChangeFailed(change, error)]
    assert (state.pending, state.maximal_isr, state.isr) == (None, (1,), (1,))


def test_a_replica_that_was_refused_is_asked_for_again_after_a_pause_or_in_its_next_life() -> None:
    state, change = _expanding()
    state.on_isr_response(change, IsrResponse(ErrorCode.INELIGIBLE_REPLICA), 100)
    assert fetch(state, 2, 10, now_ms=100 + REFUSAL_PAUSE_MS - 1) == []
    again = wish_of(fetch(state, 2, 10, now_ms=100 + REFUSAL_PAUSE_MS))
    state.on_isr_response(again, IsrResponse(ErrorCode.INELIGIBLE_REPLICA), 2_000)
    assert fetch(state, 2, 10, now_ms=2_001, epoch=5) == []
    assert wish_of(fetch(state, 2, 10, now_ms=2_002, epoch=6)).isr == (1, 2)


def test_hw_does_not_wait_for_a_replica_that_was_refused() -> None:
    """It is alive and caught up, yet the controller does not want it: it may be shutting down."""
    state = leader(isr=(1, 3), replicas=(1, 2, 3), leo=10, high_watermark=10)
    fetch(state, 3, 10)
    change = wish_of(fetch(state, 2, 10))
    state.on_append(15)
    assert fetch(state, 3, 15) == []
    assert state.on_isr_response(change, IsrResponse(ErrorCode.INELIGIBLE_REPLICA), 50)[1:] == [
        HighWatermarkAdvanced(15)
    ]
    state.on_append(20)
    assert fetch(state, 3, 20, now_ms=60) == [HighWatermarkAdvanced(20)]
    fetch(state, 2, 20, now_ms=70)
    state.on_append(25)
    assert fetch(state, 3, 25, now_ms=50 + REFUSAL_PAUSE_MS) == [], "it may join now, if nobody runs ahead of it"
    assert wish_of(fetch(state, 2, 25, now_ms=50 + REFUSAL_PAUSE_MS)).isr == (1, 3, 2)


def test_hw_moves_on_when_the_broker_it_waits_for_is_gone() -> None:
    alive = {1, 2, 3}
    state = leader(isr=(1, 3), replicas=(1, 2, 3), leo=10, high_watermark=10, is_alive=alive.__contains__)
    state.epoch_start_offset = 100  # so nobody can join yet
    fetch(state, 2, 10)
    fetch(state, 3, 10)
    state.on_append(15)
    assert fetch(state, 3, 15) == []
    alive.remove(2)
    assert state.on_brokers_lost(50) == [HighWatermarkAdvanced(15)]


def test_records_wait_no_more_for_a_replica_whose_joining_was_refused() -> None:
    state, change = _expanding()
    state.on_append(15, now_ms=LAG_MS * 9)
    effects = state.on_isr_response(change, IsrResponse(ErrorCode.INELIGIBLE_REPLICA), LAG_MS * 9)
    assert effects[1:] == [HighWatermarkAdvanced(15)]


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    ],
)
def test_an_answer_that_leaves_it_open_keeps_the_wish_until_the_controller_speaks(error: ErrorCode) -> None:
    state, change = _expanding()
    assert state.on_isr_response(change, IsrResponse(error), 0) == [IsrChangeFailed(change, error)]
    assert state.pending is change
    assert state.maximal_isr == (1, 2)
    assert state.on_partition_state(isr=[1, 2], partition_epoch=9, replicas=[1, 2], now_ms=0) == []
    assert (state.pending, state.isr, state.partition_epoch) == (None, (1, 2), 9)


@pytest.mark.parametrize(
    "error", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT]
)
def test_other_errors_ask_again(error: ErrorCode) -> None:
    state, change = _expanding()
    assert state.on_isr_response(change, IsrResponse(error), 0) == [
        IsrChangeFailed(change, error),
        IsrChangeRequested(change),
    ]
    assert state.pending is change


@pytest.mark.parametrize(("leader_epoch", "partition_epoch"), [(2, 9), (4, 9), (3, 6)])
def test_an_answer_about_another_state_is_not_believed(leader_epoch: int, partition_epoch: int) -> None:
    state, change = _expanding()
    effects = state.on_isr_response(change, IsrResponse(ErrorCode.NONE, leader_epoch, (1, 2), partition_epoch), 0)
    assert effects == [IsrChangeFailed(change, ErrorCode.INVALID_UPDATE_VERSION)]
    assert (state.pending, state.isr) == (change, (1,))


def test_an_answer_with_our_own_partition_epoch_says_that_it_was_so_already() -> None:
    state, change = _expanding()
    state.on_isr_response(change, IsrResponse(ErrorCode.NONE, 3, (1, 2), 7), 0)
    assert (state.pending, state.isr, state.partition_epoch) == (None, (1, 2), 7)


def test_an_answer_to_a_wish_of_the_past_says_nothing() -> None:
    state, change = _expanding()
    state.on_partition_state(isr=[1], partition_epoch=8, replicas=[1, 2], now_ms=0)
    assert state.on_isr_response(change, answer_to(change, 9), 0) == []
    assert state.isr == (1,)


def test_the_isr_keeps_its_order_and_newcomers_go_to_its_end() -> None:
    state = leader(isr=(3, 1), replicas=(1, 2, 3), leo=10, high_watermark=10)
    change = wish_of(fetch(state, 2, 10))
    assert change.isr == (3, 1, 2)
    state.on_isr_response(change, answer_to(change), 0)
    assert state.isr == (3, 1, 2)
    fetch(state, 2, 10, now_ms=LAG_MS)
    state.on_append(12)
    assert wish_of(state.on_tick(LAG_MS + 1)).isr == (1, 2)


def test_reassignment_brings_and_takes_replicas_within_an_epoch() -> None:
    state = leader(isr=(1, 2), leo=4)
    fetch(state, 2, 4)
    state.on_partition_state(isr=[1, 2], partition_epoch=8, replicas=[1, 2, 3], now_ms=0)
    assert sorted(state.followers) == [2, 3]
    assert state.followers[2].leo == 4
    assert wish_of(fetch(state, 3, 4)).isr == (1, 2, 3)
    state.on_append(9)
    effects = state.on_partition_state(isr=[1], partition_epoch=9, replicas=[1], now_ms=0)
    assert effects == [HighWatermarkAdvanced(9)]
    assert state.is_alone


def test_the_low_watermark_is_where_the_last_live_replica_begins() -> None:
    alive = {1, 2, 3}
    state = leader(isr=(1, 2, 3), leo=10, is_alive=alive.__contains__)
    assert state.low_watermark(5) == -1
    fetch(state, 2, 10, start=4)
    fetch(state, 3, 10, start=1)
    assert state.low_watermark(5) == 1
    alive.remove(3)
    assert state.low_watermark(5) == 4


# --- whatever happens ---

APPEND, FETCH, TICK, ANSWER, STATE, MIN_ISR, WAIT, DIE = range(8)

STEPS = st.lists(
    st.tuples(st.integers(0, 7), st.integers(2, 4), st.integers(0, 12), st.sampled_from(list(ErrorCode)[:60])),
    max_size=60,
)


class _World:
    """A leader of four replicas and a controller that keeps the true ISR."""

    def __init__(self) -> None:
        self.alive = {1, 2, 3, 4}
        self.now_ms = 0
        self.state = leader(isr=(1, 2), replicas=(1, 2, 3, 4), min_insync_replicas=2, is_alive=self.alive.__contains__)
        self.wishes: list[IsrChange] = []
        self.true_isr, self.true_epoch = {1, 2}, 7

    def take(self, effects: list[Effect], holders: tuple[int, ...]) -> None:
        """`holders` was the maximal ISR before the event: what is committed, they all hold unless they have left."""
        for effect in effects:
            if isinstance(effect, IsrChangeRequested) and effect.change not in self.wishes:
                self.wishes.append(effect.change)
            if isinstance(effect, HighWatermarkAdvanced):
                self.check_committed(effect.high_watermark)

    def check_committed(self, high_watermark: int) -> None:
        state = self.state
        assert len(state.isr) >= state.effective_min_isr
        for member in set(state.maximal_isr) - {ME}:
            assert high_watermark <= state.followers[member].leo
        for replica in state.followers.values():
            if replica.is_refused(self.now_ms):
                continue
            if replica.broker_id in self.alive and replica.is_caught_up(state.leo, self.now_ms, LAG_MS):
                assert high_watermark <= replica.leo

    def apply(self, kind: int, replica: int, amount: int, error: ErrorCode) -> None:
        state, before = self.state, self.state.maximal_isr
        if kind == APPEND:
            high_watermark = state.on_append(state.leo + amount, self.now_ms)
            if high_watermark is not None:
                self.check_committed(high_watermark)
        elif kind == FETCH:
            self.take(fetch(state, replica, max(state.leo - amount, 0), self.now_ms), before)
        elif kind == TICK:
            self.take(state.on_tick(self.now_ms), before)
        elif kind == ANSWER and self.wishes:
            self.answer(self.wishes.pop(0), error, before)
        elif kind == STATE:
            self.true_epoch += 1
            effects = state.on_partition_state(
                isr=self.true_isr, partition_epoch=self.true_epoch, replicas=[1, 2, 3, 4], now_ms=self.now_ms
            )
            self.take(effects, before)
        elif kind == MIN_ISR:
            self.take(state.on_min_insync_replicas(1 + amount % 4, self.now_ms), before)
        elif kind == WAIT:
            self.now_ms += amount * LAG_MS // 4
        elif kind == DIE:
            self.alive ^= {replica}
            self.take(state.on_brokers_lost(self.now_ms), before)

    def answer(self, change: IsrChange, error: ErrorCode, before: tuple[int, ...]) -> None:
        """What is not plainly refused may have been done although the answer says otherwise (the first one was lost).
        A controller refuses plainly only a wish that goes out from the state of now."""
        is_done = set(change.isr) == self.true_isr
        if change.partition_epoch == self.true_epoch and error not in REFUSED_ERRORS:
            self.true_isr, self.true_epoch, is_done = set(change.isr), self.true_epoch + 1, True
        elif change.partition_epoch != self.true_epoch and error in REFUSED_ERRORS:
            error = ErrorCode.NONE
        if error == ErrorCode.NONE:
            error = ErrorCode.NONE if is_done else ErrorCode.INVALID_UPDATE_VERSION
        answer = answer_to(change, self.true_epoch) if error == ErrorCode.NONE else IsrResponse(error)
        self.take(self.state.on_isr_response(change, answer, self.now_ms), before)


@settings(deadline=None)
@given(STEPS)
def test_hw_never_falls_nor_passes_whom_it_must_not(steps: list[tuple[int, int, int, ErrorCode]]) -> None:
    world = _World()
    before = 0
    for step in steps:
        world.apply(*step)
        state = world.state
        assert before <= state.high_watermark <= state.leo
        before = state.high_watermark
        assert ME in state.isr
        assert (state.pending is None) or state.pending.partition_epoch == state.partition_epoch


@settings(deadline=None)
@given(STEPS)
def test_what_the_controller_believes_in_sync_the_leader_waits_for(
    steps: list[tuple[int, int, int, ErrorCode]],
) -> None:
    """KIP-497: the true ISR, which the controller elects from, is never larger than what the leader counts with."""
    world = _World()
    for step in steps:
        world.apply(*step)
        assert world.true_isr <= set(world.state.maximal_isr)


@given(st.lists(st.integers(0, 50)))
def test_alone_hw_never_falls_and_never_passes_the_log_end(steps: list[int]) -> None:
    state = leader()
    before = 0
    for step in steps:
        state.on_append(state.leo + step)
        assert before <= state.high_watermark <= state.leo
        before = state.high_watermark
