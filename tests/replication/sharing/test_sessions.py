"""Share sessions: their epochs, what they read, and their end."""

from __future__ import annotations

import pytest

from protocol.errors import ErrorCode, KafkaError
from replication.sharing.sessions import (
    INT32_MAX,
    PARTITIONS_MAX,
    SESSION_PARTITIONS_MAX,
    PartitionKey,
    ShareSessions,
    next_epoch,
)

TOPIC = bytes(15) + b"\x01"
A, B, C = (PartitionKey(TOPIC, number) for number in range(3))


def refusal(*args: object, sessions: ShareSessions, **options: object) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        sessions.resolve(*args, **options)  # type: ignore[arg-type]
    return refused.value.code


def test_a_session_reads_what_was_named_and_not_forgotten_each_time_another_first() -> None:
    sessions = ShareSessions(10)

    assert sessions.resolve("g", "m", 0, [A, B, A], [], 1).partitions == [A, B]
    assert sessions.resolve("g", "m", 1, [C], [A], 1).partitions == [C, B]
    assert sessions.resolve("g", "m", 2, [], [], 1).partitions == [B, C]
    assert (len(sessions), sessions.partitions_count) == (1, 2)


def test_epochs_are_in_order() -> None:
    sessions = ShareSessions(10)
    assert refusal("g", "m", 1, [], [], 1, sessions=sessions) is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert refusal("g", "m", -1, [], [], 1, sessions=sessions) is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert refusal("g", "m", 0, [], [], 1, sessions=sessions, has_acknowledgements=True) is ErrorCode.INVALID_REQUEST
    sessions.resolve("g", "m", 0, [A], [], 1)

    first = sessions.resolve("g", "m", 1, [], [], 1)
    assert [first.is_current] == [True]
    assert refusal("g", "m", 1, [], [], 1, sessions=sessions) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    sessions.acknowledge("g", "m", 2, 1)
    assert [first.is_current] == [False]
    for epoch, code in [(0, ErrorCode.INVALID_SHARE_SESSION_EPOCH), (2, ErrorCode.INVALID_SHARE_SESSION_EPOCH)]:
        with pytest.raises(KafkaError) as refused:
            sessions.acknowledge("g", "m", epoch, 1)
        assert refused.value.code is code
    sessions.acknowledge("g", "m", -1, 1)
    assert sessions.resolve("g", "m", 3, [], [], 1).partitions == [A]
    assert (next_epoch(INT32_MAX), next_epoch(-1)) == (1, -1)


def test_the_final_fetch_reads_nothing_and_the_session_is_closed_once() -> None:
    sessions = ShareSessions(10)
    sessions.resolve("g", "m", 0, [A], [], 1)

    final = sessions.resolve("g", "m", -1, [], [], 1)

    assert (final.partitions, final.is_current) == ([], True)
    assert final.include(A, has_records=False, has_error=False)
    assert list(sessions.close("g", "m").partitions) == [A]
    assert not sessions.has_any("g")
    with pytest.raises(KafkaError):
        sessions.close("g", "m")
    assert sessions.disconnect(1) == []


def test_the_limit_holds_but_a_member_may_begin_again() -> None:
    sessions = ShareSessions(1)
    sessions.resolve("g", "m", 0, [A], [], 1)

    assert refusal("g", "n", 0, [], [], 1, sessions=sessions) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert sessions.resolve("g", "m", 0, [B], [], 2).partitions == [B]
    assert sessions.disconnect(1) == []
    assert [list(session.partitions) for session in sessions.disconnect(2)] == [[B]]
    assert (len(sessions), sessions.evictions_count) == (0, 1)


def test_made_up_partitions_are_bounded() -> None:
    sessions = ShareSessions(100)
    many = [PartitionKey(TOPIC, number) for number in range(SESSION_PARTITIONS_MAX + 1)]
    sessions.resolve("g", "m", 0, many[:-1], [], 1)

    assert refusal("g", "m", 1, many, [], 1, sessions=sessions) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert len(sessions.resolve("g", "m", 1, many[:5], many[:2], 1).partitions) == len(many) - 3
    assert refusal("g", "n", 0, many, [], 1, sessions=sessions) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert sessions.partitions_count == len(many) - 3
    for number in range(PARTITIONS_MAX // len(many)):
        sessions.resolve("g", f"m{number}", 0, many[:-1], [], 1)
    assert refusal("g", "n", 0, many[:-1], [], 1, sessions=sessions) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    sessions.disconnect(1)
    assert sessions.partitions_count == 0


def test_a_session_ends_with_the_connection_that_used_it_last() -> None:
    sessions = ShareSessions(10)
    sessions.resolve("g", "m", 0, [A], [], "old")
    sessions.resolve("g", "n", 0, [A], [], "old")
    sessions.resolve("g", "m", 1, [], [], "new")

    assert [session.member_id for session in sessions.disconnect("old")] == ["n"]
    assert [sessions.has_any(group_id) for group_id in ("g", "h")] == [True, False]
    assert [session.member_id for session in sessions.clear()] == ["m"]
    assert [sessions.has_any("g")] == [False]
    assert sessions.disconnect("new") == []


def test_an_answer_has_news_records_and_errors_and_what_had_an_error() -> None:
    sessions = ShareSessions(10)
    first = sessions.resolve("g", "m", 0, [A], [], 1)
    assert first.include(A, has_records=False, has_error=False)
    second = sessions.resolve("g", "m", 1, [B], [], 1)
    assert [second.include(key, has_records=False, has_error=False) for key in (A, B)] == [False, True]
    third = sessions.resolve("g", "m", 2, [], [], 1)
    assert [
        third.include(A, has_records=True, has_error=False),
        third.include(B, has_records=False, has_error=True),
    ] == [True] * 2
    fourth = sessions.resolve("g", "m", 3, [], [], 1)
    assert fourth.partitions == [A, B]  # A has moved behind B, and the third of two begins with the second
    assert [fourth.include(key, has_records=False, has_error=False) for key in (A, B)] == [False, True]
    fifth = sessions.resolve("g", "m", 4, [], [], 1)
    assert [fifth.include(key, has_records=False, has_error=False) for key in (A, B)] == [False, False]
