"""Incremental fetch sessions (KIP-227)."""

from __future__ import annotations

import random
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, PartitionData
from replication.fetch_sessions import EVICTION_AGE_MS, FetchItem, FetchSessions, ResolvedFetch
from replication.waiting.delayed_queues import Watcher


def request(
    *partitions: int,
    session_id: int = 0,
    epoch: int = 0,
    offset: int = 0,
    forget: tuple[int, ...] = (),
    topic_id: bytes = b"",
) -> FetchRequest:
    topic = {"topic_id": topic_id} if topic_id else {"topic": "t"}
    asked = [FetchPartition(partition=p, fetch_offset=offset, partition_max_bytes=1000) for p in partitions]
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(**topic, partitions=asked)] if asked else [],
        forgotten_topics_data=[ForgottenTopic(**topic, partitions=list(forget))] if forget else [],
    )


def answer(high_watermark: int = 5, error: ErrorCode = ErrorCode.NONE) -> PartitionData:
    return PartitionData(
        partition_index=0, error_code=error, high_watermark=high_watermark, log_start_offset=0, records=b""
    )


def included(sessions: FetchSessions, resolved: ResolvedFetch, **kwargs: int) -> list[int]:
    high_watermark, records = kwargs.get("high_watermark", 5), kwargs.get("records", 0)
    return [
        item.partition for item in resolved.items if sessions.include(resolved, item, answer(high_watermark), records)
    ]


def sessions_of(slots: int = 10) -> FetchSessions:
    return FetchSessions(slots, random.Random(1))


def test_a_session_answers_only_what_changed() -> None:
    sessions = sessions_of()
    first = sessions.resolve(request(0, 1), 12, 0)
    assert first.session_id > 0
    assert included(sessions, first) == [0, 1]
    second = sessions.resolve(request(session_id=first.session_id, epoch=1), 12, 1)
    assert [item.partition for item in second.items] == [0, 1]
    assert included(sessions, second) == []
    third = sessions.resolve(request(session_id=first.session_id, epoch=2), 12, 2)
    assert included(sessions, third, high_watermark=6) == [0, 1]


def test_an_error_is_answered_again_after_it_is_gone() -> None:
    sessions = sessions_of()
    first = sessions.resolve(request(0), 12, 0)
    included(sessions, first)
    second = sessions.resolve(request(session_id=first.session_id, epoch=1), 12, 1)
    assert sessions.include(second, second.items[0], answer(5, ErrorCode.NOT_LEADER_OR_FOLLOWER), 0)
    third = sessions.resolve(request(session_id=first.session_id, epoch=2), 12, 2)
    assert included(sessions, third) == [0]


def test_a_partition_that_gave_records_is_read_last_next_time() -> None:
    sessions = sessions_of()
    first = sessions.resolve(request(0, 1, 2), 12, 0)
    assert sessions.include(first, first.items[0], answer(), 100)
    second = sessions.resolve(request(session_id=first.session_id, epoch=1), 12, 1)
    assert [item.partition for item in second.items] == [1, 2, 0]


def test_partitions_are_added_changed_and_forgotten() -> None:
    sessions = sessions_of()
    first = sessions.resolve(request(0, 1), 12, 0)
    second = sessions.resolve(request(1, 2, session_id=first.session_id, epoch=1, offset=7, forget=(0,)), 12, 1)
    assert [(item.partition, item.fetch_offset) for item in second.items] == [(1, 7), (2, 7)]


def test_a_session_without_partitions_ends() -> None:
    sessions = sessions_of()
    first = sessions.resolve(request(0), 12, 0)
    emptied = sessions.resolve(request(session_id=first.session_id, epoch=1, forget=(0,)), 12, 1)
    assert emptied.session_id == 0
    assert len(sessions) == 0


