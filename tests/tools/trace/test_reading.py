"""Reading ranges: what a partition cannot give is said, and holds up no other."""

from __future__ import annotations

from typing import Any, cast

from protocol.errors import ErrorCode, KafkaError
from protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from protocol.messages.list_offsets import (
    EARLIEST,
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from protocol.records.batch import BatchHeader
from protocol.records.record import Record, encode_batch
from tests.client.admin.scripted import ScriptedShell
from tools.cluster import Cluster
from tools.trace.reading import Range, RangeReading, ranges_of

BATCHES = b"".join(encode_batch([Record(at, 1, b"k", b"v")], base_offset=at) for at in range(4, 8))


def read(
    rows: dict[int, list[dict[str, Any]]], ranges: dict[int, Range], *, retries: int = 0
) -> tuple[dict[int, list[int]], dict[int, Range]]:
    """Return the base offsets that were taken of each partition of a topic, and its ranges. `rows` are the answers of each,
    the last of which it gives again and again."""
    taken: dict[int, list[int]] = {}

    def answer(_place: Any, request: Any) -> Any:
        if not isinstance(request, FetchRequest):
            row = ListOffsetsPartitionResponse(
                partition_index=request.topics[0].partitions[0].partition_index, error_code=0, offset=4
            )
            return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[row])])
        found = []
        for each in request.topics[0].partitions:
            those = rows[each.partition]
            row = {"error_code": 0, "high_watermark": 8, "records": b""} | (
                those.pop(0) if len(those) > 1 else those[0]
            )
            found.append(PartitionData(partition_index=each.partition, **row))
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=found)])

    def take(key: tuple[str, int], _buffer: bytes, batches: list[tuple[int, BatchHeader]]) -> None:
        taken.setdefault(key[1], []).extend(header.base_offset for _, header in batches)

    shell = ScriptedShell(answer, retries=retries)
    reading = RangeReading(cast(Cluster, shell), {("t", each): row for each, row in ranges.items()}, take)
    while not reading.is_done:
        reading.step()
    return taken, ranges


def test_each_partition_is_read_to_its_end_or_says_why_not() -> None:
    gone = {"error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    forbidden = {"error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    late = {"error_code": ErrorCode.OFFSET_OUT_OF_RANGE}
    lost = {"error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER}
    whole = {"records": BATCHES}
    rows = {0: [whole], 1: [gone], 2: [forbidden], 3: [late, whole], 4: [lost], 5: [lost, lost, whole],
            6: [{"high_watermark": 2}], 7: [late]}  # fmt: skip
    taken, ranges = read(rows, {each: Range(4 if each != 3 else 1, 8) for each in rows}, retries=1)
    assert taken == {key: [4, 5, 6, 7] for key in (0, 3, 5)}
    assert all(each.is_done for each in ranges.values())
    assert [each for each, row in ranges.items() if row.is_closed] == [1, 2]
    assert (ranges[0].note, ranges[5].note) == ("", "")
    assert "not read from offset 4 on: UNKNOWN_TOPIC_OR_PARTITION" in ranges[1].note
    assert "not read from offset 4 on: TOPIC_AUTHORIZATION_FAILED" in ranges[2].note
    assert ranges[3].note == "offsets 1 to 3 were deleted meanwhile"
    assert "not read from offset 4 on: NOT_LEADER_OR_FOLLOWER" in ranges[4].note
    assert ranges[7].note == "the log has no offset 4 any more"
    assert ranges[6].note == "the log ends at 2 now, and not any more at 8"


def test_batches_before_the_position_and_incomplete_ones_are_left_out() -> None:
    cut = [{"records": BATCHES[:-1]}, {"records": BATCHES[-len(BATCHES) // 4 :]}]
    taken, ranges = read({0: cut}, {0: Range(5, 8)})
    assert (taken, ranges[0].at) == ({0: [5, 6, 7]}, 8)
    _, ranges = read(
        {0: [{"records": BATCHES[: len(BATCHES) // 4] + b"\x00" * 16 + b"\x09" + bytes(99)}]}, {0: Range(4, 8)}
    )
    assert "unreadable at offset 5" in ranges[0].note


def test_partitions_whose_leaders_do_not_answer_are_told_and_not_waited_for_twice() -> None:
    def answer(_place: Any, request: Any) -> Any:
        offset = 3 if request.topics[0].partitions[0].timestamp == EARLIEST else 9
        row = ListOffsetsPartitionResponse(partition_index=0, error_code=0, offset=offset)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[row])])

    def place(_kind: Any, key: tuple[str, int]) -> int | KafkaError:
        return 1 if key == ("t", 0) else KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)

    shell = ScriptedShell(answer, place)
    found, silent = shell.run(ranges_of([("t", 0), ("t", 1)]))
    assert (found, silent, shell.retried) == ({("t", 0): Range(3, 9)}, [("t", 1)], ["LEADER_NOT_AVAILABLE"])
    assert shell.run(ranges_of([])) == ({}, [])
