"""The leader's high watermark."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replication.leader import HighWatermarkAdvanced, LeaderState


def leader(
    *, isr: tuple[int, ...] = (1,), leo: int = 0, high_watermark: int = 0, min_insync_replicas: int = 1
) -> LeaderState:
    return LeaderState(
        1, leader_epoch=3, isr=isr, leo=leo, high_watermark=high_watermark, min_insync_replicas=min_insync_replicas
    )


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


def test_hw_does_not_move_while_the_isr_is_smaller_than_min_insync_replicas() -> None:
    state = leader(min_insync_replicas=2)
    assert state.is_under_min_isr
    assert state.on_append(3) is None
    assert state.on_min_insync_replicas(1) == [HighWatermarkAdvanced(3)]


def test_a_checkpoint_past_the_log_end_is_cut_to_it() -> None:
    assert leader(leo=3, high_watermark=9).high_watermark == 3


@given(st.lists(st.integers(0, 50)))
def test_hw_never_falls_and_never_passes_the_log_end(steps: list[int]) -> None:
    state = leader()
    before = 0
    for step in steps:
        state.on_append(state.leo + step)
        assert before <= state.high_watermark <= state.leo
        before = state.high_watermark
