"""ShareFetch: sessions, acquisition of records by batch and by record, and what is acknowledged on the way."""

from __future__ import annotations

import time
from typing import Any

from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.share_fetch import ShareFetchRequest
from protocol.primitives import ZERO_UUID
from tests.differential.batches import Batch, Rec, batch
from tests.differential.newer.offsets import NOBODYS_ID
from tests.differential.newer.share_members import (
    ACCEPT,
    GAP,
    LEAVE,
    RELEASE,
    Partition,
    ShareMember,
    another,
    member_id,
    reading,
)
from tests.differential.newer.transactions import Producer
from tests.differential.play import Run, newer_case

BATCHES, RECORDS = 0, 1
"""Modes of acquisition."""
SOON_MS = 300
"""For what is there: another fetch may look at the partition just now."""


def values(count: int) -> bytes:
    return batch(*(b"%d" % number for number in range(count)))


def acquired(answer: Any) -> list[list[int]]:
    rows = [row for topic in answer.responses for row in topic.partitions]
    return [[each.first_offset, each.last_offset, each.delivery_count] for row in rows for each in row.acquired_records]


def until_acquired(member: ShareMember, partition: Partition, count: int) -> None:
    """Note what is acquired when so many records are; a fetch that comes too early waits in vain."""
    rows: list[list[int]] = []

    def are_there() -> bool:
        rows.extend(acquired(member.fetch(partition, max_wait_ms=200)))
        return sum(last - first + 1 for first, last, _ in rows) >= count

    member.run.until("there are records", are_there)
    member.run.note(sorted([offset, number] for first, last, number in rows for offset in range(first, last + 1)))


@newer_case(ShareFetchRequest)
def a_session_from_its_opening_to_its_end(run: Run) -> None:
    member, topic, topic_id = reading(run)
    at = topic_id, 0
    run.produce(topic, values(3))
    member.ask_fetch(at)
    member.ask_fetch(max_wait_ms=0, acknowledged={at: [(0, 2, [ACCEPT])]})
    run.produce(topic, values(2))
    member.ask_fetch()
    member.ask_fetch(max_wait_ms=0)
    member.ask_fetch(share_session_epoch=LEAVE, acknowledged={at: [(3, 3, [ACCEPT])]})
    member.ask_fetch(share_session_epoch=LEAVE)
    member.session_epoch = 0
    until_acquired(member, at, 1)


@newer_case(ShareFetchRequest)
def sessions_that_are_not_there(run: Run) -> None:
    member, topic, topic_id = reading(run)
    at = topic_id, 0
    run.produce(topic, values(3))
    member.ask_fetch(at, share_session_epoch=1, max_wait_ms=0)
    member.ask_fetch(at, share_session_epoch=LEAVE, max_wait_ms=0)
    member.ask_fetch(at, share_session_epoch=-2, max_wait_ms=0)
    member.ask_fetch(at)
    member.ask_fetch(at, share_session_epoch=2, max_wait_ms=0)
    member.ask_fetch(at, share_session_epoch=7, max_wait_ms=0)
    member.ask_fetch(at, max_wait_ms=0)
    member.ask_fetch(at, share_session_epoch=1, max_wait_ms=0)
    member.ask_fetch(at, share_session_epoch=0, max_wait_ms=500)
    member.ask_fetch(share_session_epoch=0, max_wait_ms=0)
    member.ask_fetch(share_session_epoch=1, max_wait_ms=0)


@newer_case(ShareFetchRequest)
def members_and_groups_that_are_none(run: Run) -> None:
    member, topic, topic_id = reading(run)
    at = topic_id, 0
    run.produce(topic, values(3))
    for fields in (
        {"group_id": None},
        {"group_id": ""},
        {"member_id": None},
        {"member_id": ""},
        {"member_id": "no uuid"},
        {"member_id": "m" * 37},
        {"member_id": member_id(run, "other")},
        {"group_id": run.name("other")},
    ):
        member.wire = run.connect()
        member.ask_fetch(at, **{**fields, "share_session_epoch": 0, "max_wait_ms": 500})


@newer_case(ShareFetchRequest)
def partitions_that_are_not_there(run: Run) -> None:
    member, topic, topic_id = reading(run)
    run.produce(topic, values(1))
    member.ask_fetch((topic_id, 0), (topic_id, 5))
    member.ask_fetch(max_wait_ms=0)
    member.ask_fetch(max_wait_ms=0, forgotten=[(topic_id, 5), (topic_id, 0)])
    member.ask_fetch(max_wait_ms=0)
    member.acknowledge({(topic_id, 0): [(0, 0, [RELEASE])]})
    member.ask_fetch((topic_id, 0), (topic_id, -1), share_session_epoch=0)


