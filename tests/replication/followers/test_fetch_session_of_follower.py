"""The follower's end of a fetch session, against the leader's."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest
from protocol.topic_partition import TopicPartition
from replication.fetch_sessions import FetchSessions
from replication.followers.fetch_session_of_follower import INT32_MAX, FollowerSession, SessionRequest, Wanted

ID, OTHER_ID = bytes(range(16)), bytes(range(16, 32))


def wanted(offset: int = 0, topic_id: bytes = ID) -> Wanted:
    return Wanted(topic_id, offset, -1, 0, 0, 100)


def named(part: SessionRequest | None) -> list[tuple[str, int, int]]:
    assert part is not None
    return [(topic.topic, row.partition, row.fetch_offset) for topic in part.topics for row in topic.partitions]


def forgotten(part: SessionRequest | None) -> list[tuple[str, bytes, int]]:
    assert part is not None
    return [(topic.topic, topic.topic_id, index) for topic in part.forgotten for index in topic.partitions]


def opened(*keys: TopicPartition) -> FollowerSession:
    session = FollowerSession()
    for key in keys:
        session.want(key, wanted())
    part = session.request(may_use_topic_ids=True)
    assert part is not None
    assert (part.session_id, part.session_epoch) == (0, 0)
    assert session.on_response(ErrorCode.NONE, 7)
    return session


def test_the_first_request_names_everything_and_the_next_what_has_changed() -> None:
    session = opened(("t", 0), ("t", 1), ("u", 0))
    session.want(("t", 1), wanted(5))
    session.want(("u", 0), wanted(0))  # as it was
    part = session.request(may_use_topic_ids=True)
    assert part is not None
    assert (part.session_id, part.session_epoch) == (7, 1)
    assert named(part) == [("t", 1, 5)]
    assert session.on_response(ErrorCode.NONE, 7)
    part = session.request(may_use_topic_ids=True)
    assert part is not None
    assert part.session_epoch == 2
    assert named(part) == []


def test_an_answer_counts_for_what_is_still_wanted_as_it_was_asked() -> None:
    session = opened(("t", 0), ("t", 1), ("t", 2))
    session.want(("t", 0), wanted(5))
    session.forget(("t", 1))
    assert [session.is_sent(("t", index)) for index in range(4)] == [False, False, True, False]
    session.request(may_use_topic_ids=True)
    assert [session.is_sent(("t", index)) for index in range(3)] == [True, False, True]
    session.forget(("t", 0))
    session.want(("t", 0), wanted(5))  # the same again, of another assignment
    assert not session.is_sent(("t", 0))


def test_partitions_are_forgotten_once_and_may_come_back() -> None:
    session = opened(("t", 0), ("t", 1))
    session.forget(("t", 1))
    part = session.request(may_use_topic_ids=True)
    assert forgotten(part) == [("t", ID, 1)]
    session.on_response(ErrorCode.NONE, 7)
    assert forgotten(session.request(may_use_topic_ids=True)) == []
    session.on_response(ErrorCode.NONE, 7)
    session.want(("t", 1), wanted(3))
    assert named(session.request(may_use_topic_ids=True)) == [("t", 1, 3)]
    session.on_response(ErrorCode.NONE, 7)
    session.forget(("t", 1))
    session.want(("t", 1), wanted(4))
    part = session.request(may_use_topic_ids=True)
    assert (named(part), forgotten(part)) == ([("t", 1, 4)], [])


def test_a_partition_that_the_leader_never_heard_of_need_not_be_forgotten() -> None:
    session = opened(("t", 0))
    session.want(("t", 1), wanted())
    session.forget(("t", 1))
    part = session.request(may_use_topic_ids=True)
    assert (named(part), forgotten(part)) == ([], [])


def test_a_topic_made_anew_is_another_one() -> None:
    session = opened(("t", 0))
    session.want(("t", 0), wanted(topic_id=OTHER_ID))
    part = session.request(may_use_topic_ids=True)
    assert (named(part), forgotten(part)) == ([("t", 0, 0)], [("t", ID, 0)])
    assert session.topic_of(OTHER_ID) == "t"
    # Where partitions are named it is the same one.
    session = FollowerSession()
    session.want(("t", 0), wanted())
    session.request(may_use_topic_ids=False)
    session.on_response(ErrorCode.NONE, 7)
    session.want(("t", 0), wanted(topic_id=OTHER_ID))
    part = session.request(may_use_topic_ids=False)
    assert (named(part), forgotten(part)) == ([("t", 0, 0)], [])


def test_one_topic_without_an_id_takes_ids_from_all() -> None:
    session = opened(("t", 0))
    session.want(("old", 0), wanted(topic_id=bytes(16)))
    part = session.request(may_use_topic_ids=True)
    assert part is not None
    assert (part.session_id, part.session_epoch, part.uses_topic_ids) == (7, 0, False)
    assert named(part) == [("t", 0, 0), ("old", 0, 0)]
    session.on_response(ErrorCode.NONE, 8)
    session.want(("old", 0), wanted(topic_id=OTHER_ID))  # it has got one
    part = session.request(may_use_topic_ids=True)
    assert part is not None
    assert (part.session_epoch, part.uses_topic_ids) == (0, True)


def test_errors_begin_a_new_session() -> None:
    session = opened(("t", 0))
    assert not session.on_response(ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0)
    part = session.request(may_use_topic_ids=True)
    assert part is not None
    assert (part.session_id, part.session_epoch) == (7, 0)  # the leader drops the old one
    assert not session.on_response(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    part = session.request(may_use_topic_ids=True)
    assert part is not None
    assert (part.session_id, part.session_epoch) == (0, 0)
    session.on_no_answer()
    assert named(session.request(may_use_topic_ids=True)) == [("t", 0, 0)]


def test_a_leader_without_room_for_a_session_gets_everything_each_time() -> None:
    session = FollowerSession()
    session.want(("t", 0), wanted())
    for _ in range(3):
        part = session.request(may_use_topic_ids=True)
        assert part is not None
        assert (part.session_id, part.session_epoch) == (0, 0)
        assert named(part) == [("t", 0, 0)]
        assert session.on_response(ErrorCode.NONE, 0)


def test_nothing_is_asked_when_nothing_is_wanted() -> None:
    session = FollowerSession()
    assert session.request(may_use_topic_ids=True) is None
    session = opened(("t", 0))
    session.forget(("t", 0))
    assert forgotten(session.request(may_use_topic_ids=True)) == [("t", ID, 0)]
    session.on_response(ErrorCode.NONE, 0)
    assert session.request(may_use_topic_ids=True) is None


def test_epochs_go_round() -> None:
    session = opened(("t", 0))
    session._next_epoch = INT32_MAX
    session.request(may_use_topic_ids=True)
    session.on_response(ErrorCode.NONE, 7)
    part = session.request(may_use_topic_ids=True)
    assert part is not None
    assert part.session_epoch == 1


KEYS = st.tuples(st.sampled_from("tu"), st.integers(0, 2))
CHANGES = st.one_of(
    st.tuples(st.just("want"), KEYS, st.integers(0, 3)),
    st.tuples(st.just("forget"), KEYS),
    st.tuples(st.just("remake"), st.sampled_from("tu")),
    st.tuples(st.just("exchange")),
    st.tuples(st.just("lose")),
    st.tuples(st.just("evict")),
)


@given(st.lists(CHANGES, max_size=40), st.booleans())
def test_the_leader_always_reads_what_the_follower_wants(
    changes: list[tuple[str, *tuple[object, ...]]], may_use_topic_ids: bool
) -> None:
    """Against the leader's sessions: after each exchange both know the same partitions with the same offsets."""
    session, leader = FollowerSession(), FetchSessions(4, random.Random(1))
    ids = {"t": bytes([1]) * 16, "u": bytes([2]) * 16}
    for name, *arguments in changes:
        match name, arguments:
            case "want", [(str(topic), int(index)), int(offset)]:
                session.want((topic, index), wanted(offset, ids[topic]))
            case "forget", [key]:
                session.forget(key)  # type: ignore[arg-type]
            case "remake", [str(topic)]:
                ids[topic] = bytes([ids[topic][0] + 2 & 0xFF]) * 16
                for key, row in list(session.wanted.items()):
                    if key[0] == topic:
                        session.want(key, replace(row, topic_id=ids[topic]))
            case "evict", _:
                leader = FetchSessions(4, random.Random(2))
            case _:
                part = session.request(may_use_topic_ids=may_use_topic_ids)
                if part is None:
                    continue
                version = 17 if part.uses_topic_ids else 12
                request = FetchRequest(
                    max_wait_ms=1, min_bytes=1, session_id=part.session_id, session_epoch=part.session_epoch,
                    topics=part.topics, forgotten_topics_data=part.forgotten,
                )  # fmt: skip
                resolved = leader.resolve(FetchRequest.decode(request.encode(version), version), version, 0)
                if name == "lose":
                    session.on_no_answer()
                    continue
                if not session.on_response(resolved.error, resolved.session_id):
                    continue
                read = {
                    (item.topic or session.topic_of(item.topic_id), item.partition): item.fetch_offset
                    for item in resolved.items
                }
                assert read == {key: row.fetch_offset for key, row in session.wanted.items()}
