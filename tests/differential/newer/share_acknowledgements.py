"""ShareAcknowledge: every type and every error, locks that run out and locks that are renewed."""

from __future__ import annotations

from collections.abc import Sequence

from protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from protocol.primitives import ZERO_UUID
from tests.differential.newer.offsets import NOBODYS_ID
from tests.differential.newer.share_fetches import SOON_MS, acquired, until_acquired, values
from tests.differential.newer.share_members import (
    ACCEPT,
    GAP,
    LEAVE,
    REJECT,
    RELEASE,
    RENEW,
    ShareMember,
    member_id,
    reading,
)
from tests.differential.play import Run, newer_case

FARTHEST = (1 << 63) - 1


def again(member: ShareMember) -> None:
    """Note what is acquired now."""
    member.run.note(acquired(member.fetch(max_wait_ms=SOON_MS)))


@newer_case(ShareAcknowledgeRequest)
def records_in_each_way(run: Run) -> None:
    member, topic, topic_id = reading(run)
    at = topic_id, 0
    run.produce(topic, values(10))
    member.fetch(at)
    member.ask_acknowledge({at: [(0, 1, [ACCEPT]), (2, 2, [RELEASE]), (3, 4, [REJECT]), (5, 5, [GAP])]})
    again(member)
    member.ask_acknowledge({at: [(6, 9, [ACCEPT, RELEASE, REJECT, GAP])]})
    again(member)
    member.ask_acknowledge({at: [(2, 2, [ACCEPT])]})
    again(member)
    member.ask_acknowledge({at: [(7, 7, [ACCEPT])]})
    again(member)


@newer_case(ShareAcknowledgeRequest)
def records_that_are_not_the_members(run: Run) -> None:
    member, topic, topic_id = reading(run)
    at = topic_id, 0
    for _ in range(3):
        run.produce(topic, values(4))
    other = ShareMember(run, member.group, "m2", topic)
    member.fetch(at, max_records=1)
    other.fetch(at, max_records=1)
    for rows in (
        [(4, 7, [ACCEPT])],
        [(5, 5, [ACCEPT])],
        [(0, 7, [ACCEPT])],
        [(8, 11, [ACCEPT])],
        [(0, 11, [ACCEPT])],
        [(100, 200, [ACCEPT])],
        [(0, 1, [ACCEPT]), (4, 4, [ACCEPT])],
    ):
        member.ask_acknowledge({at: rows})
    member.ask_acknowledge({at: [(0, 1, [ACCEPT])]})
    member.ask_acknowledge({at: [(0, 1, [ACCEPT])]})
    member.ask_acknowledge({at: [(1, 2, [ACCEPT])]})
    member.ask_acknowledge({at: [(2, 3, [RELEASE])]})
    member.ask_acknowledge({at: [(2, 3, [ACCEPT])]})


@newer_case(ShareAcknowledgeRequest)
def rows_that_make_no_sense(run: Run) -> None:
    member, topic, topic_id = reading(run)
    at = topic_id, 0
    run.produce(topic, values(8))
    member.fetch(at)
    rows: Sequence[Sequence[tuple[int, int, Sequence[int]]]] = (
        [],
        [(1, 0, [ACCEPT])],
        [(-1, 0, [ACCEPT])],
        [(0, 1, [])],
        [(0, 1, [ACCEPT, ACCEPT, ACCEPT])],
        [(0, 2, [ACCEPT, ACCEPT])],
        [(0, 1, [5])],
        [(0, 1, [-1])],
        [(0, 1, [ACCEPT, 9])],
        [(0, 1, [ACCEPT]), (1, 2, [ACCEPT])],
        [(2, 3, [ACCEPT]), (0, 1, [ACCEPT])],
        [(0, 1, [ACCEPT]), (0, 1, [ACCEPT])],
        [(0, FARTHEST, [ACCEPT])],
        [(FARTHEST, FARTHEST, [ACCEPT])],
        [(-FARTHEST, FARTHEST, [ACCEPT])],
    )
    for each in rows:
        member.ask_acknowledge({at: each})
    member.ask_acknowledge({})
    member.ask_acknowledge({at: [(0, 7, [ACCEPT])]})