@newer_case(ShareFetchRequest)
def topics_that_are_not_there(run: Run) -> None:
    member, topic, topic_id = reading(run)
    run.produce(topic, values(1))
    member.ask_fetch((NOBODYS_ID, 0), (topic_id, 0))
    member.ask_fetch((ZERO_UUID, 0), share_session_epoch=0, max_wait_ms=500)


@newer_case(ShareFetchRequest)
def partitions_that_are_forgotten_and_read_again(run: Run) -> None:
    member, topic, topic_id = reading(run, 2)
    run.produce(topic, values(2), 0)
    run.produce(topic, values(3), 1)
    member.ask_fetch((topic_id, 0))
    member.ask_fetch((topic_id, 1))
    member.ask_fetch(max_wait_ms=0, forgotten=[(topic_id, 0)], acknowledged={(topic_id, 1): [(0, 2, [ACCEPT])]})
    member.acknowledge({(topic_id, 0): [(0, 1, [RELEASE])]})
    member.ask_fetch((topic_id, 0))


@newer_case(ShareFetchRequest)
def what_is_acknowledged_with_the_first_request(run: Run) -> None:
    member, topic, topic_id = reading(run)
    run.produce(topic, values(1))
    member.ask_fetch((topic_id, 0), acknowledged={(topic_id, 0): [(0, 0, [ACCEPT])]}, max_wait_ms=0)
    member.ask_fetch((topic_id, 0))


@newer_case(ShareFetchRequest)
def batches_are_acquired_whole(run: Run) -> None:
    member, topic, topic_id = reading(run)
    at = topic_id, 0
    for count in (3, 4, 5):
        run.produce(topic, values(count))
    member.ask_fetch(at, max_records=1)
    member.ask_fetch(max_records=5)
    member.ask_fetch(max_records=5, max_wait_ms=0)
    member.acknowledge({at: [(1, 1, [RELEASE]), (4, 5, [RELEASE])]})
    member.ask_fetch(max_wait_ms=SOON_MS, max_records=1)
    member.ask_fetch(max_wait_ms=SOON_MS, max_records=1)


@newer_case(ShareFetchRequest)
def rows_as_large_as_wanted(run: Run) -> None:
    member, topic, topic_id = reading(run)
    at = topic_id, 0
    for count in (3, 4, 5, 10):
        run.produce(topic, values(count))
    member.ask_fetch(at, batch_size=4)
    member.acknowledge({at: [(0, 21, [RELEASE])]})
    member.ask_fetch(batch_size=1)
    member.acknowledge({at: [(0, 21, [RELEASE])]})
    member.ask_fetch(batch_size=7, max_records=8)
    member.ask_fetch(batch_size=0, max_records=8)


@newer_case(ShareFetchRequest)
def numbers_that_make_no_sense(run: Run) -> None:
    member, topic, topic_id = reading(run)
    at = topic_id, 0
    for count in (3, 2):
        run.produce(topic, values(count))
    member.fetch(at)
    member.acknowledge({at: [(0, 4, [RELEASE])]})
    member.ask_fetch(max_records=0, max_wait_ms=500)
    member.ask_fetch(max_records=-1, max_wait_ms=500)
    member.ask_fetch(max_bytes=0, max_wait_ms=500)
    member.ask_fetch(min_bytes=-1, max_wait_ms=-1)


@newer_case(ShareFetchRequest)
def as_many_bytes_as_wanted(run: Run) -> None:
    member, topic, topic_id = reading(run)
    at = topic_id, 0
    for _ in range(4):
        run.produce(topic, batch(b"x" * 1000))
    member.ask_fetch(at, max_bytes=1)
    member.ask_fetch(max_bytes=2500)
    member.ask_fetch(max_bytes=2500)


@newer_case(ShareFetchRequest, "2")
def records_are_acquired_as_many_as_wanted(run: Run) -> None:
    member, topic, topic_id = reading(run)
    at = topic_id, 0
    for count in (3, 4, 5):
        run.produce(topic, values(count))
    member.ask_fetch(at, share_acquire_mode=RECORDS, max_records=1)
    member.ask_fetch(share_acquire_mode=RECORDS, max_records=5)
    member.ask_fetch(share_acquire_mode=RECORDS, max_records=2, batch_size=1)
    member.acknowledge({at: [(1, 1, [RELEASE]), (4, 5, [RELEASE])]})
    member.ask_fetch(share_acquire_mode=RECORDS, max_records=3, max_wait_ms=SOON_MS)
    member.ask_fetch(share_acquire_mode=RECORDS, max_records=100, max_wait_ms=SOON_MS)
    member.ask_fetch(share_acquire_mode=RECORDS, max_records=3, max_wait_ms=0)


