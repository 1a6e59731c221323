"""What a follower does next: each event in each state, and logs that converge whatever their histories."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import ErrorCode
from replication.followers.follower import (
    AskEarliest,
    AskEpoch,
    AskLatest,
    Fetch,
    FollowerState,
    RestartAt,
    Step,
    Stopped,
    TruncateTo,
)
from tests.replication.model import BACKOFF_MS, ModelFollower, ModelLog, elect, model_log, same_records

# Epoch 1 from offset 0, epoch 3 from offset 3; the high watermark is 4.
TWO_EPOCHS = [(1, "a"), (1, "b"), (1, "c"), (3, "d"), (3, "e")]


def follower(log: ModelLog, *, truncates_on_fetch: bool = True, asks_epochs: bool = True) -> FollowerState:
    return FollowerState(
        log, leader_epoch=7, backoff_ms=BACKOFF_MS, truncates_on_fetch=truncates_on_fetch, asks_epochs=asks_epochs
    )


def two_epochs() -> ModelLog:
    return model_log(*TWO_EPOCHS, high_watermark=4)


def without_epochs() -> ModelLog:
    return ModelLog(records=[(-1, "a"), (-1, "b"), (-1, "c")], high_watermark=2)


@pytest.mark.parametrize(
    ("log", "versions", "first"),
    [
        (two_epochs(), {}, Fetch(5, 3)),
        (two_epochs(), {"truncates_on_fetch": False}, AskEpoch(3)),
        (two_epochs(), {"truncates_on_fetch": False, "asks_epochs": False}, TruncateTo(4, is_last=True)),
        (without_epochs(), {}, TruncateTo(2, is_last=True)),
        (without_epochs(), {"truncates_on_fetch": False}, TruncateTo(2, is_last=True)),
        (ModelLog(), {}, TruncateTo(0, is_last=True)),
        (ModelLog(high_watermark=9), {}, TruncateTo(0, is_last=True)),
    ],
)
def test_how_following_begins(log: ModelLog, versions: dict[str, bool], first: Step) -> None:
    assert follower(log, **versions).step == first


@pytest.mark.parametrize(
    ("answer", "cut"),
    [
        ((3, 9), TruncateTo(5, is_last=True)),  # the leader has all of it
        ((3, 4), TruncateTo(4, is_last=True)),  # the leader has less of our last epoch
        ((2, 8), TruncateTo(3, is_last=False)),  # an epoch that is not ours: below our next one, and ask again
        ((1, 3), TruncateTo(3, is_last=True)),
        ((1, 2), TruncateTo(2, is_last=True)),
        ((1, 4), TruncateTo(3, is_last=True)),  # the leader has more of an epoch that ended here
        ((0, 0), TruncateTo(0, is_last=True)),  # older than everything here
        ((-1, -1), TruncateTo(4, is_last=True)),  # the leader does not know: the high watermark
        ((-1, 2), TruncateTo(2, is_last=True)),  # an answer of v0, without an epoch
    ],
)
def test_where_the_log_is_cut(answer: tuple[int, int], cut: TruncateTo) -> None:
    asking = follower(two_epochs(), truncates_on_fetch=False)
    asking.on_epoch(*answer)
    assert asking.step == cut
    if answer[1] >= 0:
        fetching = follower(two_epochs())
        fetching.on_diverging(*answer)
        assert fetching.step == cut


def test_a_cut_that_was_not_the_last_asks_again_or_fetches() -> None:
    log = two_epochs()
    asking = follower(log, truncates_on_fetch=False)
    asking.on_epoch(2, 8)
    log.truncate_to(3)
    asking.on_truncated(0)
    assert asking.step == AskEpoch(1)
    log = two_epochs()
    fetching = follower(log)
    fetching.on_diverging(2, 8)
    log.truncate_to(3)
    fetching.on_truncated(0)
    assert fetching.step == Fetch(3, 1)
    assert fetching.retry_at_ms == 0


def test_a_cut_that_changed_nothing_pauses() -> None:
    state = follower(two_epochs())
    state.on_diverging(3, 9)  # nonsense: the log ends before
    state.on_truncated(500)
    assert state.step == Fetch(5, 3)
    assert state.retry_at_ms == 500 + BACKOFF_MS


def test_before_kip_595_a_fetch_names_no_epoch() -> None:
    log = two_epochs()
    state = follower(log, truncates_on_fetch=False)
    state.on_epoch(3, 9)
    state.on_truncated(0)
    assert state.step == Fetch(5, -1)


def test_records_move_the_fetch_on_and_tell_the_lag() -> None:
    log = two_epochs()
    state = follower(log)
    assert not state.is_in_sync
    assert state.on_fetched(5, 6, 0).restart_at is None
    log.append(4, "f")
    state.on_appended(8)
    assert (state.step, state.lag, state.is_in_sync) == (Fetch(6, 4), 2, False)
    state.on_appended(6)
    assert (state.lag, state.is_in_sync) == (0, True)


@pytest.mark.parametrize(
    ("batch", "restart_at"), [((3, 9), 3), ((5, 9), None), ((3, 4), None), ((-1, -1), None), ((0, 5), 0)]
)
def test_a_log_that_begins_within_a_batch_takes_the_whole_batch(batch: tuple[int, int], restart_at: int | None) -> None:
    empty = ModelLog(log_start_offset=5, high_watermark=5)
    state = follower(empty)
    state.on_truncated(0)
    assert state.on_fetched(*batch, 5).restart_at == restart_at
    # One that has records: they stay, unless the leader has deleted them all.
    assert follower(two_epochs()).on_fetched(*batch, 4).restart_at is None
    assert follower(two_epochs()).on_fetched(*batch, 5).restart_at == restart_at


def test_out_of_range_behind_the_leaders_end_cuts_to_it() -> None:
    state = follower(two_epochs())
    state.on_error(ErrorCode.OFFSET_OUT_OF_RANGE, 0)
    assert state.step == AskLatest()
    state.on_latest(2)
    assert state.step == TruncateTo(2, is_last=True)


def test_out_of_range_before_the_leaders_start_begins_anew() -> None:
    log = two_epochs()
    state = follower(log)
    state.on_error(ErrorCode.OFFSET_OUT_OF_RANGE, 0)
    state.on_latest(90)
    assert state.step == AskEarliest(90)
    state.on_earliest(20, 0)
    assert (state.step, state.lag) == (RestartAt(20), 70)
    log.restart_at(20)
    state.on_truncated(0)
    assert state.step == Fetch(20, -1)


def test_out_of_range_and_yet_in_range_is_tried_again_after_a_pause() -> None:
    state = follower(two_epochs())
    state.on_error(ErrorCode.OFFSET_OUT_OF_RANGE, 0)
    state.on_latest(5)
    state.on_earliest(5, 40)
    assert (state.step, state.lag, state.retry_at_ms) == (Fetch(5, 3), 0, 40 + BACKOFF_MS)


def asking_latest() -> FollowerState:
    state = follower(two_epochs())
    state.on_error(ErrorCode.OFFSET_OUT_OF_RANGE, 0)
    return state


def asking_earliest() -> FollowerState:
    state = asking_latest()
    state.on_latest(90)
    return state


ASKING = [
    lambda: follower(two_epochs()),
    lambda: follower(two_epochs(), truncates_on_fetch=False),
    asking_latest,
    asking_earliest,
]


@pytest.mark.parametrize("make", ASKING)
def test_a_leader_of_a_later_epoch_stops_following(make: type[FollowerState]) -> None:
    state = make()
    state.on_error(ErrorCode.FENCED_LEADER_EPOCH, 0)
    assert state.step == Stopped(ErrorCode.FENCED_LEADER_EPOCH)
    assert state.is_stopped


@pytest.mark.parametrize("make", ASKING)
@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        None,
    ],
)
def test_other_trouble_pauses_and_asks_the_same_again(make: type[FollowerState], error: ErrorCode | None) -> None:
    state = make()
    before = state.step
    if error is None:
        state.on_no_answer(70)
    else:
        state.on_error(error, 70)
    # How the leader's log ends is old by the time it is asked again where it begins.
    assert state.step == (AskLatest() if isinstance(before, AskEarliest) else before)
    assert state.retry_at_ms == 70 + BACKOFF_MS


@pytest.mark.parametrize("make", ASKING)
@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ],
)
def test_a_leader_that_does_not_know_yet_is_asked_again_soon_and_then_less_often(
    make: type[FollowerState], error: ErrorCode
) -> None:
    state = make()
    before = state.step
    pauses = []
    for _ in range(7):
        state.on_error(error, 500)
        pauses.append(state.retry_at_ms - 500)
    assert pauses == [50, 100, 200, 400, 800, BACKOFF_MS, BACKOFF_MS]
    assert state.step == (AskLatest() if isinstance(before, AskEarliest) else before)


@pytest.mark.parametrize(
    ("error", "is_stopped"),
    [
        (ErrorCode.CORRUPT_MESSAGE, False),
        (ErrorCode.INVALID_RECORD, False),
        (ErrorCode.KAFKA_STORAGE_ERROR, True),
        (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, True),
    ],
)
def test_what_the_log_refuses(error: ErrorCode, is_stopped: bool) -> None:
    state = follower(two_epochs())
    state.on_append_failed(error, 10)
    assert state.is_stopped == is_stopped
    if not is_stopped:
        assert (state.step, state.retry_at_ms) == (Fetch(5, 3), 10 + BACKOFF_MS)


def test_a_cut_that_fails_stops_following() -> None:
    state = follower(without_epochs())
    state.on_truncation_failed(ErrorCode.KAFKA_STORAGE_ERROR)
    assert state.step == Stopped(ErrorCode.KAFKA_STORAGE_ERROR)


# --- histories ---


class Cluster:
    """Three logs with elections of anybody at any time: what unclean elections and lost tails make of them."""

    def __init__(self, truncates_on_fetch: bool) -> None:
        self.logs = [ModelLog() for _ in range(3)]
        self.truncates_on_fetch = truncates_on_fetch
        self.epoch = -1
        self.leader = 0
        self.values = 0

    def elect(self, replica: int) -> None:
        self.epoch += 1
        self.leader = replica
        elect(self.logs[replica], self.epoch)

    def append(self, count: int) -> None:
        for _ in range(count):
            self.values += 1
            self.logs[self.leader].append(self.epoch, f"v{self.values}")

    def copy(self, replica: int, records_max: int) -> ModelFollower | None:
        if replica == self.leader:
            return None
        copying = ModelFollower(
            self.logs[replica],
            self.logs[self.leader],
            leader_epoch=self.epoch,
            truncates_on_fetch=self.truncates_on_fetch,
        )
        copying.catch_up(records_max)
        return copying

    def lose_tail(self, replica: int, count: int) -> None:
        """A crash with a loss of power."""
        log = self.logs[replica]
        log.truncate_to(max(log.log_end_offset - count, log.log_start_offset))

    def shorten(self, replica: int, count: int) -> None:
        """Retention."""
        log = self.logs[replica]
        log.delete_before(min(log.log_start_offset + count, log.log_end_offset))


REPLICAS = st.integers(0, 2)
COUNTS = st.integers(0, 5)
EVENTS = st.one_of(
    st.tuples(st.just("elect"), REPLICAS),
    st.tuples(st.just("append"), COUNTS),
    st.tuples(st.just("copy"), REPLICAS, COUNTS),
    st.tuples(st.just("lose_tail"), REPLICAS, COUNTS),
)


def play(cluster: Cluster, events: list[tuple[str, *tuple[int, ...]]]) -> None:
    cluster.elect(0)
    for name, *arguments in events:
        if name == "lose_tail" and arguments[0] == cluster.leader:
            cluster.elect((cluster.leader + 1) % 3)  # a leader that crashes leads no more
        getattr(cluster, name)(*arguments)


@settings(max_examples=300, deadline=None)
@given(st.lists(EVENTS, max_size=40), st.booleans())
def test_logs_converge_whatever_has_happened(
    events: list[tuple[str, *tuple[int, ...]]], truncates_on_fetch: bool
) -> None:
    cluster = Cluster(truncates_on_fetch)
    play(cluster, events)
    leader = cluster.logs[cluster.leader]
    for replica, log in enumerate(cluster.logs):
        if replica != cluster.leader:
            copying = cluster.copy(replica, 1 << 30)
            assert copying is not None
            assert copying.is_caught_up, copying.state
            assert log.records == leader.records


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(EVENTS, st.tuples(st.just("shorten"), REPLICAS, COUNTS)), max_size=40), st.booleans())
def test_with_retention_what_both_hold_is_the_same(
    events: list[tuple[str, *tuple[int, ...]]], truncates_on_fetch: bool
) -> None:
    cluster = Cluster(truncates_on_fetch)
    play(cluster, events)
    leader = cluster.logs[cluster.leader]
    for replica, log in enumerate(cluster.logs):
        if replica != cluster.leader:
            copying = cluster.copy(replica, 1 << 30)
            assert copying is not None
            assert log.log_end_offset == leader.log_end_offset
            assert same_records(log, leader)