def test_wrong_id_epoch_and_topic_ids_are_refused() -> None:
    sessions = sessions_of()
    first = sessions.resolve(request(0), 12, 0)

    def error(**kwargs: int) -> ErrorCode:
        version = kwargs.pop("version", 12)
        return sessions.resolve(request(**kwargs), version, 1).error  # type: ignore[arg-type]

    assert error(session_id=first.session_id + 1, epoch=1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert error(session_id=first.session_id, epoch=2) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert error(session_id=first.session_id, epoch=1, version=13) == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_epoch_minus_one_ends_the_session() -> None:
    sessions = sessions_of()
    first = sessions.resolve(request(0), 12, 0)
    last = sessions.resolve(request(0, session_id=first.session_id, epoch=-1), 12, 1)
    assert last.session_id == 0
    assert included(sessions, last) == [0]
    assert len(sessions) == 0


def test_a_full_cache_gives_no_session_until_one_is_stale() -> None:
    sessions = sessions_of(slots=1)
    first = sessions.resolve(request(0), 12, 0)
    assert sessions.resolve(request(0), 12, EVICTION_AGE_MS).session_id == 0
    late = sessions.resolve(request(0), 12, EVICTION_AGE_MS + 1)
    assert late.session_id not in (0, first.session_id)
    assert sessions.evictions_count == 1


def test_a_larger_session_replaces_a_smaller_one_that_has_lived_long_enough() -> None:
    sessions = sessions_of(slots=1)
    first = sessions.resolve(request(0), 12, 0)
    for epoch in range(1, 4):  # used all the time, so never stale
        sessions.resolve(request(session_id=first.session_id, epoch=epoch), 12, epoch * EVICTION_AGE_MS // 2)
    assert sessions.resolve(request(0), 12, EVICTION_AGE_MS * 3 // 2 + 2).session_id == 0
    assert sessions.resolve(request(0, 1), 12, EVICTION_AGE_MS * 3 // 2 + 2).session_id > 0


def test_a_fetch_parked_while_its_session_moved_on_is_not_current() -> None:
    sessions = sessions_of()
    first = sessions.resolve(request(0), 12, 0)
    parked = sessions.resolve(request(session_id=first.session_id, epoch=1), 12, 1)
    assert sessions.is_current(parked)
    sessions.resolve(request(session_id=first.session_id, epoch=2), 12, 2)
    assert not sessions.is_current(parked)


def test_a_partition_named_twice_counts_once() -> None:
    sessions = sessions_of()
    resolved = sessions.resolve(request(0, 0), 6, 0)
    assert [item.partition for item in resolved.items] == [0]
    assert isinstance(resolved.items[0], FetchItem)


def test_sessions_by_topic_id() -> None:
    sessions = sessions_of()
    first = sessions.resolve(request(0, topic_id=b"i" * 16), 13, 0)
    assert first.items[0].key == (b"i" * 16, 0)
    assert included(sessions, first) == [0]


def test_followers_sessions_take_the_place_of_consumers_and_not_the_other_way_round() -> None:
    sessions = sessions_of(slots=1)
    sessions.resolve(request(0, 1, 2), 12, 0)
    follower = request(0)
    follower.replica_id = 2
    mine = sessions.resolve(follower, 12, 1)
    assert mine.session_id > 0
    assert sessions.resolve(request(*range(9)), 12, 2).session_id == 0
    for epoch in range(1, 5):  # used all the time, so never stale
        sessions.resolve(request(session_id=mine.session_id, epoch=epoch), 12, epoch * EVICTION_AGE_MS // 2)
    assert sessions.resolve(request(*range(9)), 12, EVICTION_AGE_MS * 2).session_id == 0
    larger = request(*range(9))
    larger.replica_id = 3
    assert sessions.resolve(larger, 12, EVICTION_AGE_MS * 2).session_id > 0


def test_a_session_remembers_where_a_followers_log_starts() -> None:
    sessions = sessions_of()
    first = sessions.resolve(request(0), 12, 0)
    changed = request(0, session_id=first.session_id, epoch=1)
    changed.topics[0].partitions[0].log_start_offset = 8
    sessions.resolve(changed, 12, 1)
    third = sessions.resolve(request(session_id=first.session_id, epoch=2), 12, 2)
    assert third.items[0].log_start_offset == 8


def test_an_answer_that_says_nothing_new_is_known_before_it_is_made() -> None:
    sessions = sessions_of()
    first = sessions.resolve(request(0), 12, 0)
    assert not sessions.is_unchanged(first, first.items[0], -1, -1)  # a full fetch answers everything
    assert included(sessions, first, high_watermark=5) == [0]
    second = sessions.resolve(request(session_id=first.session_id, epoch=1), 12, 1)
    assert sessions.is_unchanged(second, second.items[0], 5, 0)
    assert not sessions.is_unchanged(second, second.items[0], 6, 0)
    assert not sessions.is_unchanged(second, second.items[0], 5, 1)


# --- what is looked at ---


def told(sessions: FetchSessions, resolved: ResolvedFetch, *, has_more: tuple[int, ...] = ()) -> list[int]:
    """Answer everything that was taken, and settle it."""
    for item in resolved.items:
        sessions.include(resolved, item, answer(), 0)
        resolved.session.settle(item, has_more=item.partition in has_more)
    sessions.end(resolved)
    return [item.partition for item in resolved.items]


def again(sessions: FetchSessions, resolved: ResolvedFetch, *named: int, **more: Any) -> ResolvedFetch:
    """The next fetch of the session."""
    return sessions.resolve(
        request(*named, session_id=resolved.session_id, epoch=resolved.expected_epoch, **more), 12, 1
    )


def test_only_what_was_touched_named_or_has_more_is_looked_at() -> None:
    sessions = sessions_of()
    first = sessions.resolve(request(0, 1, 2, 3), 12, 0)
    assert told(sessions, first, has_more=(3,)) == [0, 1, 2, 3]
    second = again(sessions, first)
    assert told(sessions, second) == [3]
    first.items[2].touch()
    first.items[0].touch()
    first.items[2].touch()
    third = again(sessions, second, 1)
    assert told(sessions, third) == [0, 1, 2]
    assert told(sessions, again(sessions, third)) == []


def test_what_is_touched_while_it_is_answered_is_looked_at_next_time() -> None:
    sessions = sessions_of()
    first = sessions.resolve(request(0), 12, 0)
    first.items[0].touch()
    told(sessions, first)
    assert told(sessions, again(sessions, first)) == [0]


def test_a_client_that_asks_in_another_manner_has_been_told_nothing_in_it() -> None:
    sessions = sessions_of()
    first = sessions.resolve(request(0, 1), 12, 0)
    told(sessions, first)
    changed = request(session_id=first.session_id, epoch=1)
    changed.isolation_level = 1
    assert told(sessions, sessions.resolve(changed, 12, 1)) == [0, 1]


def test_touching_tells_who_waits() -> None:
    sessions = sessions_of()
    resolved = sessions.resolve(request(0), 12, 0)
    (item,) = resolved.items
    assert (item.touch(), item.is_parked) == (None, False)
    resolved.session.parked = waiting = Waiting()
    assert (item.touch(), item.is_parked) == (waiting, True)
    sessions.end(resolved)
    assert item.touch() is None


class Waiting:
    def on_progress(self) -> None:
        raise AssertionError


def test_an_item_watches_one_list_at_a_time_and_none_when_its_session_is_over() -> None:
    sessions = sessions_of()
    resolved = sessions.resolve(request(0, 1), 12, 0)
    item, other = resolved.items
    one: dict[Watcher, None] = {}
    two: dict[Watcher, None] = {}
    item.watch(one)
    item.watch(one)
    other.watch(one)
    item.watch(two)
    assert (list(one), list(two)) == ([other], [item])
    told(sessions, resolved)
    again(sessions, resolved, forget=(1,))
    assert (list(one), list(two)) == ([], [item])
    sessions.resolve(request(0, session_id=resolved.session_id), 12, 2)  # begins anew; the fetch before is under way
    assert list(two) == [item]
    resolved.expected_epoch = 2
    sessions.end(resolved)
    assert list(two) == []