@newer_case(ShareFetchRequest, "2")
def modes_that_are_none(run: Run) -> None:
    member, topic, topic_id = reading(run)
    run.produce(topic, values(3))
    for mode in (2, -1):
        member.ask_fetch((topic_id, 0), share_acquire_mode=mode, max_wait_ms=0)


@newer_case(ShareFetchRequest, "2")
def records_of_more_partitions_than_one(run: Run) -> None:
    member, topic, topic_id = reading(run, 2)
    first, second = ((topic_id, index) for index in (0, 1))
    for _, index in (first, second):
        run.produce(topic, values(3), index)
    other = ShareMember(run, member.group, "m2", topic)
    for each in (first, second):  # both are loaded
        other.fetch(each)
        other.acknowledge({each: [(0, 2, [RELEASE])]})
    member.ask_fetch(first, second, share_acquire_mode=RECORDS, max_records=2)
    member.ask_fetch(share_acquire_mode=RECORDS, max_records=2)
    member.ask_fetch(share_acquire_mode=RECORDS, max_records=100)


@newer_case(ShareFetchRequest)
def records_of_two_members(run: Run) -> None:
    first, topic, topic_id = reading(run)
    at = topic_id, 0
    second = ShareMember(run, first.group, "m2", topic)
    for _ in range(2):
        run.produce(topic, values(3))
    first.ask_fetch(at, max_records=1)
    second.ask_fetch(at, max_records=1)
    second.ask_fetch(max_wait_ms=0, acknowledged={at: [(0, 2, [ACCEPT])]})
    first.acknowledge({at: [(0, 2, [RELEASE])]})
    second.ask_fetch(max_wait_ms=SOON_MS)
    second.ask_fetch(max_wait_ms=0)


@newer_case(ShareFetchRequest)
def a_session_that_ends_gives_its_records_back(run: Run) -> None:
    first, topic, topic_id = reading(run)
    at = topic_id, 0
    second = ShareMember(run, first.group, "m2", topic)
    run.produce(topic, values(3))
    second.fetch(at)
    second.wire.close()
    until_acquired(first, at, 3)
    first.ask_fetch(share_session_epoch=LEAVE, acknowledged={at: [(0, 0, [ACCEPT]), (1, 1, [RELEASE])]})
    first.session_epoch = 0
    until_acquired(first, at, 2)


@newer_case(ShareFetchRequest)
def deliveries_up_to_the_limit(run: Run) -> None:
    member, topic, topic_id = reading(run, delivery_count_limit="3")
    at = topic_id, 0
    run.produce(topic, values(4))
    member.ask_fetch(at)
    for _ in range(7):
        member.ask_acknowledge({at: [(0, 3, [RELEASE])]})
        member.ask_fetch(max_wait_ms=SOON_MS)
    run.produce(topic, values(1))
    member.ask_fetch()


@newer_case(ShareFetchRequest)
def deliveries_of_a_large_batch_near_the_limit(run: Run) -> None:
    member, topic, topic_id = reading(run)
    at = topic_id, 0
    run.produce(topic, values(20))
    answer = member.ask_fetch(at)
    for _ in range(9):
        member.acknowledge({at: [(first, last, [RELEASE]) for first, last, _ in acquired(answer)]})
        answer = member.ask_fetch(max_wait_ms=SOON_MS)


@newer_case(ShareFetchRequest, "2")
def deliveries_one_by_one_near_the_limit(run: Run) -> None:
    member, topic, topic_id = reading(run, delivery_count_limit="3")
    at = topic_id, 0
    run.produce(topic, values(6))
    answer = member.ask_fetch(at, share_acquire_mode=RECORDS, max_records=6)
    for _ in range(5):
        member.acknowledge({at: [(first, last, [RELEASE]) for first, last, _ in acquired(answer)]})
        answer = member.ask_fetch(max_wait_ms=SOON_MS, share_acquire_mode=RECORDS, max_records=3)


@newer_case(ShareFetchRequest)
def offsets_between_records(run: Run) -> None:
    member, topic, topic_id = reading(run)
    at = topic_id, 0
    with_gaps = Batch(records=[Rec(value=b"a"), Rec(value=b"b")], last_offset_delta=1).encode()
    run.produce(topic, with_gaps)
    run.produce(topic, values(3))
    member.ask_fetch(at)
    member.ask_acknowledge({at: [(0, 1, [GAP]), (2, 4, [ACCEPT, GAP, RELEASE])]})
    member.ask_fetch(max_wait_ms=0)


