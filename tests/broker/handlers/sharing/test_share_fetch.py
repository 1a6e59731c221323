"""ShareFetch and ShareAcknowledge on the leader: sessions, waiting, what is acquired, stored and released."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from config.offset_reset import OffsetReset
from protocol.errors import ErrorCode, KafkaError
from protocol.share_states import AcknowledgeType, DeliveryState, StateBatch
from replication.sharing.share_partition import StoredShare
from storage.log.reading.log_reading import LogReading
from tests.async_tests import played_by
from tests.broker.handlers.sharing_world import Member, SharingBroker, sharing_broker
from tests.storage.logs import values_of

Scenario = Callable[[SharingBroker], Awaitable[None]]
ACCEPT, RELEASE, REJECT, RENEW = (
    AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT, AcknowledgeType.RENEW,
)  # fmt: skip


def play(folder: Path, scenario: Scenario, **settings: Any) -> None:
    async def run() -> None:
        async with sharing_broker(folder, **settings) as around:
            await scenario(around)

    asyncio.run(run())


def acquired(response: Any) -> list[tuple[int, int, int]]:
    """The rows of the only partition; none when it is left out."""
    assert response is not None, "the fetch waits"
    assert response.error_code == 0, response.error_code
    return [
        (row.first_offset, row.last_offset, row.delivery_count)
        for topic in response.responses
        for partition in topic.partitions
        for row in partition.acquired_records
    ]


def values(response: Any) -> list[str]:
    [row] = response.responses[0].partitions
    return [value for _, value in values_of(bytes(row.records or b""))]


def outcome(response: Any) -> tuple[int, int]:
    """The errors of the fetch and of the acknowledgement in the only row."""
    [row] = response.responses[0].partitions
    return row.error_code, row.acknowledge_error_code


async def loaded(member: Member, **more: Any) -> Any:
    """The first fetch of a session: it begins to load the partition, and waits for that."""
    return await member.fetch(wait_ms=500, **more).now()


@played_by(play, "tmp_path")
async def test_a_member_gets_what_is_there_and_the_next_one_what_is_left(around: SharingBroker) -> None:
    await around.broker.one.append("a", "b")
    await around.broker.one.append("c")
    first, second = around.member("m1"), around.member("m2")
    response = await loaded(first, records=2)
    assert (acquired(response), values(response)) == ([(0, 1, 1)], ["a", "b"])
    assert response.acquisition_lock_timeout_ms == 30_000
    response = await loaded(second)
    assert (acquired(response), values(response)) == ([(2, 2, 1)], ["c"])


@played_by(play, "tmp_path")
async def test_a_fetch_waits_until_there_are_records_and_no_longer_than_it_says(around: SharingBroker) -> None:
    member = around.member("m")
    assert acquired(await member.fetch().now()) == []  # it is being loaded
    waiting = member.fetch(wait_ms=500)
    assert await waiting.now() is None
    await around.broker.one.append("a")
    assert acquired(await waiting.now()) == [(0, 0, 1)]
    waiting = member.fetch(wait_ms=500)
    assert await waiting.now() is None
    around.broker.wait(500)
    response = await waiting.now()
    assert (response.error_code, response.responses) == (0, [])


@played_by(play, "tmp_path")
async def test_an_acknowledgement_is_answered_when_it_is_stored(around: SharingBroker) -> None:
    await around.broker.one.append("a", "b", "c")
    member = around.member("m")
    await loaded(member)
    around.states.is_held = True
    waiting = member.acknowledge((0, 1, ACCEPT), (2, 2, REJECT))
    assert await waiting.now() is None
    around.states.settle()
    [row] = (await waiting.now()).responses[0].partitions
    assert row.error_code == 0
    [written] = around.states.written
    assert written.batches == [
        StateBatch(0, 1, DeliveryState.ACKNOWLEDGED, 1), StateBatch(2, 2, DeliveryState.ARCHIVED, 1),
    ]  # fmt: skip


@played_by(play, "tmp_path")
async def test_records_that_are_released_come_again_to_whoever_waits(around: SharingBroker) -> None:
    await around.broker.one.append("a", "b")
    first, second = around.member("m1"), around.member("m2")
    await loaded(first)
    waiting = second.fetch(wait_ms=500)
    assert await waiting.now() is None
    [row] = (await first.acknowledge((0, 0, ACCEPT), (1, 1, RELEASE)).now()).responses[0].partitions
    assert row.error_code == 0
    assert acquired(await waiting.now()) == [(1, 1, 2)]


@played_by(play, "tmp_path")
async def test_what_could_not_be_stored_is_still_acquired(around: SharingBroker) -> None:
    await around.broker.one.append("a")
    member = around.member("m")
    await loaded(member)
    around.states.error = ErrorCode.NOT_COORDINATOR
    [row] = (await member.acknowledge((0, 0, ACCEPT)).now()).responses[0].partitions
    assert row.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    around.states.error = ErrorCode.NONE
    [row] = (await member.acknowledge((0, 0, ACCEPT)).now()).responses[0].partitions
    assert row.error_code == 0


@played_by(play, "tmp_path")
async def test_a_leader_that_is_fenced_reads_anew_what_is_stored(around: SharingBroker) -> None:
    await around.broker.one.append("a", "b")
    member = around.member("m")
    await loaded(member)
    around.states.error = ErrorCode.FENCED_STATE_EPOCH
    await member.acknowledge((0, 0, ACCEPT)).now()
    around.states.error = ErrorCode.NONE
    around.states.stored = StoredShare(2, 1, 0, [])
    assert acquired(await member.fetch(wait_ms=500).now()) == [(1, 1, 1)]


@played_by(play, "tmp_path")
async def test_locks_that_run_out_give_the_records_to_others(around: SharingBroker) -> None:
    await around.broker.one.append("a")
    first, second = around.member("m1"), around.member("m2")
    await loaded(first)
    waiting = second.fetch(wait_ms=60_000)
    assert await waiting.now() is None
    around.broker.turns.advance(30_000)
    assert acquired(await waiting.now()) == [(0, 0, 2)]
    [row] = (await first.acknowledge((0, 0, ACCEPT)).now()).responses[0].partitions
    assert row.error_code == ErrorCode.INVALID_RECORD_STATE


@played_by(play, "tmp_path")
async def test_renewed_locks_hold_for_another_time(around: SharingBroker) -> None:
    await around.broker.one.append("a")
    first, second = around.member("m1"), around.member("m2")
    await loaded(first)
    around.broker.turns.advance(20_000)
    renewed = await first.fetch(
        (0, 0, RENEW), is_renew_ack=True, max_bytes=0, min_bytes=0, max_records=0, batch_size=0
    ).now()
    assert outcome(renewed) == (0, 0)
    waiting = second.fetch(wait_ms=60_000)
    around.broker.turns.advance(29_000)
    assert await waiting.now() is None
    around.broker.turns.advance(1_100)
    assert acquired(await waiting.now()) == [(0, 0, 2)]


@played_by(play, "tmp_path")
@pytest.mark.parametrize("how", ["epoch of a fetch", "epoch of an acknowledgement", "connection"])
async def test_the_end_of_a_session_releases_what_the_member_holds(around: SharingBroker, how: str) -> None:
    await around.broker.one.append("a", "b")
    first, second = around.member("m1"), around.member("m2")
    await loaded(first)
    waiting = second.fetch(wait_ms=500)
    assert await waiting.now() is None
    if how == "connection":
        first.disconnect()
    elif how == "epoch of a fetch":
        assert outcome(await first.fetch((0, 0, ACCEPT), epoch=-1).now()) == (0, 0)
    else:
        await first.acknowledge((0, 0, ACCEPT), epoch=-1).now()
    left = [(0, 1, 2)] if how == "connection" else [(1, 1, 2)]
    assert acquired(await waiting.now()) == left
    assert len(around.sharing.sessions) == 1


@played_by(play, "tmp_path")
async def test_only_what_is_wrong_with_records_has_a_text(around: SharingBroker) -> None:
    await around.broker.one.append("a", "b")
    member = around.member("m")
    await loaded(member)
    [row] = (await member.fetch((1, 0, ACCEPT)).now()).responses[0].partitions
    assert (row.acknowledge_error_code, row.acknowledge_error_message) == (ErrorCode.INVALID_REQUEST, None)
    [row] = (await member.fetch((0, 2, ACCEPT)).now()).responses[0].partitions
    assert row.acknowledge_error_code == ErrorCode.INVALID_REQUEST
    assert row.acknowledge_error_message.startswith("Batch record not found.")


@played_by(play, "tmp_path")
async def test_the_end_of_a_connection_releases_what_all_its_members_hold(around: SharingBroker) -> None:
    await around.broker.one.append("a")
    await around.broker.one.append("b")
    first = around.member("m1")
    second = around.member("m2", connection_of=first)
    assert acquired(await loaded(first, records=1)) == [(0, 0, 1)]
    assert acquired(await loaded(second)) == [(1, 1, 1)]

    first.disconnect()

    assert [batch[:3] for written in around.states.written for batch in written.batches] == [
        (0, 0, DeliveryState.AVAILABLE),
        (1, 1, DeliveryState.AVAILABLE),
    ]
    assert list(around.sharing) == []


@played_by(play, "tmp_path")
async def test_the_end_of_a_session_tells_of_no_partition_that_was_not_named(around: SharingBroker) -> None:
    await around.broker.one.append("a")
    member = around.member("m")
    await loaded(member)
    response = await member.acknowledge(epoch=-1, topics=[]).now()
    assert (response.error_code, response.responses) == (0, [])


@played_by(play, "tmp_path")
async def test_another_leader_ends_the_wait_with_its_error(around: SharingBroker) -> None:
    member = around.member("m")
    await member.fetch().now()
    waiting = member.fetch(wait_ms=500)
    assert await waiting.now() is None
    around.broker.one.follow(2, epoch=1)
    around.sharing.on_not_leader("t", 0, 1)
    response = await waiting.now()
    assert outcome(response) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)
    assert list(around.sharing) == []


@played_by(play, "tmp_path")
async def test_a_group_without_sessions_here_keeps_nothing_here(around: SharingBroker) -> None:
    await around.broker.one.append("a")
    member = around.member("m")
    await loaded(member)
    around.states.is_held = True
    member.disconnect()
    assert len(list(around.sharing)) == 1  # what it held is being released
    around.states.settle()
    assert list(around.sharing) == []


@played_by(play, "tmp_path")
async def test_a_group_begins_where_its_settings_say(around: SharingBroker) -> None:
    await around.broker.one.append("a", "b")
    around.states.stored = StoredShare(1, -1, 0, [])
    for number, (reset, expected) in enumerate(
        [("latest", []), ("earliest", [(0, 1, 1)]), ("by_duration:PT1H", [(0, 1, 1)])]
    ):
        around.set(auto_offset_reset=OffsetReset.parse(reset))
        waiting = around.member(f"m{number}", f"g{number}").fetch(wait_ms=500)
        await asyncio.sleep(0)
        around.broker.wait(500)
        assert acquired(await waiting.now()) == expected


@played_by(play, "tmp_path")
async def test_errors_of_the_share_coordinator_reach_the_member(around: SharingBroker) -> None:
    around.states.stored = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    response = await loaded(around.member("m"))
    assert outcome(response) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)


@played_by(play, "tmp_path")
async def test_records_below_the_log_start_are_not_waited_for(around: SharingBroker) -> None:
    await around.broker.one.append("a")
    await around.broker.one.append("b")
    around.broker.one.partition.log.offsets.log_start_offset = 1
    assert acquired(await loaded(around.member("m"))) == [(1, 1, 1)]


@played_by(play, "tmp_path")
async def test_a_client_that_is_gone_acquires_nothing(around: SharingBroker) -> None:
    first, second = around.member("m1"), around.member("m2")
    await first.fetch().now()
    await second.fetch().now()
    waiting, other = first.fetch(wait_ms=500), second.fetch(wait_ms=500)
    assert await waiting.now() is None
    waiting.abandon()
    await around.broker.one.append("a")
    assert acquired(await other.now()) == [(0, 0, 1)]


@played_by(play, "tmp_path")
async def test_requests_that_contradict_themselves_are_refused(around: SharingBroker) -> None:
    member = around.member("m")
    for request in (
        lambda: member.fetch(epoch=3),
        lambda: member.fetch((0, 0, ACCEPT), epoch=0),
        lambda: member.fetch(is_renew_ack=True),
        lambda: member.acknowledge((0, 0, ACCEPT), epoch=0),
    ):
        with pytest.raises(Exception, match=r".") as refused:
            request()
        assert refused.value.code in (  # type: ignore[attr-defined]
            ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        )  # fmt: skip


@played_by(play, "tmp_path")
async def test_above_its_quota_a_member_acquires_nothing(around: SharingBroker) -> None:
    quotas, clock = around.broker.services.quotas, around.broker.clock
    quotas.apply_entity("clients/<default>", {"consumer_byte_rate": "100"})
    await around.broker.one.append("a")
    member = around.member("m")
    quotas.fetch.rate_of("ANONYMOUS", "test", clock.monotonic_ms()).record(2_000, clock.monotonic_ms())
    response = await loaded(member)
    assert (acquired(response), response.throttle_time_ms > 1_000) == ([], True)
    around.broker.wait(20_000)
    assert acquired(await member.fetch().now()) == [(0, 0, 1)]


@played_by(play, "tmp_path")
async def test_of_two_requests_with_one_epoch_the_first_is_refused(around: SharingBroker) -> None:
    member = around.member("m")
    await member.fetch().now()
    waiting = member.fetch(wait_ms=500)
    assert await waiting.now() is None
    await member.fetch().now()
    await around.broker.one.append("a")
    assert (await waiting.now()).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH


@played_by(play, "tmp_path")
async def test_a_session_ends_with_the_connection_that_has_used_it_last(around: SharingBroker) -> None:
    await around.broker.one.append("a")
    member = around.member("m")
    await loaded(member)
    again = around.member("m")
    again.epoch = member.epoch
    again.connection_id = "another"
    await again.acknowledge(topics=[]).now()
    member.disconnect()
    assert len(around.sharing.sessions) == 1
    again.disconnect()
    assert len(around.sharing.sessions) == 0


async def until_read(around: SharingBroker) -> None:
    """No reader thread works any more."""
    for _ in range(1_000_000):
        await asyncio.sleep(0)
        if not len(around.broker.services.tasks):
            return
    raise AssertionError("a read does not end")


async def answered(around: SharingBroker, waiting: Any) -> Any:
    """The response, when a reader thread has read for it."""
    await waiting.now()
    await until_read(around)
    return await waiting.now()


@played_by(play, "tmp_path")
async def test_records_that_are_not_in_memory_are_read_by_one_fetch_alone(
    around: SharingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = around.member("m1"), around.member("m2")
    await first.fetch().now()
    await second.fetch().now()
    monkeypatch.setattr(LogReading, "read", lambda *_args, **_more: None)
    one, other = first.fetch(wait_ms=500), second.fetch(wait_ms=500)
    await around.broker.one.append("a", "b")
    assert acquired(await answered(around, one)) == [(0, 1, 1)]
    assert await other.now() is None
    around.broker.wait(500)
    assert acquired(await answered(around, other)) == []


@played_by(play, "tmp_path")
@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (ZeroDivisionError(), ErrorCode.UNKNOWN_SERVER_ERROR),
        (KafkaError(ErrorCode.CORRUPT_MESSAGE), ErrorCode.CORRUPT_MESSAGE),
    ],
)
async def test_a_read_from_the_disk_that_fails_is_answered(
    around: SharingBroker, monkeypatch: pytest.MonkeyPatch, failure: Exception, code: ErrorCode
) -> None:
    async def read_cold(*_args: Any, **_more: Any) -> bytes:
        raise failure

    await around.broker.one.append("a")
    member = around.member("m")
    await member.fetch().now()
    monkeypatch.setattr(LogReading, "read", lambda *_args, **_more: None)
    monkeypatch.setattr(LogReading, "read_cold", read_cold)
    assert outcome(await answered(around, member.fetch(wait_ms=500))) == (code, 0)


@played_by(play, "tmp_path")
async def test_a_client_that_is_gone_while_the_disk_reads_acquires_nothing(
    around: SharingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = around.member("m1"), around.member("m2")
    await around.broker.one.append("a")
    monkeypatch.setattr(LogReading, "read", lambda *_args, **_more: None)
    await first.fetch().now()
    waiting = first.fetch(wait_ms=500)
    waiting.abandon()
    await until_read(around)
    assert acquired(await answered(around, second.fetch(wait_ms=500))) == [(0, 0, 1)]
