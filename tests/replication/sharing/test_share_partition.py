"""What a share partition answers and stores: acquisition, acknowledgement, release, expiry, archiving, loading."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from protocol.errors import ErrorCode, KafkaError
from protocol.share_states import AcknowledgeType, DeliveryState, ShareAcquireMode, StateBatch
from replication.sharing.acknowledgements import AckBatch
from replication.sharing.share_partition import ShareChange, ShareLimits, SharePartition, StoredShare

GAP, ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = DeliveryState
LIMITS = ShareLimits(delivery_count_limit=5, max_record_locks=2000)


def a_partition(
    *stored: tuple[int, int, DeliveryState, int], start: int = 0, limits: ShareLimits = LIMITS
) -> SharePartition:
    return SharePartition(StoredShare(0, start, 0, [StateBatch(*row) for row in stored]), limits)


def acquire(
    share: SharePartition,
    *batches: tuple[int, int],
    member: str = "m",
    max_records: int = 500,
    batch_size: int = 500,
    limited: bool = False,
    lock_until_ms: int = 30_000,
) -> list[tuple[int, int, int]]:
    mode = ShareAcquireMode.RECORD_LIMIT if limited else ShareAcquireMode.BATCH_OPTIMIZED
    return [
        (row.first, row.last, row.delivery_count)
        for row in share.acquire(
            member, batches, fetch_offset=share.next_fetch_offset(), max_records=max_records,
            batch_size=batch_size, mode=mode, lock_until_ms=lock_until_ms,
        )
    ]  # fmt: skip


def acknowledge(
    share: SharePartition, *batches: tuple[int, int, Sequence[int] | int], member: str = "m", until_ms: int = 60_000
) -> ShareChange:
    asked = [AckBatch(first, last, [types] if isinstance(types, int) else types) for first, last, types in batches]
    return share.acknowledge(member, asked, lock_until_ms=until_ms)


def settled(share: SharePartition, *batches: tuple[int, int, Sequence[int] | int], member: str = "m") -> ShareChange:
    change = acknowledge(share, *batches, member=member)
    change.succeeded()
    return change


# --- acquisition ---


@pytest.mark.parametrize(
    ("batches", "asked", "rows", "end"),
    [
        ([(0, 9)], {}, [(0, 9, 1)], 9),
        ([(0, 9), (10, 19), (20, 29)], {}, [(0, 29, 1)], 29),
        ([(0, 9), (10, 19), (20, 29)], {"batch_size": 10}, [(0, 9, 1), (10, 19, 1), (20, 29, 1)], 29),
        ([(0, 9), (10, 19), (20, 29)], {"batch_size": 15}, [(0, 19, 1), (20, 29, 1)], 29),
        ([(0, 9), (10, 19)], {"max_records": 5}, [(0, 9, 1)], 9),
        ([(0, 9), (10, 19)], {"max_records": 11}, [(0, 19, 1)], 19),
        ([(0, 9), (20, 29)], {"max_records": 12}, [(0, 11, 1)], 11),  # a gap of a compacted log
        ([(0, 9), (10, 19)], {"max_records": 5, "limited": True}, [(0, 4, 1)], 9),
        ([(0, 9), (10, 19)], {"max_records": 20, "limited": True, "batch_size": 1}, [(0, 19, 1)], 19),
        ([(0, 9)], {"max_records": 0}, [], 0),
        ([], {}, [], 0),
    ],
)
def test_new_records_are_acquired_by_record_batches_or_up_to_the_limit(
    batches: list[tuple[int, int]], asked: dict[str, int], rows: list[tuple[int, int, int]], end: int
) -> None:
    share = a_partition()

    assert acquire(share, *batches, **asked) == rows  # type: ignore[arg-type]
    assert share.end_offset == end


def test_what_is_acquired_is_read_by_nobody_else_and_what_is_left_of_a_limited_batch_is() -> None:
    share = a_partition()
    acquire(share, (0, 9), max_records=4, limited=True)

    assert share.next_fetch_offset() == 4
    assert acquire(share, (0, 9), (10, 19), member="n") == [(4, 9, 1), (10, 19, 1)]
    assert share.next_fetch_offset() == 20
    assert acquire(share, (0, 9), (10, 19)) == []


def test_the_first_record_batch_may_begin_before_the_start_offset() -> None:
    share = a_partition(start=5)

    assert acquire(share, (0, 9)) == [(5, 9, 1)]
    assert share.start_offset == 5


def test_the_first_record_batch_may_begin_before_what_is_left_of_a_batch_in_flight() -> None:
    share = a_partition((2, 4, AVAILABLE, 1), start=2)
    acquire(share, (0, 9), max_records=3)
    settled(share, (2, 2, ACCEPT), (3, 4, RELEASE))

    assert acquire(share, (0, 9)) == [(3, 4, 3), (5, 9, 1)]


def test_locks_are_limited_but_what_is_available_in_flight_can_be_acquired() -> None:
    share = a_partition(limits=ShareLimits(5, 20))
    assert acquire(share, (0, 9), (10, 19), (20, 29)) == [(0, 19, 1)]
    assert not share.may_acquire()
    assert acquire(share, (20, 29)) == []

    settled(share, (5, 5, RELEASE))

    assert share.may_acquire()
    assert share.next_fetch_offset() == 5
    assert acquire(share, (0, 9), (10, 19), (20, 29)) == [(5, 5, 2)]
    assert share.end_offset == 19


def test_released_batches_are_acquired_whole_unless_records_differ() -> None:
    share = a_partition()
    acquire(share, (0, 9), (10, 19), batch_size=10)
    settled(share, (0, 19, RELEASE))
    assert acquire(share, (0, 9), (10, 19)) == [(0, 9, 2), (10, 19, 2)]

    settled(share, (0, 7, RELEASE), (8, 19, RELEASE))
    assert acquire(share, (0, 9), (10, 19)) == [(0, 9, 3), (10, 19, 3)]


@pytest.mark.parametrize(
    ("limit", "deliveries", "rows"),
    [
        (5, 2, [(0, 15, 3)]),
        (5, 3, [(0, 7, 4)]),
        (5, 4, [(0, 0, 5)]),
        (6, 3, [(0, 7, 4)]),
        (6, 4, [(0, 3, 5)]),
        (2, 1, [(0, 15, 2)]),
    ],
)
def test_the_more_deliveries_the_fewer_records_at_a_time(
    limit: int, deliveries: int, rows: list[tuple[int, int, int]]
) -> None:
    share = a_partition((0, 15, AVAILABLE, deliveries), limits=ShareLimits(limit, 2000))

    assert acquire(share, (0, 15)) == rows


def test_a_batch_close_to_the_limit_ends_an_acquisition_that_has_something() -> None:
    share = a_partition((0, 3, AVAILABLE, 1), (4, 7, AVAILABLE, 3))

    assert acquire(share, (0, 7), (8, 11)) == [(0, 3, 2)]
    assert acquire(share, (0, 7), (8, 11)) == [(4, 5, 4)]


def test_records_that_were_compacted_away_are_archived() -> None:
    share = a_partition()
    acquire(share, (0, 9), (10, 19), batch_size=10)
    settled(share, (0, 19, RELEASE))

    assert acquire(share, (10, 19)) == [(10, 19, 2)]
    assert share.start_offset == 10


def test_all_that_was_in_flight_was_compacted_away() -> None:
    share = a_partition(limits=ShareLimits(5, 10))
    acquire(share, (0, 9))
    settled(share, (0, 9, RELEASE))

    assert acquire(share, (50, 59)) == [(50, 59, 1)]
    assert (share.start_offset, share.end_offset) == (50, 59)


@pytest.mark.parametrize(
    ("released", "max_records", "end"),
    [
        ((20, 29), 5, 30),
        ((0, 9), 5, 10),
        ((3, 9), 5, 10),
        ((3, 9), 10, 33),
        ((8, 12), 2, 10),
        ((8, 12), 3, 20),
        ((8, 12), 500, 30 + 495),
    ],
)
def test_what_is_worth_reading_ends_with_a_batch_in_flight_or_is_new(
    released: tuple[int, int], max_records: int, end: int
) -> None:
    share = a_partition()
    assert share.wanted_end(0, 500) == 500
    acquire(share, (0, 9), (10, 19), (20, 29), batch_size=10)
    assert share.wanted_end(30, 500) == 530
    settled(share, (*released, RELEASE))

    assert share.wanted_end(share.next_fetch_offset(), max_records) == end
    rows = acquire(share, *[(first, first + 9) for first in range(0, 600, 10)], max_records=max_records)
    assert rows[-1][1] < end + 10  # what is new ends with a record batch


# --- acknowledgement ---


def test_accepted_records_are_done_once_that_is_stored() -> None:
    share = a_partition()
    acquire(share, (0, 9))

    change = acknowledge(share, (0, 9, ACCEPT))

    assert change.batches == [(0, 9, ACKNOWLEDGED, 1)]
    assert (change.start_offset, change.delivery_complete_count) == (0, 10)
    assert (share.start_offset, share.next_fetch_offset(), share.acquired_count) == (0, 10, 0)
    change.succeeded()
    assert (share.start_offset, share.next_fetch_offset(), share.in_flight_count) == (10, 10, 0)
    assert share.delivery_complete_count == 0


def test_pending_records_are_acquired_and_acknowledged_by_nobody() -> None:
    share = a_partition()
    acquire(share, (0, 9))
    change = acknowledge(share, (0, 9, RELEASE))

    assert share.next_fetch_offset() == 10
    assert acquire(share, (0, 9)) == []
    with pytest.raises(KafkaError) as refused:
        acknowledge(share, (0, 9, ACCEPT))
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE
    change.succeeded()
    assert acquire(share, (0, 9), member="n") == [(0, 9, 2)]


def test_what_could_not_be_stored_is_taken_back() -> None:
    share = a_partition()
    acquire(share, (0, 9), lock_until_ms=100)
    change = acknowledge(share, (0, 9, [ACCEPT, ACCEPT, REJECT, GAP, RELEASE, RELEASE, *[ACCEPT] * 4]))
    assert share.next_deadline_ms() is None
    assert share.expire(99) is None

    change.failed()

    assert (share.acquired_count, share.delivery_complete_count, share.next_deadline_ms()) == (10, 0, 100)
    with pytest.raises(AssertionError):
        change.succeeded()
    assert settled(share, (0, 9, ACCEPT)).batches == [(0, 9, ACKNOWLEDGED, 1)]


def test_each_record_may_have_its_own_type() -> None:
    share = a_partition()
    acquire(share, (0, 5))

    change = settled(share, (0, 5, [ACCEPT, ACCEPT, REJECT, GAP, RELEASE, ACCEPT]))

    assert change.batches == [
        (0, 1, ACKNOWLEDGED, 1),
        (2, 3, ARCHIVED, 1),
        (4, 4, AVAILABLE, 1),
        (5, 5, ACKNOWLEDGED, 1),
    ]
    assert change.delivery_complete_count == 5
    assert (share.start_offset, share.next_fetch_offset(), share.delivery_complete_count) == (4, 4, 1)
    assert acquire(share, (0, 5), (6, 9)) == [(4, 4, 2), (6, 9, 1)]
    assert settled(share, (4, 4, ACCEPT)).start_offset == 4
    assert share.start_offset == 6


def test_a_release_after_the_last_delivery_archives() -> None:
    share = a_partition((0, 0, AVAILABLE, 4))
    acquire(share, (0, 0))

    assert settled(share, (0, 0, RELEASE)).batches == [(0, 0, ARCHIVED, 5)]
    assert share.start_offset == 1


def test_a_renewal_moves_the_end_of_the_lock_and_stores_nothing() -> None:
    share = a_partition()
    acquire(share, (0, 9), lock_until_ms=100)

    assert acknowledge(share, (0, 4, RENEW), until_ms=200).is_empty

    change = share.expire(100)
    assert change is not None
    assert change.batches == [(5, 9, AVAILABLE, 1)]
    assert share.next_deadline_ms() == 200


NOT_ACQUIRED = "The batch cannot be acknowledged. The batch is not in the acquired state."
NOT_FOUND = "Batch record not found. The request batch offsets are not found in the cache."
FIRST_PAST = "Batch record not found. The first offset in request is past acquired records."
LAST_PAST = "Batch record not found. The last offset in request is past acquired records."


@pytest.mark.parametrize(
    ("asked", "member", "code", "text"),
    [
        ((0, 9, ACCEPT), "n", ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of batch record"),
        ((10, 19, ACCEPT), "m", ErrorCode.INVALID_RECORD_STATE, NOT_ACQUIRED),
        ((20, 21, ACCEPT), "n", ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of offset"),
        (
            (22, 29, ACCEPT),
            "m",
            ErrorCode.INVALID_RECORD_STATE,
            "The offset cannot be acknowledged. The offset is not acquired.",
        ),
        ((0, 10, ACCEPT), "m", ErrorCode.INVALID_RECORD_STATE, NOT_ACQUIRED),
        ((30, 40, ACCEPT), "m", ErrorCode.INVALID_REQUEST, FIRST_PAST),
        ((20, 2**63 - 1, ACCEPT), "m", ErrorCode.INVALID_REQUEST, LAST_PAST),
        (
            (0, 9, RENEW),
            "m",
            ErrorCode.INVALID_RECORD_STATE,
            "Renewing acquisition locks is not enabled for the group.",
        ),
        ((0, 9, 5), "m", ErrorCode.INVALID_REQUEST, "Invalid acknowledge type: [5]"),
        ((0, 9, [ACCEPT, ACCEPT]), "m", ErrorCode.INVALID_REQUEST, "Invalid acknowledge type: [1, 1]"),
    ],
)
def test_refused_acknowledgements_change_nothing(
    asked: tuple[int, int, Sequence[int] | int], member: str, code: ErrorCode, text: str
) -> None:
    share = a_partition(limits=ShareLimits(5, 2000, can_renew=False))
    acquire(share, (0, 9), (10, 19), (20, 29), batch_size=10)
    settled(share, (10, 19, RELEASE), (25, 25, RELEASE))
    before = (share.acquired_count, share.delivery_complete_count, share.next_fetch_offset())

    with pytest.raises(KafkaError) as refused:
        acknowledge(share, asked, member=member)

    assert (refused.value.code, refused.value.message) == (code, text)
    assert (share.acquired_count, share.delivery_complete_count, share.next_fetch_offset()) == before


def test_acknowledgements_of_what_is_gone_are_passed_over_and_more_than_can_be_in_flight_are_refused() -> None:
    share = a_partition(start=10_000)
    assert acknowledge(share, *[(offset, offset, ACCEPT) for offset in range(10_000)]).is_empty

    acquire(share, (10_000, 10_009))
    renewals = [(10_000, 10_000, RENEW)] * 1_000
    assert acknowledge(share, *renewals).is_empty
    with pytest.raises(KafkaError) as refused:
        acknowledge(share, *renewals, (10_000, 10_000, RENEW))
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_nothing_is_found_before_what_is_in_flight() -> None:
    share = a_partition(start=10)
    with pytest.raises(KafkaError) as refused:
        acknowledge(share, (10, 12, ACCEPT))
    assert (refused.value.code, refused.value.message) == (ErrorCode.INVALID_RECORD_STATE, NOT_FOUND)
    assert acknowledge(share, (0, 9, ACCEPT)).is_empty  # before the start offset: passed over


def test_one_refused_batch_takes_back_those_before_it() -> None:
    share = a_partition()
    acquire(share, (0, 9), lock_until_ms=100)

    with pytest.raises(KafkaError):
        acknowledge(share, (0, 4, ACCEPT), (4, 9, REJECT))

    assert (share.acquired_count, share.delivery_complete_count, share.next_deadline_ms()) == (10, 0, 100)


# --- release, expiry, archiving ---


def test_a_closed_session_gives_back_its_records() -> None:
    share = a_partition()
    acquire(share, (0, 9), (10, 19), batch_size=10)
    acquire(share, (20, 29), member="n")
    settled(share, (3, 3, ACCEPT))

    change = share.release("m")

    assert change is not None
    assert change.batches == [(0, 2, AVAILABLE, 1), (4, 19, AVAILABLE, 1)]
    change.failed()
    assert share.acquired_count == 29
    change = share.release("m")
    assert change is not None
    change.succeeded()
    assert share.release("m") is None
    assert acquire(share, (0, 9), (10, 19), (20, 29), member="o")[-1] == (10, 19, 2)


def test_an_ended_lock_makes_available_or_archives_at_once() -> None:
    share = a_partition((0, 0, AVAILABLE, 4))
    acquire(share, (0, 0), lock_until_ms=100)
    acquire(share, (1, 9), lock_until_ms=200)
    assert share.expire(99) is None

    change = share.expire(200)

    assert change is not None
    assert change.batches == [(0, 0, ARCHIVED, 5), (1, 9, AVAILABLE, 1)]
    assert (change.start_offset, change.delivery_complete_count) == (0, 1)
    assert (share.next_deadline_ms(), share.next_fetch_offset()) == (None, 1)
    change.failed()  # holds anyway
    assert share.start_offset == 1
    assert acquire(share, (1, 9)) == [(1, 9, 2)]


def test_a_lock_that_ended_while_an_acknowledgement_was_pending_has_ended_when_that_fails() -> None:
    share = a_partition((0, 0, AVAILABLE, 4))
    acquire(share, (0, 0), lock_until_ms=100)
    acquire(share, (1, 9), lock_until_ms=100)
    change = acknowledge(share, (0, 9, ACCEPT))
    assert share.expire(150) is None

    change.failed()

    assert (share.next_deadline_ms(), share.start_offset, share.delivery_complete_count) == (None, 1, 0)
    assert acquire(share, (1, 9)) == [(1, 9, 2)]


def test_records_of_aborted_transactions_are_archived() -> None:
    share = a_partition()
    acquire(share, (0, 9), (10, 19))

    change = share.archive([(0, 4), (12, 13)])

    assert change is not None
    assert change.batches == [(0, 4, ARCHIVED, 1), (12, 13, ARCHIVED, 1)]
    change.succeeded()
    assert (share.start_offset, share.acquired_count, share.delivery_complete_count) == (5, 13, 2)
    assert share.archive([(0, 4)]) is None


def test_the_log_start_passes_by_what_is_in_flight() -> None:
    share = a_partition()
    acquire(share, (0, 9), (10, 19), (20, 29), batch_size=10)
    settled(share, (5, 7, ACCEPT), (10, 19, RELEASE))
    change = acknowledge(share, (0, 4, ACCEPT))

    share.advance_log_start(15)

    assert (share.start_offset, share.acquired_count, share.delivery_complete_count) == (15, 10, 0)
    change.failed()
    assert (share.acquired_count, share.delivery_complete_count) == (10, 0)
    assert acknowledge(share, (0, 14, ACCEPT)).is_empty
    assert acquire(share, (10, 19)) == [(15, 19, 2)]
    share.advance_log_start(10)
    assert share.start_offset == 15
    share.advance_log_start(100)
    assert (share.start_offset, share.end_offset, share.next_fetch_offset()) == (100, 100, 100)
    assert (share.acquired_count, share.in_flight_count) == (0, 0)


# --- loading ---


def test_what_is_done_at_the_beginning_is_not_loaded() -> None:
    share = a_partition((0, 4, ACKNOWLEDGED, 1), (5, 9, AVAILABLE, 2), (10, 10, ARCHIVED, 5))

    assert (share.start_offset, share.end_offset, share.next_fetch_offset()) == (5, 10, 5)
    assert share.delivery_complete_count == 1
    assert acquire(share, (0, 9), (10, 19)) == [(5, 9, 3), (11, 19, 1)]


def test_gaps_between_stored_batches_are_read_again() -> None:
    share = a_partition((10, 14, ACKNOWLEDGED, 1), (20, 24, AVAILABLE, 1), start=5)

    assert share.next_fetch_offset() == 5
    assert acquire(share, (0, 9), max_records=3) == [(5, 9, 1)]
    assert share.next_fetch_offset() == 15
    assert acquire(share, (15, 30)) == [(15, 19, 1), (20, 24, 2), (25, 30, 1)]
    settled(share, (5, 9, ACCEPT))
    assert share.start_offset == 15


def test_gaps_that_no_record_has_are_passed_by() -> None:
    share = a_partition((20, 24, ACKNOWLEDGED, 1), (30, 34, AVAILABLE, 1), start=5)

    assert acquire(share, (20, 24)) == []
    assert share.start_offset == 25
    assert share.next_fetch_offset() == 25
    assert acquire(share, (30, 34)) == [(30, 34, 2)]
    settled(share, (30, 34, ACCEPT))
    assert (share.start_offset, share.next_fetch_offset()) == (35, 35)


def test_stored_batches_are_cut_to_what_can_be_in_flight() -> None:
    share = a_partition((0, 4, ACKNOWLEDGED, 1), (3, 9, ACQUIRED, 1), (30, 20, AVAILABLE, 1), start=2)

    assert (share.start_offset, share.end_offset) == (5, 9)
    assert acquire(share, (0, 9)) == [(5, 9, 2)]
