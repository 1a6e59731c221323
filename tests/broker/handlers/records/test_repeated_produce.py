"""The short way of produce beside the general one: every byte of the answers is the same, and so are the logs."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.handlers.records.produce import produce
from broker.handlers.records.repeated_produce import FIRST_VERSION
from protocol.errors import ErrorCode
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.records.compression import Compression
from protocol.records.record import Record, encode_batch
from tests.async_tests import played_by
from tests.broker.handlers.records.produce_twins import OTHER, Twins, error_of, image_with, on_twins, request_of, teach
from tests.replication.replica_world import ME
from tests.storage.logs import NOW_MS, batch

VERSIONS = range(produce.first_version, produce.last_version + 1)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("acks", [-1, 0, 1])
@played_by(on_twins, "tmp_path")
async def test_what_repeats_goes_the_short_way_and_is_answered_alike(both: Twins, version: int, acks: int) -> None:
    await teach(both, version, acks=acks)
    for length in (1, 30, 60, 61, 200, 16_000):
        both.send(both.frame(request_of(batch("x" * length), index=length % 2, acks=acks), version))
    both.send(*(both.frame(request_of(batch("a", "b"), acks=acks), version) for _ in range(3)))
    answers = await both.compare()
    assert len(answers) == (0 if acks == 0 else 11)
    assert both.short_count == (9 if version >= FIRST_VERSION else 0)


@pytest.mark.parametrize("acks", [0, 1])
@played_by(on_twins, "tmp_path")
async def test_records_that_take_long_are_not_overtaken(both: Twins, acks: int) -> None:
    """By those that the same client sends behind them."""
    await teach(both, 9, acks=acks)
    long = encode_batch([Record(0, NOW_MS, None, bytes(5 << 20))], compression=Compression.GZIP)
    assert len(long) < 6_000
    for each in (batch("a"), long, batch("b"), long[:-1] + b"X", long):
        both.send(both.frame(request_of(each, acks=acks), 9))
    for side in both.sides:
        await side.answered(7)
    answers = await both.compare()
    if acks:
        rows = [ProduceResponse.decode(answer[5:], 9).responses[0].partition_responses[0] for answer in answers[2:]]
        assert [row.error_code for row in rows] == [0, 0, 0, ErrorCode.CORRUPT_MESSAGE, 0]
        assert [row.base_offset for row in rows] == [2, 3, 4, -1, 5]


@played_by(on_twins, "tmp_path", isr=(ME, OTHER))
async def test_records_that_take_long_are_appended_although_their_client_is_gone(both: Twins) -> None:
    """And nobody waits for their replicas: what they hold is released."""
    long = encode_batch([Record(0, NOW_MS, None, bytes(5 << 20))], compression=Compression.GZIP)
    both.send(both.frame(request_of(long, acks=-1), 9))
    both.reconnect()
    async with asyncio.timeout(20):
        while any(side.broker.budget.used_bytes for side in both.sides):
            await asyncio.sleep(0.001)
            await both.sides[0].settle()
    await both.compare()
    assert [side.replicas[0].partition.log.offsets.next_offset for side in both.sides] == [1, 1]
    assert all(not side.replicas[0].partition.waiters.produces_count for side in both.sides)


@played_by(on_twins, "tmp_path")
async def test_a_large_request_goes_the_general_way(both: Twins) -> None:
    await teach(both, 9)
    both.send(both.frame(request_of(batch("x" * 20_000)), 9))
    both.send(both.frame(request_of(batch("x")), 9))
    assert len(await both.compare()) == 4
    assert both.short_count == 1


@pytest.mark.parametrize("version", [5, 8, 9, 11, 13])
@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda records: records[:-1], ErrorCode.INVALID_RECORD),
        (lambda records: records[:-1] + bytes([records[-1] ^ 1]), ErrorCode.CORRUPT_MESSAGE),
        (lambda records: records + records, ErrorCode.INVALID_RECORD),
        (lambda records: b"\x01" + records[1:], ErrorCode.INVALID_RECORD),
        (lambda records: records[:16] + b"\x01" + records[17:], ErrorCode.INVALID_RECORD),
    ],
)
@played_by(on_twins, "tmp_path")
async def test_what_is_refused_is_refused_alike(
    both: Twins, version: int, change: Callable[[bytes], bytes], code: ErrorCode
) -> None:
    await teach(both, version)
    both.send(both.frame(request_of(change(bytes(batch("x" * 100)))), version))
    both.send(both.frame(request_of(bytes(batch("good"))), version))
    answers = await both.compare()
    assert both.short_count == 2
    assert [error_of(answer, version) for answer in answers] == [0, 0, code, 0]


@played_by(on_twins, "tmp_path")
async def test_without_an_answer_a_refusal_closes_the_connection(both: Twins) -> None:
    await teach(both, 9, acks=0)
    both.send(both.frame(request_of(bytes(batch("x"))[:-1] + b"?", acks=0), 9))
    await both.compare()
    assert both.sides[0].peer.stream.is_closed
    assert both.short_count == 1


@pytest.mark.parametrize("version", [9, 10, 13])
@played_by(on_twins, "tmp_path")
async def test_a_partition_that_is_not_there_or_has_another_leader(both: Twins, version: int) -> None:
    await teach(both, version)
    both.send(both.frame(request_of(batch("x"), index=7), version))
    both.each_replica(lambda one: one.follow(OTHER, epoch=3, partition_epoch=5))
    both.send(both.frame(request_of(batch("x")), version))
    answers = await both.compare()
    assert both.short_count == 2
    codes = [error_of(answer, version) for answer in answers[2:]]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER]


@played_by(on_twins, "tmp_path")
async def test_a_retry_is_answered_with_its_first_offset(both: Twins) -> None:
    def numbered(sequence: int) -> bytes:
        return bytes(batch("x", producer_id=7, producer_epoch=0, base_sequence=sequence))

    for sequence in (0, 1, 2, 3, 2, 3, 9, 4):
        both.send(both.frame(request_of(numbered(sequence)), 9))
    answers = await both.compare()
    codes = [error_of(answer, 9) for answer in answers]
    assert codes == [0, 0, 0, 0, 0, 0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0]
    assert both.short_count == 6


@played_by(on_twins, "tmp_path", isr=(ME, OTHER))
async def test_who_waits_for_replicas_is_answered_when_they_have_it(both: Twins) -> None:
    for _ in range(2):
        both.send(both.frame(request_of(batch("x"), acks=1), 9))
    for _ in range(2):
        both.send(both.frame(request_of(batch("x"), acks=-1), 9))
    both.send(both.frame(request_of(batch("y"), acks=-1), 9), both.frame(request_of(batch("z"), acks=-1), 9))
    assert len(await both.compare()) == 2
    both.each_replica(lambda one: one.fetched(min(5, one.partition.log.log_end_offset)))
    assert len(await both.compare()) == 5
    for each in both.sides:
        each.broker.turns.advance(2_000)
    answers = await both.compare()
    assert [error_of(answer, 9) for answer in answers[2:]] == [0, 0, 0, ErrorCode.REQUEST_TIMED_OUT]
    assert both.short_count == 3


@played_by(on_twins, "tmp_path", isr=(ME, OTHER))
async def test_an_answer_that_is_there_early_waits_for_those_before_it(both: Twins) -> None:
    await teach(both, 9)
    both.send(
        both.frame(request_of(batch("x"), batch("waits"), acks=-1), 9),
        *(both.frame(request_of(batch("y")), 9) for _ in range(3)),
    )
    assert len(await both.compare()) == 2
    both.each_replica(lambda one: one.fetched(one.partition.log.log_end_offset))
    assert len(await both.compare()) == 6
    assert both.short_count == 3


@played_by(on_twins, "tmp_path")
async def test_what_differs_is_learned_anew(both: Twins) -> None:
    await teach(both, 9)
    for request, version, client_id in [
        (request_of(batch("x"), acks=-1), 9, "client"),
        (request_of(batch("x")), 9, "another"),
        (request_of(batch("x")), 9, None),
        (request_of(batch("x")), 8, None),
        (request_of(batch("x"), transactional_id="t"), 9, "client"),
    ]:
        before = both.short_count
        for _ in range(3):
            both.send(both.frame(request, version, client_id))
        await both.compare()
        assert both.short_count == before + 2


@pytest.mark.parametrize(
    "request_",
    [
        request_of(None),
        request_of(b""),
        request_of(bytes(batch("x")), bytes(batch("y"))),
        request_of(bytes(batch("x")), topic="__consumer_offsets"),
        request_of(bytes(batch("x")), acks=2),
        request_of(bytes(batch("x", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True))),
        ProduceRequest(acks=1, timeout_ms=1, topic_data=[]),
    ],
)
@played_by(on_twins, "tmp_path")
async def test_what_is_not_usual_always_goes_the_general_way(both: Twins, request_: ProduceRequest) -> None:
    for _ in range(3):
        both.send(both.frame(request_, 9))
    await both.compare()
    assert not both.short_count
    for _ in range(3):
        both.send(both.frame(request_of(batch("usual")), 9))
    await both.compare()
    before = both.short_count
    for _ in range(3):
        both.send(both.frame(request_, 9))
    await both.compare()
    assert both.short_count == before > 0


@played_by(on_twins, "tmp_path")
async def test_a_topic_that_was_made_anew_has_another_id(both: Twins) -> None:
    await teach(both, 13)
    both.send(both.frame(request_of(batch("x")), 13))
    for each in both.sides:
        each.metadata.publish(image_with(b"new topic's id.."))
    both.send(both.frame(request_of(batch("x")), 13), both.frame(request_of(batch("x"), topic="u"), 13))
    answers = await both.compare()
    assert [error_of(answer, 13) for answer in answers] == [0, 0, 0, *[ErrorCode.UNKNOWN_TOPIC_ID] * 2]
    assert both.short_count == 1


@played_by(on_twins, "tmp_path")
async def test_unknown_tagged_fields_and_spare_bytes_go_the_general_way(both: Twins) -> None:
    def odd(frame: bytes, end: bytes) -> bytes:
        return struct.pack(">i", len(frame) - 4 - 1 + len(end)) + frame[4:-1] + end

    for end in (b"\x01\x05\x03\x00\x00\x00", b"\x00spare"):
        for _ in range(3):
            both.send(odd(both.frame(request_of(batch("x")), 9), end))
    assert len(await both.compare()) == 6
    assert not both.short_count


@played_by(on_twins, "tmp_path")
async def test_a_client_of_several_topics_is_not_learned_from(both: Twins) -> None:
    for _ in range(4):
        both.send(both.frame(request_of(batch("x")), 9), both.frame(request_of(batch("x"), topic="u"), 9))
    await both.compare()
    assert not both.short_count


@pytest.mark.parametrize("version", [5, 9])
@played_by(on_twins, "tmp_path")
async def test_a_request_of_which_any_byte_is_another(both: Twins, version: int) -> None:
    """Each on a new connection that has learned."""
    await teach(both, version)
    size = len(both.frame(request_of(batch("x")), version))
    for position in range(4, size):
        for flipped in (0x01, 0x80):
            both.reconnect()
            for _ in range(2):
                both.send(both.frame(request_of(batch("x")), version))
            await both.settle()
            frame = bytearray(both.frame(request_of(batch("x")), version))
            frame[position] ^= flipped
            both.send(bytes(frame))
            await both.settle()
            first, second = (each.peer.stream for each in both.sides)
            assert (first.writes, first.is_closed) == (second.writes, second.is_closed)
    await both.compare()
    assert both.short_count > size


@played_by(on_twins, "tmp_path")
async def test_the_start_of_a_log_that_has_moved(both: Twins) -> None:
    await teach(both, 9)
    both.each_replica(lambda one: one.partition.delete_records(min(1, one.partition.high_watermark)))
    both.send(both.frame(request_of(batch("x")), 9))
    answers = await both.compare()
    assert both.short_count == 1
    response = ProduceResponse.decode(answers[-1][5:], 9)
    assert response.responses[0].partition_responses[0].log_start_offset == 1


@played_by(on_twins, "tmp_path", message_timestamp_type="LogAppendTime")
async def test_the_brokers_own_time(both: Twins) -> None:
    await teach(both, 9)
    both.send(both.frame(request_of(batch("x")), 9))
    await both.compare()
    assert both.short_count == 1


def test_a_bug_is_answered_and_counted_alike(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(both: Twins) -> None:
        await teach(both, 9)
        for each in both.sides:
            each.broker.shared.services.partitions.find = None  # type: ignore[assignment,method-assign]
        both.send(both.frame(request_of(batch("x")), 9))
        await both.compare()
        assert both.short_count == 1

    on_twins(tmp_path, scenario)
    texts = {record.getMessage() for record in caplog.records if record.levelname == "ERROR"}
    assert len(texts) == 1
    assert next(iter(texts)).startswith("request failed: api=Produce version=9 client_id='client'")


@played_by(on_twins, "tmp_path")
async def test_a_frame_where_no_batch_can_stand_is_told_before_an_unknown_partition(both: Twins) -> None:
    """As in a request that is not recognised: it is refused as a whole."""
    await teach(both, 9)
    records = bytes(batch("x"))
    both.send(both.frame(request_of(records[:8] + bytes(4) + records[12:], index=7), 9))
    answers = await both.compare()
    assert both.short_count == 1
    assert error_of(answers[2], 9) == ErrorCode.CORRUPT_MESSAGE


def one_record(value: bytes, key: bytes | None) -> bytes:
    return encode_batch([Record(0, NOW_MS, key, value, [])])


# What a client's requests have in common.
KINDS = st.tuples(
    st.sampled_from([1, 1, 0, -1]), st.sampled_from([5, 7, 8, 9, 11]), st.sampled_from(["client", "", None])
)
RECORDS = st.builds(one_record, st.binary(max_size=300), st.one_of(st.none(), st.binary(max_size=5)))
# Mostly as they should be.
STEPS = st.tuples(
    st.sampled_from(["t", "t", "t", "t", "u"]),
    st.sampled_from([0, 0, 1, 5]),
    st.one_of(RECORDS, RECORDS, RECORDS, RECORDS, st.binary(max_size=90), st.none()),
    st.one_of(st.none(), st.none(), st.none(), st.tuples(st.integers(0, 400), st.integers(0, 255))),
    st.booleans(),
)


@settings(max_examples=60, deadline=None)
@given(kinds=st.lists(KINDS, min_size=1, max_size=2), steps=st.lists(STEPS, min_size=5, max_size=20))
def test_any_requests_are_answered_alike(kinds: list[Any], steps: list[Any]) -> None:
    """Also damaged ones: a byte anywhere is another."""

    usual = ("t", 0, one_record(b"usual", None), None, False)

    async def scenario(both: Twins) -> None:
        for number, (topic, index, records, damage, waits) in enumerate([usual, usual, *steps]):
            acks, version, client_id = kinds[number * len(kinds) // (2 + len(steps))]
            frame = both.frame(request_of(records, topic=topic, index=index, acks=acks), version, client_id)
            if damage is not None and 4 <= damage[0] < len(frame):
                frame = frame[: damage[0]] + bytes([damage[1]]) + frame[damage[0] + 1 :]
            both.send(frame)
            if waits:
                await both.compare()
        await both.compare()

    with TemporaryDirectory() as folder:
        on_twins(Path(folder), scenario)