def deleted_before(run: Run, topic: str, offset: int) -> None:
    rows = [DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])]
    run.do(DeleteRecordsRequest(topics=rows, timeout_ms=10_000))


@newer_case(ShareFetchRequest)
def records_that_were_deleted(run: Run) -> None:
    member, topic, topic_id = reading(run)
    at = topic_id, 0
    for _ in range(3):
        run.produce(topic, values(3))
    member.ask_fetch(at, max_records=1)
    deleted_before(run, topic, 3)
    until_acquired(member, at, 6)
    member.ask_acknowledge({at: [(0, 2, [RELEASE]), (3, 5, [RELEASE])]})
    until_acquired(member, at, 3)


@newer_case(ShareFetchRequest)
def records_that_were_deleted_up_to_the_middle_of_a_batch(run: Run) -> None:
    member, topic, topic_id = reading(run)
    at = topic_id, 0
    for _ in range(3):
        run.produce(topic, values(3))
    member.fetch(at, max_records=1)
    deleted_before(run, topic, 4)
    until_acquired(member, at, 5)


@newer_case(ShareFetchRequest)
def records_of_transactions(run: Run) -> None:
    topic = run.topic("t")
    topic_id = run.last_topic_id
    at = topic_id, 0
    readers = [
        another(run, run.group(f"g{number}"), "m", topic, isolation_level=level)
        for number, level in enumerate(("read_committed", "read_uncommitted"))
    ]
    producer = Producer(run)
    producer.begin()
    for is_committed in (True, False, True):
        run.do(producer.writing(topic, b"a", b"b"), 12)
        producer.end(committed=is_committed)
    run.do(producer.writing(topic, b"c"), 12)
    for reader in readers:
        reader.ask_fetch(at)
        reader.ask_fetch(max_wait_ms=SOON_MS)


@newer_case(ShareFetchRequest)
def where_a_group_begins(run: Run) -> None:
    topic = run.topic("t")
    topic_id = run.last_topic_id
    run.produce(topic, batch(b"old"))
    now_ms = int(time.time() * 1000)
    run.produce(topic, batch(b"young", base_timestamp=now_ms))
    for number, reset in enumerate(("latest", "earliest", "by_duration:PT1H", "by_duration:P20000D")):
        member = another(run, run.group(f"g{number}"), "m", topic, auto_offset_reset=reset)
        member.ask_fetch((topic_id, 0), max_wait_ms=500)
    for_latest = ShareMember(run, run.name("g0"), "m2", topic)
    run.produce(topic, batch(b"new", base_timestamp=now_ms))
    for_latest.ask_fetch((topic_id, 0))


@newer_case(ShareFetchRequest)
def where_a_group_begins_after_the_last_record(run: Run) -> None:
    topic = run.topic("t")
    run.produce(topic, batch(b"old"))
    member = another(run, run.group(), "m", topic, auto_offset_reset="by_duration:PT0S")
    member.ask_fetch((run.last_topic_id, 0), max_wait_ms=500)


@newer_case(ShareFetchRequest)
def as_many_locks_as_allowed(run: Run) -> None:
    member, topic, topic_id = reading(run, partition_max_record_locks="100")
    at = topic_id, 0
    for _ in range(4):
        run.produce(topic, values(60))
    member.ask_fetch(at, max_records=1)
    member.ask_fetch(max_records=1)
    member.ask_fetch(max_records=1, max_wait_ms=500)
    member.acknowledge({at: [(10, 40, [ACCEPT])]})
    member.ask_fetch(max_records=1, max_wait_ms=500)
    member.acknowledge({at: [(0, 9, [ACCEPT])]})
    member.ask_fetch(max_records=1)


@newer_case(ShareFetchRequest, "1")
def more_sessions_than_allowed(run: Run) -> None:
    topic = run.topic("t")
    topic_id = run.last_topic_id
    group = run.group()
    another(run, group, "m", topic)
    run.produce(topic, values(1))

    members = [ShareMember(run, group, f"m{number}", topic) for number in range(100)]

    def are_open() -> bool:  # sessions of cases before end a moment after their connections
        asked = [run.do(each.fetching((topic_id, 0), max_wait_ms=0), 1, wire=each.wire).error_code for each in members]
        return asked == [0] * len(members)

    run.until("there are as many as allowed", are_open)
    late = ShareMember(run, group, "late", topic)
    late.ask_fetch((topic_id, 0), max_wait_ms=0)
    late.ask_fetch((topic_id, 0), max_wait_ms=0, share_session_epoch=LEAVE)