@newer_case(ShareAcknowledgeRequest)
def sessions_that_are_not_there(run: Run) -> None:
    member, topic, topic_id = reading(run)
    at = topic_id, 0
    run.produce(topic, values(4))
    accepted = {at: [(0, 0, [ACCEPT])]}
    for epoch in (0, 1, LEAVE, -2):
        member.ask_acknowledge(accepted, share_session_epoch=epoch)
    member.fetch(at)
    for epoch in (0, 2, 7, -2):
        member.ask_acknowledge(accepted, share_session_epoch=epoch)
    member.ask_acknowledge(accepted)
    member.ask_acknowledge(accepted, share_session_epoch=1)
    member.ask_acknowledge({at: [(1, 1, [ACCEPT])]}, share_session_epoch=LEAVE)
    member.ask_acknowledge({at: [(2, 2, [ACCEPT])]})
    member.session_epoch = 0
    until_acquired(member, at, 2)


@newer_case(ShareAcknowledgeRequest)
def members_and_groups_that_are_none(run: Run) -> None:
    member, topic, topic_id = reading(run)
    at = topic_id, 0
    run.produce(topic, values(4))
    member.fetch(at)
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
        member.ask_acknowledge({at: [(0, 0, [ACCEPT])]}, **{**fields, "share_session_epoch": 1})


@newer_case(ShareAcknowledgeRequest)
def partitions_that_are_not_there(run: Run) -> None:
    member, topic, topic_id = reading(run, 2)
    run.produce(topic, values(4))
    member.fetch((topic_id, 0))
    row = [(0, 0, [ACCEPT])]
    member.ask_acknowledge(
        {(topic_id, 0): row, (topic_id, 1): row, (topic_id, 9): row, (NOBODYS_ID, 0): row, (ZERO_UUID, 0): row}
    )


@newer_case(ShareAcknowledgeRequest)
def locks_that_run_out(run: Run) -> None:
    member, topic, topic_id = reading(run, record_lock_duration_ms="1000")
    at = topic_id, 0
    run.produce(topic, values(4))
    other = ShareMember(run, member.group, "m2", topic)
    member.fetch(at)
    member.acknowledge({at: [(1, 1, [ACCEPT])]})
    until_acquired(other, at, 3)
    member.ask_acknowledge({at: [(0, 0, [ACCEPT])]})
    other.ask_acknowledge({at: [(0, 0, [ACCEPT])]})


@newer_case(ShareAcknowledgeRequest, "1")
def renewed_in_the_first_version(run: Run) -> None:
    member, topic, topic_id = reading(run)
    run.produce(topic, values(4))
    member.fetch((topic_id, 0))
    member.ask_acknowledge({(topic_id, 0): [(0, 0, [RENEW])]})
    member.ask_acknowledge({(topic_id, 0): [(0, 3, [ACCEPT])]})


@newer_case(ShareAcknowledgeRequest, "2")
def locks_that_are_renewed(run: Run) -> None:
    member, topic, topic_id = reading(run)
    at = topic_id, 0
    run.produce(topic, values(6))
    member.fetch(at)
    member.ask_acknowledge({at: [(0, 1, [RENEW])]}, is_renew_ack=True)
    member.ask_acknowledge({at: [(0, 1, [RENEW])]})
    member.ask_acknowledge({at: [(0, 1, [ACCEPT])]}, is_renew_ack=True)
    member.ask_acknowledge({at: [(0, 1, [RENEW])]}, is_renew_ack=True)
    member.ask_acknowledge({at: [(2, 5, [RENEW, ACCEPT, RELEASE, RENEW])]}, is_renew_ack=True)
    member.ask_acknowledge({at: [(2, 2, [ACCEPT]), (5, 5, [ACCEPT])]})
    again(member)


@newer_case(ShareAcknowledgeRequest, "2")
def locks_that_may_not_be_renewed(run: Run) -> None:
    member, topic, topic_id = reading(run, renew_acknowledge_enable="false")
    at = topic_id, 0
    run.produce(topic, values(4))
    member.fetch(at)
    member.ask_acknowledge({at: [(0, 1, [RENEW])]}, is_renew_ack=True)
    member.ask_acknowledge({at: [(0, 1, [ACCEPT])]})


@newer_case(ShareAcknowledgeRequest, "2")
def renewed_by_a_fetch(run: Run) -> None:
    member, topic, topic_id = reading(run)
    at = topic_id, 0
    run.produce(topic, values(4))
    member.fetch(at)
    member.ask_fetch(acknowledged={at: [(0, 0, [RENEW])]}, is_renew_ack=True, max_wait_ms=0)
    none = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    member.ask_fetch(acknowledged={at: [(0, 0, [RENEW])]}, is_renew_ack=True, **none)
    member.ask_fetch(acknowledged={at: [(0, 0, [RENEW])]}, **none)
    member.ask_fetch(acknowledged={at: [(0, 0, [RENEW]), (1, 1, [ACCEPT])]}, is_renew_ack=True, **none)
    member.ask_fetch(max_wait_ms=0)
